use super::*;
use crate::sections::SCHEMAS;
use std::path::Path;

fn docs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The part of the reference under the heading of this title.
fn chapter<'a>(reference: &'a str, title: &str) -> &'a str {
    let heading = format!("\n## {title}\n");
    let start = reference.find(&heading).unwrap_or_else(|| panic!("docs/config.md has no heading {title}"));
    let rest = &reference[start + heading.len()..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

#[test]
fn the_reference_explains_every_key_and_no_other() {
    let reference = std::fs::read_to_string(docs().join("config.md")).unwrap();
    for schema in SCHEMAS {
        let rows = chapter(&reference, schema.title).lines().filter_map(|line| line.strip_prefix("| `"));
        let explained: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
        assert_eq!(explained, schema.keys, "keys of {} in docs/config.md", schema.title);
    }
}

#[test]
fn the_samples_load() {
    let variables = ["SHOP_SECRET", "STRIPE_WEBHOOK_SECRET", "STOREKIT_SECRET", "TICKETS_TOKEN"];
    let mut variables: Vec<_> = variables.map(|name| (name, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")).into();
    variables.push(("DATABASE_URL", "postgres://oncefold:secret@db/oncefold"));
    variables.push(("AMQP_URL", "amqp://oncefold:secret@broker/%2F"));
    let samples: Vec<_> = std::fs::read_dir(docs().join("samples")).unwrap().map(|f| f.unwrap().path()).collect();
    assert!(samples.len() >= 3, "{samples:?}");
    for sample in samples {
        let loaded = Config::load(Some(&sample), &env(&variables)).unwrap_or_else(|e| panic!("{e}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    }
}

/// A page for every preset, and every config in them loads without a warning.
#[test]
fn the_pages_of_providers_load() {
    let index = std::fs::read_to_string(docs().join("providers/README.md")).unwrap();
    for preset in crate::presets() {
        let file = format!("{}.md", preset.name);
        assert!(index.contains(&format!("]({file})")), "{file} is not in the index");
        let page =
            std::fs::read_to_string(docs().join("providers").join(&file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let configs: Vec<_> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(!configs.is_empty() && page.contains("## Traps"), "{file}");
        for config in configs {
            let secret = presets::secret_of(preset.name);
            let variables = |name: &str| (!name.starts_with("ONCEFOLD_")).then(|| secret.to_owned());
            let loaded = Config::parse(&file, config, &variables).unwrap_or_else(|e| panic!("{e}"));
            // Where a provider gives no version, arrival is the last resort.
            let others = loaded.warnings.iter().filter(|warning| !warning.message.starts_with("received_at"));
            assert_eq!(others.count(), 0, "{file}: {:?}", loaded.warnings);
            assert_eq!(loaded.config.sources[0].preset.as_deref(), Some(preset.name), "{file}");
        }
    }
}

/// A text in which every kind of table stands, with a hole for one more line of it.
fn around(title: &str, line: &str) -> String {
    let source = "[sources.x]\nverify = { scheme = 'none' }\nid = '/id'\ntype = '/t'\n";
    let projection = "[[sources.x.projections]]\non = 'a'\nentity = 'e'\nkey = '/k'\nversion = '/v'\n";
    let without = |text: &str, key: &str| -> String {
        text.lines().filter(|l| !l.starts_with(&format!("{key} ="))).map(|l| format!("{l}\n")).collect()
    };
    let key = line.split(' ').next().unwrap();
    let keyed = "[sources.x]\nsecrets = ['0123456789abcdef']\n";
    match title {
        "the top of the file" => line.to_owned(),
        "[sources.X]" => without(source, key) + line,
        "`id` of a source" => format!("[sources.x]\nverify = {{ scheme = 'none' }}\nid = {{ {line} }}"),
        "a part of `id` or `key`, or `type`" => {
            format!("[sources.x]\nverify = {{ scheme = 'none' }}\nid = [{{ {line} }}]")
        }
        "[sources.X.handshake]" => {
            let kind = if key == "kind" { "" } else { "kind = 'meta'\n" };
            format!("{source}[sources.x.handshake]\n{kind}{line}")
        }
        "[sources.X.respond]" => format!("{source}[sources.x.respond]\n{line}"),
        "[sources.X.verify]" => {
            let scheme = match key {
                "scheme" => "",
                "headers" => "scheme = 'standard-webhooks'\n",
                "topics" => "scheme = 'sns'\n",
                "in" => "scheme = 'token'\n",
                "name" => "scheme = 'token'\nin = 'query'\n",
                "header" => "scheme = 'hmac'\n",
                "signed" => "scheme = 'hmac'\nheader = 's'\n",
                "timestamp_header" => "scheme = 'hmac'\nheader = 's'\nsigned = '{timestamp}{body}'\n",
                _ => "scheme = 'hmac'\nheader = 's'\nsigned = '{timestamp}{body}'\ntimestamp_header = 't'\n",
            };
            format!("{keyed}[sources.x.verify]\n{scheme}{line}")
        }
        "[[sources.X.projections]]" => source.to_owned() + &without(projection, key) + line,
        "an element of `version`" => {
            format!("{source}{}version = [{{ {line} }}]", without(projection, "version"))
        }
        "`rank`" => format!("{source}{projection}rank = {{ {line} }}"),
        "a field of `state`" => format!("{source}{projection}state = {{ f = {{ {line} }} }}"),
        "[[admin.tokens]]" => format!("[[admin.tokens]]\n{line}"),
        section => format!("{section}\n{line}"),
    }
}

/// No key takes a date-time: one that says nothing about it is a key that is known and not read.
#[test]
fn every_key_is_read() {
    for schema in SCHEMAS {
        for key in schema.keys {
            let text = around(schema.title, &format!("{key} = 2020-01-01"));
            let found = problems(&text);
            let read = found.iter().any(|p| p.path.ends_with(key) && p.message == "is a date-time");
            assert!(read, "{} {key}\n{text}\n{found:#?}", schema.title);
        }
    }
}
