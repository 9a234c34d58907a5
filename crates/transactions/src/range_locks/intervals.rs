//! A set of disjoint key intervals: the range locks of one kind of a transaction in an index.
//! Intervals that overlap or touch are joined, so a scan of any length needs only one interval.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Memory of an interval without its keys, in bytes.
pub(crate) const INTERVAL_BYTES: usize = 96;

/// Memory of an interval, in bytes.
pub(crate) fn interval_bytes(low: &[u8], high: Option<&[u8]>) -> usize {
    INTERVAL_BYTES + low.len() + high.map_or(0, <[u8]>::len)
}

#[derive(Debug, Default)]
pub(crate) struct IntervalSet {
    /// The exclusive end of each interval by its first key; `None` for an
    /// interval without end.
    pub(crate) by_low: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    /// Memory of the intervals, in bytes.
    pub(crate) bytes: usize,
}

impl IntervalSet {
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let before = self.by_low.range::<[u8], _>(up_to).next_back();
        before.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }

    /// Adds an interval. Joins the intervals that it overlaps or touches.
    pub(crate) fn add(&mut self, low: &[u8], high: Option<&[u8]>) {
        let mut start: Box<[u8]> = low.into();
        let mut end: Option<Box<[u8]>> = high.map(Into::into);
        let up_to = (Bound::Unbounded, Bound::Included(low));
        if let Some((before, before_end)) = self.by_low.range::<[u8], _>(up_to).next_back()
            && before_end
                .as_deref()
                .is_none_or(|before_end| before_end >= low)
        {
            start.clone_from(before);
            end = later_end(end, before_end.clone());
        }
        loop {
            let next = self
                .by_low
                .range::<[u8], _>((Bound::Included(&*start), Bound::Unbounded))
                .next();
            let Some((key, next_end)) = next else {
                break;
            };
            if end.as_deref().is_some_and(|end| **key > *end) {
                break;
            }
            self.bytes -= interval_bytes(key, next_end.as_deref());
            end = later_end(end, next_end.clone());
            let key = key.clone();
            self.by_low.remove(&key);
        }
        self.bytes += interval_bytes(&start, end.as_deref());
        self.by_low.insert(start, end);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_low.is_empty()
    }

    /// Whether an interval contains a key of `low <= key < high`.
    pub(crate) fn overlaps(&self, low: &[u8], high: &[u8]) -> bool {
        let up_to = (Bound::Unbounded, Bound::Excluded(high));
        let last = self.by_low.range::<[u8], _>(up_to).next_back();
        last.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| low < end))
    }

    /// A key of `low <= key < high` that an interval contains.
    pub(crate) fn key_in<'a>(&'a self, low: &'a [u8], high: &[u8]) -> Option<&'a [u8]> {
        if self.covers(low) {
            return Some(low);
        }
        let after = (Bound::Included(low), Bound::Excluded(high));
        let next = self.by_low.range::<[u8], _>(after).next();
        next.map(|(start, _)| &**start)
    }

    /// Replaces all intervals by one from the first key to the last end. Returns false if there are
    /// fewer than two.
    pub(crate) fn merge_all(&mut self) -> bool {
        if self.by_low.len() < 2 {
            return false;
        }
        let high = match self.by_low.last_key_value() {
            Some((_, high)) => high.clone(),
            None => return false,
        };
        let Some((low, _)) = self.by_low.pop_first() else {
            return false;
        };
        self.bytes = interval_bytes(&low, high.as_deref());
        self.by_low.clear();
        self.by_low.insert(low, high);
        true
    }
}

fn later_end(a: Option<Box<[u8]>>, b: Option<Box<[u8]>>) -> Option<Box<[u8]>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        _ => None,
    }
}
