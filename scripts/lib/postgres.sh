# shellcheck shell=bash
# A private PostgreSQL server for tests. Sourced, never run.

postgres_dir=$test_dir/postgres
postgres_pid_file=$test_dir/postgres.pid
postgres_url=postgres://oncefold@127.0.0.1:$postgres_port/postgres

# The newest installed PostgreSQL that is 15 or later.
postgres_bin() {
  local version
  for version in $(ls /usr/lib/postgresql 2>/dev/null | sort -rn); do
    if [ "$version" -ge 15 ] && [ -x "/usr/lib/postgresql/$version/bin/postgres" ]; then
      echo "/usr/lib/postgresql/$version/bin"
      return 0
    fi
  done
  return 1
}

as_postgres() { as_user postgres "$postgres_dir" "$@"; }

# The pid of our server, if it lives. A pid file alone proves nothing: after a crash or a reboot the number may be
# somebody else's; our server is the one that sits in our data directory.
postgres_pid() {
  local pid
  pid=$(head -n 1 "$postgres_dir/data/postmaster.pid" 2>/dev/null) || return 1
  [ -n "$pid" ] && [ "/proc/$pid/cwd" -ef "$postgres_dir/data" ] && echo "$pid"
}

postgres_answers() { "$(postgres_bin)/psql" -XAtq -d "$postgres_url?connect_timeout=5" -c 'select 1' 9>&-; }

start_postgres() {
  ensure_postgres_installed
  local pid
  if pid=$(postgres_pid); then
    kill -CONT "$pid" # a test that was killed may have left it frozen
    if poll 15 postgres_answers; then
      sweep_postgres
      echo "$pid" >"$postgres_pid_file"
      return 0
    fi
    say "PostgreSQL (pid $pid) does not answer; starting it anew"
    end_process "$pid"
  fi
  need_free_port "$postgres_port" PostgreSQL ONCEFOLD_TEST_POSTGRES_PORT
  if ! { prepare_postgres && launch_postgres; }; then
    say "PostgreSQL did not start; trying once more with an empty data directory"
    if pid=$(postgres_pid); then end_process "$pid"; fi
    rm -rf "$postgres_dir"
    prepare_postgres && launch_postgres || die "PostgreSQL does not start; see $postgres_dir/log"
  fi
  postgres_pid >"$postgres_pid_file"
}

# A data directory that is complete and of this version; `ready` is written last, so a torn initdb is made again.
prepare_postgres() {
  local bin
  bin=$(postgres_bin)
  if [ "$(cat "$postgres_dir/ready" 2>/dev/null)" = "$bin" ]; then
    rm -f "$postgres_dir/data/postmaster.pid" # not ours, or start_postgres would have found it alive
    return 0
  fi
  rm -rf "$postgres_dir"
  make_dir postgres "$postgres_dir"
  as_postgres "$bin/initdb" -D "$postgres_dir/data" -U oncefold --auth=trust --encoding=UTF8 --locale=C.UTF-8 -N \
    >"$postgres_dir/initdb.log" 2>&1 </dev/null || return 1
  echo "$bin" >"$postgres_dir/ready"
}

# fsync stays on: tests that kill the server mean it. No unix socket: its path would limit the length of ours.
launch_postgres() {
  local options="-p $postgres_port -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
  options+=" -c max_connections=300 -c shared_buffers=128MB -c max_wal_size=512MB -c fsync=on"
  options+=" -c log_min_duration_statement=1000 -c log_lock_waits=on -c log_line_prefix='%m [%p] %d '"
  as_postgres "$(postgres_bin)/pg_ctl" -D "$postgres_dir/data" -l "$postgres_dir/log" -w -t 30 -o "$options" start \
    >/dev/null 2>&1 </dev/null && poll 10 postgres_answers
}

# Drops the databases of tests that were killed.
sweep_postgres() {
  "$(postgres_bin)/psql" -XAtq -d "$postgres_url" >/dev/null 9>&- <<END || say "left-over test databases stay for now"
select format('drop database if exists %I with (force)', datname) from pg_database
where datname ~ '^oncefold_test_[0-9]{1,12}_'
  and split_part(datname, '_', 3)::bigint < extract(epoch from now()) - $leftover_age_s
\gexec
END
}

stop_postgres() {
  local pid
  if pid=$(postgres_pid); then
    kill -CONT "$pid"
    as_postgres "$(postgres_bin)/pg_ctl" -D "$postgres_dir/data" -m fast -t 20 stop >/dev/null 2>&1 || end_process "$pid"
  fi
  rm -f "$postgres_pid_file"
}

status_postgres() {
  local pid
  if ! pid=$(postgres_pid); then echo "PostgreSQL: stopped"; return 1; fi
  if ! postgres_answers >/dev/null 2>&1; then echo "PostgreSQL: pid $pid does not answer on port $postgres_port"; return 1; fi
  echo "PostgreSQL: running, pid $pid, $postgres_url"
}
