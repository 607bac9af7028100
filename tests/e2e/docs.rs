//! What the README shows is run.

use oncefold_e2e::deployment::binary;
use oncefold_e2e::{Running, wait};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The fenced blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// A line of a shell, with `oncefold` as the binary under test.
fn shell(line: &str, dir: &Path) -> Output {
    let line = line.replacen("oncefold", &format!("'{}'", binary().display()), 1);
    let mut shell = Command::new("sh");
    for name in ["ONCEFOLD_STORE_URL", "ONCEFOLD_QUEUE_URL", "ONCEFOLD_CONFIG"] {
        shell.env_remove(name);
    }
    shell.env("SHOP_SECRET", oncefold_e2e::Provider::secret()).arg("-c").arg(line).current_dir(dir).output().unwrap()
}

#[test]
fn the_readmes_first_commands_work() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let commands = blocks(&readme, "sh").into_iter().find(|b| b.contains("oncefold send")).expect("the block to try");
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary());
    command.arg("serve").current_dir(scratch.path()).env("ONCEFOLD_INGEST_LISTEN", "127.0.0.1:0");
    command.env("ONCEFOLD_ADMIN_LISTEN", "127.0.0.1:0").env("ONCEFOLD_OPS_LISTEN", "127.0.0.1:0");
    let mut serve = Running::start(&mut command);
    let url = format!("http://{}/in/demo", serve.address("intake"));
    for line in commands.lines() {
        let line = if line.contains("oncefold send") { format!("{line} --url {url}") } else { line.to_owned() };
        wait::until(&line, Duration::from_secs(20), || {
            let out = shell(&line, scratch.path());
            let shown = String::from_utf8_lossy(&out.stdout).into_owned();
            // A look may come before the worker's verdict.
            let early = (line.contains("get order") && !shown.contains("Ready"))
                || (line.contains("dead-letters") && !shown.contains("mapping.missing_key"));
            if out.status.success() && !early {
                Ok(())
            } else {
                Err((shown, String::from_utf8_lossy(&out.stderr).into_owned()))
            }
        });
    }
}

#[test]
fn the_readmes_config_loads() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for toml in blocks(&readme, "toml") {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("oncefold.toml"), &toml).unwrap();
        let out = shell("oncefold check", scratch.path());
        assert!(out.status.success(), "{}\n{toml}", String::from_utf8_lossy(&out.stderr));
    }
}

/// `scripts/test-compose` runs every command of docs/compose.md; the README shows none but these.
#[test]
fn the_readmes_compose_commands_are_those_that_are_run() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let (readme, page) = (read("README.md"), read("docs/compose.md"));
    let run: Vec<String> = blocks(&page, "bash").iter().flat_map(|b| b.lines()).map(str::to_owned).collect();
    let shown: Vec<String> = blocks(&readme, "bash").iter().flat_map(|b| b.lines()).map(str::to_owned).collect();
    assert!(shown.len() > 5);
    for line in shown {
        assert!(run.contains(&line), "not in docs/compose.md: {line}");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let documents = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/events.md",
        "docs/config.md",
        "docs/logging.md",
        "docs/compose.md",
    ];
    for document in documents {
        let path = root().join(document);
        let text = std::fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let local = !link.contains("://") && !link.starts_with('#');
            let target = path.parent().unwrap().join(link.split('#').next().unwrap());
            assert!(!local || target.exists(), "{document}: {link}");
        }
    }
}
