#!/usr/bin/env bash
# The demonstration of `make run`: the main jobs on real input, through HTTP and S3 as a client does
# them. It shows each command as a shell takes it, in which `. .local/env` has set the variables.
#
#   local/demo.sh                  all of it, on the stack that `make run` has started here
#   local/demo.sh targets NAME…    whether these target profiles can be reached
#
# It ends with 1 at the first answer that is not what it should be. PROGRAMS is the directory of
# `integrahub`. With IBM_MQ_LIBRARY, IBM MQ is somebody's own, and its queues are left alone.
# shellcheck disable=SC2016,SC2034 # commands are shown with variables, and the parts use some
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -z ${API:-} ]]; then
  [[ -f .local/env ]] || { echo "There is no .local/env: start the stack with \`make run\`." >&2; exit 1; }
  # shellcheck source=/dev/null
  . .local/env
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Not before the command that runs has ended, which may read a file there.
trap 'exit 143' TERM
# The AWS CLI and Python are the stack's, and contexts of the user's own do not count.
export PATH=$PWD/.local/python/bin:${PROGRAMS:-${CARGO_TARGET_DIR:-$PWD/target}/debug}:$PATH
export INTEGRAHUB_CONFIG_DIR=$scratch

answer=$scratch/answer
words=$scratch/words
asked=
status=0
milliseconds=0
replayed=
states=

say() { printf '   %s\n' "$*"; }

step() { printf '\n%s\n' "$*"; }

uuid() { cat /proc/sys/kernel/random/uuid; }

# Microseconds since 1970.
now() { echo "${EPOCHREALTIME//[.,]/}"; }

# since TIME: the seconds since then, with a decimal place.
since() {
  local tenths=$((($(now) - $1) / 100000))
  echo "$((tenths / 10)).$((tenths % 10))"
}

fail() {
  printf '\nThe demonstration failed: %s\nWhat the functions logged: .local/logs/functions.log\n' "$*" >&2
  exit 1
}

# show WORD…: a command as a shell takes it. A word that begins with a quotation mark is quoted.
show() {
  local word line='  '
  for word in "$@"; do
    [[ $word != --json && $word != --data-binary ]] || line+=$' \\\n    '
    [[ $word == \"* || $word =~ ^[A-Za-z0-9_./:=@%+-]+$ ]] || word="'$word'"
    line+=" $word"
  done
  printf '%s\n' "$line"
}

# send PATH [CURL ARGUMENT…]: a request with the key. The answer is in $answer, and what is known of
# it in $status, $milliseconds and $replayed.
send() {
  local known seconds
  asked=$1
  : >"$answer"
  known=$(curl -sS --max-time 40 "$API$1" -H "X-Api-Key: $API_KEY" "${@:2}" -o "$answer" \
    -w '%{http_code} %{time_total} %header{idempotent-replay}' 2>"$words") || fail "$1: $(cat "$words")"
  read -r status seconds replayed <<<"$known"
  milliseconds=$((10#${seconds/./} / 1000))
}

# ask PATH [CURL ARGUMENT…]: shows the command, and sends the request.
ask() {
  show curl -sS "\"\$API$1\"" -H '"X-Api-Key: $API_KEY"' "${@:2}"
  send "$@"
}

# cli ARGUMENT…: shows a command of `integrahub`, and runs it. $answer has what it prints, and
# $status its exit code.
cli() {
  show integrahub "$@"
  asked="integrahub $*"
  status=0
  timeout --foreground 60 integrahub "$@" </dev/null >"$answer" 2>"$words" || status=$?
}

# look EXPRESSION: its value about the last answer, see answer.py.
look() { python3 local/demo/answer.py "$answer" "$status" "$1"; }

# expect WHAT EXPRESSION: ends the demonstration unless the expression is true of the last answer.
expect() {
  [[ $(look "$2") != True ]] || return 0
  fail "$asked should have answered $1, but answered $status $(head -c 2000 "$answer") $(head -c 2000 "$words")"
}

# follow PATH BEGIN FIRST: asks for a batch or a test until it is final. $states has its states, of
# which it had the first when it began.
follow() {
  local path=$1 begin=$2 state
  states=$3
  show curl -sS "\"\$API$path\"" -H '"X-Api-Key: $API_KEY"'
  while true; do
    send "$path"
    expect 200 'status == 200'
    state=$(look a.status)
    [[ $states == *"$state" ]] || states+=" -> $state"
    [[ ! $state =~ ^(COMPLETED|PARTIAL_FAIL|STOPPED|FAILED|EXPIRED)$ ]] || break
    (($(now) - begin < 120000000)) || expect 'a final status within 120 s' False
    sleep 0.1
  done
  states+=" after $(since "$begin") s"
}

. local/demo/messages.sh
. local/demo/products.sh

if [[ ${1:-} == targets ]]; then
  for name in "${@:2}"; do
    send /connections/test --json "{\"targetRef\": \"$name\"}"
    if ((status == 200)); then found=$(look 'steps(a)'); else found="$status $(cat "$answer")"; fi
    printf '  "targetRef": "%s": %s\n' "$name" "$found"
  done
  exit
fi

on_rabbitmq
on_ibm_mq
start_load_test
load_catalogues
drop_file
show_load_test
read_events
if [[ -n ${KAFKA_BOOTSTRAP_SERVERS:-} ]]; then
  read_topic
fi
