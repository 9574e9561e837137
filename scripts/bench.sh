#!/usr/bin/env bash
# scripts/bench.sh [PART[,PART…]…]: builds the programs to measure and prints a table for each
# part. Without an argument it runs all parts: startup, clients, mq, warm, idempotency, limits,
# ingest, load, peak and tests.
# SMOKE=1 runs the parts at their smallest size with development binaries: it shows that they work,
# and its figures mean nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

all=(startup clients mq warm idempotency limits ingest load peak tests)
IFS=', ' read -ra parts <<<"$*"
((${#parts[@]})) || parts=("${all[@]}")
for part in "${parts[@]}"; do
  if [[ " ${all[*]} " != *" $part "* ]]; then
    echo "scripts/bench.sh has no part $part; choose of ${all[*]}" >&2
    exit 2
  fi
done

scripts/bench-setup.sh
if [ "${SMOKE:-0}" = 1 ]; then
  export STARTS=${STARTS:-1} MESSAGES=${MESSAGES:-100} REQUESTS=${REQUESTS:-5} CATALOGUES=${CATALOGUES:-2} ITEMS=${ITEMS:-2000} ROUNDS=${ROUNDS:-1}
  export PEAK_TENANTS=${PEAK_TENANTS:-2} WINDOW=${WINDOW:-2} PEAK_FLOOD=${PEAK_FLOOD:-2} PEAK_CHUNKS=${PEAK_CHUNKS:-3} PEAK_SLOW_MS=${PEAK_SLOW_MS:-100}
  export BENCH_TEST_SECONDS=${BENCH_TEST_SECONDS:-3} LIMIT_SECONDS=${LIMIT_SECONDS:-3}
  binaries=${CARGO_TARGET_DIR:-target}/debug
  # The same build as for the tests, so that nothing is compiled twice.
  cargo build --workspace --bins --tests
else
  binaries=${CARGO_TARGET_DIR:-target}/release
  [ -x "$binaries/benches" ] || echo "  Building everything as for a release, once; on two cores that takes about half an hour"
  # With the library of the stand-in for IBM MQ.
  cargo build --release --workspace --lib --bins
fi

# Nothing else may run while functions start. IBM MQ's part has a queue manager of its own.
with_stack=()
for part in "${parts[@]}"; do
  case $part in
  startup | mq) "$binaries/benches" "$part" ;;
  *) with_stack+=("$part") ;;
  esac
done
if [ "${SMOKE:-0}" = 1 ]; then
  # One stack for all of them, because its start takes most of the time.
  # shellcheck disable=SC2016
  ((${#with_stack[@]} == 0)) || "$binaries/local" test -- \
    bash -ec 'for part in "${@:2}"; do "$1" "$part"; done' bench "$binaries/benches" "${with_stack[@]}"
else
  for part in ${with_stack[@]+"${with_stack[@]}"}; do
    "$binaries/local" test -- "$binaries/benches" "$part"
  done
fi
