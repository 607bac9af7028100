//! What the figures were taken on.

use serde_json::{Value, json};
use std::fs::read_to_string;

/// Describes the machine.
pub fn describe(postgres: &str, rabbitmq: &str) -> Value {
    let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).map(str::trim);
    json!({
        "cpu": model, "cores": std::thread::available_parallelism().map_or(0, usize::from), "memory": memory_kib,
        "kernel": read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "postgres": postgres, "rabbitmq": rabbitmq, "load_before": load(), "release_build": !cfg!(debug_assertions),
    })
}

/// The load average of the last minute.
pub fn load() -> Option<f64> {
    read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}
