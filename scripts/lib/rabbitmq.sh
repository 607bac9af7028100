# shellcheck shell=bash
# A private RabbitMQ broker for tests. Sourced, never run.

rabbitmq_bin=/usr/lib/rabbitmq/bin # not /usr/sbin: Debian's wrapper there insists on the system's own broker
rabbitmq_dir=$test_dir/rabbitmq
rabbitmq_pid_file=$test_dir/rabbitmq.pid
rabbitmqctl=$test_dir/rabbitmqctl
rabbitmq_node=oncefold@localhost
amqp_url=amqp://guest:guest@127.0.0.1:$amqp_port
http_port=$((amqp_port + 1))
dist_port=$((amqp_port + 10))
epmd_port=$((amqp_port + 20))

# Everything that keeps this broker apart from one that the machine may run: node name, ports, epmd, files, cookie.
rabbitmq_env=(
  "HOME=$rabbitmq_dir" "RABBITMQ_NODENAME=$rabbitmq_node"
  "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1" "RABBITMQ_NODE_PORT=$amqp_port" "RABBITMQ_DIST_PORT=$dist_port"
  "ERL_EPMD_ADDRESS=127.0.0.1" "ERL_EPMD_PORT=$epmd_port"
  "RABBITMQ_MNESIA_BASE=$rabbitmq_dir/mnesia" "RABBITMQ_LOG_BASE=$rabbitmq_dir/log"
  "RABBITMQ_PID_FILE=$rabbitmq_dir/pid" "RABBITMQ_ENABLED_PLUGINS_FILE=$rabbitmq_dir/enabled_plugins"
  "RABBITMQ_CONFIG_FILE=$rabbitmq_dir/rabbitmq.conf" "RABBITMQ_CONF_ENV_FILE=$rabbitmq_dir/none"
  "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}"
)
as_rabbitmq() { as_user rabbitmq "$rabbitmq_dir" "${rabbitmq_env[@]}" "$@"; }

# The pid of our broker, if it lives: the one whose home is our directory and that sits there (in a container the same
# path is another place), whatever a pid file says: a start that was interrupted wrote none, and after a reboot the number
# is somebody else's.
rabbitmq_pid() {
  local process line
  for process in /proc/[0-9]*; do
    [ "$process/cwd" -ef "$rabbitmq_dir" ] || [ "$(readlink "$process/cwd" 2>/dev/null)" = "$rabbitmq_dir (deleted)" ] ||
      continue
    line=$({ tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null) || continue
    if [[ $line == *"-home $rabbitmq_dir "*"-s rabbit boot"* ]]; then
      echo "${process#/proc/}"
      return 0
    fi
  done
  return 1
}

rabbitmqctl() { timeout -k 5 60 "$rabbitmqctl" "$@" </dev/null 9>&-; }

start_rabbitmq() {
  ensure_rabbitmq_installed
  local pid
  write_rabbitmqctl
  if pid=$(rabbitmq_pid); then
    kill -CONT "$pid" # a test that was killed may have left it frozen
    if settle_rabbitmq >/dev/null 2>&1; then
      echo "$pid" >"$rabbitmq_pid_file"
      return 0
    fi
    say "RabbitMQ (pid $pid) does not answer; starting it anew"
    end_process "$pid"
  fi
  end_own_epmd
  need_free_port "$amqp_port" RabbitMQ ONCEFOLD_TEST_AMQP_PORT
  need_free_port "$http_port" "RabbitMQ (HTTP)" ONCEFOLD_TEST_AMQP_PORT
  need_free_port "$dist_port" "RabbitMQ (rabbitmqctl)" ONCEFOLD_TEST_AMQP_PORT
  need_free_port "$epmd_port" "RabbitMQ (epmd)" ONCEFOLD_TEST_AMQP_PORT
  if ! launch_rabbitmq; then
    say "RabbitMQ did not start; trying once more with an empty data directory"
    if pid=$(rabbitmq_pid); then end_process "$pid"; fi
    end_own_epmd
    rm -rf "$rabbitmq_dir"
    launch_rabbitmq || die "RabbitMQ does not start; see $rabbitmq_dir/log and $rabbitmq_dir/start.log"
  fi
  rabbitmq_pid >"$rabbitmq_pid_file"
}

launch_rabbitmq() {
  make_dir rabbitmq "$rabbitmq_dir"
  rm -f "$rabbitmq_dir/pid"
  # The management plugin is here for virtual hosts: over HTTP one costs 25 ms, with rabbitmqctl a third of a second of
  # processor time. Its statistics are off; queue depths come from rabbitmqctl list_queues.
  echo '[rabbitmq_management].' >"$rabbitmq_dir/enabled_plugins"
  cat >"$rabbitmq_dir/rabbitmq.conf" <<END
disk_free_limit.absolute = 50MB
management.tcp.ip = 127.0.0.1
management.tcp.port = $http_port
management_agent.disable_metrics_collector = true
END
  as_rabbitmq "$rabbitmq_bin/rabbitmq-server" -detached </dev/null >"$rabbitmq_dir/start.log" 2>&1 || return 1
  rabbitmqctl wait --timeout 50 "$rabbitmq_dir/pid" >>"$rabbitmq_dir/start.log" 2>&1 || return 1
  settle_rabbitmq >>"$rabbitmq_dir/start.log" 2>&1
}

# Takes back what a test that was killed may have left: a stopped application, an alarm, virtual hosts.
settle_rabbitmq() {
  rabbitmqctl --timeout 40 eval "
    rabbit:start(),
    vm_memory_monitor:set_vm_memory_high_watermark(0.4),
    rabbit_disk_monitor:set_disk_free_limit(50000000),
    [rabbit_vhost:delete(V, <<\"test\">>) || V <- rabbit_vhost:list_names(),
      {match, [T]} <- [re:run(V, \"^oncefold_test_([0-9]+)_\", [{capture, all_but_first, list}])],
      list_to_integer(T) < os:system_time(second) - $leftover_age_s],
    true = rabbit:is_running()."
}

# rabbitmqctl for tests: the right user, node, cookie and ports.
write_rabbitmqctl() {
  local word
  {
    printf '#!/bin/sh\n# Written by scripts/services: rabbitmqctl for the test broker.\nexec '
    if [ "$EUID" -eq 0 ]; then printf 'setpriv --reuid=rabbitmq --regid=rabbitmq --init-groups '; fi
    printf 'env -C %q' "$rabbitmq_dir"
    for word in "${rabbitmq_env[@]}"; do printf " '%s'" "$word"; done
    printf ' %s/rabbitmqctl "$@"\n' "$rabbitmq_bin"
  } >"$rabbitmqctl.next"
  chmod 755 "$rabbitmqctl.next"
  mv "$rabbitmqctl.next" "$rabbitmqctl"
}

# The name server that the broker starts outlives it.
end_own_epmd() {
  local pid
  pid=$(pid_on_port "$epmd_port") || return 0
  if { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -qxF "HOME=$rabbitmq_dir"; then end_process "$pid"; fi
}

stop_rabbitmq() {
  local pid
  if pid=$(rabbitmq_pid); then
    kill -CONT "$pid"
    { [ -x "$rabbitmqctl" ] && rabbitmqctl --timeout 20 stop >/dev/null 2>&1 && poll 15 is_gone "$pid"; } ||
      end_process "$pid"
  fi
  end_own_epmd
  rm -f "$rabbitmq_pid_file"
}

status_rabbitmq() {
  local pid
  if ! pid=$(rabbitmq_pid); then echo "RabbitMQ: stopped"; return 1; fi
  if ! [ "$(rabbitmqctl --timeout 10 eval 'rabbit:is_running().' 2>/dev/null)" = true ]; then
    echo "RabbitMQ: pid $pid does not answer"
    return 1
  fi
  echo "RabbitMQ: running, pid $pid, $amqp_url"
}
