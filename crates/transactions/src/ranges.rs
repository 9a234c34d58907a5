//! Disjoint ranges of keys: what one owner holds of one index.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Bytes that a range costs besides its keys.
pub(crate) const RANGE_BYTES: usize = 96;

pub(crate) fn bytes_of(low: &[u8], high: Option<&[u8]>) -> usize {
    RANGE_BYTES + low.len() + high.map_or(0, <[u8]>::len)
}

/// Disjoint ranges by first key; the value is the first key behind, `None` when
/// the range has no end.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    pub(crate) by_low: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    pub(crate) bytes: usize,
}

impl Ranges {
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let before = self.by_low.range::<[u8], _>(up_to).next_back();
        before.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }

    /// Adds a range, joining what it overlaps or touches.
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
            self.bytes -= bytes_of(key, next_end.as_deref());
            end = later_end(end, next_end.clone());
            let key = key.clone();
            self.by_low.remove(&key);
        }
        self.bytes += bytes_of(&start, end.as_deref());
        self.by_low.insert(start, end);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_low.is_empty()
    }

    /// Whether any of them holds a key of `low <= key < high`.
    pub(crate) fn overlaps(&self, low: &[u8], high: &[u8]) -> bool {
        let up_to = (Bound::Unbounded, Bound::Excluded(high));
        let last = self.by_low.range::<[u8], _>(up_to).next_back();
        last.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| low < end))
    }

    /// Makes one range of all. False when they are one already.
    pub(crate) fn join(&mut self) -> bool {
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
        self.bytes = bytes_of(&low, high.as_deref());
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
