//! Bulk load: writes sorted entries as runs, without memtables and log.
//!
//! **Below all other data.** An index that is being built accepts concurrent writes while its older
//! data (the *base*) is still being sorted. Until the base is installed:
//! - memtables are flushed only as upper runs, because a delete may cover an
//!   entry of the base and must be retained;
//! - the tree is one leaf with pending runs, which is not split; its runs are
//!   merged only with each other, so that their number is bounded (`layers`).
//!
//! The base is written as bottom runs of a leaf's size. It is installed in one step, after the
//! pending runs (as older data), which are clipped to the new leaves. Its entries are settled:
//! every reader of the tree sees them. The result of a consolidation that is in progress at that
//! time is discarded.
//!
//! **Above all runs.** The load of a write adds entries to a tree with data (`install_load`). After
//! the end of the data they are written as bottom runs, elsewhere as upper runs of the root's
//! children.

use super::output::{RunOutput, Sink, Written};
use super::partition::Part;
use crate::merge::{MergeLevel, MergeSink};
use crate::node::{Key, Node, RunRef};
use crate::source::Source;
use crate::tree::Tree;
use crate::version::TreeVersion;
use crate::{ReadPattern, StoredValue, VersionCursor};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use teak_base::{Operation, StorageResult, WriteId};

/// A load above other data writes about so many upper runs for each child of the root.
const RUNS_PER_CHILD: usize = 4;

/// A bulk load in progress. Dropping it frees its space.
pub struct BulkLoad<'a> {
    tree: &'a Tree,
    bottom: RunOutput<'a>,
    upper: RunOutput<'a>,
    load: PausedLoad,
}

/// Keys from `start` are written in this form.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) start: Key,
    pub(super) level: MergeLevel,
}

/// A paused bulk load, which does not refer to the tree. Dropping it frees its
/// space. The default is a base without entries; for others see [`Tree::begin_load`].
pub struct PausedLoad {
    pub(super) parts: Vec<Part>,
    pub(super) written: Written,
    pub(super) write_id: WriteId,
    /// Where entries are written in which form, in key order. Empty: all as bottom runs.
    sections: Vec<Section>,
    /// The number of sections that have begun.
    begun: usize,
    /// Nodes that were read for the installation. They are not evicted while they are held.
    pub(super) held: Vec<Arc<Node>>,
}

impl Default for PausedLoad {
    fn default() -> Self {
        Self::new(WriteId::SETTLED, Vec::new())
    }
}

impl fmt::Debug for PausedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PausedLoad").finish_non_exhaustive()
    }
}

impl PausedLoad {
    pub(super) fn new(write_id: WriteId, sections: Vec<Section>) -> Self {
        Self {
            parts: Vec::new(),
            written: Written::default(),
            write_id,
            sections,
            begun: 0,
            held: Vec::new(),
        }
    }

    /// The write of the entries.
    #[must_use]
    pub fn write_id(&self) -> WriteId {
        self.write_id
    }

    /// The first and the last key; `None` if there is no entry.
    #[must_use]
    pub fn key_range(&self) -> Option<(&[u8], &[u8])> {
        let (first, last) = (self.parts.first()?, self.parts.last()?);
        let first = &first.run.handle.description().first_key;
        Some((first, &last.run.handle.description().last_key))
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.written.entries
    }

    /// The first key and the size, in bytes, of each run.
    pub fn runs(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.parts.iter().map(|part| {
            let run = part.run.handle.description();
            (&*run.first_key, run.raw_bytes)
        })
    }

    /// At most this number of loads should be [appended](Self::append) to each other, because runs of
    /// each child of the root are read together.
    #[must_use]
    pub fn divisions_max(&self) -> usize {
        let is_upper = |section: &&Section| section.level == MergeLevel::Upper;
        match self.sections.iter().filter(is_upper).count() {
            0 => usize::MAX,
            // The other half of the runs is that of `BulkLoad::expect_bytes`.
            upper => upper * (RUNS_PER_CHILD / 2),
        }
    }

    /// Appends the entries of a load [like this one](Self::without_entries), whose keys are greater.
    pub fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
        self.written.add(other.written);
        self.begun = self.begun.max(other.begun);
    }

    /// Reads the entries. The load must not be dropped before the result.
    #[must_use]
    pub fn read(&self) -> LoadedEntries {
        LoadedEntries::new(self.parts.iter().map(|part| part.run.clone()))
    }

    /// A load without entries, otherwise like this one.
    #[must_use]
    pub fn without_entries(&self) -> Self {
        Self::new(self.write_id, self.sections.clone())
    }
}

/// The entries of a bulk load, in key order.
pub struct LoadedEntries {
    source: Option<Source>,
    /// The source of the first run, before its next entry.
    sought: Option<Source>,
    /// The current value.
    value: Vec<u8>,
    /// The current run and those after it.
    runs: VecDeque<RunRef>,
}

impl fmt::Debug for LoadedEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedEntries").finish_non_exhaustive()
    }
}

impl LoadedEntries {
    fn new(runs: impl Iterator<Item = RunRef>) -> Self {
        Self {
            source: None,
            sought: None,
            value: Vec::new(),
            runs: runs.collect(),
        }
    }

    /// The current entry. `None` before the first `advance`, and at the end.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        let source = self.source.as_ref().filter(|source| source.valid())?;
        Some((source.key(), &self.value))
    }

    /// Moves before the first entry whose key is not less, which must not be before the current one.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        let is_before = |run: &RunRef| *run.handle.description().last_key < *key;
        while self.runs.front().is_some_and(is_before) {
            self.runs.pop_front();
            self.source = None;
        }
        self.sought = None;
        if let Some(run) = self.runs.front() {
            let mut source = Source::run(run, ReadPattern::Sequential);
            source.seek(key)?;
            self.source = None;
            self.sought = Some(source);
        }
        Ok(())
    }

    /// Moves to the next entry. Returns whether there is one.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn advance(&mut self) -> StorageResult<bool> {
        loop {
            match &mut self.source {
                Some(source) if source.valid() => source.next_version()?,
                _ => {
                    let Some(run) = self.runs.front() else {
                        return Ok(false);
                    };
                    let source = match self.sought.take() {
                        Some(source) => source,
                        None => {
                            let mut source = Source::run(run, ReadPattern::Sequential);
                            source.seek_first()?;
                            source
                        }
                    };
                    self.source = Some(source);
                }
            }
            if let Some(source) = &self.source
                && source.valid()
            {
                self.value.clear();
                source.value().append_to(&mut self.value)?;
                return Ok(true);
            }
            self.source = None;
            self.runs.pop_front();
        }
    }
}

impl Tree {
    /// Declares that [`Tree::bulk_load`] will add older data. For a tree that has just been
    /// created. The file does not store this, so the caller must discard a tree that is closed
    /// before its base is installed.
    ///
    /// # Panics
    /// When the tree is not empty.
    pub fn await_base(&self) {
        let _install = self.install.lock();
        let version = self.version.load_full();
        let is_empty = version.frozen.is_empty()
            && version.active.memtable.is_empty()
            && version.root.summary.runs == 0;
        assert!(is_empty, "only an empty tree can wait for a base");
        self.publish_version(TreeVersion {
            active: Arc::clone(&version.active),
            frozen: Vec::new(),
            flushed: version.flushed,
            root: Arc::clone(&version.root),
            pin: Arc::clone(&version.pin),
            checkpoint_pin: Arc::clone(&version.checkpoint_pin),
            awaits_base: true,
        });
    }

    /// Starts to write a load, or continues the paused load `begun`.
    ///
    /// # Panics
    /// When it is a base, and the tree does not wait for one.
    #[must_use]
    pub fn bulk_load(&self, begun: PausedLoad) -> BulkLoad<'_> {
        assert!(
            !begun.write_id.is_settled() || self.load_version().awaits_base,
            "the tree does not wait for a base"
        );
        let options = self.options();
        let output = |level, bytes| {
            // No write before that of the entries is in the runs.
            RunOutput::new(self, &options, begun.write_id, level, bytes, bytes)
        };
        BulkLoad {
            tree: self,
            bottom: output(MergeLevel::Bottom, options.leaf_bytes),
            upper: output(MergeLevel::Upper, options.run_bytes_max),
            load: begun,
        }
    }
}

impl BulkLoad<'_> {
    /// Makes the upper runs so large that there are few of them in each child, if the load has
    /// about `bytes` in total, as planning counts them. `is_divided`: they are written by several loads.
    pub fn expect_bytes(&mut self, bytes: u64, is_divided: bool) {
        let per_child = RUNS_PER_CHILD / if is_divided { 2 } else { 1 };
        let runs = (self.load.sections.len() * per_child) as u64;
        let cut = bytes.checked_div(runs).unwrap_or(0);
        let run_bytes_max = self.tree.options().run_bytes_max;
        self.upper.set_cut_bytes(cut.max(run_bytes_max));
    }

    /// Adds an entry. Keys must ascend strictly.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `TooLarge`; the load is then unusable.
    ///
    /// # Panics
    /// When the key is less than the previous key.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> StorageResult<()> {
        let next = self.load.sections.get(self.load.begun);
        if next.is_some_and(|section| *section.start <= *key) {
            self.begin_section(key)?;
        }
        let output = match self.load.level() {
            MergeLevel::Bottom => &mut self.bottom,
            MergeLevel::Upper => &mut self.upper,
        };
        let write_id = self.load.write_id;
        let written = &mut self.load.written;
        let value = StoredValue::Inline(value);
        Sink { output, written }.push(key, write_id, Operation::Put, value, true)
    }

    #[cold]
    fn begin_section(&mut self, key: &[u8]) -> StorageResult<()> {
        self.end_run()?;
        let sections = self.load.sections.get(self.load.begun..);
        let sections = sections.unwrap_or_default().iter();
        self.load.begun += sections.take_while(|next| *next.start <= *key).count();
        Ok(())
    }

    /// Ends the current run, so that the load can be continued later.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn pause(mut self) -> StorageResult<PausedLoad> {
        self.end_run()?;
        Ok(self.load)
    }

    fn end_run(&mut self) -> StorageResult<()> {
        let level = self.load.level();
        let output = match level {
            MergeLevel::Bottom => &mut self.bottom,
            MergeLevel::Upper => &mut self.upper,
        };
        let runs = output.take(Vec::new(), &mut self.load.written)?;
        let parts = runs.into_iter().map(|run| Part { run, level });
        self.load.parts.extend(parts);
        Ok(())
    }
}

impl PausedLoad {
    /// The form in which the next entry is written.
    fn level(&self) -> MergeLevel {
        let current = self.begun.checked_sub(1);
        let section = current.and_then(|current| self.sections.get(current));
        section.map_or(MergeLevel::Bottom, |section| section.level)
    }
}
