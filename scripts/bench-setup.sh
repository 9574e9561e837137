#!/usr/bin/env bash
# Installs the contenders of `make bench`, pinned: the packages of the Python programs, those of
# IBM's client among them, and three programs in Node.js: the function as it would be deployed, the
# one that cuts catalogues and the one that loads them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/python-env.sh .local/bench/python benches/python/requirements.txt
# IBM's client, as the tests of local/mqm-standin have it.
scripts/python-env.sh .local/mqm-standin local/mqm-standin/requirements.txt

# Chained by &&, because `set -e` has no effect within a condition.
the_function() {
  rm runtime.mjs &&
    npm ci --ignore-scripts --no-audit --no-fund &&
    node build.mjs ../bundled &&
    npm prune --omit=dev --ignore-scripts --no-audit --no-fund &&
    rm build.mjs package-lock.json
}

the_programs() {
  npm ci --ignore-scripts --no-audit --no-fund
}

# deploy WHAT SOURCE DEPLOYED DIRECTORY STEPS: copies SOURCE into DIRECTORY of DEPLOYED and runs
# STEPS there, unless both are up to date.
deploy() {
  local what=$1 source=$2 deployed=$3 directory=$4 steps=$5
  local stamp log
  stamp=$(cat "$source"/*.json "$source"/*.mjs | sha256sum)
  [ "$stamp" = "$(cat "$deployed/stamp" 2>/dev/null)" ] && return
  if ! command -v npm >/dev/null; then
    echo "  Node.js and npm are missing: skipping the comparison with $what in Node.js"
    return
  fi
  echo "  Installing $what in Node.js into $deployed, about 10 s"
  log=.local/setup-bench-$(basename "$deployed").log
  rm -rf "$deployed"
  mkdir -p "$deployed/$directory"
  cp "$source"/*.json "$source"/*.mjs "$deployed/$directory"
  if (cd "$deployed/$directory" && "$steps") >"$log" 2>&1; then
    echo "$stamp" >"$deployed/stamp"
    return
  fi
  tail -n 15 "$log" | sed 's/^/  | /' >&2
  echo "Installing failed. The whole log: $log" >&2
  exit 1
}

deploy "the function" benches/node .local/bench/node plain the_function
deploy "cutting catalogues" benches/node/ingest .local/bench/node-ingest . the_programs
deploy "loading catalogues" benches/node/load .local/bench/node-load . the_programs
