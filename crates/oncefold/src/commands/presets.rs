//! `presets`: shipped provider settings.

use crate::cli::Presets;
use crate::failure::{Ended, Failure};
use crate::output;
use serde_json::json;

pub fn run(verb: &Presets, as_json: bool) -> Result<Ended, Failure> {
    match verb {
        Presets::List if as_json => {
            let presets = oncefold_config::presets().iter().map(|p| json!({"name": p.name, "about": p.about}));
            output::json(&presets.collect())?;
        }
        Presets::List => {
            let rows = oncefold_config::presets().iter().map(|p| vec![p.name.to_owned(), p.about.to_owned()]);
            output::line(&output::table(&["preset", "for"], &rows.collect::<Vec<_>>()))?;
        }
        Presets::Show { name } => {
            let names = || oncefold_config::presets().iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
            let preset = oncefold_config::preset(name)
                .ok_or_else(|| Failure::config(format!("there is no preset `{name}`; there are: {}", names())))?;
            if as_json {
                output::json(&json!({"name": preset.name, "about": preset.about, "toml": preset.text}))?;
            } else {
                output::line(&preset.text.trim_end())?;
            }
        }
    }
    Ok(Ended::Done)
}
