# Becomes the server of this directory's cluster, and makes the cluster first if it was prepared.
# VERSIONS has PostgreSQL's programs by version, or else they are on the path; arguments are the
# server's.
set -eu
binaries=
for directory in $(printf '%s\n' "$VERSIONS"/*/bin | sort -rV && echo "$PATH" | tr : '\n'); do
  # Clients alone may be installed too.
  if [ -x "$directory/initdb" ] && [ -x "$directory/postgres" ]; then
    binaries=$directory
    break
  fi
done
if [ -z "$binaries" ]; then
  echo "there is no PostgreSQL" >&2
  exit 1
fi

if [ -f superuser-password ]; then
  "$binaries/initdb" --pgdata=data --username=postgres --pwfile=superuser-password \
    --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --no-sync --no-instructions
  rm superuser-password
  # Before anything listens, so that whoever gets a connection finds everything there.
  if [ -s statements.sql ]; then
    "$binaries/postgres" --single -D data postgres <statements.sql >/dev/null
  fi
  rm statements.sql
fi

# fsync and full_page_writes: what the cluster holds is made anew for each stack and each test, so
# there is nothing that a crash of the machine could lose. A server that is killed loses nothing.
# No unix socket: its path may be longer than the system allows. Dynamic shared memory in the data
# directory: what a killed server leaves of it goes with the directory.
exec "$binaries/postgres" -D data -p "$PORT" \
  -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c dynamic_shared_memory_type=mmap \
  -c fsync=off -c full_page_writes=off -c max_connections=200 -c timezone=UTC -c log_timezone=UTC "$@"
