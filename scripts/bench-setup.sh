#!/usr/bin/env bash
# What `make bench` compares with, pinned: the Python clients, and the function in Node.js as it would be deployed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/python-env.sh .local/bench/python benches/python/requirements.txt

source=benches/node
deployed=.local/bench/node
stamp=$(cat "$source"/* | sha256sum)
[ "$stamp" = "$(cat "$deployed/stamp" 2>/dev/null)" ] && exit 0
if ! command -v npm >/dev/null; then
  echo "  Node.js and npm are missing: functions are not compared with one in Node.js"
  exit 0
fi
echo "  Installing and bundling the function in Node.js into $deployed, about 10 s"
log=.local/setup-bench-node.log
rm -rf "$deployed"
mkdir -p "$deployed/plain"
cp "$source"/*.json "$source"/*.mjs "$deployed/plain"
rm "$deployed/plain/runtime.mjs"
if (
  # Chained, because `set -e` does not hold in a condition.
  cd "$deployed/plain" &&
    npm ci --ignore-scripts --no-audit --no-fund &&
    node build.mjs ../bundled &&
    npm prune --omit=dev --ignore-scripts --no-audit --no-fund &&
    rm build.mjs package-lock.json
) >"$log" 2>&1; then
  echo "$stamp" >"$deployed/stamp"
  exit 0
fi
tail -n 15 "$log" | sed 's/^/  | /' >&2
echo "Installing failed. The whole log: $log" >&2
exit 1
