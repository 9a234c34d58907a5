//! One cursor type over memtables and runs, so that merges and tree cursors
//! need no dynamic dispatch. It clips runs to the part that a reference covers,
//! and returns settled ids for runs that are marked as settled.

use crate::filter_keys::KeyPrefix;
use crate::key_search::is_same_key;
use crate::node::{KeyRange, RunHandle, RunRef};
use crate::page::Projection;
use crate::version::MemtableSlot;
use crate::{
    MemtableCursor, Page, RangeTombstone, ReadPattern, RunCursor, StoredValue, VersionCursor,
};
use std::sync::Arc;
use teak_base::{Operation, StorageResult, WriteId};

/// A cursor over one memtable or run.
#[derive(Debug)]
pub(crate) enum Source {
    Memtable(MemtableCursor),
    Run(RunSource),
}

/// A cursor over a run or a part of it.
#[derive(Debug)]
pub(crate) struct RunSource {
    cursor: RunCursor,
    handle: Arc<RunHandle>,
    clip: Option<Arc<KeyRange>>,
    /// Whether the cursor is on an entry inside the clip.
    valid: bool,
}

impl Source {
    pub(crate) fn memtable(slot: &MemtableSlot) -> Self {
        Self::Memtable(slot.memtable.cursor())
    }

    pub(crate) fn run(run: &RunRef, pattern: ReadPattern) -> Self {
        Self::Run(RunSource {
            cursor: run.handle.run.cursor(pattern),
            handle: Arc::clone(&run.handle),
            clip: run.clip.clone(),
            valid: false,
        })
    }

    /// Sets the columns of values that are needed, before the first move.
    pub(crate) fn set_projection(&mut self, projection: Option<Projection>) {
        if let Self::Run(run) = self {
            run.cursor.set_projection(projection);
        }
    }

    /// Lets seeks of a run hold pages whose rows are decoded one by one, see [`Source::load_value`].
    pub(crate) fn take_rows(&mut self) {
        if let Self::Run(run) = self {
            run.cursor.take_rows();
        }
    }

    /// Makes the value of the entry available. Must be called before `value` if the source takes rows.
    #[inline]
    pub(crate) fn load_value(&mut self) -> StorageResult<()> {
        match self {
            Self::Memtable(_) => Ok(()),
            Self::Run(run) => run.cursor.load_value(),
        }
    }

    /// Makes the source not valid if it has no entries with the prefix, and then returns true.
    /// Reads at most one block of a run. Memtables have no filters.
    pub(crate) fn leave_out(&mut self, prefix: &KeyPrefix) -> StorageResult<bool> {
        let Self::Run(run) = self else {
            return Ok(false);
        };
        if run.cursor.may_have_prefix(prefix)? {
            return Ok(false);
        }
        run.valid = false;
        Ok(true)
    }

    /// The page of a run that is not clipped, the number of the entry, and the write of all entries of
    /// the page, if they have one ([`Page::one_write`]).
    #[inline]
    pub(crate) fn page_of_one_write(&self) -> Option<(&Page, usize, WriteId)> {
        match self {
            Self::Run(run) if run.clip.is_none() && run.valid => {
                run.cursor.page_of_one_write(run.handle.is_settled())
            }
            _ => None,
        }
    }

    /// Moves forward within the page that [`Source::page_of_one_write`] returns. If there is none, or
    /// it has fewer entries after this one, returns `false` and does not move.
    #[inline]
    pub(crate) fn pass_in_page(&mut self, entries: usize) -> bool {
        match self {
            Self::Run(run) if run.clip.is_none() && run.valid => {
                let is_settled = run.handle.is_settled();
                run.cursor.pass_in_page(entries, is_settled)
            }
            _ => false,
        }
    }

    /// The cursor of a run that is not clipped and on an entry, and whether the run is settled.
    pub(crate) fn whole_run(&mut self) -> Option<(&mut RunCursor, bool)> {
        match self {
            Self::Run(run) if run.clip.is_none() && run.valid => {
                let is_settled = run.handle.is_settled();
                Some((&mut run.cursor, is_settled))
            }
            _ => None,
        }
    }

    /// Moves past all versions of the current key. `buffer` is scratch space
    /// for the key.
    #[inline]
    pub(crate) fn skip_key(&mut self, buffer: &mut Vec<u8>) -> StorageResult<()> {
        match self {
            Self::Memtable(cursor) => {
                cursor.next_key();
                Ok(())
            }
            Self::Run(cursor) => cursor.skip_key(buffer),
        }
    }
}

/// The range tombstones of a run, clipped to the part that the reference
/// covers.
pub(crate) fn run_tombstones(run: &RunRef) -> Vec<RangeTombstone> {
    let settled = run.handle.is_settled();
    let clip = run.clip.as_deref();
    let lower = clip.map(|clip| &*clip.lower);
    let upper = clip.and_then(|clip| clip.upper.as_deref());
    let tombstones = run.handle.description().range_tombstones.iter();
    let clipped = tombstones.filter_map(|tombstone| tombstone.clip(lower, upper));
    clipped
        .map(|mut tombstone| {
            if settled {
                tombstone.write_id = WriteId::SETTLED;
            }
            tombstone
        })
        .collect()
}

impl RunSource {
    /// Whether the entry is settled. A settled entry is the last version of its key in its run:
    /// merges drop the older versions, and a run is marked as settled only if its keys are
    /// distinct.
    #[inline]
    fn is_last_version(&self) -> bool {
        self.write_id().is_settled()
    }

    #[inline]
    fn skip_key(&mut self, buffer: &mut Vec<u8>) -> StorageResult<()> {
        if self.is_last_version() {
            return self.next_version();
        }
        buffer.clear();
        buffer.extend_from_slice(self.key());
        loop {
            self.next_version()?;
            if !self.valid || !is_same_key(self.key(), buffer) {
                return Ok(());
            }
            if self.is_last_version() {
                return self.next_version();
            }
        }
    }

    #[inline]
    fn check_forward(&mut self) {
        self.valid = self.cursor.valid();
        if let Some(clip) = &self.clip
            && self.valid
        {
            self.valid = !clip.ends_at_or_before(self.cursor.key());
        }
    }

    fn check_backward(&mut self) {
        self.valid = self.cursor.valid();
        if let Some(clip) = &self.clip
            && self.valid
        {
            self.valid = *clip.lower <= *self.cursor.key();
        }
    }
}

/// Calls the same function for either type of cursor.
macro_rules! either {
    ($self:expr, $cursor:ident => $call:expr) => {
        match $self {
            Source::Memtable($cursor) => $call,
            Source::Run($cursor) => $call,
        }
    };
}

impl VersionCursor for Source {
    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        either!(self, cursor => cursor.seek(key))
    }
    fn seek_first(&mut self) -> StorageResult<()> {
        either!(self, cursor => cursor.seek_first())
    }
    fn seek_last(&mut self) -> StorageResult<()> {
        either!(self, cursor => cursor.seek_last())
    }
    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()> {
        either!(self, cursor => cursor.seek_before(key))
    }
    #[inline]
    fn valid(&self) -> bool {
        either!(self, cursor => cursor.valid())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        either!(self, cursor => cursor.key())
    }
    #[inline]
    fn write_id(&self) -> WriteId {
        either!(self, cursor => cursor.write_id())
    }
    #[inline]
    fn operation(&self) -> Operation {
        either!(self, cursor => cursor.operation())
    }
    #[inline]
    fn value(&self) -> StoredValue<'_> {
        either!(self, cursor => cursor.value())
    }
    #[inline]
    fn is_separate(&self) -> bool {
        either!(self, cursor => cursor.is_separate())
    }
    #[inline]
    fn is_cached(&self) -> bool {
        either!(self, cursor => cursor.is_cached())
    }
    #[inline]
    fn next_version(&mut self) -> StorageResult<()> {
        either!(self, cursor => cursor.next_version())
    }
    #[inline]
    fn previous_key(&mut self) -> StorageResult<()> {
        either!(self, cursor => cursor.previous_key())
    }
}

impl VersionCursor for RunSource {
    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.valid = false;
        let lower = self.clip.as_ref().map_or(key, |clip| key.max(&clip.lower));
        self.cursor.seek(lower)?;
        self.check_forward();
        Ok(())
    }
    fn seek_first(&mut self) -> StorageResult<()> {
        self.seek(&[])
    }
    fn seek_last(&mut self) -> StorageResult<()> {
        self.valid = false;
        let upper = self.clip.as_ref().and_then(|clip| clip.upper.as_deref());
        match upper {
            Some(upper) => self.cursor.seek_before(upper)?,
            None => self.cursor.seek_last()?,
        }
        self.check_backward();
        Ok(())
    }
    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()> {
        self.valid = false;
        let upper = self.clip.as_ref().and_then(|clip| clip.upper.as_deref());
        self.cursor
            .seek_before(upper.map_or(key, |upper| key.min(upper)))?;
        self.check_backward();
        Ok(())
    }
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }
    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.key()
    }
    #[inline]
    fn write_id(&self) -> WriteId {
        let id = self.cursor.write_id();
        if !id.is_settled() && self.handle.is_settled() {
            return WriteId::SETTLED;
        }
        id
    }
    #[inline]
    fn operation(&self) -> Operation {
        self.cursor.operation()
    }
    #[inline]
    fn value(&self) -> StoredValue<'_> {
        self.cursor.value()
    }
    #[inline]
    fn is_separate(&self) -> bool {
        self.cursor.is_separate()
    }
    #[inline]
    fn is_cached(&self) -> bool {
        self.cursor.is_cached()
    }
    #[inline]
    fn next_version(&mut self) -> StorageResult<()> {
        self.valid = false;
        self.cursor.next_version()?;
        self.check_forward();
        Ok(())
    }
    #[inline]
    fn previous_key(&mut self) -> StorageResult<()> {
        self.valid = false;
        self.cursor.previous_key()?;
        self.check_backward();
        Ok(())
    }
}
