//! Medians, spreads, quantiles.

/// Median, lowest and highest of some runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Of these values; none of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Some(Self { median, min, max })
    }
}

/// The smallest value that a share `q` of them does not exceed (nearest rank); 0 of none. Sorts them.
pub fn quantile(values: &mut [u64], q: f64) -> u64 {
    values.sort_unstable();
    let rank = (q * values.len() as f64).ceil() as usize;
    values.get(rank.clamp(1, values.len().max(1)) - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_and_quantiles() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(&[]), None);
        let mut hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(
            (quantile(&mut hundred, 0.5), quantile(&mut hundred, 0.99), quantile(&mut hundred, 1.0)),
            (50, 99, 100)
        );
        assert_eq!(quantile(&mut [], 0.5), 0);
    }
}
