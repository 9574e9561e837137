#!/usr/bin/env bash
# scripts/preflight.sh: checks that this machine can build and deploy. It names each missing tool,
# and where the installation is described.
set -uo pipefail

failed=0

# at_least NAME LEAST COMMAND…: compares the first version number that the command prints.
at_least() {
  local name=$1 least=$2 found
  shift 2
  found=$("$@" 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
  if [ -z "$found" ]; then
    echo "$name is missing: docs/deploy.md says how to install it."
    failed=1
  elif [ "$(printf '%s\n' "$least" "$found" | sort -V | head -n 1)" != "$least" ]; then
    echo "$name is $found, and has to be $least or later: docs/deploy.md says how to install it."
    failed=1
  else
    echo "$name $found"
  fi
}

# Earlier versions ask about beta features, and fail without a terminal.
at_least "SAM CLI" 1.156.0 sam --version
# Tested with this version: Cargo.toml chooses the target.
at_least "cargo-lambda" 1.9.2 cargo lambda --version
if command -v zig >/dev/null || python3 -m ziglang version >/dev/null 2>&1; then
  echo "zig"
else
  echo "zig is missing: docs/deploy.md says how to install it."
  failed=1
fi
exit "$failed"
