//! The list of the segment files of an open log.

use std::collections::VecDeque;
use teak_base::StorageResult;

/// The segment files, oldest first. There is always at least one.
#[derive(Debug)]
pub(crate) struct SegmentList {
    segments: VecDeque<SegmentEntry>,
}

#[derive(Clone, Copy, Debug)]
struct SegmentEntry {
    number: u64,
    /// Log position of the first batch.
    first_lsn: u64,
    bytes: u64,
}

/// Number and total size of the segment files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SegmentTotals {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl SegmentList {
    /// A list of older segments (number, first position, bytes).
    pub(crate) fn new(older: impl IntoIterator<Item = (u64, u64, u64)>) -> Self {
        let entries = older
            .into_iter()
            .map(|(number, first_lsn, bytes)| SegmentEntry {
                number,
                first_lsn,
                bytes,
            });
        Self {
            segments: entries.collect(),
        }
    }

    /// Adds a new segment; it becomes the current one.
    pub(crate) fn push(&mut self, number: u64, first_lsn: u64) {
        self.segments.push_back(SegmentEntry {
            number,
            first_lsn,
            bytes: 0,
        });
    }

    /// Sets the length of the current segment.
    pub(crate) fn set_current_bytes(&mut self, bytes: u64) {
        if let Some(current) = self.segments.back_mut() {
            current.bytes = bytes;
        }
    }

    /// Removes the segments that contain no record at or after `before`, except the current one.
    /// `remove` removes the file with a number.
    pub(crate) fn trim(
        &mut self,
        before: u64,
        mut remove: impl FnMut(u64) -> StorageResult<()>,
    ) -> StorageResult<()> {
        while let (Some(oldest), Some(next)) = (self.segments.front(), self.segments.get(1)) {
            if next.first_lsn > before {
                break;
            }
            remove(oldest.number)?;
            self.segments.pop_front();
        }
        Ok(())
    }

    pub(crate) fn totals(&self) -> SegmentTotals {
        let mut totals = SegmentTotals::default();
        for segment in &self.segments {
            totals.count += 1;
            totals.bytes += segment.bytes;
        }
        totals
    }
}
