# Sourced by .ci/run, .ci/nightly and scripts/test.sh: runs steps and reports what each one cost.
#
#   step NAME COMMAND…     runs a command, and shows what it prints
#   beside NAME COMMAND…   runs it while others run; `await` shows it
#   await NAME…            waits for those
#   report                 prints a table of all steps; fails if one of them failed
#
# A step that calls a script with steps of its own has these as rows before its own row.
export TIMEFORMAT='%0R %0U %0S'

made=
if [[ -z ${STEPS:-} ]]; then
  STEPS=$(mktemp -d)
  export STEPS
  made=$STEPS
fi

# Every step is a process group of its own, so that what ends this script ends all that it started.
set -m
end() {
  local group
  for group in $(jobs -p); do kill -- "-$group" 2>/dev/null; done
  wait
  [[ -z $made ]] || rm -rf "$made"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The verdict, apart from the files: a full disk must not turn a failure into a success.
failed=0

# What has no time limits gets the processor time that the others leave.
idle=(nice -n 19)
if chrt --idle 0 true 2>/dev/null; then idle=(chrt --idle 0); fi

step() {
  local name=$1 status=0
  shift
  echo "== $name"
  # In a shell of its own, which does not count the time of a step beside it. A signal ends waiting
  # at once, and would not end a command in the foreground.
  (
    set -o pipefail
    { time { "$@" </dev/null 2>&1 | tee "$STEPS/$name.log"; }; } 2>"$STEPS/$name.time"
  ) &
  wait $! || status=$?
  row "$name" "$status"
  return "$status"
}

beside() {
  local name=$1
  shift
  {
    local status=0
    { time "$@" </dev/null >"$STEPS/$name.log" 2>&1; } 2>"$STEPS/$name.time" || status=$?
    echo "$status" >"$STEPS/$name.end"
  } &
}

await() {
  local name status
  for name in "$@"; do
    while [[ ! -e $STEPS/$name.end ]] && [[ -n $(jobs -pr) ]]; do wait -n || true; done
    echo "== $name"
    cat "$STEPS/$name.log"
    status=$(cat "$STEPS/$name.end" 2>/dev/null) || true
    row "$name" "${status:-1}"
  done
}

# row NAME STATUS
row() {
  local wall=0 user=0 system=0 times
  [[ $2 == 0 ]] || failed=1
  # A shell also writes there that a command was killed.
  times=$(tail -n 1 "$STEPS/$1.time" 2>/dev/null) || true
  if [[ $times =~ ^([0-9]+)\ ([0-9]+)\ ([0-9]+)$ ]]; then
    wall=${BASH_REMATCH[1]} user=${BASH_REMATCH[2]} system=${BASH_REMATCH[3]}
  fi
  printf '%s\t%s\t%s\t%s\n' "$1" "$wall" "$((user + system))" "$2" >>"$STEPS/rows" || failed=1
}

report() {
  local name wall cpu status
  while IFS=$'\t' read -r name wall cpu status; do
    [[ $status == 0 ]] && continue
    failed=1
    printf '\n== The end of %s, which failed\n' "$name"
    tail -n 25 "$STEPS/$name.log"
  done <"$STEPS/rows"
  echo
  grep -hE '^(SKIPPED| *Summary \[)' "$STEPS"/*.log | sort -u || true
  printf '\n%-34s %8s %12s  %s\n' step seconds 'processor s' result
  while IFS=$'\t' read -r name wall cpu status; do
    printf '%-34s %8s %12s  %s\n' "$name" "$wall" "$cpu" "$([[ $status == 0 ]] && echo passed || echo "FAILED ($status)")"
  done <"$STEPS/rows"
  printf '%-34s %8s\n' all "$SECONDS"
  return "$failed"
}
