//! The line of those who wait for the marks of one index (see `range_locks`).
//!
//! A writer that a mark stops keeps its place until its write is done or given
//! up, also while it is awake to try again, and one at each key of the index
//! at which it was stopped. Whoever comes later and wants to mark the key at
//! which it stands waits behind it, unless a mark of his own stops the writer
//! already. So readers that never end cannot keep a writer out, and readers
//! wait only for writers that came before them.

use crate::range_locks::{RangeLockKind, RangeLocks};
use crate::shared::TransactionHandle;
use crate::wait_listener::Blockers;
use smallvec::SmallVec;
use std::sync::Arc;
use teak_base::TransactionId;

/// A number in the order of arrival.
type Ticket = u64;

/// Where a write is stopped.
struct Writer {
    transaction: Arc<TransactionHandle>,
    key: Box<[u8]>,
    is_insertion: bool,
    ticket: Ticket,
    /// Its bell is armed for this wait; awake it must not be rung.
    sleeps: bool,
}

/// Who wants to mark a range.
struct Marker {
    transaction: Arc<TransactionHandle>,
    wanted: Wish,
    ticket: Ticket,
}

/// A mark that is wished for.
pub(crate) struct Wish {
    pub(crate) keeps: RangeLockKind,
    pub(crate) low: Box<[u8]>,
    pub(crate) high: Option<Box<[u8]>>,
}

impl Wish {
    /// Whether the mark would keep the writer off.
    fn stops(&self, writer: &Writer) -> bool {
        (writer.is_insertion || self.keeps == RangeLockKind::Write)
            && *self.low <= *writer.key
            && self.high.as_deref().is_none_or(|high| *writer.key < *high)
    }
}

/// Who waits, in no order but that of the tickets.
#[derive(Default)]
pub(crate) struct RangeWaits {
    writers: Vec<Writer>,
    markers: Vec<Marker>,
    issued: Ticket,
}

impl RangeWaits {
    pub(crate) fn is_empty(&self) -> bool {
        self.writers.is_empty() && self.markers.is_empty()
    }

    fn ticket(&mut self) -> Ticket {
        self.issued += 1;
        self.issued
    }

    /// Puts a writer in line at a key and arms its bell. Whoever stands there
    /// keeps his place.
    pub(crate) fn stop_writer(
        &mut self,
        key: &[u8],
        is_insertion: bool,
        transaction: &Arc<TransactionHandle>,
    ) {
        transaction.arm();
        let before = self.writers.iter_mut().find(|writer| {
            writer.transaction.id() == transaction.id()
                && writer.is_insertion == is_insertion
                && *writer.key == *key
        });
        if let Some(writer) = before {
            writer.sleeps = true;
            return;
        }
        let ticket = self.ticket();
        self.writers.push(Writer {
            transaction: Arc::clone(transaction),
            key: key.into(),
            is_insertion,
            ticket,
            sleeps: true,
        });
    }

    /// Nothing of this line wakes the writer any more. It keeps its places.
    pub(crate) fn awake(&mut self, transaction: TransactionId) {
        for writer in &mut self.writers {
            if writer.transaction.id() == transaction {
                writer.sleeps = false;
            }
        }
    }

    /// The writer gives up its places. Wakes whoever waited behind it.
    pub(crate) fn leave(&mut self, transaction: TransactionId) {
        self.writers.retain(|writer| {
            if writer.transaction.id() != transaction {
                return true;
            }
            for marker in &self.markers {
                if marker.wanted.stops(writer) {
                    marker.transaction.ring();
                }
            }
            false
        });
    }

    /// Wakes the writers for whose key, and whether it is an insertion,
    /// `stopped` holds.
    pub(crate) fn wake_writers(&self, stopped: impl Fn(&[u8], bool) -> bool) {
        for writer in &self.writers {
            if writer.sleeps && stopped(&writer.key, writer.is_insertion) {
                writer.transaction.ring();
            }
        }
    }

    /// What a writer that sleeps wants to write.
    pub(crate) fn asleep(&self, transaction: TransactionId) -> Option<(&[u8], bool)> {
        let mut writers = self.writers.iter();
        let writer =
            writers.find(|writer| writer.sleeps && writer.transaction.id() == transaction)?;
        Some((&writer.key, writer.is_insertion))
    }

    /// Whether a mark may be made by now: no writer whom it would stop came
    /// earlier, but for those that `own` marks of the transaction stop already.
    /// If not, the transaction is in line afterwards, and its bell is armed.
    pub(crate) fn may_mark(
        &mut self,
        transaction: &Arc<TransactionHandle>,
        wanted: Wish,
        own: impl Fn(&[u8], bool) -> bool,
    ) -> bool {
        let id = transaction.id();
        let before = self
            .markers
            .iter()
            .position(|one| one.transaction.id() == id);
        let ticket = match before {
            Some(place) => self.markers.swap_remove(place).ticket,
            None => self.ticket(),
        };
        let marker = Marker {
            transaction: Arc::clone(transaction),
            wanted,
            ticket,
        };
        if self.ahead_of(&marker, own).next().is_none() {
            return true;
        }
        transaction.arm();
        self.markers.push(marker);
        false
    }

    /// A transaction wants to mark no more.
    pub(crate) fn withdraw(&mut self, transaction: TransactionId) {
        self.markers
            .retain(|marker| marker.transaction.id() != transaction);
    }

    /// The writers behind whom a transaction waits to mark.
    pub(crate) fn ahead_of_marker(
        &self,
        transaction: TransactionId,
        own: impl Fn(&[u8], bool) -> bool,
    ) -> Blockers {
        let mut markers = self.markers.iter();
        let marker = markers.find(|marker| marker.transaction.id() == transaction);
        marker.map_or_else(Blockers::new, |marker| self.ahead_of(marker, own).collect())
    }

    fn ahead_of<'a>(
        &'a self,
        marker: &'a Marker,
        own: impl Fn(&[u8], bool) -> bool + 'a,
    ) -> impl Iterator<Item = TransactionId> + 'a {
        let me = marker.transaction.id();
        let writers = self.writers.iter().filter(move |writer| {
            writer.transaction.id() != me
                && writer.ticket < marker.ticket
                && marker.wanted.stops(writer)
                && !own(&writer.key, writer.is_insertion)
        });
        writers.map(|writer| writer.transaction.id())
    }
}

/// The indexes where one write stands in line. Its places are given up when
/// this is dropped: once the write is done, or will not be.
#[derive(Debug, Default)]
pub struct RangeQueuePositions {
    indexes: SmallVec<[(Arc<RangeLocks>, TransactionId); 1]>,
}

impl RangeQueuePositions {
    pub(crate) fn note(&mut self, ranges: &Arc<RangeLocks>, transaction: TransactionId) {
        let mut indexes = self.indexes.iter();
        if !indexes.any(|(of, _)| Arc::ptr_eq(of, ranges)) {
            self.indexes.push((Arc::clone(ranges), transaction));
        }
    }
}

impl Drop for RangeQueuePositions {
    fn drop(&mut self) {
        for (ranges, transaction) in &self.indexes {
            ranges.leave(*transaction);
        }
    }
}
