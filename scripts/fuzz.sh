#!/usr/bin/env bash
# scripts/fuzz.sh [TARGET…]: searches for input that breaks an oracle of fuzz/oracles, for TIME
# seconds a target. Without an argument it runs all targets. The corpus stays in fuzz/corpus,
# findings in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.local/tools/bin:$PATH

targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(ls fuzz/oracles/seeds)
toolchain=${FUZZ_TOOLCHAIN:-nightly}
if ! cargo "+$toolchain" --version >/dev/null 2>&1; then
  echo "libFuzzer needs a nightly compiler: rustup toolchain install $toolchain --profile minimal" >&2
  exit 1
fi
scripts/tool.sh cargo-fuzz

for target in "${targets[@]}"; do
  echo "== $target, ${TIME:-60} s"
  mkdir -p "fuzz/corpus/$target"
  cargo "+$toolchain" fuzz run "$target" "fuzz/corpus/$target" "fuzz/oracles/seeds/$target" -- \
    -dict=fuzz/json.dict -max_len=2048 -max_total_time="${TIME:-60}" -print_final_stats=1 -verbosity=0
done
