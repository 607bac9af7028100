# shellcheck shell=bash
# The official webhook libraries that tests run, in a virtual environment of their own. Sourced, never run.

requirements=$scripts/../tests/known_clients/requirements.txt
# Named by what is in it: two clones of different age share the directory and each has its own.
known_clients_dir=$test_dir/known-clients-$(sha256sum "$requirements" | cut -c1-12)
known_clients_python=$known_clients_dir/bin/python

# `ready` is written last, so an installation that was interrupted is made again.
install_known_clients() {
  if [ -e "$known_clients_dir/ready" ] && "$known_clients_python" -c '' 2>/dev/null; then return 0; fi
  ensure_venv_installed
  say "installing the official webhook libraries for tests"
  rm -rf "$known_clients_dir"
  local log=$test_dir/pip.log
  "$python" -m venv "$known_clients_dir" >"$log" 2>&1 </dev/null 9>&- ||
    die "python3 -m venv does not work here; see $log"
  "$known_clients_python" -m pip install --disable-pip-version-check --no-input --no-compile --no-deps \
    --only-binary :all: --require-hashes -r "$requirements" >>"$log" 2>&1 </dev/null 9>&- || {
    tail -n 5 "$log" >&2
    die "pip could not install $requirements: does it reach its package index? (whole log: $log)"
  }
  : >"$known_clients_dir/ready"
}

# Debian has the module apart from Python, so the one that is there may not be able to; its own then can.
ensure_venv_installed() {
  python=$(command -v python3 || true)
  [ -n "$python" ] && "$python" -c 'import ensurepip, venv' 2>/dev/null && return 0
  install_packages python3-venv
  python=/usr/bin/python3
}
