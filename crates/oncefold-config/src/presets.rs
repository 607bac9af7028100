//! Presets: shipped settings of known providers, as TOML that can be pasted.

use crate::reader::Node;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The shipped settings of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name in `preset = "…"`.
    pub name: &'static str,
    /// Whom it is for, in a line.
    pub about: &'static str,
    /// A `[sources.NAME]` table, to be shown and pasted.
    pub text: &'static str,
}

/// A preset whose text is the file of its name.
macro_rules! shipped {
    ($name:literal, $about:literal) => {
        Preset { name: $name, about: $about, text: include_str!(concat!("../presets/", $name, ".toml")) }
    };
}

const PRESETS: [Preset; 27] = [
    shipped!("adyen", "Adyen standard notifications, JSON"),
    shipped!("adyen-platform", "Adyen platforms: balance platform, management"),
    shipped!("bigcommerce", "BigCommerce"),
    shipped!("discord", "Discord interactions and webhook events"),
    shipped!("dropbox", "Dropbox"),
    shipped!("github", "GitHub repositories, organizations and apps"),
    shipped!("hubspot", "HubSpot, signature version 3"),
    shipped!("intercom", "Intercom"),
    shipped!("linear", "Linear"),
    shipped!("meta", "Meta: Facebook, Instagram, WhatsApp"),
    shipped!("mollie", "Mollie, next-gen webhooks"),
    shipped!("paddle", "Paddle Billing"),
    shipped!("paypal", "PayPal"),
    shipped!("shopify", "Shopify apps and shops, webhooks and events"),
    shipped!("slack", "Slack events"),
    shipped!("sns", "Amazon SNS over HTTP(S)"),
    shipped!("square", "Square"),
    shipped!("standard-webhooks", "senders that follow standardwebhooks.com (webhook-* headers)"),
    shipped!("storekit", "storekit.com, sent by Svix"),
    shipped!("stripe", "Stripe, snapshot and thin events"),
    shipped!("svix", "anything sent through Svix (svix-* or webhook-* headers)"),
    shipped!("twilio", "Twilio, auth tokens and shared keys"),
    shipped!("woocommerce", "WooCommerce shops"),
    shipped!("xero", "Xero accounting"),
    shipped!("zendesk", "Zendesk event webhooks"),
    shipped!("zonos", "Zonos"),
    shipped!("zoom", "Zoom"),
];

/// Every preset, by name.
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// The preset of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name)
}

/// The preset that a source names; nothing, and a problem, where there is none of that name.
pub(crate) fn named(node: &Node<'_>) -> Option<&'static Preset> {
    let choices = PRESETS.each_ref().map(|p| (p.name, p.name));
    node.choice(&choices).and_then(preset)
}

/// What is an example for pasting: nobody else has this URL.
const EXAMPLE: &str = "url";
/// Likewise in `handshake`.
const EXAMPLE_TOKEN: &str = "verify_token";

/// What the user wrote, and beside it what the preset says; all of the preset stands where it is named. Tables are
/// taken together key by key, `projections` one after the other; a scheme of the user's own drops the preset's.
/// (Its `secrets` are an example for pasting: a source's are read from what the user wrote.)
pub(crate) fn merged<'a>(own: &DeTable<'a>, preset: &Preset, named: &Node<'a>) -> DeTable<'a> {
    let mut merged = own.clone();
    let at = named.place.offset.unwrap_or(0);
    for (key, mut value) in shipped(preset) {
        let key = key.into_inner();
        if key == EXAMPLE {
            continue;
        }
        stand_at(&mut value, at);
        if let DeValue::Table(table) = value.get_mut() {
            table.remove(EXAMPLE_TOKEN);
        }
        let Some(existing) = merged.get_mut(key.as_ref()) else {
            merged.insert(Spanned::new(at..at, key), value);
            continue;
        };
        match (existing.get_mut(), value.into_inner()) {
            (DeValue::Table(own), DeValue::Table(shipped)) if key != "id" && key != "type" => beside(own, shipped, at),
            (DeValue::Array(own), DeValue::Array(shipped)) if key == "projections" => {
                shipped.into_iter().for_each(|projection| own.push(projection));
            }
            _ => {}
        }
    }
    merged
}

fn beside<'a>(own: &mut DeTable<'a>, shipped: DeTable<'a>, at: usize) {
    let scheme = |table: &DeTable<'_>| table.get("scheme").and_then(|v| v.get_ref().as_str().map(str::to_owned));
    if scheme(own).is_some_and(|own| Some(own) != scheme(&shipped)) {
        return;
    }
    for (key, value) in shipped {
        if !own.contains_key(key.get_ref().as_ref()) {
            own.insert(Spanned::new(at..at, key.into_inner()), value);
        }
    }
}

/// The members of the one source of a preset's text.
fn shipped(preset: &Preset) -> DeTable<'static> {
    let parsed = DeTable::parse(preset.text).map(Spanned::into_inner).unwrap_or_default();
    let sources = parsed.into_iter().next().map(|(_, sources)| sources.into_inner());
    let Some(DeValue::Table(sources)) = sources else { return DeTable::default() };
    match sources.into_iter().next().map(|(_, source)| source.into_inner()) {
        Some(DeValue::Table(source)) => source,
        _ => DeTable::default(),
    }
}

/// Says of a value, and of everything in it, that it stands there.
fn stand_at(value: &mut Spanned<DeValue<'_>>, at: usize) {
    match value.get_mut() {
        DeValue::Table(table) => {
            let members = std::mem::take(table);
            for (key, mut member) in members {
                stand_at(&mut member, at);
                table.insert(Spanned::new(at..at, key.into_inner()), member);
            }
        }
        DeValue::Array(items) => items.iter_mut().for_each(|item| stand_at(item, at)),
        _ => {}
    }
    let inner = std::mem::replace(value.get_mut(), DeValue::Boolean(false));
    *value = Spanned::new(at..at, inner);
}
