#!/usr/bin/env bash
# scripts/test.sh [NEXTEST OPTION…]: runs the tests inside `local test` and prints the ten slowest.
# Without options, or with `--profile NAME` alone, it then compares what responses had with what
# openapi.yaml describes, and what functions called with what their policies permit, searches the
# logs for the secrets of the tests, and runs the examples of the documentation. With
# CONTRACT_SECONDS it also sends generated requests to the same stack for so long, drives the
# console there except at night, and runs programs on generated clients.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh

status=0
profile=default
[[ ${1:-} == --profile ]] && profile=$2
report=${CARGO_TARGET_DIR:-target}/nextest/$profile/junit.xml
rm -f "$report"

slowest() {
  [[ -e $1 ]] || return 0
  echo "Slowest tests, in seconds:"
  sed -nE 's/.*<testcase name="([^"]*)" classname="([^"]*)".* time="([^"]*)".*/\3 \2 \1/p' "$1" |
    sort -rn | head -n 10 | awk '{ printf "  %8.1f  %s  %s\n", $1, $2, $3 }'
}

# The tests trust authorities of their own alone, and a process of the development profile reads
# those of the system for 40 ms.
authority=/etc/ssl/certs/ISRG_Root_X1.pem
trusting=()
if [[ -e $authority ]]; then trusting=(env --unset=SSL_CERT_DIR SSL_CERT_FILE="$authority"); fi

# What the tests ask of the stack, it does at once.
step "tests" "${trusting[@]}" nice -n 5 cargo nextest run --workspace --tests --no-fail-fast "$@" || status=$?
slowest "$report"
# Not after some of the tests alone.
if (($# == 0)) || [[ $# == 2 && $1 == --profile ]]; then
  step "rights used" env PYTHONDONTWRITEBYTECODE=1 \
    .local/python/bin/python tests/deployment/rights.py used .local/test/data || status=$?
  if [[ -n ${CONTRACT_SECONDS:-} ]]; then
    # They compute, while generated requests wait for their responses.
    beside "doc tests" "${idle[@]}" cargo test --quiet --workspace --doc
    beside "clients made" "${idle[@]}" scripts/clients.sh make
    console=()
    # .ci/nightly drives all of it, on a stack of its own.
    if [[ $profile != nightly ]]; then
      console=("console")
      beside "console" nice -n 5 scripts/console.sh beside
    fi
    step "contract" scripts/schemathesis.sh inside || status=$?
    await "doc tests" "clients made" "${console[@]}"
    step "clients" scripts/clients.sh made || status=$?
  else
    step "doc tests" cargo test --quiet --workspace --doc || status=$?
  fi
  # Last, because they read what all of these left: described responses that nobody saw, secrets in
  # logs.
  step "notes and logs" cargo nextest run --workspace --tests --run-ignored only --no-fail-fast \
    -E 'binary_id(end-to-end::end-to-end) and (test(=responses::what_is_described_was_seen) + test(=leaks::no_log_has_a_secret))' || status=$?
fi
# What ran beside others is in `failed` alone.
exit "$((status ? status : failed))"
