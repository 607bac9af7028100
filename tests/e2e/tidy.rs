//! Style as a test: sizes with a limit, edges between crates, words we do not want. Every exception has a reason.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

/// Files over the limit, and why.
const LONG_FILES: [(&str, &str); 0] = [];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn sources() -> Vec<(String, String)> {
    let out = Command::new("git").args(["ls-files", "*.rs"]).current_dir(root()).output().expect("git");
    let names = String::from_utf8(out.stdout).expect("file names");
    let read = |name: &str| std::fs::read_to_string(root().join(name)).ok().map(|text| (name.to_owned(), text));
    names.lines().filter_map(read).collect()
}

/// The part of a file above its tests.
fn product(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn is_test(name: &str) -> bool {
    name.contains("/tests") || name.starts_with("tests/") || name.ends_with("_tests.rs") || name.contains("testkit")
}

#[test]
fn files_and_functions_stay_small() {
    let mut long = vec![];
    for (name, text) in sources().iter().filter(|(name, _)| !is_test(name)) {
        let lines = product(text).lines().count();
        if lines > FILE_LINES_MAX && !LONG_FILES.iter().any(|(file, _)| file == name) {
            long.push(format!("{name}: {lines} lines"));
        }
        for (at, function) in functions(product(text)) {
            if function > FUNCTION_LINES_MAX {
                long.push(format!("{name}:{at}: a function of {function} lines"));
            }
        }
    }
    assert!(long.is_empty(), "split these, or say in tidy.rs why not: {long:#?}");
}

/// Line and length of each function, by indentation: from `fn` to the closing brace of the same indent.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_fn = |line: &str| {
        let line = line.trim_start();
        ["fn ", "pub fn ", "async fn ", "pub async fn ", "const fn ", "pub const fn "]
            .iter()
            .any(|p| line.starts_with(p))
            || (line.starts_with("pub(") && line.contains(" fn "))
    };
    let starts = lines.iter().enumerate().filter(|(_, line)| is_fn(line));
    let length = |(at, line): (usize, &&str)| {
        let end = lines[at..].iter().position(|l| indent(l) == indent(line) && l.trim_start().starts_with('}'));
        (at + 1, end.map_or(1, |end| end + 1))
    };
    starts.map(length).collect()
}

#[test]
fn crates_depend_only_where_architecture_says() {
    let out = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output();
    let metadata: Value = serde_json::from_slice(&out.expect("cargo").stdout).expect("metadata");
    let mut normal: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let dependencies = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null());
        let names = dependencies.map(|d| d["name"].as_str().unwrap().to_owned()).collect();
        normal.insert(package["name"].as_str().unwrap().to_owned(), names);
    }
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("oncefold-core", &[][..]),
        ("oncefold-signature", &[]),
        ("oncefold-telemetry", &[]),
        ("oncefold-config", &["oncefold-core", "oncefold-signature"]),
        ("oncefold-postgres", &["oncefold-core"]),
        ("oncefold-rabbitmq", &["oncefold-core"]),
        ("oncefold-sqlite", &["oncefold-core"]),
        ("oncefold-ingest", &["oncefold-core", "oncefold-signature", "oncefold-config", "oncefold-telemetry"]),
        ("oncefold-worker", &["oncefold-core", "oncefold-config", "oncefold-telemetry"]),
        ("oncefold-admin", &["oncefold-core", "oncefold-config", "oncefold-telemetry"]),
        ("oncefold-testkit", &["oncefold-core", "oncefold-signature"]),
    ]);
    for (name, allowed) in allowed {
        let dependencies = &normal[name];
        let wrong: Vec<_> =
            dependencies.iter().filter(|d| d.starts_with("oncefold") && !allowed.contains(&d.as_str())).collect();
        assert!(wrong.is_empty(), "{name} -> {wrong:?}");
        assert!(
            name == "oncefold-telemetry" || !dependencies.iter().any(|d| d == "prometheus"),
            "{name} -> prometheus"
        );
    }
    for outside in ["axum", "sqlx", "lapin", "tokio", "hyper"] {
        assert!(!normal["oncefold-core"].iter().any(|d| d == outside), "oncefold-core -> {outside}");
    }
    assert!(!normal["oncefold"].iter().any(|d| d == "oncefold-testkit"), "the testkit is for tests only");
    let backoff: Vec<_> =
        normal.iter().filter(|(_, d)| d.iter().any(|d| d == "backoff")).map(|(name, _)| name).collect();
    assert_eq!(backoff, ["oncefold-rabbitmq"], "backoff is unmaintained: for reconnects only");
}

#[test]
fn nothing_is_left_undone() {
    let here = "tests/e2e/tidy.rs";
    let words = ["todo!(", "unimplemented!(", "#[ignore", "FIXME"];
    for (name, text) in sources().iter().filter(|(name, _)| name != here) {
        for word in words {
            assert!(!text.contains(word), "{name}: {word}");
        }
    }
}
