#!/usr/bin/env bash
# scripts/preflight.sh: checks that this machine can build and deploy. It names each thing that is
# missing, and where its installation is described.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=0

missing() {
  echo "$1: docs/deploy.md says how to install it."
  failed=1
}

# at_least NAME LEAST COMMAND…: compares the first version number that the command prints.
at_least() {
  local name=$1 least=$2 found
  shift 2
  found=$("$@" 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
  if [ -z "$found" ]; then
    missing "$name is missing"
  elif [ "$(printf '%s\n' "$least" "$found" | sort -V | head -n 1)" != "$least" ]; then
    missing "$name is $found, and has to be $least or later"
  else
    echo "$name $found"
  fi
}

# there NAME COMMAND…: the command succeeds.
there() {
  local name=$1
  shift
  if "$@" >/dev/null 2>&1; then
    echo "$name"
  else
    missing "$name is missing"
  fi
}

any_zig() {
  command -v zig || python3 -m ziglang version
}

# Earlier versions ask about beta features, and fail without a terminal.
at_least "SAM CLI" 1.156.0 sam --version
# A cargo that rustup has not installed ignores rust-toolchain.toml.
at_least "Rust" "$(grep -oE '[0-9]+\.[0-9]+\.[0-9]+' rust-toolchain.toml | head -n 1)" cargo --version
# Tested with this version: Cargo.toml chooses the target.
at_least "cargo-lambda" 1.9.2 cargo lambda --version
there "zig" any_zig
there "C compiler" cc --version
at_least "AWS CLI" 1.0.0 aws --version
if [ -z "${AWS_REGION:-${AWS_DEFAULT_REGION:-}}" ] && ! aws configure get region >/dev/null 2>&1; then
  echo "No region is chosen: run \`aws configure\`, or set AWS_REGION."
  failed=1
elif account=$(aws sts get-caller-identity --query Account --output text --cli-connect-timeout 10 2>/dev/null); then
  echo "AWS account $account"
else
  echo "AWS does not accept the credentials: run \`aws configure\`, or sign in."
  failed=1
fi
exit "$failed"
