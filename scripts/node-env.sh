#!/usr/bin/env bash
# scripts/node-env.sh DIRECTORY SOURCE: copies a program in Node.js from SOURCE to DIRECTORY and
# installs the packages of its package-lock.json, unless that was done before. No package's own
# scripts run.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=$1
source=$2

stamp=$(cat "$source"/*.json "$source"/*.mjs | sha256sum)
[ "$stamp" = "$(cat "$environment/stamp" 2>/dev/null)" ] && exit
if ! command -v npm >/dev/null; then
  echo "npm is missing: install Node.js 20 or later, with npm." >&2
  exit 1
fi
# One at a time: another command may be making it.
mkdir -p "$(dirname "$environment")"
exec 9>"$environment.lock"
flock 9
[ "$stamp" = "$(cat "$environment/stamp" 2>/dev/null)" ] && exit
echo "  Installing packages of $source/package-lock.json in $environment, about 10 s"
log=.local/setup-$(basename "$environment").log
rm -rf "$environment"
mkdir -p "$environment"
cp "$source"/*.json "$source"/*.mjs "$environment"
if ! (cd "$environment" && npm ci --ignore-scripts --no-audit --no-fund) >"$log" 2>&1; then
  tail -n 15 "$log" | sed 's/^/  | /' >&2
  echo "Installing failed. The whole log: $log" >&2
  exit 1
fi
echo "$stamp" >"$environment/stamp"
