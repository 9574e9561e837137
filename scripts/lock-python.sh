#!/usr/bin/env bash
# scripts/lock-python.sh: writes each requirements.txt from the requirements.in beside it, with
# every transitive package at an exact version and the hashes of its files. Run it after a change of
# a requirements.in, and commit both. pip installs from the .txt and refuses a file whose hash is
# missing there. ziglang (400 MB) is left out where the .in does not name it: cargo-lambda needs it
# to build, and those environments build nothing with it. A version in a .txt stays if the .in
# allows it; UPGRADE=1 takes the newest versions.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.local/uv
scripts/python-env.sh "$environment" scripts/uv-requirements.txt

upgrade=()
[ "${UPGRADE:-0}" = 1 ] && upgrade=(--upgrade)
for input in local/requirements.in local/kafka/requirements.in local/mqm-standin/requirements.in scripts/*-requirements.in benches/python/requirements.in; do
  output=${input%.in}.txt
  omitted=()
  grep -q '^ziglang' "$input" || omitted=(--no-emit-package ziglang)
  UV_CUSTOM_COMPILE_COMMAND="scripts/lock-python.sh" \
    "$environment/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
    ${omitted[@]+"${omitted[@]}"} ${upgrade[@]+"${upgrade[@]}"} "$input" --output-file "$output"
  echo "$output: $(grep -c '==' "$output") packages"
done
