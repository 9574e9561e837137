#!/usr/bin/env bash
# Installs the contenders of `make bench`, pinned: the packages of the Python programs, those of
# IBM's client among them, and three programs in Node.js: the function as it would be deployed, the
# one that cuts catalogues and the one that loads them.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cached.sh

scripts/python-env.sh .local/bench/python benches/python/requirements.txt
# IBM's client, as the tests of local/mqm-standin have it.
scripts/python-env.sh .local/mqm-standin local/mqm-standin/requirements.txt

if ! command -v npm >/dev/null; then
  echo "  Node.js and npm are missing: skipping the comparisons with programs in Node.js"
  exit
fi
scripts/node-env.sh .local/bench/node-ingest benches/node/ingest
scripts/node-env.sh .local/bench/node-load benches/node/load

# The function as it would be deployed, and the same in one file.
install() {
  mkdir "$1/plain" &&
    cp benches/node/*.json benches/node/*.mjs "$1/plain" &&
    cd "$1/plain" && rm runtime.mjs &&
    npm ci --ignore-scripts --no-audit --no-fund &&
    node build.mjs ../bundled &&
    npm prune --omit=dev --ignore-scripts --no-audit --no-fund &&
    rm build.mjs package-lock.json
}

fill() {
  echo "  Installing the function in Node.js into $1, about 10 s"
  (logged "$PWD/.local/setup-bench-node.log" install "$1")
}

key=$({ cat benches/node/*.json benches/node/*.mjs && node --version; } | sha256sum | cut -c1-16)
cached .local/bench/node "node/bench-$key" fill
