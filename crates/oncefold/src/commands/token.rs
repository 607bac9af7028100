//! `token new`: makes an admin token.

use crate::cli::Token;
use crate::failure::{Ended, Failure};
use crate::output;
use serde_json::json;

pub fn run(verb: &Token, as_json: bool) -> Result<Ended, Failure> {
    let Token::New { name, role } = verb;
    if name.is_empty() || name.len() > 64 || name.contains(|c: char| c.is_control() || c == '"' || c == '\\') {
        return Err(Failure::config(
            "--name takes 1 to 64 characters, without quotes, backslashes and control characters",
        ));
    }
    let token = crate::roles::random_token();
    let sha256 = hex::encode(oncefold_admin::hash_token(&token));
    let line = format!("tokens = [{{ name = \"{name}\", role = \"{role}\", sha256 = \"{sha256}\" }}]");
    if as_json {
        output::json(&json!({"token": token, "name": name, "role": role, "sha256": sha256, "toml": line}))?;
    } else {
        output::line(&token)?;
        output::line(&format_args!(
            "\n# It is shown only now. Under [admin] in oncefold.toml (or one more element of the list):\n{line}"
        ))?;
    }
    Ok(Ended::Done)
}
