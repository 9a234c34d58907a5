//! The runs of a tree that waits for its base. They are all in one leaf, which can neither be
//! merged with data below nor split, so they are merged with each other.
//!
//! The cost of a lookup depends on the number of *layers*, not on that of the runs. A layer
//! consists of adjacent runs (in the order of age) whose key ranges do not overlap, such as the
//! output runs of one large merge. A layer has at most one run smaller than half the maximum size,
//! so the total size and the number of layers bound the number of runs.

use super::tier::cheapest_runs;
use crate::node::RunRef;
use std::ops::Range;

/// Runs, newest first, as layers.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// For each layer the position after its last run.
    ends: Vec<usize>,
    /// The size of each layer, as planning counts it.
    bytes: Vec<u64>,
}

/// The layer that is being built.
struct Open<'a> {
    lower: &'a [u8],
    /// `None`: no end.
    upper: Option<&'a [u8]>,
    has_small: bool,
}

impl<'a> Open<'a> {
    fn new(run: &'a RunRef, is_small: bool) -> Self {
        Self {
            lower: run.lower(),
            upper: run.upper(),
            has_small: is_small,
        }
    }

    /// Adds a run. Returns false if the run overlaps the layer, or both have a small run.
    fn add(&mut self, run: &'a RunRef, is_small: bool) -> bool {
        let is_after = self.upper.is_some_and(|upper| upper <= run.lower());
        let is_before = run.upper().is_some_and(|upper| upper <= self.lower);
        if (is_small && self.has_small) || !(is_after || is_before) {
            return false;
        }
        if is_after {
            self.upper = run.upper();
        } else {
            self.lower = run.lower();
        }
        self.has_small |= is_small;
        true
    }
}

impl Layers {
    pub(super) fn of(runs: &[RunRef], run_bytes_max: u64) -> Self {
        let mut layers = Self::default();
        let mut open: Option<Open<'_>> = None;
        for (position, run) in runs.iter().enumerate() {
            let bytes = run.merge_bytes();
            let is_small = bytes < run_bytes_max / 2;
            let is_added = open.as_mut().is_some_and(|open| open.add(run, is_small));
            if !is_added {
                open = Some(Open::new(run, is_small));
                layers.ends.push(position);
                layers.bytes.push(0);
            }
            if let (Some(end), Some(sum)) = (layers.ends.last_mut(), layers.bytes.last_mut()) {
                *end = position + 1;
                *sum += bytes;
            }
        }
        layers
    }

    pub(super) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The positions of the runs whose merge removes many layers for few bytes.
    pub(super) fn cheapest(&self) -> Range<usize> {
        let layers = cheapest_runs(&self.bytes);
        let end_of = |layer: Option<usize>| layer.and_then(|layer| self.ends.get(layer)).copied();
        let start = end_of(layers.start.checked_sub(1)).unwrap_or(0);
        start..end_of(layers.end.checked_sub(1)).unwrap_or(start)
    }
}
