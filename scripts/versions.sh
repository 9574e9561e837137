#!/usr/bin/env bash
# scripts/versions.sh [NEXTEST OPTION…]: repeats the tests that concern a broker or the database on
# every version that scripts/brokers.sh makes, or on those that VERSIONS names. Options choose other
# tests. A version that cannot be had is skipped, or is an error with BROKERS_REQUIRED=1.
set -euo pipefail
cd "$(dirname "$0")/.."

local=${CARGO_TARGET_DIR:-target}/debug/local
# `versions` and `cluster` start their own brokers, so the first run with all of them is enough.
own='binary_id(rabbitmq::it) and test(/^(versions|cluster)::/)'
broker='(binary_id(/^rabbitmq::(it|long_running)$/) and not test(/^(versions|cluster)::/)) +
  binary_id(rabbitmq::faults) +
  (binary_id(end-to-end::end-to-end) and
    test(/^(consume|produce|moving|rabbitmq|queues|idempotency|replay|targets|large|body_refs|equality)::/)
    and not test(/::ibm_mq::/))'
database='binary_id(catalog::it) +
  (binary_id(end-to-end::end-to-end) and test(/^(batches|loads|products|uploads|chunking|events)::/))'

read -ra names <<<"${VERSIONS:-$(scripts/brokers.sh names | tr '\n' ' ')}"
there=()
for name in "${names[@]}"; do
  if scripts/brokers.sh make "$name"; then
    there+=("$name")
  elif [[ -n ${BROKERS_REQUIRED:-} ]]; then
    exit 1
  else
    echo "SKIPPED: the tests on $name, which cannot be had here"
  fi
done

failed=()
# run NAME FILTER [NEXTEST OPTION…]: runs tests beside a stack. The environment chooses its
# versions.
run() {
  local name=$1 filter=$2
  shift 2
  (($#)) || set -- -E "$filter"
  echo "== tests on $name"
  "$local" test -- cargo nextest run --workspace --no-fail-fast "$@" || failed+=("$name")
}

(($#)) || [[ -n ${VERSIONS:-} ]] || BROKERS=all run "all versions" "$own" --no-capture -E "$own"
for name in "${there[@]}"; do
  case $name in
  rabbitmq-*) RABBITMQ=${name#rabbitmq-} run "$name" "$broker" "$@" ;;
  postgresql-*) POSTGRESQL=${name#postgresql-} run "$name" "$database" "$@" ;;
  esac
done
if ((${#failed[@]})); then
  printf 'FAILED: the tests on %s\n' "${failed[@]}" >&2
  exit 1
fi
