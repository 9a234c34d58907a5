//! The write ids of a transaction that are in several log records.

use std::collections::HashMap;
use teak_base::bytes::Malformed;
use teak_base::{Lsn, WriteId, WriteIdRange, WriteIdRanges};
use teak_write_ahead_log::{IdParts, WriteIds};

/// The `MoreWriteIds` records read so far that belong to a record not yet read.
pub(super) struct FoundParts {
    replay_from: Lsn,
    /// For each owner, the log positions and the ids of its parts.
    by_owner: HashMap<WriteId, Vec<(Lsn, Vec<WriteIdRange>)>>,
}

impl FoundParts {
    /// `replay_from`: no record before this position is read.
    pub(super) fn new(replay_from: Lsn) -> Self {
        Self {
            replay_from,
            by_owner: HashMap::new(),
        }
    }

    pub(super) fn add(&mut self, lsn: Lsn, owner: WriteId, ids: &WriteIds<'_>) {
        let found = self.by_owner.entry(owner).or_default();
        found.push((lsn, ids.ranges().collect()));
    }

    /// The ids of a record with its parts. `None` if the first part is before the
    /// records that are read.
    pub(super) fn take(
        &mut self,
        parts: IdParts,
        own: &WriteIds<'_>,
    ) -> Result<Option<WriteIdRanges>, Malformed> {
        let mut ranges: Vec<WriteIdRange> = own.ranges().collect();
        let owner = ranges.first().map(|range| range.first);
        let found = owner.and_then(|owner| self.by_owner.remove(&owner));
        if parts.count > 0 {
            if parts.first < self.replay_from {
                return Ok(None);
            }
            // Earlier parts belong to a record that was not appended.
            let mut found = found.unwrap_or_default();
            found.retain(|(lsn, _)| *lsn >= parts.first);
            if found.len() as u64 != parts.count {
                return Err(Malformed);
            }
            ranges.extend(found.into_iter().flat_map(|(_, ids)| ids));
        }
        let ascend = |pair: &[WriteIdRange]| matches!(pair, [a, b] if a.end() <= b.first);
        if !ranges.windows(2).all(ascend) {
            return Err(Malformed);
        }
        Ok(Some(ranges.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ids: &[u64]) -> WriteIdRanges {
        ids.iter().copied().map(WriteId).collect()
    }

    fn parts(count: u64, first: u64) -> IdParts {
        IdParts {
            count,
            first: Lsn(first),
        }
    }

    #[test]
    fn parts_count_only_with_their_record() {
        let mut found = FoundParts::new(Lsn(100));
        // A part of a record that was not appended.
        found.add(Lsn(100), WriteId(3), &(&list(&[9])).into());
        found.add(Lsn(200), WriteId(3), &(&list(&[7])).into());
        found.add(Lsn(210), WriteId(4), &(&list(&[6])).into());
        found.add(Lsn(220), WriteId(3), &(&list(&[9, 10])).into());
        let own = list(&[3, 5]);
        let taken = found.take(parts(2, 200), &(&own).into());
        assert_eq!(taken, Ok(Some(list(&[3, 5, 7, 9, 10]))));
        assert_eq!(found.take(parts(2, 200), &(&own).into()), Err(Malformed));
        let own = list(&[4]);
        assert_eq!(
            found.take(parts(1, 210), &(&own).into()),
            Ok(Some(list(&[4, 6])))
        );
    }

    #[test]
    fn a_record_whose_parts_are_before_the_replay_is_ignored() {
        let mut found = FoundParts::new(Lsn(100));
        found.add(Lsn(110), WriteId(3), &(&list(&[7])).into());
        let own = list(&[3]);
        assert_eq!(found.take(parts(2, 90), &(&own).into()), Ok(None));
        assert_eq!(
            found.take(IdParts::default(), &(&own).into()),
            Ok(Some(own))
        );
    }
}
