#!/usr/bin/env bash
# Builds a release that deploys without a compiler, in dist/integrahub-VERSION: the functions' zips
# for both architectures, a template that refers to them, the command line, checksums and lists of
# components. FUNCTIONS="status depth" builds these functions only, to try the script.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
output=dist/integrahub-$version
environment=$PWD/.local/release
functions=${FUNCTIONS:-$(git ls-files 'functions/*/Cargo.toml' | xargs -n 1 dirname | xargs -n 1 basename)}

scripts/python-env.sh .local/release scripts/release-requirements.txt
scripts/tool.sh cargo-cyclonedx
export PATH=$environment/bin:$PWD/.local/tools/bin:$PATH

# The same source has to give the same bytes on every machine: the bytes contain no path of this
# machine and no time of this build.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export CARGO_INCREMENTAL=0
remap="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$PWD=/integrahub"
remap+=" --remap-path-prefix=$(rustc --print sysroot)=/rust"
export RUSTFLAGS="${RUSTFLAGS:-} $remap"
# A target directory of its own, without the state of builds of other sources.
target=$PWD/.local/release-target

# The commit alone has to determine the bytes.
if [ -n "$(git status --porcelain)" ]; then
  echo "There are uncommitted changes. Commit them first: a release is built from a commit." >&2
  exit 1
fi

rm -rf "$output"
mkdir -p "$output/functions"

build() { # ARCHITECTURE FLAG FUNCTION…
  local architecture=$1 flag=$2 arguments=()
  shift 2
  (($#)) || return 0
  for name in "$@"; do arguments+=(--bin "$name"); done
  echo "Building $# functions for $architecture"
  CARGO_TARGET_DIR=$target cargo lambda build --release --locked "$flag" --lambda-dir "$target/lambda-$architecture" "${arguments[@]}"
}

elsewhere=()
for name in $functions; do
  [[ $name = mq-access || $name = load-step ]] || elsewhere+=("$name")
done
# IBM's client exists for x86-64 only, so what speaks to brokers is built for x86-64 only.
build arm64 --arm64 ${elsewhere[@]+"${elsewhere[@]}"}
# shellcheck disable=SC2086 # names without spaces
build x86_64 --x86-64 $functions

# By itself, so that its features reach no function. Static, so that it runs on any Linux: its parts
# in C must not call glibc's checks.
command_line() {
  local triple=x86_64-unknown-linux-musl
  echo "Building the command line for $triple"
  rustup target add "$triple"
  CC_x86_64_unknown_linux_musl=cc CFLAGS_x86_64_unknown_linux_musl=-U_FORTIFY_SOURCE CARGO_TARGET_DIR=$target \
    cargo build --release --locked --target "$triple" --package integrahub --features sso
  mkdir -p "$output/bin"
  local program=$output/bin/integrahub-linux-x86_64
  cp "$target/$triple/release/integrahub" "$program"
  [[ $("$program" --version) == "integrahub $version" ]] || { echo "$program does not run, or has another version" >&2; exit 1; }
  [[ $(file --brief "$program") =~ static ]] || { echo "$program is not static" >&2; exit 1; }
}
[[ -n ${FUNCTIONS:-} ]] || command_line

echo "Writing the list of components"
mkdir -p "$output/sbom"
find functions -name integrahub.cdx.json -delete
cargo cyclonedx --quiet --all-features --format json --override-filename integrahub.cdx
for name in $functions; do
  components=$(find functions -path "*/$name/integrahub.cdx.json")
  sed "s#$PWD#/integrahub#g" "$components" >"$output/sbom/$name.cdx.json"
done
sed "s#$PWD#/integrahub#g" cli/integrahub.cdx.json >"$output/sbom/integrahub.cdx.json"
find . -name integrahub.cdx.json -not -path './.local/*' -delete

python scripts/release.py --template template.yaml --built "$target" --output "$output" --version "$version"
cp openapi.yaml LICENSE CHANGELOG.md "$output/"
cp -R deploy/. "$output/"
# A release has template.yaml itself.
rm -rf "$output/template" "$output/template.py"
# The recipe of the layer with IBM MQ's client, as git has it. IBM's files have a licence of their
# own, so no release may have any of them, such as an archive that lies in that folder.
git ls-files -z layers | xargs -0 cp --parents -t "$output"
(cd "$output" && find . -type f ! -name SHA256SUMS -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS)
echo "$output: $(du -sh "$output" | cut -f1), $(find "$output/functions" -name '*.zip' | wc -l) zips"
