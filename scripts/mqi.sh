#!/usr/bin/env bash
# scripts/mqi.sh [NEXTEST OPTION…]: tests the stand-in for IBM MQ with all of the MQI that it has:
# IBM's own clients for Python and Node.js load its library and talk to its queue manager.
set -euo pipefail
cd "$(dirname "$0")/.."

# A library with other features has the same name, so this build has a directory of its own.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/full-mqi
of=(--package mqm-standin --package mqm-standin-library --features mqm-standin-library/full-mqi)
cargo build "${of[@]}" --bins --tests
exec cargo nextest run "${of[@]}" --bins --tests --no-fail-fast "$@"
