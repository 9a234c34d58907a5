//! The table of write ids: from each id to its status, see [`WriteStatus`].
//!
//! Ids are allocated once, in ascending order. Readers take no lock: they load an atomic pointer to
//! an immutable directory. The newest ids have one atomic slot each, in chunks. Older ids are in
//! pieces (`piece`). Most pieces store one status with exceptions, for any number of ids
//! (`compaction`).
//!
//! The status of ids is set without locking the table while they have slots:
//! 1. Read the epoch, then the directory; store into the slots.
//! 2. Read the epoch again. If it changed, or is odd, a chunk may have been
//!    replaced by a piece that does not contain the new status: lock the table and
//!    set it again.
//!
//! A thread that replaces chunks locks the table, makes the epoch odd, reads the slots, publishes a
//! directory, and makes the epoch even. All of these are sequentially consistent, so either that
//! thread reads the new status, or step 2 sees the changed epoch.

mod builder;
mod bulk_commit;
mod compaction;
mod counts;
mod directory;
mod piece;
mod ranges;
mod status_word;

pub use self::counts::WriteIdCounts;

use self::builder::PieceBuilder;
use self::bulk_commit::BulkCommit;
use self::directory::{Directory, PieceTotals};
use self::piece::{CHUNK_IDS, Run, new_chunk};
use self::ranges::RangeCursor;
use self::status_word::{ABORTED, SETTLED, UNKNOWN, decode, encode, is_active};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use arc_swap::ArcSwap;
use std::sync::Arc;
use teak_base::{
    CommitSequence, TransactionId, WriteId, WriteIdRange, WriteIdRanges, WriteRangeStatus,
    WriteStatus,
};

/// Maximum number of ids that are set between two checks of the epoch.
const SET_MAX: u64 = 4096;

/// Maximum number of pieces that are replaced at a time.
const PIECES_SET_MAX: usize = 16;

/// Maximum number of runs of equal status that one check of a range reads, and limit of the cost of
/// the pieces that are changed at a time.
const CHECKED_MAX: u64 = 1 << 15;

/// The table of write ids.
pub struct WriteIdTable {
    directory: ArcSwap<Directory>,
    next: AtomicU64,
    /// Every id below is aborted, or committed and visible to every snapshot.
    settled: AtomicU64,
    /// Every id below is committed or aborted.
    decided: AtomicU64,
    /// Odd while chunks are being replaced by pieces.
    epoch: AtomicU64,
    /// Serialises changes of the directory. Contains the id at which the next
    /// compaction of pieces begins.
    change: Mutex<u64>,
    bulk: BulkCommit,
    /// Number of ranges of ids that were aborted since the table was created.
    aborted: AtomicU64,
}

impl WriteIdTable {
    /// A table whose first allocated id is `next` (at least 1). Earlier ids are aborted
    /// if they are in `aborted`, and otherwise settled.
    #[must_use]
    pub fn new(next: WriteId, aborted: &WriteIdRanges) -> Self {
        let next = next.0.max(1);
        let first_chunk = next / CHUNK_IDS;
        let chunks_from = first_chunk * CHUNK_IDS;
        let mut builder = PieceBuilder::default();
        let mut at = 0;
        let mut push = |at: &mut u64, end: u64, word| {
            let end = end.min(chunks_from);
            if *at < end {
                builder.push(Run {
                    first: *at,
                    end,
                    word,
                });
                *at = end;
            }
        };
        for range in aborted.ranges() {
            push(&mut at, range.first.0, SETTLED);
            push(&mut at, range.end().0, ABORTED);
        }
        push(&mut at, chunks_from, SETTLED);
        let pieces = builder.finish();
        let directory = Directory {
            totals: PieceTotals::of(&pieces),
            pieces: pieces.into(),
            first_chunk,
            chunks: vec![new_chunk()],
        };
        for id in chunks_from..next {
            let is_aborted = aborted.contains(WriteId(id));
            let word = if is_aborted { ABORTED } else { SETTLED };
            if let Some(slot) = directory.slot(id) {
                slot.store(word, Ordering::Relaxed);
            }
        }
        Self {
            directory: ArcSwap::from_pointee(directory),
            next: AtomicU64::new(next),
            settled: AtomicU64::new(next),
            decided: AtomicU64::new(next),
            epoch: AtomicU64::new(0),
            change: Mutex::new(0),
            bulk: BulkCommit::default(),
            aborted: AtomicU64::new(0),
        }
    }

    /// Allocates the next id, active for `transaction`.
    pub fn allocate(&self, transaction: TransactionId) -> WriteId {
        self.allocate_block(transaction, 1).first
    }

    /// Allocates the next `count` ids, active for `transaction`.
    pub fn allocate_block(&self, transaction: TransactionId, count: u64) -> WriteIdRange {
        let first = WriteId(self.next.fetch_add(count, Ordering::AcqRel));
        let ids = WriteIdRange { first, count };
        self.set(&[ids], WriteStatus::Active(transaction));
        ids
    }

    /// Whether a chunk of slots begins within `ids`.
    pub(crate) fn begins_chunk(ids: WriteIdRange) -> bool {
        ids.first.0.next_multiple_of(CHUNK_IDS) < ids.end().0
    }

    /// Registers ids found in the log during recovery: they become active for
    /// `transaction` unless their status is known, and are never allocated again.
    pub fn adopt(&self, range: WriteIdRange, transaction: TransactionId) {
        self.next.fetch_max(range.end().0, Ordering::AcqRel);
        if range.count == 1 {
            if self.directory.load().word(range.first.0) == UNKNOWN {
                self.set(&[range], WriteStatus::Active(transaction));
            }
            return;
        }
        let mut unknown = WriteIdRanges::default();
        let directory = self.directory.load();
        let note = &mut |run: Run| {
            if run.word == UNKNOWN {
                unknown.push_range(run.range());
            }
            true
        };
        directory.runs(range.first.0, range.end().0, note);
        drop(directory);
        self.set(unknown.ranges(), WriteStatus::Active(transaction));
    }

    /// Makes ids active, regardless of their status. Recovery needs it for ids
    /// that were active when the catalogue was written.
    pub fn reactivate(&self, ids: &[WriteIdRange], transaction: TransactionId) {
        if let Some(first) = ids.first() {
            self.settled.fetch_min(first.first.0, Ordering::AcqRel);
            self.decided.fetch_min(first.first.0, Ordering::AcqRel);
        }
        self.set(ids, WriteStatus::Active(transaction));
    }

    fn set(&self, ids: &[WriteIdRange], status: WriteStatus) {
        let word = encode(status);
        let mut rest = RangeCursor::new(ids);
        while let Some(first) = rest.first() {
            if !self.set_slots(&mut rest, word) {
                self.set_locked(&mut rest, first, word);
            }
        }
    }

    /// Sets the status of the first ids of `rest` that have slots, and removes them from `rest`.
    /// Returns false if the first id has no slot, or if chunks were being replaced at the same
    /// time.
    fn set_slots(&self, rest: &mut RangeCursor<'_>, word: u64) -> bool {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let directory = self.directory.load();
        let mut done = rest.clone();
        let mut count = 0;
        while count < SET_MAX
            && let Some(id) = done.first()
            && let Some(slot) = directory.slot(id)
        {
            // Sequentially consistent: pairs with the count in `write_waits` too.
            slot.store(word, Ordering::SeqCst);
            done.advance(1);
            count += 1;
        }
        if count == 0 || epoch % 2 == 1 || self.epoch.load(Ordering::SeqCst) != epoch {
            return false;
        }
        *rest = done;
        true
    }

    /// Sets the status of ids from `first` on under the lock: those in the chunk of `first`, or in
    /// some pieces. If that chunk does not exist yet, only adds it.
    fn set_locked(&self, rest: &mut RangeCursor<'_>, first: u64, word: u64) {
        let _change = self.change.lock();
        let directory = self.directory.load_full();
        if first >= directory.chunks_to() {
            let mut grown = Directory::clone(&directory);
            while grown.chunks_to() <= first {
                grown.chunks.push(new_chunk());
            }
            self.directory.store(Arc::new(grown));
        } else if directory.slot(first).is_some() {
            let chunk_end = (first / CHUNK_IDS + 1) * CHUNK_IDS;
            while let Some(id) = rest.first()
                && id < chunk_end
                && let Some(slot) = directory.slot(id)
            {
                slot.store(word, Ordering::SeqCst);
                rest.advance(1);
            }
        } else {
            self.set_in_pieces(&directory, rest, first, word);
        }
        // The status is visible before the caller reads whether transactions wait for it.
        fence(Ordering::SeqCst);
    }

    fn set_in_pieces(
        &self,
        directory: &Directory,
        rest: &mut RangeCursor<'_>,
        first: u64,
        word: u64,
    ) {
        let from = directory.piece_of(first);
        let mut builder = PieceBuilder::default();
        let mut to = from;
        let mut cost = 0;
        while to - from < PIECES_SET_MAX
            && cost < CHECKED_MAX
            && let Some(entry) = directory.pieces.get(to)
            && entry.piece.slot(0).is_none()
        {
            let end = directory.piece_end(to);
            if rest.first().is_none_or(|id| id >= end) {
                break;
            }
            cost += entry.piece.cost();
            let mut runs = Vec::new();
            entry
                .piece
                .runs(entry.first, end, &mut |run| runs.push(run));
            builder.push_piece(&ranges::overlay(&runs, rest, word));
            to += 1;
        }
        self.replace_pieces(directory, from..to, builder.finish());
    }

    /// Marks ids committed at `sequence`. The caller makes the sequence
    /// visible to readers afterwards.
    pub fn commit(&self, ids: &[WriteIdRange], sequence: CommitSequence) {
        self.set(ids, WriteStatus::Committed(sequence));
    }

    /// Whether these ids should be committed with [`WriteIdTable::commit_in_bulk`], because setting
    /// their status takes long.
    pub(crate) fn is_bulk(&self, ids: &WriteIdRanges) -> bool {
        const IDS_MAX: u64 = if cfg!(feature = "schedules") { 2 } else { 256 };
        let from = self.directory.load().chunks_from();
        ids.len() > IDS_MAX || ids.first().is_some_and(|first| first.0 < from)
    }

    /// Commits all ids of a transaction at the same moment. `publish` calls its argument with the
    /// commit sequence, and then makes the sequence visible to readers. The status of each id is
    /// set afterwards.
    pub(crate) fn commit_in_bulk(
        &self,
        ids: &[WriteIdRange],
        transaction: TransactionId,
        publish: impl FnOnce(&dyn Fn(CommitSequence)) -> CommitSequence,
    ) {
        let place = self.bulk.take_place(transaction);
        let sequence = publish(&|sequence| place.begin(transaction, sequence));
        self.commit(ids, sequence);
        place.end();
    }

    /// Marks ids aborted.
    pub fn abort(&self, ids: &[WriteIdRange]) {
        self.aborted.fetch_add(ids.len() as u64, Ordering::Relaxed);
        self.set(ids, WriteStatus::Aborted);
    }

    /// The status of `id`. The settled id (zero) is committed.
    #[must_use]
    pub fn status(&self, id: WriteId) -> WriteStatus {
        let word = self.directory.load().word(id.0);
        if is_active(word) {
            return self.status_of_active(id, word);
        }
        decode(word)
    }

    /// Like [`WriteIdTable::status`], but faster if the id is active for the
    /// transaction `me`, which must not be committing.
    #[must_use]
    pub fn status_for(&self, id: WriteId, me: TransactionId) -> WriteStatus {
        let word = self.directory.load().word(id.0);
        if is_active(word) && decode(word) != WriteStatus::Active(me) {
            return self.status_of_active(id, word);
        }
        decode(word)
    }

    /// The status of an id that was found active.
    #[cold]
    fn status_of_active(&self, id: WriteId, word: u64) -> WriteStatus {
        if let WriteStatus::Active(transaction) = decode(word)
            && let Some(sequence) = self.bulk.sequence_of(transaction)
        {
            return WriteStatus::Committed(sequence);
        }
        decode(self.directory.load().word(id.0))
    }

    /// The status of all ids from `min` to `max`, both included, for readers at or after `oldest`.
    /// If they consist of too many runs of equal status, returns `Unsettled`.
    #[must_use]
    pub fn range_status(
        &self,
        min: WriteId,
        max: WriteId,
        oldest: CommitSequence,
    ) -> WriteRangeStatus {
        let mut aborted = 0;
        let mut checked = 0;
        let mut is_settled = true;
        let end = max.0.saturating_add(1);
        self.directory.load().runs(min.0, end, &mut |run| {
            checked += 1;
            match decode(run.word) {
                WriteStatus::Committed(at) => is_settled = at <= oldest,
                WriteStatus::Aborted => aborted += run.end - run.first,
                WriteStatus::Active(_) => is_settled = false,
            }
            is_settled &= checked < CHECKED_MAX;
            is_settled
        });
        if is_settled {
            WriteRangeStatus::of(aborted, min, max)
        } else {
            WriteRangeStatus::Unsettled
        }
    }

    /// The transaction that writes under `id`, if it is active.
    #[must_use]
    pub fn active_owner(&self, id: WriteId) -> Option<TransactionId> {
        match self.status(id) {
            WriteStatus::Active(owner) => Some(owner),
            _ => None,
        }
    }

    /// The next id to allocate.
    #[must_use]
    pub fn next(&self) -> WriteId {
        WriteId(self.next.load(Ordering::Acquire))
    }

    /// The settled watermark: every id below is aborted, or committed and visible to
    /// every snapshot.
    #[must_use]
    pub fn settled_below(&self) -> WriteId {
        WriteId(self.settled.load(Ordering::Acquire))
    }

    /// The decided watermark: every id below is committed or aborted, so its transaction writes no
    /// more entries under it. Unlike the settled watermark it does not depend on snapshots.
    pub fn decided_below(&self) -> WriteId {
        let before = self.decided.load(Ordering::Acquire);
        let mut decided = before;
        let next = self.next().0;
        self.directory.load().runs(before, next, &mut |run| {
            let is_decided = !is_active(run.word);
            if is_decided {
                decided = run.end;
            }
            is_decided
        });
        self.decided.fetch_max(decided, Ordering::AcqRel);
        WriteId(decided)
    }

    /// Whether an id from `min` to `max`, both included, may be registered as aborted. If they
    /// consist of too many runs of equal status, returns `true`.
    #[must_use]
    pub fn may_have_aborted(&self, min: WriteId, max: WriteId) -> bool {
        let mut has_aborted = false;
        let mut checked = 0;
        let end = max.0.saturating_add(1);
        self.directory.load().runs(min.0, end, &mut |run| {
            checked += 1;
            has_aborted = run.word == ABORTED || checked >= CHECKED_MAX;
            !has_aborted
        });
        has_aborted
    }

    fn ids_below(&self, first: u64, next: WriteId, which: impl Fn(u64) -> bool) -> WriteIdRanges {
        let mut found = WriteIdRanges::default();
        self.directory.load().runs(first, next.0, &mut |run| {
            if which(run.word) {
                found.push_range(run.range());
            }
            true
        });
        found
    }

    /// Active ids below `next`. The caller must have read `next` before the call.
    #[must_use]
    pub fn active_below(&self, next: WriteId) -> WriteIdRanges {
        self.ids_below(self.settled_below().0, next, is_active)
    }

    /// Ids below `next` that are active for no transaction: those whose outcome
    /// recovery has not found.
    #[must_use]
    pub fn unowned_below(&self, next: WriteId) -> WriteIdRanges {
        let none = encode(WriteStatus::Active(TransactionId(0)));
        let is_unowned = |word| word == none || word == UNKNOWN;
        self.ids_below(self.settled_below().0, next, is_unowned)
    }

    /// All registered aborted ids below `next`.
    #[must_use]
    pub fn aborted_below(&self, next: WriteId) -> WriteIdRanges {
        self.ids_below(0, next, |word| word == ABORTED)
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests;
