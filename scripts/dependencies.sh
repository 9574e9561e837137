#!/usr/bin/env bash
# scripts/dependencies.sh restore|save: keeps what cargo compiled of other people's crates for the
# next clone of this machine, since a fresh clone would compile the same again for minutes.
#
# `restore` copies it into a clone that has compiled nothing yet, `save` out of one that has
# compiled everything. Both copy and never link, so clones that work side by side share no file.
# What is kept belongs to one toolchain, set of flags, Cargo.lock and manifest; a clone with another
# lock or manifest begins with the newest of the same toolchain, and cargo compiles what differs.
# The three that were used last are kept. It only saves time, so a copy that fails is no failure.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cached.sh

target=${CARGO_TARGET_DIR:-target}
flags() {
  env | grep -E '^(CARGO_(BUILD|PROFILE)|RUSTFLAGS)' | sort || true
}
hash() {
  sha256sum | cut -c1-16
}
fits=$({ rustc -vV && flags; } | hash)
kept=$cache/dependencies/$fits-$(cat Cargo.lock Cargo.toml | hash)
# It also has what earlier locks needed. The next clone begins anew when that has become much.
most_megabytes=10000

case ${1:-} in
restore)
  # There is none on a machine that has compiled nothing yet.
  [[ -d $kept ]] || kept=$(ls -dt "$cache/dependencies/$fits"-* 2>/dev/null | head -n 1) || true
  [[ -d $kept && ! -e $target/debug ]] || exit 0
  echo "  Copying compiled dependencies from $kept"
  # Those that were used last are not removed.
  touch "$kept"
  mkdir -p "$target"
  rm -rf "$target"/restored.*
  part=$(mktemp -d "$target/restored.XXXXXX")
  trap 'rm -rf "$part"' EXIT
  if ! cp --archive --reflink=auto "$kept/debug" "$part"; then
    echo "  They cannot be copied, so they are compiled."
    exit 0
  fi
  mv -T "$part/debug" "$target/debug"
  ;;
save)
  [[ ! -d $kept ]] || exit 0
  mkdir -p "$cache/dependencies"
  rm -rf "$target"/links.*
  links=$(mktemp -d "$target/links.XXXXXX")
  part=$(mktemp -d "$cache/dependencies/part.XXXXXX")
  trap 'rm -rf "$links" "$part"' EXIT
  mkdir "$links/debug"
  for directory in .fingerprint build deps; do
    cp --archive --link "$target/debug/$directory" "$links/debug/"
  done
  cargo clean --quiet --workspace --target-dir "$links"
  if (($(du -sm "$links" | cut -f1) > most_megabytes)); then
    rm -rf "$cache/dependencies/$fits"-*
    exit 0
  fi
  # Links so far, which would not reach another file system.
  if ! cp --archive --reflink=auto "$links" "$part/kept"; then
    echo "SKIPPED: keeping compiled dependencies, which cannot be copied to $cache"
    exit 0
  fi
  chmod 755 "$part/kept"
  mv -T "$part/kept" "$kept" 2>/dev/null || true
  # Three are enough for the branches that somebody works on. What a run that was killed left goes
  # after a day.
  find "$cache/dependencies" -mindepth 1 -maxdepth 1 -name 'part.*' -mtime +0 -exec rm -rf {} +
  find "$cache/dependencies" -mindepth 1 -maxdepth 1 -not -name 'part.*' -printf '%T@ %p\n' |
    sort -rn | tail -n +4 | cut -d' ' -f2- | xargs -r -d '\n' rm -rf --
  echo "  Kept compiled dependencies in $kept ($(du -sh "$kept" | cut -f1))"
  ;;
*)
  sed -n '2,/^set /s/^# \{0,1\}//p' scripts/dependencies.sh >&2
  exit 2
  ;;
esac
