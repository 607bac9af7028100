# shellcheck shell=bash
# Docker for scripts/test-compose: the machine's own, or what ../shared/tools/docker-up makes. Sourced, never run.

standins=../shared/tools/docker-up
engine_is_ours=

have_engine() { docker info && docker compose version; }

# need_tools PACKAGE...: installs those whose command of the same name is absent.
need_tools() {
  local tool absent=()
  for tool in "$@"; do command -v "$tool" >/dev/null || absent+=("$tool"); done
  [ "${#absent[@]}" -gt 0 ] || return 0
  install -d -m 711 "$test_dir"
  install_packages "${absent[@]}"
}

# need_engine IMAGE...: a Docker engine with Compose that has these images.
need_engine() {
  if ! have_engine >/dev/null 2>&1; then
    [ -x "$standins" ] || die "Docker with Compose v2 does not answer here (docker info; docker compose version)"
    engine_is_ours=yes
    make_standins
  fi
  local image
  for image in "$@"; do
    docker image inspect "$image" >/dev/null 2>&1 || pull "$image" || {
      [ -x "$standins" ] || die "no image $image, and no registry gives it: docker pull $image"
      make_standins
      docker image inspect "$image" >/dev/null || die "$standins did not make $image"
    }
  done
}

pull() { timeout 900 docker pull --quiet "$1" >/dev/null 2>&1; }

make_standins() {
  say "no engine or no image registry here: $standins makes what is missing (minutes, the first time)"
  "$standins" debian rust postgres rabbitmq prometheus >"$work/standins.log" 2>&1 || {
    tail -n 20 "$work/standins.log" >&2
    die "$standins failed"
  }
}

# release_engine: stops the engine if it was started here.
release_engine() {
  [ -z "$engine_is_ours" ] || "$standins" --down >/dev/null 2>&1 || true
}

# free_port FROM: the first port from there on that nobody listens on.
free_port() {
  local port=$1
  while pid_on_port "$port" >/dev/null; do port=$((port + 1)); done
  echo "$port"
}
