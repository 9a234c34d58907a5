//! What the table contains, for status reports.

use super::WriteIdTable;
use super::piece::{Piece, Run};
use super::status_word::ABORTED;
use crate::sync::atomic::Ordering;
use std::cell::Cell;
use teak_base::WriteId;

/// What the table of write ids contains.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteIdCounts {
    /// Number of ids from the settled watermark on.
    pub unsettled: u64,
    /// The settled watermark.
    pub settled_below: WriteId,
    /// Chunks of ids that have a slot each.
    pub whole_chunks: u64,
    /// Pieces that do not store a slot for each id.
    pub pieces: u64,
    /// Aborted ids that some index may contain.
    pub aborted: u64,
    /// Ranges of these ids, see [`WriteIdTable::aborted_ranges`].
    pub aborted_ranges: u64,
    /// Memory in bytes.
    pub bytes: u64,
}

impl WriteIdTable {
    /// What the table contains.
    #[must_use]
    pub fn counts(&self) -> WriteIdCounts {
        let settled_below = self.settled_below();
        let next = self.next();
        let directory = self.directory.load();
        let mut counts = WriteIdCounts {
            unsettled: next.0.saturating_sub(settled_below.0),
            settled_below,
            whole_chunks: directory.chunks.len() as u64,
            bytes: self.memory_bytes(),
            aborted_ranges: self.aborted_ranges(),
            ..WriteIdCounts::default()
        };
        for entry in directory.pieces.iter() {
            match entry.piece {
                Piece::Whole(_) => counts.whole_chunks += 1,
                Piece::Uniform(_) | Piece::Packed(_) => counts.pieces += 1,
            }
        }
        directory.runs(0, next.0, &mut |run| {
            if run.word == ABORTED {
                counts.aborted += run.end - run.first;
            }
            true
        });
        counts
    }

    /// Memory of the table, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let directory = self.directory.load();
        let chunks = directory.chunks.iter();
        let chunks = chunks.map(|chunk| size_of_val(&**chunk) as u64);
        directory.totals.bytes + chunks.sum::<u64>()
    }

    /// Ranges of aborted ids, without those in the parts of the table that store ids one by one:
    /// the newest ids, and older parts in which statuses change too often for ranges.
    #[must_use]
    pub fn aborted_ranges(&self) -> u64 {
        self.directory.load().totals.aborted_ranges
    }

    /// Number of ranges of ids that were aborted since the table was created.
    #[must_use]
    pub fn ranges_aborted(&self) -> u64 {
        self.aborted.load(Ordering::Relaxed)
    }

    /// Whether aborted ids below the decided watermark are registered.
    #[must_use]
    pub fn has_aborted(&self) -> bool {
        self.newest_aborted().is_some()
    }

    /// The newest aborted id below the decided watermark.
    #[must_use]
    pub fn newest_aborted(&self) -> Option<WriteId> {
        let decided = self.decided_below().0;
        let directory = self.directory.load();
        let newest = Cell::new(None);
        let mut note = |run: Run| {
            if run.word == ABORTED {
                newest.set(Some(run.range().last()));
            }
            true
        };
        directory.runs(directory.chunks_from(), decided, &mut note);
        let mut end = decided.min(directory.chunks_from());
        for entry in directory.pieces.iter().rev() {
            if newest.get().is_some() {
                break;
            }
            if entry.first < end && entry.piece.has_aborted() {
                directory.runs(entry.first, end, &mut note);
            }
            end = end.min(entry.first);
        }
        newest.get()
    }
}
