#!/usr/bin/env bash
# The Python clients that `make bench` compares with, pinned, in an environment of their own.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.local/bench
requirements=benches/python/requirements.txt

cmp -s "$requirements" "$environment/requirements.txt" && exit 0
echo "Installing pika and aio-pika into $environment, about 20 s"
mkdir -p .local
log=.local/setup-bench.log
if python3 -m venv --clear "$environment" >"$log" 2>&1 &&
  "$environment/bin/python" -m pip install --no-input --disable-pip-version-check -r "$requirements" >>"$log" 2>&1; then
  cp "$requirements" "$environment/requirements.txt"
  exit 0
fi
tail -n 15 "$log" | sed 's/^/  | /' >&2
echo "Installing failed (on Debian it needs the package python3-venv). The whole log: $log" >&2
exit 1
