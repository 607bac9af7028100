use super::*;

const CANARY: &str = "c4n4ry";

/// Texts that hold the canary where a secret may stand, good and bad.
fn texts() -> Vec<String> {
    let source = |secrets: &str, verify: &str| format!("[sources.x]\nsecrets = [{secrets}]\nverify = {verify}\n");
    vec![
        source("'c4n4ry-0123456789abcdef'", "{ scheme = 'hmac', header = 's' }"),
        source("'c4n4ry'", "{ scheme = 'stripe' }"),
        source("'whpk_c4n4ry'", "{ scheme = 'hmac', header = 's' }"),
        source("'c4n4ry!'", "{ scheme = 'standard-webhooks' }"),
        source("'c4n4ry'", "{ scheme = 'standard-webhooks' }"),
        source("'c4n4ry'", "{ scheme = 'basic' }"),
        source("'user:c4n4ry'", "{ scheme = 'basic' }"),
        source("'$c4n4ry'", "{ scheme = 'token', in = 'path' }"),
        source("['c4n4ry']", "{ scheme = 'stripe' }"),
        source("'c4n4ry'", "{ scheme = 'none' }"),
        source("'env:A'", "{ scheme = 'standard-webhooks' }"),
        "[sources.x]\npreset = 'svix'\nsecrets = 'c4n4ry'".to_owned(),
        "[sources.x]\npreset = 'svix'\nsecrets = ['c4n4ry]".to_owned(),
        "[sources.x]\npreset = 'svix'\nsecrets = [c4n4ry]".to_owned(),
        "[store]\nurl = 'postgres://u:c4n4ry@h/d'\n[queue]\nurl = 'amqp://u:c4n4ry@h/v'".to_owned(),
        "[store]\nurl = 'postgres://u:c4n4ry@h@i/d?password=c4n4ry'\n[queue]\nurl = 'amqp://c4n4ry:/x@h'".to_owned(),
        "[store]\nurl = 'postgres://h/d?password=c4n4ry'\n[queue]\nurl = 'amqp://h'".to_owned(),
        "[store]\nurl = 'c4n4ry'\n[queue]\nurl = 'c4n4ry://x'".to_owned(),
        "[store]\nurl = 'env:A'\n[queue]\nurl = 'env:A'".to_owned(),
        "[admin]\ntokens = [{ name = 'a', role = 'viewer', sha256 = 'c4n4ry' }]".to_owned(),
        "[admin]\nlisten = 'c4n4ry'\n[ops]\nlisten = 'env:A'".to_owned(),
    ]
}

#[test]
fn secrets_are_never_shown() {
    for text in texts() {
        let shown = match load_with(&text, &[("A", "c4n4ry value")]) {
            Ok(loaded) => {
                let urls = format!("{} {}", loaded.config.store, loaded.config.queue);
                let warnings: String = loaded.warnings.iter().map(ToString::to_string).collect();
                format!("{loaded:?} {loaded:#?} {urls} {warnings}")
            }
            Err(problems) => format!("{problems} {problems:?}"),
        };
        assert!(!shown.contains(CANARY), "{text}\n{shown}");
    }
}

#[test]
fn urls_are_shown_without_credentials() {
    let config = load("[store]\nurl = 'postgres://u:p@h:1/d?a=b'\n[queue]\nurl = 'amqp://u:p@h/v'").unwrap().config;
    assert_eq!(config.store.to_string(), "postgres://…@h:1/d");
    assert_eq!(config.queue.to_string(), "amqp://…@h/v");
}

/// A hash is no secret, but whoever sees it can try guesses.
#[test]
fn hashes_of_tokens_are_not_shown() {
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let text = format!("[admin]\ntokens = [{{ name = 'a', role = 'viewer', sha256 = '{hash}' }}]");
    assert!(!format!("{:?}", load(&text).unwrap()).contains(hash));
}
