#!/usr/bin/env bash
# scripts/node-env.sh DIRECTORY SOURCE: makes DIRECTORY a copy of the program in Node.js that is in
# SOURCE, with the packages of its package-lock.json, once for this machine. No package's own
# scripts run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cached.sh

environment=$1
source=$2
name=$(basename "$environment")
shopt -s nullglob
files=("$source"/*.json "$source"/*.mjs)

install() {
  cp "${files[@]}" "$1" &&
    cd "$1" && npm ci --ignore-scripts --no-audit --no-fund
}

fill() {
  echo "  Installing the packages of $source/package-lock.json into $1, about 10 s"
  (logged "$PWD/.local/setup-$name.log" install "$1")
}

if ! command -v npm >/dev/null; then
  echo "npm is missing: install Node.js 20 or later, with npm." >&2
  exit 1
fi
key=$({ cat "${files[@]}" && node --version; } | sha256sum | cut -c1-16)
cached "$environment" "node/$name-$key" fill
