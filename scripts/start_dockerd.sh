#!/bin/sh
# A container engine for the tests alone: no bridge, no firewall rules, all its state in FOLDER.
# Knows gVisor as the runtime `runsc` where that is installed. RUNSC is the program of another gVisor, known as
# `runsc-current` (platform ptrace) and `runsc-systrap`.
# Usage: start_dockerd.sh FOLDER [RUNSC]; prints what DOCKER_HOST is to be. `kill $(cat FOLDER/pid)` ends it.
set -eu
folder=$1
mkdir -p "$folder"
socket=$folder/docker.sock
# NAME PROGRAM PLATFORM; newer kernels keep older gVisors from looking for a network
runtime() {
  echo "\"$1\": {\"path\": \"$2\", \"runtimeArgs\": [\"--platform=$3\", \"--network=none\"]}"
}
runtimes=
if command -v runsc >/dev/null 2>&1; then
  # ptrace runs wherever Linux does
  runtimes=$(runtime runsc "$(command -v runsc)" ptrace)
fi
if [ -n "${2-}" ]; then
  current="$(runtime runsc-current "$2" ptrace), $(runtime runsc-systrap "$2" systrap)"
  runtimes="${runtimes:+$runtimes, }$current"
fi
echo "{\"runtimes\": {$runtimes}}" >"$folder/daemon.json"
dockerd --config-file "$folder/daemon.json" --data-root "$folder/data" \
  --exec-root "$folder/exec" --pidfile "$folder/pid" --host "unix://$socket" --bridge=none --iptables=false --ip6tables=false \
  >"$folder/log" 2>&1 </dev/null &
for _ in $(seq 240); do
  if DOCKER_HOST=unix://$socket docker version >/dev/null 2>&1; then
    echo "unix://$socket"
    exit 0
  fi
  sleep 0.5
done
tail -n 20 "$folder/log" >&2
echo "dockerd did not answer within 2 minutes" >&2
exit 1
