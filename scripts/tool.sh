#!/usr/bin/env bash
# scripts/tool.sh NAME: installs a cargo tool into .local/tools, unless it is on the PATH or there.
set -euo pipefail
cd "$(dirname "$0")/.."

# Exact versions, so that runs today and next year check the same.
case $1 in
# Its self-update and probes cost a third of the build.
cargo-nextest) version=0.9.151 minutes=3 options=(--no-default-features) ;;
cargo-deny) version=0.20.2 minutes=2 options=() ;;
cargo-fuzz) version=0.13.1 minutes=1 options=() ;;
cargo-cyclonedx) version=0.5.9 minutes=2 options=() ;;
cargo-sort-derives) version=0.14.1 minutes=1 options=() ;;
*)
  echo "scripts/tool.sh has no version for the tool $1" >&2
  exit 2
  ;;
esac

tools=$PWD/.local/tools
command -v "$1" >/dev/null || PATH=$tools/bin:$PATH command -v "$1" >/dev/null && exit 0
if ! command -v cargo >/dev/null; then
  echo "cargo is missing: install Rust with rustup (https://rustup.rs) and start again" >&2
  exit 1
fi

log=$PWD/.local/setup-$1.log
mkdir -p .local
echo "  Compiling $1 $version into .local/tools, once; on two cores that takes about $minutes minutes"
begin=$SECONDS
# Unoptimized: the build takes a third of the time, and these tools mostly wait for other programs.
cargo install "$1" --version "$version" "${options[@]}" --locked --profile dev --root "$tools" >"$log" 2>&1 &
installing=$!
trap 'kill $installing 2>/dev/null || true' EXIT
while kill -0 $installing 2>/dev/null; do
  sleep 1
  passed=$((SECONDS - begin))
  if ((passed % 20 == 0)); then
    echo "    compiling $1: $passed s so far, $(grep -c '^ *Compiling' "$log" || true) crates"
  fi
done
if ! wait $installing; then
  echo "Installing $1 failed:" >&2
  tail -n 15 "$log" | sed 's/^/  | /' >&2
  echo "The whole log: $log" >&2
  exit 1
fi
