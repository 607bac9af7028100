//! The config as its users meet it: texts in, settings or located problems out.

mod bad;
mod edits;
mod good;
mod handshakes;
mod hidden;
mod mutations;
mod presets;
mod reference;
mod vectors;

use crate::{Config, Loaded, Problem, Problems, SourceConfig};

/// An environment with these variables.
fn env<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    move |name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
}

fn load(text: &str) -> Result<Loaded, Problems> {
    load_with(text, &[])
}

fn load_with(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, Problems> {
    Config::parse("oncefold.toml", text, &env(variables))
}

/// `line: path` of each, or `environment: NAME`.
fn places(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|p| format!("{}: {}", p.line.map_or(p.file.clone(), |line| line.to_string()), p.path)).collect()
}

fn problems(text: &str) -> Vec<Problem> {
    load(text).expect_err("the config is bad").problems
}
