#!/usr/bin/env bash
# scripts/test.sh [NEXTEST OPTION…]: runs the tests inside `local test`. After a whole run it
# compares what responses had with what openapi.yaml describes.
set -uo pipefail
cd "$(dirname "$0")/.."

status=0
cargo nextest run --workspace --no-fail-fast "$@" || status=$?
if (($# == 0)); then
  cargo nextest run --workspace --run-ignored only -E 'test(=responses::what_is_described_was_seen)' || status=$?
fi
exit "$status"
