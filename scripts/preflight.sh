#!/usr/bin/env bash
# scripts/preflight.sh: whether this machine can build and deploy. Names what is missing, and how to get it.
set -uo pipefail

failed=0

# at_least NAME LEAST COMMAND…: the first version number that the command prints.
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

# Earlier ones ask whether beta features are wanted, and fail where nobody answers.
at_least "SAM CLI" 1.156.0 sam --version
# With this one it was tried that Cargo.toml chooses the target.
at_least "cargo-lambda" 1.9.2 cargo lambda --version
if command -v zig >/dev/null || python3 -m ziglang version >/dev/null 2>&1; then
  echo "zig"
else
  echo "zig is missing: docs/deploy.md says how to install it."
  failed=1
fi
exit "$failed"
