# shellcheck shell=bash
# Installs Debian packages without letting them start anything. Sourced, never run.

# install_packages PACKAGE...: only what is absent is asked for.
install_packages() {
  [ "$EUID" -eq 0 ] || die "not installed: $*; run 'sudo apt-get install $*' or run this as root"
  command -v apt-get >/dev/null || die "not installed: $*; this is no Debian machine, so install them yourself"
  say "installing $*"
  if ! without_service_starts apt_install "$@" >"$test_dir/apt.log" 2>&1; then
    tail -n 20 "$test_dir/apt.log" >&2
    die "apt-get could not install: $* (whole log: $test_dir/apt.log)"
  fi
}

# keep_off_at_boot UNIT...: what we installed for tests must not come up by itself after a reboot either.
keep_off_at_boot() {
  command -v systemctl >/dev/null || return 0
  say "installed without starting; to use the machine's own: systemctl enable --now $1"
  systemctl disable --quiet "$@" >>"$test_dir/apt.log" 2>&1 </dev/null || true
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q || true # a dead third-party source must not matter if ours answers
  apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
}

# Debian starts a service when it is installed, unless policy-rc.d says no. A policy that is there already is the
# machine's own: it stays, and is asked for nothing.
without_service_starts() {
  local policy=/usr/sbin/policy-rc.d status=0
  if [ -e "$policy" ]; then
    "$@" </dev/null 9>&-
    return
  fi
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  # shellcheck disable=SC2064 # the path is known now
  trap "rm -f '$policy'" EXIT
  "$@" </dev/null 9>&- || status=$?
  rm -f "$policy"
  trap - EXIT
  return "$status"
}

# The user tells a whole installation from one that was interrupted.
ensure_postgres_installed() {
  if ! { postgres_bin && id postgres; } >/dev/null 2>&1; then
    install_packages postgresql
    keep_off_at_boot postgresql.service
    postgres_bin >/dev/null || die "the package postgresql brought no PostgreSQL 15 or later"
  fi
}

ensure_rabbitmq_installed() {
  if ! { [ -x "$rabbitmq_bin/rabbitmq-server" ] && id rabbitmq; } >/dev/null 2>&1; then
    install_packages rabbitmq-server
    keep_off_at_boot rabbitmq-server.service epmd.service epmd.socket
  fi
}

ensure_sqlite_installed() { command -v sqlite3 >/dev/null || install_packages sqlite3; }
