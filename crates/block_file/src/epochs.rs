//! In which parts of a file blocks were published since which backup, so that an incremental backup
//! need not read the others.
//!
//! Backups of a data directory are numbered, and the *epoch* of a moment is the number of the last
//! cut plus one. A publication notes the epoch for the space of its blocks. Freed space keeps its
//! epoch until it is used again, and close ranges are joined under the higher epoch if there are
//! too many. So an epoch may be too high, which copies more than necessary, but never too low.
//!
//! Ranges of epoch zero are not noted: before the first backup the map is empty.

use crate::extents::Extent;
use crate::layout::{BLOCK_UNIT_BYTES, BLOCKS_START};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::bytes::{Malformed, Put, Take};

/// Ranges that a map has after it was reduced. Together they take some 100 KiB on disk.
const RANGES_REDUCED: usize = 16 << 10;
/// Ranges from which a map is reduced.
const RANGES_MAX: usize = 2 * RANGES_REDUCED;
/// Limit of offsets, so that sums do not overflow.
const OFFSET_MAX: u64 = 1 << 62;

/// The epochs of a data directory, shared by its files.
#[derive(Debug, Default)]
pub struct BackupEpochs {
    current: AtomicU64,
    oldest: AtomicU64,
}

impl BackupEpochs {
    /// The epoch that publications note now.
    #[must_use]
    pub fn current(&self) -> u64 {
        self.current.load(Ordering::SeqCst)
    }

    /// Begins the next epoch. Returns the number of the one that ends.
    pub fn advance(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst)
    }

    /// Sets the epoch, and the oldest one that can be the base of an increment.
    pub fn set(&self, current: u64, oldest: u64) {
        self.current.fetch_max(current, Ordering::SeqCst);
        self.oldest.store(oldest, Ordering::SeqCst);
    }
}

/// The epochs of ranges of a file, by offset: one past the last byte, and the epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpochMap {
    ranges: BTreeMap<u64, (u64, u64)>,
}

impl EpochMap {
    /// Notes the epoch of blocks that are published.
    pub fn note(&mut self, extent: Extent, epochs: &BackupEpochs) {
        let epoch = epochs.current();
        if epoch == 0 || extent.bytes == 0 {
            return;
        }
        self.set(extent, epoch);
        if self.ranges.len() > RANGES_MAX {
            self.forget(epochs);
            self.reduce(RANGES_REDUCED);
        }
    }

    /// Removes what no increment will need.
    pub fn forget(&mut self, epochs: &BackupEpochs) {
        let oldest = epochs.oldest.load(Ordering::SeqCst);
        self.ranges.retain(|_, (_, epoch)| *epoch > oldest);
    }

    fn set(&mut self, extent: Extent, epoch: u64) {
        let (mut start, mut end) = (extent.offset, extent.end());
        let before = self.ranges.range(..start).next_back();
        if let Some((&at, &(until, of))) = before
            && until >= start
        {
            if of == epoch {
                start = at;
                end = end.max(until);
            } else {
                self.ranges.insert(at, (start, of));
                if until > end {
                    self.ranges.insert(end, (until, of));
                }
            }
        }
        while let Some((&at, &(until, of))) = self.ranges.range(start..=end).next() {
            if of == epoch {
                end = end.max(until);
            } else if at == end {
                break;
            } else if until > end {
                self.ranges.insert(end, (until, of));
            }
            self.ranges.remove(&at);
        }
        self.ranges.insert(start, (end, epoch));
    }

    /// The highest epoch in a range.
    pub fn highest_in(&self, extent: Extent) -> u64 {
        let below = self.ranges.range(..extent.end()).rev();
        below
            .take_while(|(_, (until, _))| *until > extent.offset)
            .map(|(_, (_, epoch))| *epoch)
            .max()
            .unwrap_or(0)
    }

    /// Joins those ranges for which this makes the fewest bytes count as newer.
    fn reduce(&mut self, wanted: usize) {
        let excess = self.ranges.len().saturating_sub(wanted);
        let costs = || {
            let ranges = self.ranges.iter();
            ranges.clone().zip(ranges.skip(1)).map(|(one, next)| {
                let (&start, &(end, epoch)) = one;
                let (&next_start, &(next_end, next_epoch)) = next;
                let older = match epoch.cmp(&next_epoch) {
                    std::cmp::Ordering::Less => end - start,
                    std::cmp::Ordering::Equal => 0,
                    std::cmp::Ordering::Greater => next_end - next_start,
                };
                next_start - end + older
            })
        };
        let mut sorted: Vec<u64> = costs().collect();
        sorted.sort_unstable();
        let Some(&most) = excess.checked_sub(1).and_then(|at| sorted.get(at)) else {
            return;
        };
        let joins: Vec<bool> = costs().map(|cost| cost <= most).collect();
        let mut joined: Vec<(u64, (u64, u64))> = Vec::new();
        let joins_before = std::iter::once(false).chain(joins);
        for ((&start, &(end, epoch)), joins) in self.ranges.iter().zip(joins_before) {
            match joined.last_mut().filter(|_| joins) {
                Some((_, last)) => *last = (end, last.1.max(epoch)),
                None => joined.push((start, (end, epoch))),
            }
        }
        self.ranges = joined.into_iter().collect();
    }

    /// The encoded ranges, with their number; `None` if there are none.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut count = 0u32;
        let mut position = BLOCKS_START;
        for (&start, &(until, epoch)) in &self.ranges {
            out.put_varint((start - position) / BLOCK_UNIT_BYTES);
            out.put_varint((until - start) / BLOCK_UNIT_BYTES);
            out.put_varint(epoch);
            position = until;
            count += 1;
        }
        (count > 0).then(|| {
            let mut encoded = count.to_le_bytes().to_vec();
            encoded.append(&mut out);
            encoded
        })
    }

    /// Decodes what [`EpochMap::encode`] returned.
    pub fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let units = |count: u64| count.checked_mul(BLOCK_UNIT_BYTES).ok_or(Malformed);
        let count = take.u32()?;
        if count as usize > RANGES_MAX {
            return Err(Malformed);
        }
        let mut ranges = BTreeMap::new();
        let mut position = BLOCKS_START;
        for _ in 0..count {
            let start = position.checked_add(units(take.varint()?)?);
            let start = start.ok_or(Malformed)?;
            let end = start.checked_add(units(take.varint()?)?);
            let end = end.filter(|end| *end > start && *end < OFFSET_MAX);
            let end = end.ok_or(Malformed)?;
            let epoch = take.varint()?;
            if epoch == 0 {
                return Err(Malformed);
            }
            ranges.insert(start, (end, epoch));
            position = end;
        }
        Ok(Self { ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(unit: u64, units: u64) -> Extent {
        Extent {
            offset: BLOCKS_START + unit * BLOCK_UNIT_BYTES,
            bytes: units * BLOCK_UNIT_BYTES,
        }
    }

    #[test]
    fn nothing_is_noted_before_the_first_backup() {
        let epochs = BackupEpochs::default();
        let mut map = EpochMap::default();
        map.note(extent(0, 5), &epochs);
        assert_eq!(map.encode(), None);
        assert_eq!(epochs.advance(), 0);
        map.note(extent(0, 5), &epochs);
        assert_eq!(map.highest_in(extent(4, 1)), 1);
        epochs.set(1, 1);
        map.forget(&epochs);
        assert_eq!(map.highest_in(extent(4, 1)), 0);
    }

    #[test]
    fn the_example_is_written_and_read() {
        let page = include_str!("../../../docs/design/format.md");
        let section = page.split("\n### Example of epochs").nth(1).unwrap();
        let example = section.split("```hex\n").nth(1).unwrap();
        let lines = example.split("```").next().unwrap().lines();
        let bytes: Vec<u8> = lines
            .flat_map(|line| line.split('|').next().unwrap().split_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        let epochs = BackupEpochs::default();
        let mut map = EpochMap::default();
        epochs.advance();
        map.note(extent(2, 3), &epochs);
        epochs.advance();
        map.note(extent(5, 1), &epochs);
        assert_eq!(map.encode().unwrap(), bytes);
        let read = EpochMap::decode(&mut Take::new(&bytes)).unwrap();
        assert_eq!(read.ranges, map.ranges);
    }

    #[test]
    fn a_map_stays_small_and_no_epoch_decreases() {
        let epochs = BackupEpochs::default();
        let mut map = EpochMap::default();
        let mut highest = BTreeMap::new();
        for n in 0..200_000u64 {
            if n % 50_000 == 0 {
                epochs.advance();
            }
            let unit = n * 7_919 % 400_000 * 2;
            map.note(extent(unit, 1), &epochs);
            highest.insert(unit, epochs.current());
            assert!(map.ranges.len() <= RANGES_MAX);
        }
        for (unit, epoch) in highest {
            assert!(map.highest_in(extent(unit, 1)) >= epoch);
        }
        let encoded = map.encode().unwrap();
        assert!(encoded.len() < 500_000);
    }

    proptest! {
        #[test]
        fn a_map_agrees_with_epochs_of_units(
            steps in proptest::collection::vec((0u64..60, 1u64..12, 0u64..2), 0..60),
            wanted in 1usize..40,
        ) {
            let epochs = BackupEpochs::default();
            let mut map = EpochMap::default();
            let mut model = [0u64; 80];
            for (unit, units, advance) in steps {
                if advance == 1 {
                    epochs.advance();
                }
                map.note(extent(unit, units), &epochs);
                for at in unit..unit + units {
                    model[usize::try_from(at).unwrap()] = epochs.current();
                }
            }
            for (unit, epoch) in (0u64..).zip(&model) {
                prop_assert_eq!(map.highest_in(extent(unit, 1)), *epoch);
                let most = model.iter().skip(usize::try_from(unit).unwrap()).take(5).max();
                prop_assert_eq!(map.highest_in(extent(unit, 5)), *most.unwrap());
            }
            if let Some(encoded) = map.encode() {
                let mut take = Take::new(&encoded);
                let decoded = EpochMap::decode(&mut take).unwrap();
                prop_assert!(take.is_empty());
                prop_assert_eq!(&decoded.ranges, &map.ranges);
            }
            map.reduce(wanted);
            prop_assert!(map.ranges.len() <= wanted);
            for (unit, epoch) in (0u64..).zip(&model) {
                prop_assert!(map.highest_in(extent(unit, 1)) >= *epoch);
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>, count in 0u32..20) {
            let _ = EpochMap::decode(&mut Take::new(&bytes));
            let mut shaped = count.to_le_bytes().to_vec();
            shaped.extend(bytes);
            let _ = EpochMap::decode(&mut Take::new(&shaped));
        }
    }
}
