#!/bin/sh
# Podman's service for the tests alone, all its state in FOLDER, whatever this machine is configured to.
# Usage: start_podman.sh FOLDER; prints what DOCKER_HOST is to be. `kill $(cat FOLDER/pid)` ends it.
set -eu
folder=$1
mkdir -p "$folder"
socket=$folder/podman.sock
cat >"$folder/containers.conf" <<END
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
log_driver = "k8s-file"
END
cat >"$folder/storage.conf" <<END
[storage]
driver = "overlay"
runroot = "$folder/run"
graphroot = "$folder/graph"
END
CONTAINERS_CONF=$folder/containers.conf CONTAINERS_STORAGE_CONF=$folder/storage.conf \
  podman system service --time 0 "unix://$socket" >"$folder/log" 2>&1 </dev/null &
echo $! >"$folder/pid"
for _ in $(seq 240); do
  if [ -S "$socket" ]; then
    echo "unix://$socket"
    exit 0
  fi
  sleep 0.5
done
tail -n 20 "$folder/log" >&2
echo "podman did not answer within 2 minutes" >&2
exit 1
