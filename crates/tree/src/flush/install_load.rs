//! Installing what a bulk load has written: a base below all other data, or the entries of one write as
//! runs above all others.
//!
//! For the latter the caller ensures that no entry of a memtable must be below the load: as long as the load is
//! neither installed nor dropped, no other write adds an entry with one of its keys, and memtables
//! have no delete of such a key ([`Tree::holds_unflushed_deletes`]).
//!
//! Entries after the end of a tree's data are written as bottom runs. If there is data in their range
//! when the load is installed, they are installed as upper runs, because bottom runs are the oldest
//! data.

use super::bulk::{PausedLoad, Section};
use super::divide::divide_at;
use super::install::place;
use super::partition::Part;
use crate::merge::MergeLevel;
use crate::node::{
    Child, ChildId, Depth, EditBase, EditStop, Editor, EndOfData, Key, KeyRange, MissingNode, Node,
    RunForm, RunRef, separator,
};
use crate::tree::Tree;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{StorageError, StorageResult, WriteId};

/// One section for each child of the root, and one for the keys after all data.
fn sections(root: &Node) -> Vec<Section> {
    let all = KeyRange::all();
    let mut sections = Vec::new();
    for (child, range) in root.children_with_ranges(&all) {
        let (start, level) = (range.lower.clone(), MergeLevel::Upper);
        let upper = Section { start, level };
        let level = MergeLevel::Bottom;
        match child.end_of_data() {
            EndOfData::Empty => sections.push(Section { level, ..upper }),
            EndOfData::Before(end) if range.upper.is_none() => {
                sections.push(upper);
                let start = Key::from(end);
                sections.push(Section { start, level });
            }
            EndOfData::Before(_) | EndOfData::Unbounded => sections.push(upper),
        }
    }
    sections
}

/// Whether the range is within a child of the root, and after its data.
fn is_after_data(root: &Node, range: &KeyRange) -> bool {
    let position = root.child_position(&range.lower);
    let child_range = root.child_range(position, &KeyRange::all());
    let Some(child) = root.children.get(position) else {
        return false;
    };
    child_range.covers(range)
        && match child.end_of_data() {
            EndOfData::Empty => true,
            EndOfData::Before(end) => *end <= *range.lower,
            EndOfData::Unbounded => false,
        }
}

/// The part as it is installed below this root.
fn placed(part: &Part, root: &Node) -> Part {
    let is_bottom = part.level == MergeLevel::Bottom && is_after_data(root, &part.run.range());
    let (level, form) = match is_bottom {
        true => (MergeLevel::Bottom, RunForm::Bottom),
        false => (MergeLevel::Upper, RunForm::Upper),
    };
    let handle = &part.run.handle;
    let run = match handle.form == form {
        true => part.run.clone(),
        false => RunRef::whole(Arc::new(handle.with_form(form))),
    };
    Part { run, level }
}

/// Adds the bottom runs of the base to a tree that waits for it. If they need several leaves, these get a
/// level of inner children for the runs that the tree has. Otherwise each leaf would get all of them, and a job
/// would be due on every leaf.
fn add_base(editor: &mut Editor<'_>, base: &[RunRef], cuts: &[Key]) -> Result<(), EditStop> {
    let mut newer: Vec<RunRef> = Vec::new();
    editor.change(&[], Depth::Leaf, &mut |editor, leaf, range| {
        let mut runs = base.to_vec();
        if cuts.is_empty() {
            runs.splice(..0, leaf.runs.iter().cloned());
        } else {
            newer.clone_from(&leaf.runs);
        }
        let leaf = Child::new(leaf.id, runs, None, range, editor.options());
        divide_at(editor, &leaf, range, cuts)
    })?;
    if !newer.is_empty() && editor.root().children.len() > 1 {
        editor.raise_root();
    }
    // Each is added in front of the others, so the oldest must be added first.
    newer.iter().rev().try_for_each(|run| {
        editor.add_run(run, Depth::Root, &|_, child, range| {
            vec![(range.lower.clone(), child)]
        })
    })
}

/// A node that must be read before a load can be installed.
#[derive(Debug)]
pub struct RequiredNode(MissingNode);

impl Tree {
    /// Begins a load of entries of one write, which [`Tree::bulk_load`] writes and
    /// [`Tree::install_load`] adds.
    ///
    /// # Panics
    /// When the id is that of settled entries.
    #[must_use]
    pub fn begin_load(&self, write_id: WriteId) -> PausedLoad {
        assert!(!write_id.is_settled(), "the entries have a write");
        PausedLoad::new(write_id, sections(&self.load_version().root))
    }

    /// Whether a memtable has a delete or a range tombstone: the next load must not be installed
    /// before it is flushed.
    #[must_use]
    pub fn holds_unflushed_deletes(&self) -> bool {
        let version = self.load_version();
        version.memtables().any(|slot| {
            let memtable = &slot.memtable;
            memtable.deletes() > 0 || memtable.tombstone_count() > 0
        })
    }

    /// Installs the base. From then on the tree behaves like any other. The base is durable with
    /// the next checkpoint.
    ///
    /// # Panics
    /// When the tree does not wait for a base.
    pub fn install_base(&self, load: PausedLoad) {
        let PausedLoad { parts, written, .. } = load;
        let runs: Vec<RunRef> = parts.into_iter().map(|part| part.run).collect();
        let cuts: Vec<Key> = runs
            .windows(2)
            .filter_map(|pair| match pair {
                [before, after] => Some(separator(before.upper()?, after.lower())),
                _ => None,
            })
            .collect();
        let options = self.options();
        let mut install = self.install.lock();
        let install = &mut *install;
        let version = self.version.load_full();
        assert!(version.awaits_base, "a tree has at most one base");
        let base = EditBase {
            options: &options,
            shared: &install.shared,
            claimed: &install.claimed,
        };
        // The edit belongs to no job.
        let (root, own) = (Arc::clone(&version.root), ChildId::ROOT);
        let mut editor = Editor::new(root, base, own, &mut install.next_child_id);
        let edited = add_base(&mut editor, &runs, &cuts);
        editor.release_own();
        let Ok(edited) = edited.and_then(|()| editor.finish()) else {
            unreachable!("a tree that waits for its base has one node, which is in memory")
        };
        let mut new = self.edited_version(install, &version, edited, written.blocks, &[]);
        new.awaits_base = false;
        self.publish_version(new);
    }

    /// Adds the entries of the load to the tree, as the newest ones in runs. Does no I/O: if a node
    /// must be read first, it is returned, and the caller repeats the call after
    /// [`Tree::read_required`]. The entries are durable with the next checkpoint.
    ///
    /// # Errors
    /// `Corrupt`. The tree is then unchanged.
    ///
    /// # Panics
    /// When the tree waits for a base.
    pub fn install_load(&self, load: &mut PausedLoad) -> StorageResult<Option<RequiredNode>> {
        let options = self.options();
        let mut install = self.install.lock();
        let install = &mut *install;
        let version = self.version.load_full();
        assert!(!version.awaits_base, "the tree waits for a base");
        let parts: Vec<Part> = load
            .parts
            .iter()
            .map(|part| placed(part, &version.root))
            .collect();
        let base = EditBase {
            options: &options,
            shared: &install.shared,
            claimed: &install.claimed,
        };
        // The edit belongs to no job.
        let (root, own) = (Arc::clone(&version.root), ChildId::ROOT);
        let mut editor = Editor::new(root, base, own, &mut install.next_child_id);
        // A load has no deletes.
        let hidden = RefCell::default();
        let mut placed = parts
            .iter()
            .rev()
            .map(|part| place(&mut editor, part, ChildId::ROOT, &hidden));
        let edited = placed.try_for_each(|placed| placed);
        editor.release_own();
        match edited.and_then(|()| editor.finish()) {
            Ok(edited) => {
                install.add_undurable(None, Some(load.write_id));
                let runs = load.parts.iter().map(|part| &part.run);
                let bytes = runs.map(|run| run.handle.description().raw_bytes).sum();
                let loaded = &self.counters.raw_bytes_loaded;
                loaded.fetch_add(bytes, Ordering::Relaxed);
                let written = std::mem::take(&mut load.written.blocks);
                let new = self.edited_version(install, &version, edited, written, &[]);
                self.publish_version(new);
                load.parts.clear();
                load.held.clear();
                Ok(None)
            }
            Err(EditStop::Missing(missing)) => Ok(Some(RequiredNode(missing))),
            Err(EditStop::Damaged(reason)) => Err(StorageError::corrupt(self.path(), 0, reason)),
        }
    }

    /// Reads the node that an installation requires. It remains in memory until the load is
    /// installed or dropped.
    ///
    /// # Errors
    /// Errors of reading nodes.
    pub fn read_required(&self, load: &mut PausedLoad, node: &RequiredNode) -> StorageResult<()> {
        let RequiredNode(missing) = node;
        let node = self.nodes.load(&missing.link, &missing.range)?;
        load.held.push(node.to_arc());
        Ok(())
    }
}
