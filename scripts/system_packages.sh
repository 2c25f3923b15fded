#!/bin/sh
# The Debian packages that Patchyard stands on: installed when run by root, named otherwise.
# Usage: system_packages.sh PYTHON [PACKAGE...]; further packages are wanted by name.
set -eu
python=$1
shift
missing=""

want() { # want PACKAGE CONDITION...: the package is missing where the condition fails
  package=$1
  shift
  "$@" >/dev/null 2>&1 || missing="$missing $package"
}

has() { command -v "$1"; }

want bubblewrap has bwrap
want ripgrep has rg
want libseccomp2 "$python" -c 'import ctypes; ctypes.CDLL("libseccomp.so.2")'
want python3-venv "$python" -c 'import ensurepip, venv'
for package in "$@"; do
  case $package in
    nodejs) want nodejs has node ;;
    npm) want npm has npm ;;
    iproute2) want iproute2 has ip ;;
    e2fsprogs) want e2fsprogs test -x /sbin/mke2fs ;;
    busybox-static) want busybox-static has busybox ;;
    docker.io) want docker.io has dockerd ;;
    openssh-server) want openssh-server test -x /usr/sbin/sshd ;;
    openssh-client) want openssh-client has ssh ;;
    qemu-system-x86) want qemu-system-x86 has qemu-system-x86_64 ;;
    *) want "$package" has "$package" ;;
  esac
done

[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing:$missing"
  export DEBIAN_FRONTEND=noninteractive
  set -- -q -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o DPkg::Lock::Timeout=60
  apt-get "$@" update </dev/null || true
  # shellcheck disable=SC2086  # the list is meant to be split
  apt-get "$@" install -y --no-install-recommends $missing </dev/null && exit 0
  # One that this machine's index does not have keeps the others out: each by itself.
  wanted=$missing
  missing=""
  for package in $wanted; do
    apt-get "$@" install -y --no-install-recommends "$package" </dev/null || missing="$missing $package"
  done
  [ -n "$missing" ] || exit 0
  echo "apt-get failed; it says above why." >&2
fi
echo "These system packages are missing:$missing" >&2
echo "cure: sudo apt-get install$missing" >&2
case $missing in
  *python3-venv*) exit 1 ;;
esac
echo "Going on without them: 'agents doctor' says what does not work, tests skip what they need." >&2
