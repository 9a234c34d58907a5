//! Ascending write ids, stored as ranges of consecutive ids, and their encoding.
//!
//! A list is encoded as a varint count of ranges, and for each range two varints:
//! the distance from the end of the previous range (for the first range: from
//! zero), and the number of ids minus one. The distance is never zero: zero is not
//! a valid id, and adjacent ranges are joined.

use crate::bytes::{Malformed, Put, Take};
use crate::ids::WriteId;
use std::fmt;

/// Consecutive write ids, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteIdRange {
    /// The first id.
    pub first: WriteId,
    /// The number of ids.
    pub count: u64,
}

impl WriteIdRange {
    /// The range of one id.
    #[must_use]
    pub fn one(id: WriteId) -> Self {
        Self {
            first: id,
            count: 1,
        }
    }

    /// The first id after the range.
    #[must_use]
    pub fn end(self) -> WriteId {
        WriteId(self.first.0.saturating_add(self.count))
    }

    /// The last id of the range.
    #[must_use]
    pub fn last(self) -> WriteId {
        WriteId(self.end().0.saturating_sub(1))
    }

    /// The ids in order.
    pub fn ids(self) -> impl Iterator<Item = WriteId> {
        (self.first.0..self.end().0).map(WriteId)
    }

    /// Appends the encoding of the range. The previous range ended at `before`.
    fn put(self, before: WriteId, out: &mut Vec<u8>) {
        out.put_varint(self.first.0.wrapping_sub(before.0));
        out.put_varint(self.count.wrapping_sub(1));
    }

    /// Takes a range. The previous range ended at `before`.
    fn take(before: WriteId, take: &mut Take<'_>) -> Result<Self, Malformed> {
        let distance = take.varint()?;
        let count = take.varint()?.checked_add(1).ok_or(Malformed)?;
        let first = before.0.checked_add(distance).ok_or(Malformed)?;
        if distance == 0 || first.checked_add(count).is_none() {
            return Err(Malformed);
        }
        Ok(Self {
            first: WriteId(first),
            count,
        })
    }
}

impl fmt::Display for WriteIdRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "{}", self.first),
            _ => write!(f, "{}-{}", self.first, self.last()),
        }
    }
}

/// Appends the encoding of ranges that ascend and are not adjacent.
pub fn put_write_id_ranges(out: &mut Vec<u8>, ranges: &[WriteIdRange]) {
    out.put_varint(ranges.len() as u64);
    let mut before = WriteId(0);
    for range in ranges {
        range.put(before, out);
        before = range.end();
    }
}

/// Encoded ranges, read one by one.
#[derive(Clone, Copy, Debug)]
pub struct EncodedRanges<'a> {
    count: usize,
    before: WriteId,
    bytes: Take<'a>,
}

impl<'a> EncodedRanges<'a> {
    /// Takes the encoding of a list from the front, and checks all of it.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes do not begin with such an encoding.
    pub fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
        // A range takes at least two bytes, so the number of remaining bytes limits the count.
        let count = take.length(take.rest().len() / 2)?;
        let list = Self {
            count,
            before: WriteId(0),
            bytes: *take,
        };
        let mut before = WriteId(0);
        for _ in 0..count {
            before = WriteIdRange::take(before, take)?.end();
        }
        Ok(list)
    }
}

impl Iterator for EncodedRanges<'_> {
    type Item = WriteIdRange;

    fn next(&mut self) -> Option<WriteIdRange> {
        self.count = self.count.checked_sub(1)?;
        let range = WriteIdRange::take(self.before, &mut self.bytes).ok()?;
        self.before = range.end();
        Some(range)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for EncodedRanges<'_> {}

/// Ascending write ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteIdRanges {
    ranges: Vec<WriteIdRange>,
    ids: u64,
}

impl WriteIdRanges {
    /// The number of ids.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ids
    }

    /// Whether there is no id.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids == 0
    }

    /// The ranges. They ascend and are not adjacent.
    #[must_use]
    pub fn ranges(&self) -> &[WriteIdRange] {
        &self.ranges
    }

    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = WriteId> {
        self.ranges.iter().flat_map(|range| range.ids())
    }

    /// The first id.
    #[must_use]
    pub fn first(&self) -> Option<WriteId> {
        self.ranges.first().map(|range| range.first)
    }

    /// The last id.
    #[must_use]
    pub fn last(&self) -> Option<WriteId> {
        self.ranges.last().map(|range| range.last())
    }

    /// Whether `id` is in the list.
    #[must_use]
    pub fn contains(&self, id: WriteId) -> bool {
        let after = self.ranges.partition_point(|range| range.first <= id);
        let range = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        range.is_some_and(|range| id < range.end())
    }

    /// Whether an id from `min` to `max`, both included, is in the list.
    #[must_use]
    pub fn intersects(&self, min: WriteId, max: WriteId) -> bool {
        let at = self.ranges.partition_point(|range| range.end() <= min);
        self.ranges.get(at).is_some_and(|range| range.first <= max)
    }

    /// Appends an id.
    ///
    /// # Panics
    /// When the id is not greater than all ids of the list.
    pub fn push(&mut self, id: WriteId) {
        self.push_range(WriteIdRange::one(id));
    }

    /// Appends a range of ids. Ignores an empty range.
    ///
    /// # Panics
    /// When the ids are not greater than all ids of the list.
    pub fn push_range(&mut self, range: WriteIdRange) {
        if range.count == 0 {
            return;
        }
        self.ids += range.count;
        match self.ranges.last_mut() {
            Some(last) => {
                assert!(last.end() <= range.first, "write ids ascend");
                if last.end() == range.first {
                    last.count += range.count;
                } else {
                    self.ranges.push(range);
                }
            }
            None => self.ranges.push(range),
        }
    }

    /// The union of ranges, which may overlap and be in any order.
    #[must_use]
    pub fn union(mut ranges: Vec<WriteIdRange>) -> Self {
        ranges.sort_by_key(|range| range.first);
        let mut union = Self::default();
        for range in ranges {
            let first = union.last().map_or(range.first, |last| {
                range.first.max(WriteId(last.0.saturating_add(1)))
            });
            union.push_range(WriteIdRange {
                first,
                count: range.end().0.saturating_sub(first.0),
            });
        }
        union
    }

    /// Removes all ids except the first `keep`, and returns the removed ids.
    pub fn split_off(&mut self, keep: u64) -> Self {
        let mut removed = Vec::new();
        let mut excess = self.ids.saturating_sub(keep);
        self.ids -= excess;
        let ids = excess;
        while excess > 0 {
            let Some(last) = self.ranges.last_mut() else {
                break;
            };
            if last.count > excess {
                last.count -= excess;
                removed.push(WriteIdRange {
                    first: last.end(),
                    count: excess,
                });
                break;
            }
            excess -= last.count;
            removed.extend(self.ranges.pop());
        }
        removed.reverse();
        Self {
            ranges: removed,
            ids,
        }
    }
}

impl FromIterator<WriteIdRange> for WriteIdRanges {
    fn from_iter<T: IntoIterator<Item = WriteIdRange>>(ranges: T) -> Self {
        let mut list = Self::default();
        for range in ranges {
            list.push_range(range);
        }
        list
    }
}

impl FromIterator<WriteId> for WriteIdRanges {
    fn from_iter<T: IntoIterator<Item = WriteId>>(ids: T) -> Self {
        ids.into_iter().map(WriteIdRange::one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn list_of(ids: &BTreeSet<u64>) -> WriteIdRanges {
        ids.iter().copied().map(WriteId).collect()
    }

    #[test]
    fn consecutive_ids_take_one_range() {
        let list: WriteIdRanges = (1..=20_000_000).map(WriteId).collect();
        assert_eq!(list.ranges().len(), 1);
        assert_eq!(list.len(), 20_000_000);
        let mut bytes = Vec::new();
        put_write_id_ranges(&mut bytes, list.ranges());
        assert!(bytes.len() <= 6);
    }

    #[test]
    fn adjacent_ranges_and_id_zero_are_malformed() {
        for bytes in [&[1, 0, 0][..], &[2, 5, 0, 0, 0], &[1, 5], &[9]] {
            assert!(EncodedRanges::take(&mut Take::new(bytes)).is_err());
        }
        let mut beyond = Vec::new();
        beyond.put_varint(1);
        beyond.put_varint(5);
        beyond.put_varint(u64::MAX);
        assert!(EncodedRanges::take(&mut Take::new(&beyond)).is_err());
    }

    proptest! {
        #[test]
        fn lists_round_trip_and_split(ids: BTreeSet<u16>, keep in 0usize..300) {
            let ids: BTreeSet<u64> = ids.into_iter().map(|id| u64::from(id) + 1).collect();
            let mut list = list_of(&ids);
            let mut bytes = Vec::new();
            put_write_id_ranges(&mut bytes, list.ranges());
            let mut take = Take::new(&bytes);
            let decoded: WriteIdRanges = EncodedRanges::take(&mut take).unwrap().collect();
            prop_assert!(take.is_empty());
            prop_assert_eq!(&decoded, &list);
            prop_assert_eq!(list.len(), ids.len() as u64);
            prop_assert_eq!(list.iter().map(|id| id.0).collect::<BTreeSet<u64>>(), ids.clone());
            for id in 0..300 {
                prop_assert_eq!(list.contains(WriteId(id)), ids.contains(&id));
            }
            let removed = list.split_off(keep as u64);
            let kept: BTreeSet<u64> = ids.iter().copied().take(keep).collect();
            let rest: BTreeSet<u64> = ids.iter().copied().skip(keep).collect();
            prop_assert_eq!(list, list_of(&kept));
            prop_assert_eq!(removed, list_of(&rest));
        }

        #[test]
        fn decoder_never_panics_on_any_bytes(bytes: Vec<u8>) {
            if let Ok(list) = EncodedRanges::take(&mut Take::new(&bytes)) {
                let ranges: Vec<_> = list.collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end() < pair[1].first));
            }
        }
    }
}
