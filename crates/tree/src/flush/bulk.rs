//! Bulk load: writes sorted entries below all other data of a tree.
//!
//! An index that is being built accepts concurrent writes while its older data
//! (the *base*) is still being sorted. Until the base is installed:
//! - memtables are flushed only as upper runs, because a delete may cover an
//!   entry of the base and must be retained;
//! - the tree is one leaf with pending runs, which is not split; its runs are
//!   merged only with each other, so that their number is bounded (`layers`).
//!
//! The base is written as bottom runs of a leaf's size. It is installed in one step, after the
//! pending runs (as older data), which are clipped to the new leaves. Its entries are settled:
//! every reader of the tree sees them. The result of a consolidation that is in progress at that
//! time is discarded.

use super::divide::divide_at;
use super::output::{RunOutput, Sink, Written};
use crate::merge::{MergeLevel, MergeSink};
use crate::node::{Child, ChildId, Depth, EditBase, Editor, Key, RunRef, separator};
use crate::source::Source;
use crate::tree::Tree;
use crate::version::TreeVersion;
use crate::{ReadPattern, StoredValue, VersionCursor};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use teak_base::{Operation, StorageResult, WriteId};

/// A bulk load in progress. Dropping it frees its space; the tree then remains
/// without a base.
pub struct BulkLoad<'a> {
    tree: &'a Tree,
    output: RunOutput<'a>,
    load: PausedLoad,
}

/// A paused bulk load, which does not refer to the tree. Dropping it frees its
/// space.
#[derive(Default)]
pub struct PausedLoad {
    runs: Vec<RunRef>,
    written: Written,
}

impl PausedLoad {
    /// Reads the entries of the load, which cannot be continued then.
    #[must_use]
    pub fn into_entries(self) -> LoadedEntries {
        LoadedEntries {
            source: None,
            value: Vec::new(),
            runs: self.runs.into(),
            _written: self.written,
        }
    }
}

/// The entries of a bulk load that is not continued, in key order. Dropping it frees their space.
pub struct LoadedEntries {
    source: Option<Source>,
    /// The current value.
    value: Vec<u8>,
    /// The current run and those after it.
    runs: VecDeque<RunRef>,
    /// The blocks, which are freed after the runs are dropped.
    _written: Written,
}

impl fmt::Debug for LoadedEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedEntries").finish_non_exhaustive()
    }
}

impl LoadedEntries {
    /// The current entry. `None` before the first `advance`, and at the end.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        let source = self.source.as_ref().filter(|source| source.valid())?;
        Some((source.key(), &self.value))
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
                    let mut source = Source::run(run, ReadPattern::Sequential);
                    source.seek_first()?;
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

    /// Starts to write the base, or continues the paused load `begun`.
    ///
    /// # Panics
    /// When the tree does not wait for a base.
    #[must_use]
    pub fn bulk_load(&self, begun: PausedLoad) -> BulkLoad<'_> {
        assert!(
            self.load_version().awaits_base,
            "the tree does not wait for a base"
        );
        let options = self.options();
        let (level, leaf) = (MergeLevel::Bottom, options.leaf_bytes);
        BulkLoad {
            tree: self,
            output: RunOutput::new(self, &options, WriteId::SETTLED, level, leaf, leaf),
            load: begun,
        }
    }
}

impl BulkLoad<'_> {
    /// Adds an entry. Keys must ascend strictly.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `TooLarge`; the load is then unusable.
    ///
    /// # Panics
    /// When the key is less than the previous key.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> StorageResult<()> {
        let mut sink = Sink {
            output: &mut self.output,
            written: &mut self.load.written,
        };
        let value = StoredValue::Inline(value);
        sink.push(key, WriteId::SETTLED, Operation::Put, value, true)
    }

    /// Ends the current leaf, so that the load can be continued later.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn pause(mut self) -> StorageResult<PausedLoad> {
        self.end_leaf()?;
        Ok(self.load)
    }

    fn end_leaf(&mut self) -> StorageResult<()> {
        let load = &mut self.load;
        let runs = self.output.take(Vec::new(), &mut load.written)?;
        load.runs.extend(runs);
        Ok(())
    }

    /// Installs the base. From then on the tree behaves like any other. The base is durable with
    /// the next checkpoint.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn finish(mut self) -> StorageResult<()> {
        self.end_leaf()?;
        let PausedLoad { runs, written } = self.load;
        let cuts: Vec<Key> = runs
            .windows(2)
            .filter_map(|pair| match pair {
                [before, after] => Some(separator(before.upper()?, after.lower())),
                _ => None,
            })
            .collect();
        let tree = self.tree;
        let options = tree.options();
        let mut install = tree.install.lock();
        let install = &mut *install;
        let version = tree.version.load_full();
        assert!(version.awaits_base, "a tree has at most one base");
        let mut root = Arc::clone(&version.root);
        if !runs.is_empty() {
            let base = EditBase {
                options: &options,
                shared: &install.shared,
                claimed: &install.claimed,
            };
            // The edit belongs to no job.
            let own = ChildId::ROOT;
            let mut editor = Editor::new(root, base, own, &mut install.next_child_id);
            let edited = editor.change(&[], Depth::Leaf, &mut |editor, leaf, range| {
                let mut all: Vec<RunRef> = leaf.runs.clone();
                all.extend(runs.iter().cloned());
                let leaf = Child::new(leaf.id, all, None, range, editor.options());
                divide_at(editor, &leaf, range, &cuts)
            });
            editor.release_own();
            let Ok(edited) = edited.and_then(|()| editor.finish()) else {
                unreachable!("a tree that waits for its base has one node, which is in memory")
            };
            install.set_references(&edited.references);
            install.add_dropped(edited.dropped);
            root = edited.root;
        }
        tree.file.publish(written.blocks, &[]);
        install.changed = true;
        let mut new = version.with_root(root, &tree.file, install.checkpoint_pin());
        new.awaits_base = false;
        tree.publish_version(new);
        Ok(())
    }
}
