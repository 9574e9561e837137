#!/usr/bin/env bash
# scripts/clients.sh [make|made|inside|generators]: generates clients from openapi.yaml with other
# people's generators, and runs a program on each of three (tests/clients). It starts a stack of its
# own, or with `inside` uses the one that it runs in. `make` only generates, and needs no stack;
# `made` then runs the programs. `generators` runs no program and needs no stack: it generates with
# all of them, and compiles or imports what they made.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -z ${1:-} ]]; then
  # The same build as for the tests, so that nothing is compiled twice.
  cargo build --workspace --bins --tests
  exec "${CARGO_TARGET_DIR:-target}/debug/local" test -- "$0" inside
fi

python=.local/clients
scripts/python-env.sh "$python" scripts/clients-requirements.txt
export PATH=$PWD/$python/bin:$PATH
node=.local/clients-node
scripts/node-env.sh "$node" tests/clients/typescript
work=$PWD/.local/generated
[[ $1 == made ]] || rm -rf "$work"
mkdir -p "$work"

# quiet LOG COMMAND…: shows what a command said if it fails.
quiet() {
  local log=$work/$1.log
  shift
  "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2 && return 1; }
}

# A Java program that ends soon: it costs less if it is not optimised.
quick=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC)
jar() {
  echo "$python"/lib/python3*/site-packages/openapi_generator_cli/openapi-generator.jar
}

# openapi_generator GENERATOR [OPTION…]
openapi_generator() {
  local generator=$1
  shift
  quiet "openapi-generator-$generator" java "${quick[@]}" -jar "$(jar)" generate -i openapi.yaml -g "$generator" \
    -o "$work/openapi-generator-$generator" \
    --global-property apis,models,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false "$@"
}

python_client() {
  quiet openapi-python-client openapi-python-client generate --path openapi.yaml --meta none \
    --output-path "$work/python/integrahub" &&
    # Each part of the contract that it left out.
    none grep -E 'Endpoint will not be generated|will be omitted|^(WARNING|ERROR) parsing' "$work/openapi-python-client.log"
}

# none GREP…: whether a search worked and found nothing that is not known: bodies of products as
# gzip or lines are beyond openapi-python-client.
none() {
  local found
  found=$("$@" | grep -v '^WARNING parsing POST /v1/inovafarma/products within products\.$') || return 0
  echo "$found" >&2
  return 1
}

python_program() {
  MYPYPATH=$work/python quiet mypy mypy --strict --warn-unused-ignores --cache-dir "$work/mypy" \
    --follow-imports silent tests/clients/python/calls.py &&
    PYTHONPATH=$work/python python tests/clients/python/calls.py
}

typescript_client() {
  mkdir -p "$work/typescript" &&
    ln -sfn "$(realpath "$node")/node_modules" "$work/typescript/node_modules" &&
    cp tests/clients/typescript/{calls.ts,tsconfig.json,package.json} "$work/typescript/" &&
    quiet openapi-typescript "$node/node_modules/.bin/openapi-typescript" openapi.yaml -o "$work/typescript/schema.d.ts"
}

typescript_program() {
  quiet tsc "$node/node_modules/.bin/tsc" -p "$work/typescript" && node "$work/typescript/calls.js"
}

java_client() {
  openapi_generator java --library native \
    --additional-properties=openApiNullable=false,hideGenerationTimestamp=true,useJakartaEe=true,invokerPackage=integrahub,apiPackage=integrahub.api,modelPackage=integrahub.model
}

java_program() {
  local sources
  mapfile -t sources < <(find "$work/openapi-generator-java/src/main/java" tests/clients/java -name '*.java')
  # Jackson, which the client reads JSON with, is in the generator's own archive.
  quiet javac javac "${quick[@]/#/-J}" -proc:none -nowarn -cp "$(jar)" -d "$work/classes" "${sources[@]}" &&
    java "${quick[@]}" -cp "$work/classes:$(jar)" Calls
}

# What the other generators made: modules that can be imported, types that fit together.
python_imports() {
  openapi_generator python && (cd "$work/openapi-generator-python" && python - <<'PYTHON'
import importlib, pkgutil, openapi_client

for module in pkgutil.walk_packages(openapi_client.__path__, "openapi_client."):
    importlib.import_module(module.name)
PYTHON
  )
}

csharp_compiles() {
  openapi_generator csharp || return
  if ! command -v mcs >/dev/null; then
    echo "SKIPPED: compiling the client in C#, since there is no mcs here"
    return
  fi
  local sources
  mapfile -t sources < <(find "$work/openapi-generator-csharp/src" -path '*/Model/*.cs')
  quiet mcs mcs -langversion:latest -target:library -out:"$work/models.dll" -r:System.ComponentModel.DataAnnotations "${sources[@]}"
}

typescript_types() {
  local all=.local/clients-generators
  scripts/node-env.sh "$all" tests/clients/generators || return
  mkdir -p "$work/types" && ln -sfn "$(realpath "$all")/node_modules" "$work/types/node_modules" &&
    cp tests/clients/generators/*.json "$work/types/" || return
  openapi_generator typescript-fetch && mv "$work/openapi-generator-typescript-fetch" "$work/types/fetch" &&
    quiet hey-api "$all/node_modules/.bin/openapi-ts" -i openapi.yaml -o "$work/types/hey" -c @hey-api/client-fetch &&
    quiet orval "$all/node_modules/.bin/orval" --input openapi.yaml --output "$work/types/orval/api.ts" --client fetch &&
    # A response in several media types would be a stream there, without its data.
    none grep -n TypedResponse "$work/types/orval/api.ts" &&
    quiet tsc-all "$all/node_modules/.bin/tsc" -p "$work/types"
}

has_java=0
if command -v java >/dev/null && command -v javac >/dev/null; then
  has_java=1
else
  echo "SKIPPED: clients of openapi-generator, since there is no JDK here (on Debian: default-jdk-headless)"
fi

if [[ $1 != made ]]; then
  python_client
  typescript_client
  if ((has_java)); then java_client; fi
fi
case $1 in
inside | made)
  python_program
  typescript_program
  if ((has_java)); then java_program; fi
  ;;
generators)
  if ((has_java)); then
    python_imports
    csharp_compiles
    typescript_types
  fi
  ;;
esac
