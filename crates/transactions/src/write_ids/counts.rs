//! What the table contains, for status reports.

use super::WriteIdTable;
use super::piece::Piece;
use super::status_word::ABORTED;
use teak_base::WriteId;

/// What the table of write ids contains.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteIdCounts {
    /// Ids from the settled watermark on.
    pub unsettled: u64,
    /// The settled watermark.
    pub settled_below: WriteId,
    /// Chunks of ids that have a slot each.
    pub whole_chunks: u64,
    /// Pieces that replace chunks.
    pub pieces: u64,
    /// Aborted ids that some index may contain.
    pub aborted: u64,
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
            bytes: size_of_val(&*directory.pieces) as u64,
            ..WriteIdCounts::default()
        };
        for entry in directory.pieces.iter() {
            match entry.piece {
                Piece::Whole(_) => counts.whole_chunks += 1,
                Piece::Uniform(_) | Piece::Packed(_) => counts.pieces += 1,
            }
            counts.bytes += entry.piece.memory_bytes();
        }
        let chunks = directory.chunks.iter();
        counts.bytes += chunks
            .map(|chunk| size_of_val(&**chunk) as u64)
            .sum::<u64>();
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
        self.counts().bytes
    }

    /// Whether aborted ids below the settled watermark are registered.
    #[must_use]
    pub fn has_aborted(&self) -> bool {
        self.newest_aborted().is_some()
    }

    /// The newest aborted id below the settled watermark.
    #[must_use]
    pub fn newest_aborted(&self) -> Option<WriteId> {
        let mut newest = None;
        let settled = self.settled_below().0;
        self.directory.load().runs(0, settled, &mut |run| {
            if run.word == ABORTED {
                newest = Some(run.range().last());
            }
            true
        });
        newest
    }
}
