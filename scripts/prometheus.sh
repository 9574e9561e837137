#!/usr/bin/env bash
# Unpacks Debian's package of Prometheus for the tests, below the folder that is given, and prints
# where its programs are. It installs nothing, and needs no rights.
set -euo pipefail
folder=$1
mkdir --parents "$(dirname "$folder")"
# Tests run at once, and one of them unpacks.
exec 9>"$folder.lock"
flock 9
if [[ ! -x $folder/usr/bin/promtool ]]; then
  fresh=$(mktemp --directory "$folder.XXXXXX")
  trap 'rm --recursive --force "$fresh"' EXIT
  chmod 755 "$fresh"
  (cd "$fresh" && apt-get download --quiet prometheus >&2 && dpkg-deb --extract prometheus_*.deb unpacked)
  mkdir --parents "$folder"
  mv "$fresh/unpacked/usr" "$folder/"
fi
echo "$folder/usr/bin"
