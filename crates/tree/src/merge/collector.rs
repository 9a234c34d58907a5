//! Garbage collection of the versions of one key, as a merge meets them.
//!
//! Versions arrive newest first. Each is kept or dropped at once, by what the
//! newer ones already serve:
//! 1. Aborted versions are dropped; active ones are kept and hide nothing.
//! 2. A committed version is kept when some snapshot sees it: a snapshot at or
//!    above its commit and below the commit of the next newer version.
//! 3. A version that every snapshot sees is settled: its id becomes zero and
//!    everything older is dropped.
//! 4. An update does not hide what is below it, for its value needs it. Settled
//!    updates are held back; when their base is known (a settled put or
//!    delete, a range tombstone, or the bottom of the tree) they become one put.
//! 5. At the bottom a settled delete vanishes.

use super::fates::{FateCache, FateClass};
use super::sink::MergeSink;
use super::{MergeContext, MergeLevel};
use crate::visibility::apply_update;
use teak_base::{Operation, StorageResult, WriteId};

/// What lies under a chain of settled updates.
enum Base<'a> {
    Value(&'a [u8]),
    Nothing,
    /// Older containers may know.
    Unknown,
}

/// The state of one key's garbage collection.
pub(crate) struct VersionCollector {
    /// Commit of the oldest version so far that hides older ones.
    hidden_from: u64,
    /// Everything older is invisible to everybody.
    closed: bool,
    /// Whether an entry of this key has been written.
    written: bool,
    /// Settled updates held back, newest first: their bytes, end to end.
    update_bytes: Vec<u8>,
    update_ends: Vec<usize>,
}

impl VersionCollector {
    pub(crate) fn new() -> Self {
        Self {
            hidden_from: u64::MAX,
            closed: false,
            written: false,
            update_bytes: Vec::new(),
            update_ends: Vec::new(),
        }
    }

    /// Starts the next key.
    #[inline]
    pub(crate) fn start_key(&mut self) {
        self.hidden_from = u64::MAX;
        self.closed = false;
        self.written = false;
    }

    /// Whether all that follows of this key is dropped.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    #[inline]
    fn emit<S: MergeSink>(
        &mut self,
        sink: &mut S,
        key: &[u8],
        id: WriteId,
        operation: Operation,
        value: &[u8],
    ) -> StorageResult<()> {
        let starts_key = !self.written;
        self.written = true;
        sink.push(key, id, operation, value, starts_key)
    }

    /// Takes the next older version of the key.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub(crate) fn version<S: MergeSink>(
        &mut self,
        context: &MergeContext<'_>,
        fates: &mut FateCache<'_>,
        level: MergeLevel,
        sink: &mut S,
        key: &[u8],
        id: WriteId,
        operation: Operation,
        value: &[u8],
    ) -> StorageResult<()> {
        let class = fates.class(id);
        if class == FateClass::Settled {
            return self.settled(context, level, sink, key, operation, value);
        }
        if class == FateClass::Aborted {
            return Ok(());
        }
        if !self.update_ends.is_empty() {
            // An unsettled version below a settled one: write order and
            // commit order disagree, so nothing may be folded.
            self.write_updates(sink, key)?;
        }
        match class {
            FateClass::Committed(at) => {
                let needed = fates.is_needed(at, self.hidden_from);
                if operation != Operation::Update {
                    self.hidden_from = self.hidden_from.min(at);
                }
                if needed {
                    return self.emit(sink, key, id, operation, value);
                }
                Ok(())
            }
            _ => self.emit(sink, key, id, operation, value),
        }
    }

    #[inline]
    fn settled<S: MergeSink>(
        &mut self,
        context: &MergeContext<'_>,
        level: MergeLevel,
        sink: &mut S,
        key: &[u8],
        operation: Operation,
        value: &[u8],
    ) -> StorageResult<()> {
        if operation == Operation::Update {
            self.update_bytes.extend_from_slice(value);
            self.update_ends.push(self.update_bytes.len());
            return Ok(());
        }
        self.closed = true;
        if !self.update_ends.is_empty() {
            let base = match operation {
                Operation::Put => Base::Value(value),
                _ => Base::Nothing,
            };
            return self.fold_updates(context, level, sink, key, &base);
        }
        if operation == Operation::Delete && level == MergeLevel::Bottom {
            return Ok(());
        }
        self.emit(sink, key, WriteId::SETTLED, operation, value)
    }

    /// A range tombstone that everybody sees covers the key here. It is
    /// carried on by itself, so no entry is written for it.
    pub(crate) fn settled_range_tombstone<S: MergeSink>(
        &mut self,
        context: &MergeContext<'_>,
        level: MergeLevel,
        sink: &mut S,
        key: &[u8],
    ) -> StorageResult<()> {
        self.closed = true;
        if self.update_ends.is_empty() {
            return Ok(());
        }
        self.fold_updates(context, level, sink, key, &Base::Nothing)
    }

    /// Whether held-back updates wait for a base.
    #[inline]
    pub(crate) fn holds_updates(&self) -> bool {
        !self.update_ends.is_empty()
    }

    /// Ends the key after its oldest version.
    #[inline]
    pub(crate) fn finish_key<S: MergeSink>(
        &mut self,
        context: &MergeContext<'_>,
        level: MergeLevel,
        sink: &mut S,
        key: &[u8],
    ) -> StorageResult<()> {
        if self.update_ends.is_empty() {
            return Ok(());
        }
        let base = match level {
            MergeLevel::Bottom => Base::Nothing,
            MergeLevel::Upper => Base::Unknown,
        };
        self.fold_updates(context, level, sink, key, &base)
    }

    #[cold]
    fn fold_updates<S: MergeSink>(
        &mut self,
        context: &MergeContext<'_>,
        level: MergeLevel,
        sink: &mut S,
        key: &[u8],
        base: &Base<'_>,
    ) -> StorageResult<()> {
        let mut value = match base {
            Base::Value(value) => Some(value.to_vec()),
            Base::Nothing => None,
            Base::Unknown => return self.write_updates(sink, key),
        };
        for index in (0..self.update_ends.len()).rev() {
            let update = self.update(index);
            value = apply_update(context.updates, context.path, value.as_deref(), update)?;
        }
        self.update_bytes.clear();
        self.update_ends.clear();
        match value {
            Some(value) => self.emit(sink, key, WriteId::SETTLED, Operation::Put, &value),
            None if level == MergeLevel::Bottom => Ok(()),
            None => self.emit(sink, key, WriteId::SETTLED, Operation::Delete, &[]),
        }
    }

    /// Writes the held-back updates as they are, newest first.
    #[cold]
    fn write_updates<S: MergeSink>(&mut self, sink: &mut S, key: &[u8]) -> StorageResult<()> {
        for index in 0..self.update_ends.len() {
            let starts_key = !self.written;
            self.written = true;
            let update = self.update(index);
            sink.push(key, WriteId::SETTLED, Operation::Update, update, starts_key)?;
        }
        self.update_bytes.clear();
        self.update_ends.clear();
        Ok(())
    }

    fn update(&self, index: usize) -> &[u8] {
        let start = match index.checked_sub(1) {
            Some(before) => self.update_ends.get(before).copied().unwrap_or(0),
            None => 0,
        };
        let end = self.update_ends.get(index).copied().unwrap_or(start);
        self.update_bytes.get(start..end).unwrap_or(&[])
    }
}
