//! Any text as a config: no panic, a config or problems that say why not, and what a variable holds is never shown.
//! References to files are left to tests: here they would read whatever the fuzzer names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oncefold_config::Config;

/// A value that every scheme might take for a secret, and that no config text holds.
const SECRET: &str = "whsec_5up3r53cr3tV4lu3Th4tN3v3rShows00";

fuzz_target!(|text: &str| {
    if text.contains("file:") || text.contains("certificates") || text.contains(&SECRET[6..16]) {
        return;
    }
    let env = |name: &str| name.starts_with(|c: char| c.is_ascii_uppercase()).then(|| SECRET.to_owned());
    let env = |name: &str| if name.starts_with("ONCEFOLD_") { None } else { env(name) };
    let shown = match Config::parse("fuzz.toml", text, &env) {
        Ok(loaded) => {
            for source in &loaded.config.sources {
                assert!(!source.scheme.takes_secrets() || !source.secrets.is_empty(), "a source without secrets");
            }
            format!("{:?}", loaded)
        }
        Err(problems) => {
            assert!(!problems.problems.is_empty(), "refused without a reason");
            format!("{problems}\n{problems:?}")
        }
    };
    assert!(!shown.contains(&SECRET[6..16]), "a secret is shown:\n{shown}");
});
