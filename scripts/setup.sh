#!/usr/bin/env bash
# Installs what the local stack needs and this machine lacks: Debian packages by apt, other versions
# of the brokers (RABBITMQ=4.3, POSTGRESQL=17), and the Python environments of the stand-ins (with
# KAFKA=1, that of Kafka too).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cached.sh

# Of two stacks of this repository that start at once, one installs.
mkdir -p .local
exec 9>.local/setup.lock
flock --nonblock 9 || { echo "  waiting for the other stack's set-up"; flock 9; }

fail() {
  echo "$*" >&2
  exit 1
}

# package WHAT PACKAGE…
package() {
  local what=$1
  shift
  command -v apt-get >/dev/null || fail "$what is missing and this is not a Debian or Ubuntu system: install the" \
    "equivalent of the Debian package(s) $* (RabbitMQ with its launcher in /usr/lib/rabbitmq/bin, PostgreSQL with" \
    "\`initdb\` on the path) and start again."
  local as_root=(env)
  if ((EUID != 0)); then
    sudo -n true 2>/dev/null || fail "$what is missing. Run \`sudo apt-get update && sudo apt-get install -y" \
      "--no-install-recommends $*\` and start again."
    as_root=(sudo -n env)
  fi
  echo "  Installing $what ($*) through apt, about half a minute"
  # PostgreSQL's package would make a cluster and start it at every boot. It looks there at its
  # first installation only, so nobody will miss the file.
  local refusal=/etc/postgresql-common/createcluster.d/integrahub.conf
  "${as_root[@]}" sh -c "mkdir -p ${refusal%/*} && echo 'create_main_cluster = false' >$refusal"
  # shellcheck disable=SC2064
  trap "${as_root[*]} rm -f $refusal" EXIT
  # In run level 1 the packages do not start their services: the stack runs instances of its own.
  local apt_get=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get)
  # A list that cannot be refreshed may still be good enough. If it is not, the installation says
  # so.
  "${apt_get[@]}" update >.local/setup-apt-update.log 2>&1 9>&- || true
  logged .local/setup-apt-install.log "${apt_get[@]}" install -y --no-install-recommends "$@" 9>&-
}

# Debian has PostgreSQL's programs by version, and not on the path. Clients alone may be installed.
has_postgresql() {
  local directory
  while read -r directory; do
    [[ -x $directory/initdb && -x $directory/postgres ]] && return
  done < <(printf '%s\n' /usr/lib/postgresql/*/bin && tr : '\n' <<<"$PATH")
  return 1
}

if [[ ! -e /usr/lib/rabbitmq/bin/rabbitmq-server ]] || ! command -v epmd >/dev/null; then
  package RabbitMQ rabbitmq-server
fi
has_postgresql || package PostgreSQL postgresql
# Sends the demonstration's requests, and those of the pages.
command -v curl >/dev/null || package curl curl
# Shifts the clock of a single process; tests run functions whose clocks differ.
[[ -e /usr/lib/$(uname -m)-linux-gnu/faketime/libfaketimeMT.so.1 ]] || package libfaketime libfaketime
for root in ${RABBITMQ:+rabbitmq-$RABBITMQ} ${POSTGRESQL:+postgresql-$POSTGRESQL}; do
  [[ -e $cache/brokers/$root/version ]] || scripts/brokers.sh make "$root"
done
# Debian ships `venv` without `ensurepip` until python3-venv is installed.
python3 -c 'import venv, ensurepip' 2>/dev/null || package "Python 3 with venv" python3 python3-venv
scripts/python-env.sh .local/python local/requirements.txt
if [[ ${KAFKA:-} == 1 ]]; then
  scripts/python-env.sh .local/kafka local/kafka/requirements.txt
fi
