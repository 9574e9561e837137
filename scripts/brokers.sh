#!/usr/bin/env bash
# Versions of RabbitMQ and PostgreSQL that this machine does not have, each in a directory of its
# own in the cache that all clones of this machine share: Debian's packages, unpacked and not
# installed.
#
#   scripts/brokers.sh make [NAME…]          downloads and unpacks those that are not there yet
#   scripts/brokers.sh enter NAME COMMAND…   becomes COMMAND, which finds that version's programs
#   scripts/brokers.sh remove [NAME…]        deletes them
#   scripts/brokers.sh list                  shows what there is
#   scripts/brokers.sh names                 the names that it knows
#
# Without a name, `make` and `remove` mean all of them.
#
# `enter` gives the process a mount namespace of its own, in which the directory's /usr lies over
# the machine's. Nothing else differs: same paths, network, user and process ID, and the mount ends
# with the process. AS=UID:GID makes it another user's.
#
# MIRROR is the Debian archive to download from; by default the one that apt is set up with.
set -euo pipefail
began=$PWD
cd "$(dirname "$0")/.."
. scripts/cached.sh

# Name, Debian's release, package, and the version that the name promises.
known() {
  cat <<-END
	rabbitmq-4.0 trixie rabbitmq-server 4.0.
	rabbitmq-4.3 unstable rabbitmq-server 4.3.
	postgresql-17 trixie postgresql-17 17.
	END
}

home=$cache/brokers

fail() {
  echo "scripts/brokers.sh: $*" >&2
  exit 1
}

names() {
  known | cut -d' ' -f1
}

# row NAME: what is known of it.
row() {
  known | grep "^$1 " || fail "there is no $1; there are: $(names | tr '\n' ' ')"
}

is_there() {
  [[ -f $home/$1/version ]]
}

# The archive that this machine's own release comes from.
mirror() {
  if [[ -n ${MIRROR:-} ]]; then
    echo "$MIRROR"
    return
  fi
  local release
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$release" '$1 == release && $2 == "main" { print $3; exit }'
}

# An apt that knows nothing of this machine but how to reach the network, so that it resolves and
# downloads packages as for an empty one. It needs no root.
private_apt() {
  local state=$1
  shift
  apt-get -q -y -o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
    -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status" \
    -o Dir::Cache="$state/cache" -o Dir::Log="$state/log" -o Acquire::Languages=none \
    -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false \
    -o Acquire::http::Timeout=20 -o Acquire::Retries=2 "$@"
}

# unpack NAME RELEASE PACKAGE VERSION INTO LOG
unpack() {
  local name=$1 release=$2 package=$3 version=$4 into=$5 log=$6
  local state=$into/state archive keys=/usr/share/keyrings/debian-archive-keyring.gpg signed=
  archive=$(mirror)
  [[ -n $archive ]] || fail "apt has no Debian archive here: set MIRROR to one"
  [[ -f $keys ]] && signed="[signed-by=$keys] "
  mkdir -p "$state"/{lists/partial,cache/archives/partial,log}
  echo "deb $signed$archive $release main" >"$state/sources.list"
  : >"$state/status"
  private_apt "$state" update >>"$log" 2>&1 || return 1
  private_apt "$state" install --download-only '?essential' base-files "$package" >>"$log" 2>&1 || return 1

  local found
  found=$(dpkg-deb --field "$state/cache/archives/${package}"_*.deb Version)
  if [[ $found != "$version"* ]]; then
    echo "Debian $release has $package $found now, and $name is $version*: see known() in scripts/brokers.sh" >>"$log"
    return 1
  fi
  local deb
  for deb in "$state"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar --extract --directory "$into" --no-same-owner >>"$log" 2>&1 || return 1
  done
  # Only what lies over the machine's /usr is used. Documentation is a quarter of it.
  find "$into" -mindepth 1 -maxdepth 1 ! -name usr -exec rm -rf {} +
  rm -rf "$into"/usr/share/{doc,man,info,locale}
  chmod -R u-s,g-s "$into/usr"
  # What Debian's alternatives would choose.
  local link
  for link in awk:mawk which:which.debianutils; do
    [[ -e $into/usr/bin/${link%%:*} ]] || ln -s "${link##*:}" "$into/usr/bin/${link%%:*}"
  done
  echo "$found" >"$into/version"
}

make_one() {
  local name=$1 release package version log part
  read -r name release package version < <(row "$name")
  if is_there "$name"; then
    expect_entry "$name"
    return
  fi
  mkdir -p "$home"
  log=$home/$name.log
  # Of two at once, the second waits and finds it made.
  exec 9>"$home/$name.lock"
  flock 9
  if ! is_there "$name"; then
    # Left by a run that was killed.
    rm -rf "$home/$name".part.* "${home:?}/$name"
    for tool in apt-get dpkg-deb unshare; do
      command -v "$tool" >/dev/null || fail "$tool is missing: $name needs Debian or Ubuntu"
    done
    [[ -L /bin ]] || fail "/bin is not below /usr here, so $name cannot lie over it"
    echo "  Unpacking Debian's $package ($release) into $home/$name, about a minute"
    : >"$log"
    part=$(mktemp -d "$home/$name.part.XXXXXX")
    if ! unpack "$name" "$release" "$package" "$version" "$part" "$log"; then
      rm -rf "$part"
      tail -n 8 "$log" | sed 's/^/  | /' >&2
      fail "making $name failed; the whole log: $log"
    fi
    chmod 755 "$part"
    mv "$part" "$home/$name"
  fi
  exec 9>&-
  expect_entry "$name"
}

expect_entry() {
  (enter "$1" true) || fail "$1 is there, but nothing may be mounted over /usr here"
}

# Becomes the command: every step replaces the one before it.
enter() {
  local name=$1
  shift
  row "$name" >/dev/null
  is_there "$name" || fail "$name is not there: scripts/brokers.sh make $name"
  # The cache names the machine's own libraries. /usr comes last, because `mount` is in it.
  local over='[ ! -e /etc/ld.so.cache ] || mount --bind /dev/null /etc/ld.so.cache
    mount --bind "$0" /usr; cd "$1"; shift; exec "$@"'
  # Erlang starts programs by their names.
  export PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
  local become=() as=${AS:-}
  unset AS
  if [[ $(id -u) == 0 ]]; then
    [[ -z $as ]] || become=(setpriv "--reuid=${as%:*}" "--regid=${as#*:}" --clear-groups)
    exec unshare --mount sh -ec "$over" "$home/$name/usr" "$began" "${become[@]}" "$@"
  fi
  # Without root, only a user namespace may mount; within another one the process is itself again.
  become=(unshare --user "--map-user=$(id -u)" "--map-group=$(id -g)")
  exec unshare --map-root-user --mount sh -ec "$over" "$home/$name/usr" "$began" "${become[@]}" "$@"
}

remove() {
  local name
  for name in "$@"; do
    row "$name" >/dev/null
    rm -rf "${home:?}/$name" "$home/$name".part.* "$home/$name".{lock,log}
  done
}

list() {
  local name
  for name in $(names); do
    if is_there "$name"; then
      echo "$name: $(cat "$home/$name/version"), $(du -sh "$home/$name" | cut -f1)"
    else
      echo "$name: not there"
    fi
  done
}

command=${1:-}
shift || true
case $command in
make | remove)
  if (($#)); then chosen=("$@"); else mapfile -t chosen < <(names); fi
  if [[ $command == remove ]]; then
    remove "${chosen[@]}"
  else
    for name in "${chosen[@]}"; do make_one "$name"; done
  fi
  ;;
enter)
  (($# > 1)) || fail "enter NAME COMMAND…"
  enter "$@"
  ;;
list) list ;;
names) names ;;
*)
  sed -n '2,/^set /s/^# \{0,1\}//p' scripts/brokers.sh >&2
  exit 2
  ;;
esac
