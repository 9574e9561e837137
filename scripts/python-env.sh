#!/usr/bin/env bash
# scripts/python-env.sh DIRECTORY REQUIREMENTS: makes DIRECTORY a Python environment with exactly
# these packages, once for this machine. scripts/lock-python.sh writes the requirements.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cached.sh

environment=$1
requirements=$2
name=$(basename "$environment")

# --no-deps, because the file has every transitive package, and pip refuses some that another
# package requires with extras.
install() {
  python3 -m venv "$1" &&
    "$1/bin/python" -m pip install --require-hashes --no-deps --no-input --disable-pip-version-check -r "$requirements"
}

fill() {
  echo "  Installing $(grep -c '==' "$requirements") packages of $requirements into $1, about 20 s"
  logged ".local/setup-$name.log" install "$1"
}

if ! command -v python3 >/dev/null; then
  echo "python3 is missing: install Python 3.11 or later (on Debian: python3 and python3-venv)." >&2
  exit 1
fi
key=$({ cat "$requirements" && python3 -c 'import sys; print(sys.version, sys.base_prefix)'; } | sha256sum | cut -c1-16)
cached "$environment" "python/$name-$key" fill
