# Sourced by the scripts that install something: keeps it outside the clone, so that every clone of
# this machine finds it.
#
#   cached LINK NAME MAKE…   makes LINK lead to the cache's directory NAME. If that is not there,
#                            `MAKE… DIRECTORY` fills it first.
#
# NAME says all that the content depends on, so it never changes: a version, or the hash of a lock
# file. Of several clones that want it at the same moment one makes it, and the others wait.
cache=${INTEGRAHUB_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/integrahub}
if [[ $cache != /* ]]; then
  echo "INTEGRAHUB_CACHE, XDG_CACHE_HOME and HOME have to be absolute paths, not $cache" >&2
  exit 1
fi

cached() {
  local link=$1 directory=$cache/$2 lock
  shift 2
  if [[ ! -e $directory/made ]]; then
    mkdir -p "$(dirname "$directory")"
    exec {lock}>"$directory.lock"
    flock "$lock"
    if [[ ! -e $directory/made ]]; then
      # Left by a run that was interrupted.
      rm -rf "$directory"
      mkdir "$directory"
      "$@" "$directory"
      # Last, so that an interrupted installation does not count as finished.
      touch "$directory/made"
    fi
    exec {lock}>&-
  fi
  [[ $(readlink "$link") == "$directory" ]] && return
  # In one step, because another command of this clone may be using it.
  mkdir -p "$(dirname "$link")"
  [[ -L $link ]] || rm -rf "$link"
  ln -s "$directory" "$link.$$"
  mv -T "$link.$$" "$link"
}

# logged LOG COMMAND…: runs an installer, and shows the end of what it wrote if it fails.
logged() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 && return
  tail -n 15 "$log" | sed 's/^/  | /' >&2
  echo "Installing failed. The whole log: $log" >&2
  exit 1
}
