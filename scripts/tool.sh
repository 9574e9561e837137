#!/usr/bin/env bash
# scripts/tool.sh NAME: compiles a cargo tool once for this machine, unless it is on the PATH, and
# puts it into .local/tools/bin.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cached.sh

# Unoptimized, the build takes a third of the time, and most of these tools wait for other programs.
profile=dev
# Exact versions, so that runs today and next year check the same.
case $1 in
# Its self-update and probes cost a third of the build.
cargo-nextest) version=0.9.151 minutes=3 options=(--no-default-features) ;;
cargo-deny) version=0.20.2 minutes=2 options=() ;;
cargo-fuzz) version=0.13.1 minutes=1 options=() ;;
cargo-cyclonedx) version=0.5.9 minutes=2 options=() ;;
# They read every source themselves.
cargo-machete) version=0.9.2 minutes=2 profile=release options=() ;;
cargo-sort-derives) version=0.14.1 minutes=2 profile=release options=() ;;
*)
  echo "scripts/tool.sh has no version for the tool $1" >&2
  exit 2
  ;;
esac

# What this script put there may be of an earlier version.
found=$(command -v "$1" || true)
[[ -z $found || $found == "$PWD/.local/tools/"* ]] || exit 0
if ! command -v cargo >/dev/null; then
  echo "cargo is missing: install Rust with rustup (https://rustup.rs) and start again" >&2
  exit 1
fi

name=$1
log=$PWD/.local/setup-$name.log
compile() {
  local begin=$SECONDS passed installing
  echo "  Compiling $name $version into $1, once; on two cores that takes about $minutes minutes"
  logged "$log" cargo install "$name" --version "$version" "${options[@]}" --locked --profile "$profile" --root "$1" &
  installing=$!
  # shellcheck disable=SC2064
  trap "kill $installing 2>/dev/null || true" EXIT
  while kill -0 $installing 2>/dev/null; do
    sleep 1
    passed=$((SECONDS - begin))
    if ((passed % 20 == 0)); then
      echo "    compiling $name: $passed s so far, $(grep -c '^ *Compiling' "$log" || true) crates"
    fi
  done
  wait $installing
  trap - EXIT
}

cached ".local/tools/$name" "tools/$name-$version-$profile${options[*]}" compile
mkdir -p .local/tools/bin
ln -sfn "../$name/bin/$name" ".local/tools/bin/$name"
