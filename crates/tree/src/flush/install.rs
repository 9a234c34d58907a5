//! Installing the result of a job in the current version of the tree.

use super::context::{JobContext, Target};
use super::divide::{divide_at, divide_at_gaps};
use super::hidden::may_drop;
use super::output::Written;
use super::partition::Part;
use super::separate::unreferenced_values;
use crate::TreeOptions;
use crate::install_state::InstallState;
use crate::memory::Phase;
use crate::merge::MergeLevel;
use crate::node::{
    Child, ChildId, Depth, EditBase, EditStop, Edited, Editor, Key, Node, RunHandle, RunId, RunRef,
};
use crate::tree::Tree;
use crate::version::{MemtableSlot, TreeVersion};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use teak_base::{StorageError, StorageResult};
use teak_block_file::{BlockAddress, WrittenBlocks};

/// Number of separate values that are freed in one step. Threads that pin or allocate space wait
/// while a step runs.
const VALUES_PER_BATCH: usize = 256;

/// Flushes of memtables in a row that write small runs, before the root gets a new root above it.
const SMALL_FLUSHES_MAX: u32 = 4;

/// A run and its copy, some of whose blocks are at other places of the file.
pub(super) struct Relocated {
    pub(super) old: RunRef,
    pub(super) new: RunRef,
    /// The blocks of the run, and the separate values, that the copy does not share.
    pub(super) freed: Vec<BlockAddress>,
}

/// The result of a job, to be installed.
#[derive(Default)]
pub(super) struct JobOutcome {
    pub(super) written: Written,
    /// Runs to place, in key order; where they overlap, newest first.
    pub(super) parts: Vec<Part>,
    /// The child whose children receive the upper parts; by default the root.
    pub(super) parent: ChildId,
    /// The child, and those of its runs that were merged, moved down, dropped or marked.
    pub(super) consumed: Option<Target>,
    /// The runs that replace the consumed ones in the child, newest first.
    pub(super) replacements: Vec<RunRef>,
    /// Keys at which the consumed leaf splits.
    pub(super) cuts: Vec<Key>,
    /// The memtable that was flushed.
    pub(super) flushed: Option<Arc<MemtableSlot>>,
    /// The child and its runs that were moved to other places of the file.
    pub(super) relocated: Option<(Target, Vec<Relocated>)>,
}

impl JobOutcome {
    /// The consumed references to runs that the outcome does not place again.
    pub(super) fn released(&self) -> impl Iterator<Item = &RunRef> {
        let consumed = self.consumed.iter().flat_map(|target| &target.runs);
        consumed.filter(|run| {
            let parts = self.parts.iter().map(|part| &part.run);
            !parts
                .chain(&self.replacements)
                .any(|placed| placed.is_same_run(run))
        })
    }
}

/// What an installation reads before it takes the lock.
struct Released {
    addresses: Addresses,
    /// The blocks of separate values without an entry.
    values: Vec<BlockAddress>,
}

impl JobContext<'_> {
    /// Makes the outcome part of the current version and releases the claim.
    ///
    /// # Errors
    /// Errors of reading nodes, the index blocks of consumed runs, and their pages that refer to
    /// separate values. The tree is then unchanged.
    pub(super) fn install(&self, mut outcome: JobOutcome) -> StorageResult<()> {
        // Before the lock is taken, because this reads blocks.
        let copied = &outcome.written.copied;
        let released = Released {
            addresses: consumed_addresses(&outcome)?,
            values: unreferenced_values(&self.tree.file, outcome.released(), copied)?,
        };
        let tree = self.tree;
        // Nodes that were read for the installation. They are not evicted while they are held.
        let mut held: Vec<Arc<Node>> = Vec::new();
        loop {
            // Until all blocks are freed.
            let no_capture = tree.freeing.read();
            let since = Instant::now();
            let mut install = tree.install.lock();
            tree.cache.lock_times().freezes.record_since(since);
            // Retains the blocks of its nodes while one of them is read.
            let version = tree.version.load_full();
            match self.try_install(&mut install, &version, &mut outcome, &released) {
                Ok(freed) => {
                    drop(install);
                    // No entry of the new version refers to the values, so the lock is not needed.
                    let values = released.values.chunks(VALUES_PER_BATCH);
                    for batch in values.filter(|_| freed.is_some()) {
                        tree.file.publish(Vec::new(), batch);
                    }
                    drop(no_capture);
                    for address in freed.iter().flatten() {
                        tree.cache.forget(tree.file.file_id(), address.offset);
                    }
                    return Ok(());
                }
                Err(EditStop::Damaged(reason)) => {
                    return Err(StorageError::corrupt(tree.path(), 0, reason));
                }
                Err(EditStop::Missing(missing)) => {
                    drop(install);
                    drop(no_capture);
                    let node = tree.nodes.load(&missing.link, &missing.range)?;
                    held.push(node.to_arc());
                }
            }
        }
    }

    /// Returns the addresses of the freed blocks if the result was installed; otherwise it is
    /// discarded. After an error nothing has changed.
    fn try_install(
        &self,
        install: &mut InstallState,
        version: &TreeVersion,
        outcome: &mut JobOutcome,
        released: &Released,
    ) -> Result<Option<Vec<BlockAddress>>, EditStop> {
        let tree = self.tree;
        if outcome.consumed.is_some() && version.awaits_base != self.version.awaits_base {
            // The base was installed during the job, and divided the child. The tree is
            // complete without the result.
            self.claim.release(install);
            return Ok(None);
        }
        let (edited, hidden) = self.edit(install, version, outcome)?;
        self.claim.release(install);
        let mut freed = freed_addresses(&edited.freed, &released.addresses);
        let relocated = outcome.relocated.iter().flat_map(|(_, runs)| runs);
        freed.extend(relocated.flat_map(|moved| &moved.freed));
        let written = std::mem::take(&mut outcome.written.blocks);
        let mut new = tree.edited_version(install, version, edited, written, &freed);
        if let Some(slot) = &outcome.flushed {
            let oldest = new.frozen.pop();
            assert!(
                oldest.is_some_and(|oldest| Arc::ptr_eq(&oldest, slot)),
                "memtables are flushed oldest first"
            );
            if let Some(boundary) = slot.boundary.get() {
                install.flushed_lsn = install.flushed_lsn.max(*boundary);
            }
            let write_ids = slot.memtable.write_id_range();
            install.add_undurable(slot.first_lsn(), write_ids.map(|(oldest, _)| oldest));
            slot.memtable.enter(Phase::Retired);
            new.flushed += 1;
        }
        tree.add_hidden(&mut install.hidden, &hidden, new.flushed);
        tree.publish_version(new);
        Ok(Some(freed))
    }

    /// Also returns keys near which deletes may be dropped under an old snapshot.
    fn edit(
        &self,
        install: &mut InstallState,
        version: &TreeVersion,
        outcome: &JobOutcome,
    ) -> Result<(Edited, Vec<Key>), EditStop> {
        let base = EditBase {
            options: &self.options,
            shared: &install.shared,
            claimed: &install.claimed,
        };
        let root = Arc::clone(&version.root);
        let own = self.claim.id();
        let mut editor = Editor::new(root, base, own, &mut install.next_child_id);
        if outcome.flushed.is_some() {
            let small_flushes = match has_small_runs(&outcome.parts, &self.options) {
                true => install.small_flushes.saturating_add(1),
                false => 0,
            };
            install.small_flushes = small_flushes;
            if small_flushes >= SMALL_FLUSHES_MAX {
                editor.limit_root(self.options.small_run_children_max());
            }
        }
        if let Some(target) = &outcome.consumed {
            consume(&mut editor, target, &outcome.replacements, &outcome.cuts)?;
        }
        if let Some((target, runs)) = &outcome.relocated {
            replace(&mut editor, target, runs)?;
        }
        // Each part is placed in front of the existing runs, so the oldest must be placed first.
        let hidden = RefCell::default();
        for part in outcome.parts.iter().rev() {
            place(&mut editor, part, outcome.parent, &hidden)?;
        }
        editor.release_own();
        if let Some(target) = &outcome.consumed
            && !version.awaits_base
        {
            // Splits or drops the child now. Other jobs could not do this while it was claimed.
            let (lower, depth) = (&target.range.lower, Depth::Child(target.id));
            editor.change(lower, depth, &mut |editor, child, range| {
                divide_at_gaps(editor, Arc::clone(child), range)
            })?;
        }
        Ok((editor.finish()?, hidden.into_inner()))
    }
}

/// Whether a flush has written small runs to many children. With a level of inner children above them, there are fewer runs
/// and jobs: the inner children collect the runs of many flushes.
fn has_small_runs(parts: &[Part], options: &TreeOptions) -> bool {
    let upper = parts.iter().filter(|part| part.level == MergeLevel::Upper);
    let (count, bytes) = upper.fold((0u64, 0), |(count, bytes), part| {
        (count + 1, bytes + part.run.merge_bytes())
    });
    count > options.small_run_children_max() as u64 && bytes / count < options.small_run_bytes()
}

/// Removes the consumed runs from their child, and inserts the replacements at the position of the
/// newest consumed run.
fn consume(
    editor: &mut Editor<'_>,
    target: &Target,
    replacements: &[RunRef],
    cuts: &[Key],
) -> Result<(), EditStop> {
    let depth = Depth::Child(target.id);
    editor.change(&target.range.lower, depth, &mut |editor, child, range| {
        let is_consumed = |run: &RunRef| target.runs.iter().any(|c| c.is_same_run(run));
        let place = child.runs.iter().position(is_consumed).unwrap_or(0);
        let mut runs = Vec::with_capacity(child.runs.len() + replacements.len());
        let (newer, rest) = child.runs.split_at_checked(place).unwrap_or_default();
        runs.extend_from_slice(newer);
        runs.extend_from_slice(replacements);
        runs.extend(rest.iter().filter(|run| !is_consumed(run)).cloned());
        let child = Child::new(child.id, runs, child.below.clone(), range, editor.options());
        if cuts.is_empty() {
            vec![(range.lower.clone(), child)]
        } else {
            divide_at(editor, &child, range, cuts)
        }
    })
}

/// Replaces runs of a child by their copies, at the same positions among its runs.
fn replace(
    editor: &mut Editor<'_>,
    target: &Target,
    relocated: &[Relocated],
) -> Result<(), EditStop> {
    let depth = Depth::Child(target.id);
    let mut replaced = 0;
    editor.change(&target.range.lower, depth, &mut |editor, child, range| {
        let mut runs = child.runs.clone();
        for moved in relocated {
            let place = runs.iter_mut().find(|run| run.is_same_run(&moved.old));
            if let Some(place) = place {
                *place = moved.new.clone();
                replaced += 1;
            }
        }
        let child = Child::new(child.id, runs, child.below.clone(), range, editor.options());
        vec![(range.lower.clone(), child)]
    })?;
    match replaced == relocated.len() {
        true => Ok(()),
        false => Err(EditStop::Damaged("a claimed child has lost a run")),
    }
}

impl Tree {
    /// The version after an edit, to be published by the caller. Publishes the blocks that were written
    /// for it, and frees others.
    pub(super) fn edited_version(
        &self,
        install: &mut InstallState,
        version: &TreeVersion,
        edited: Edited,
        written: Vec<WrittenBlocks>,
        freed: &[BlockAddress],
    ) -> TreeVersion {
        self.file.publish(written, freed);
        install.set_references(&edited.references);
        install.add_dropped(edited.dropped);
        install.changed = true;
        version.with_root(edited.root, &self.file, install.checkpoint_pin())
    }
}

/// Adds the start of the run to `hidden` for each child that then may have enough deletes.
pub(super) fn place(
    editor: &mut Editor<'_>,
    part: &Part,
    parent: ChildId,
    hidden: &RefCell<Vec<Key>>,
) -> Result<(), EditStop> {
    match part.level {
        MergeLevel::Bottom => editor.add_run(&part.run, Depth::Leaf, &divide_at_gaps),
        MergeLevel::Upper => {
            let depth = if parent == ChildId::ROOT {
                Depth::Root
            } else {
                Depth::Below(parent)
            };
            editor.add_run(&part.run, depth, &|editor, child, range| {
                if let Some(run) = child.runs.first()
                    && may_drop(&child, editor.options())
                {
                    hidden.borrow_mut().push(run.lower().into());
                }
                vec![(range.lower.clone(), child)]
            })
        }
    }
}

type Addresses = HashMap<RunId, Vec<BlockAddress>>;

/// The blocks to free for each run that may lose its last reference in the installation.
fn consumed_addresses(outcome: &JobOutcome) -> StorageResult<Addresses> {
    let mut addresses = Addresses::new();
    for run in outcome.released() {
        addresses.insert(run.handle.id(), run.handle.run.addresses()?);
    }
    // A run and its copy have the same id if the first index block was not moved. Then the run does
    // not lose its reference. In either case only the blocks that were moved are freed.
    for moved in outcome.relocated.iter().flat_map(|(_, runs)| runs) {
        addresses.insert(moved.old.handle.id(), Vec::new());
    }
    Ok(addresses)
}

fn freed_addresses(freed: &[Arc<RunHandle>], addresses: &Addresses) -> Vec<BlockAddress> {
    let mut blocks = Vec::new();
    for handle in freed {
        let found = addresses.get(&handle.id());
        // An installation removes last references only of consumed runs.
        debug_assert!(found.is_some(), "an installation frees what it consumed");
        blocks.extend(found.into_iter().flatten().copied());
    }
    blocks
}
