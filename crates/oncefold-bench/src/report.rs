//! Ratios with their targets: a table for people, JSON for programs.

use crate::deployment::Side;
use crate::stats::Spread;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What a ratio has to be (performance.md).
#[derive(Clone, Copy, Debug)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }

    fn show(self) -> String {
        match self {
            Self::AtLeast(bound) => format!(">= {bound}"),
            Self::AtMost(bound) => format!("<= {bound}"),
        }
    }
}

/// One measure: runs of ours and of theirs, in pairs; without theirs the values themselves have the target.
#[derive(Clone, Debug)]
pub struct Measure {
    pub id: &'static str,
    pub what: &'static str,
    pub unit: &'static str,
    pub ours: Vec<f64>,
    pub theirs: Vec<f64>,
    /// None: for information.
    pub target: Option<Target>,
}

impl Measure {
    /// One that has no runs yet.
    pub const fn of(id: &'static str, what: &'static str, unit: &'static str, target: Option<Target>) -> Self {
        Self { id, what, unit, ours: vec![], theirs: vec![], target }
    }

    /// Whether anything was measured.
    pub fn has_runs(&self) -> bool {
        !self.ours.is_empty()
    }

    /// Adds a run.
    pub fn add(&mut self, side: Side, value: f64) {
        match side {
            Side::Product => self.ours.push(value),
            Side::Ceiling => self.theirs.push(value),
        }
    }

    /// The ratio of each pair, or the values.
    fn ratios(&self) -> Vec<f64> {
        if self.theirs.is_empty() {
            return self.ours.clone();
        }
        self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect()
    }

    fn verdict(&self) -> &'static str {
        match (self.target, Spread::of(&self.ratios())) {
            (Some(target), Some(ratio)) if target.is_met(ratio.median) => "met",
            (Some(_), _) => "missed",
            (None, _) => "",
        }
    }

    fn cells(&self) -> [String; 7] {
        let ratio = if self.theirs.is_empty() { String::new() } else { spread(&self.ratios(), 2) };
        let decimals = if self.unit.ends_with("/s") { 0 } else { 2 };
        [
            self.id.to_owned(),
            format!("{} [{}]", self.what, self.unit),
            spread(&self.ours, decimals),
            spread(&self.theirs, decimals),
            ratio,
            self.target.map_or(String::new(), Target::show),
            self.verdict().to_owned(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "id": self.id, "what": self.what, "unit": self.unit, "ours": self.ours, "theirs": self.theirs,
            "ratios": self.ratios(), "median": Spread::of(&self.ratios()).map(|s| s.median),
            "target": self.target.map(Target::show), "verdict": self.verdict(),
        })
    }
}

fn spread(values: &[f64], decimals: usize) -> String {
    match Spread::of(values) {
        None => String::new(),
        Some(s) if s.min == s.max => format!("{:.decimals$}", s.median),
        Some(s) => format!("{:.decimals$} ({:.decimals$}-{:.decimals$})", s.median, s.min, s.max),
    }
}

const HEAD: [&str; 7] = ["#", "measure", "Oncefold", "against", "ratio", "target", ""];

/// The table, in Markdown.
pub fn table(measures: &[Measure]) -> String {
    let rows: Vec<[String; 7]> = measures.iter().map(Measure::cells).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).chain([HEAD[column].len()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &[String; 7]| {
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(text, "| {cell:<width$} ");
        }
        text.push_str("|\n");
    };
    line(&HEAD.map(str::to_owned));
    let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    line(&std::array::from_fn(|column| dashes[column].clone()));
    rows.iter().for_each(line);
    text
}

/// Everything, for programs.
pub fn json(machine: &Value, measures: &[Measure]) -> Value {
    json!({"machine": machine, "measures": measures.iter().map(Measure::json).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_the_median_of_pairs() {
        let target = Some(Target::AtLeast(0.9));
        let (ours, theirs) = (vec![90.0, 40.0, 95.0], vec![100.0, 50.0, 100.0]);
        let measure = Measure { id: "R1", what: "acked", unit: "events/s", ours, theirs, target };
        assert_eq!(measure.ratios(), [0.9, 0.8, 0.95]);
        assert_eq!(measure.verdict(), "met");
        assert_eq!(Measure { target: Some(Target::AtMost(0.85)), ..measure.clone() }.verdict(), "missed");
        let table = table(&[measure]);
        assert!(table.contains("0.90 (0.80-0.95)") && table.contains(">= 0.9"), "{table}");
    }

    #[test]
    fn values_without_a_pair_have_the_target_themselves() {
        let (ours, theirs) = (vec![70.0, 90.0, 75.0], vec![]);
        let measure =
            Measure { id: "R10", what: "memory", unit: "MiB", ours, theirs, target: Some(Target::AtMost(80.0)) };
        assert_eq!(measure.verdict(), "met");
    }
}
