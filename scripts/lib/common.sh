# shellcheck shell=bash
# What the scripts share. Sourced, never run.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "error: $*"; exit 1; }

# Everything below this directory is ours, is worthless, and may be removed at any time.
if [ "$EUID" -eq 0 ]; then
  test_dir=${ONCEFOLD_TEST_DIR:-/var/tmp/oncefold-test}
else
  test_dir=${ONCEFOLD_TEST_DIR:-/var/tmp/oncefold-test-$EUID}
fi
postgres_port=${ONCEFOLD_TEST_POSTGRES_PORT:-54329}
amqp_port=${ONCEFOLD_TEST_AMQP_PORT:-56729}

# as_user USER DIR COMMAND...: as root, runs the command as USER in DIR; anybody else runs it as themselves. The lock
# (descriptor 9) is closed first: a server that inherited it would hold it for as long as it lives.
as_user() {
  local user=$1 dir=$2
  shift 2
  if [ "$EUID" -eq 0 ]; then
    setpriv --reuid="$user" --regid="$user" --init-groups env -C "$dir" "$@" 9>&-
  else
    env -C "$dir" "$@" 9>&-
  fi
}

# make_dir USER DIR: a directory that only USER can read.
make_dir() {
  if [ "$EUID" -eq 0 ]; then install -d -o "$1" -g "$1" -m 700 "$2"; else install -d -m 700 "$2"; fi
}

# Takes the one lock under which servers are installed, started and stopped; held until this script ends.
take_lock() {
  case $test_dir in
    /*) ;;
    *) die "ONCEFOLD_TEST_DIR must be an absolute path, not '$test_dir'" ;;
  esac
  if [ -d "$test_dir" ] && [ ! -e "$test_dir/oncefold-test" ] && [ -n "$(ls -A "$test_dir")" ]; then
    die "$test_dir holds files that are not ours; set ONCEFOLD_TEST_DIR to an empty or new directory"
  fi
  # 711: the users postgres and rabbitmq pass through, nobody else looks in.
  [ -d "$test_dir" ] || install -d -m 711 "$test_dir"
  : >>"$test_dir/oncefold-test"
  exec 9>>"$test_dir/oncefold-test"
  flock -w 300 9 || die "another ./scripts/services has held $test_dir/oncefold-test for 5 minutes"
}

# holder_of_port PORT: describes who listens on a TCP port ("pid 12 (nginx: master process)"), or fails if nobody does.
# From /proc, because a fresh machine has neither ss nor lsof.
holder_of_port() {
  local pid
  pid=$(pid_on_port "$1") || return 1
  if [ "$pid" = unknown ]; then echo "a process that this user cannot see"; return 0; fi
  echo "pid $pid ($(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c1-100))"
}

pid_on_port() {
  local hex inode link pid
  hex=$(printf '%04X' "$1")
  inode=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v p=":$hex\$" '$4 == "0A" && $2 ~ p { print $10; exit }')
  [ -n "$inode" ] || return 1
  for link in /proc/[0-9]*/fd/*; do
    if [ "$(readlink "$link" 2>/dev/null)" = "socket:[$inode]" ]; then
      pid=${link#/proc/}
      echo "${pid%%/*}"
      return 0
    fi
  done
  echo unknown
}

# need_free_port PORT WHAT VARIABLE: fails, naming the holder, if somebody listens on PORT.
need_free_port() {
  local holder
  if holder=$(holder_of_port "$1"); then
    die "port $1, wanted for $2, is taken by $holder; stop it, or choose another port with $3"
  fi
}

# poll SECONDS COMMAND...: repeats the command until it succeeds; fails when the time is over.
poll() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}

# A zombie is gone too: where process 1 reaps nothing, it stays for ever.
is_gone() { [ "$(awk '/^State:/ { print $2 }' "/proc/$1/status" 2>/dev/null)" = Z ] || ! kill -0 "$1" 2>/dev/null; }

# end_process PID: makes a process of ours end, whatever state it is in.
end_process() {
  kill -CONT "$1" 2>/dev/null || true
  kill -TERM "$1" 2>/dev/null || true
  poll 5 is_gone "$1" || kill -KILL "$1" 2>/dev/null || true
  poll 10 is_gone "$1" || die "process $1 does not end"
}
