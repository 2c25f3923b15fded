#!/bin/sh
# A kernel for virtual machines, unpacked from its Debian package without being installed.
# Usage: guest_kernel.sh FOLDER; prints the folder, which `agents resource add vm-image` takes.
set -eu
folder=$1
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
for found in "$folder"/boot/vmlinuz-*; do
  [ -e "$found" ] && echo "$folder" && exit 0
done
case $(dpkg --print-architecture) in
  amd64) meta=linux-image-cloud-amd64 ;;
  *)
    echo "no virtual machines on $(dpkg --print-architecture)" >&2
    exit 1
    ;;
esac
work=$(mktemp -d "$folder/fetch-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
package=$(apt-cache depends "$meta" | sed -n 's/^ *Depends: \(linux-image-[^ ]*\).*/\1/p' | head -n 1)
if [ -z "$package" ]; then
  apt-get -q update >&2
  package=$(apt-cache depends "$meta" | sed -n 's/^ *Depends: \(linux-image-[^ ]*\).*/\1/p' | head -n 1)
fi
apt-get -q -o APT::Sandbox::User=root download "$package" >&2
dpkg-deb -x ./*.deb "$folder"
echo "$folder"
