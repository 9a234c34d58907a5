//! The choice of the runs that a consolidation merges.

use std::ops::Range;

/// The positions of the adjacent runs whose merge removes many runs for few bytes: those with the
/// fewest bytes per cube of the number of runs removed. The exponent was chosen by simulation. With
/// a smaller exponent, a few small runs are merged too often; with a larger one, large runs are
/// merged with small ones.
///
/// So the runs of a child form a few groups of similar size, and an entry is rewritten once for
/// each group, not in every consolidation.
pub(super) fn cheapest_runs(sizes: &[u64]) -> Range<usize> {
    let mut best = (0..sizes.len().min(1), u128::MAX, 1);
    for start in 0..sizes.len() {
        let mut bytes = 0;
        for (removed, size) in sizes.iter().skip(start).enumerate() {
            bytes += u128::from(*size);
            let gain = (removed as u128).pow(3);
            // `bytes / gain` is less than the best.
            if removed > 0 && bytes.saturating_mul(best.2) < best.1.saturating_mul(gain) {
                best = (start..start + removed + 1, bytes, gain);
            }
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_neighbours_are_merged() {
        assert_eq!(cheapest_runs(&[1, 1, 1, 1]), 0..4);
        assert_eq!(cheapest_runs(&[1, 1, 1, 90]), 0..3);
        assert_eq!(cheapest_runs(&[10, 1, 1, 1, 300]), 1..4);
        assert_eq!(cheapest_runs(&[1, 9]), 0..2);
        assert_eq!(cheapest_runs(&[7]), 0..1);
        assert_eq!(cheapest_runs(&[]), 0..0);
    }

    /// Bytes rewritten while runs of one byte arrive until they are `total`.
    fn rewritten(total: u64, runs_max: usize) -> u64 {
        let mut runs: Vec<u64> = Vec::new();
        let mut rewritten = 0;
        for _ in 0..total {
            runs.insert(0, 1);
            if runs.len() >= runs_max {
                let merged = cheapest_runs(&runs);
                let sum: u64 = runs.get(merged.clone()).unwrap_or_default().iter().sum();
                rewritten += sum;
                runs.splice(merged, [sum]);
            }
            assert!(runs.len() < runs_max);
        }
        rewritten
    }

    #[test]
    fn an_entry_is_rewritten_a_logarithmic_number_of_times() {
        for (total, times) in [(40, 2), (320, 4), (3200, 7)] {
            let rewritten = rewritten(total, 8);
            assert!(rewritten <= times * total, "{rewritten} of {total}");
        }
    }
}
