#!/bin/sh
# gVisor's runsc, newer than Debian's, built from its Go module. `gvisor/go.mod` pins the version, `gvisor/go.sum` what
# every module of it has to hold; Go refuses others. Takes some 80 s of two processors the first time, then Go's cache has it.
# Usage: current_gvisor.sh FOLDER; prints the program, which start_dockerd.sh takes.
set -eu
mkdir -p "$1"
program=$(cd "$1" && pwd)/runsc
cd "$(dirname "$0")/gvisor"
# No other toolchain is fetched, and go.mod and go.sum stay as they are.
export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly GOWORK=off
version=$(go list -m -f '{{.Version}}' gvisor.dev/gvisor)
named="-X gvisor.dev/gvisor/runsc/version.version=$version"
go build -trimpath -buildvcs=false -ldflags "-s $named" -o "$program" gvisor.dev/gvisor/runsc >&2
echo "$program"
