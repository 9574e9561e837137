#!/usr/bin/env bash
# scripts/python-env.sh DIRECTORY REQUIREMENTS: makes a Python environment with exactly these
# packages, and makes it again when their pinned versions or hashes change. scripts/lock-python.sh
# writes the requirements.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=$1
requirements=$2

cmp -s "$requirements" "$environment/requirements.txt" && exit 0
# One at a time: another command may be making it.
mkdir -p "$(dirname "$environment")"
exec 9>"$environment.lock"
flock 9
cmp -s "$requirements" "$environment/requirements.txt" && exit 0
echo "  Installing $(grep -c '==' "$requirements") packages of $requirements into $environment, about 20 s"
log=.local/setup-$(basename "$environment").log
# --no-deps, because the file has every transitive package, and pip refuses some that another
# package requires with extras.
if python3 -m venv --clear "$environment" >"$log" 2>&1 &&
  "$environment/bin/python" -m pip install --require-hashes --no-deps --no-input --disable-pip-version-check -r "$requirements" >>"$log" 2>&1; then
  # Last, so that an interrupted installation does not count as finished.
  cp "$requirements" "$environment/requirements.txt"
  exit 0
fi
tail -n 15 "$log" | sed 's/^/  | /' >&2
echo "Installing failed (Debian needs the package python3-venv). The whole log: $log" >&2
exit 1
