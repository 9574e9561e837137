# Becomes the server of this directory's cluster, and makes the cluster first if it was prepared.
# BINARIES is where PostgreSQL's programs are; arguments are the server's.
set -eu
if [ -f superuser-password ]; then
  "$BINARIES/initdb" --pgdata=data --username=postgres --pwfile=superuser-password \
    --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --no-sync --no-instructions
  rm superuser-password
  # Before anything listens, so that whoever gets a connection finds everything there.
  if [ -s statements.sql ]; then
    "$BINARIES/postgres" --single -D data postgres <statements.sql >/dev/null
  fi
  rm statements.sql
fi

# fsync and full_page_writes: what the cluster holds is made anew for each stack and each test, so
# there is nothing that a crash of the machine could lose. A server that is killed loses nothing.
# No unix socket: its path may be longer than the system allows. Dynamic shared memory in the data
# directory: what a killed server leaves of it goes with the directory.
exec "$BINARIES/postgres" -D data -p "$PORT" \
  -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c dynamic_shared_memory_type=mmap \
  -c fsync=off -c full_page_writes=off -c max_connections=200 -c timezone=UTC -c log_timezone=UTC "$@"
