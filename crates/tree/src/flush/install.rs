//! Installing the result of a job in the current version of the tree.

use super::context::{JobContext, Target};
use super::divide::{divide_at, divide_at_gaps};
use super::output::Written;
use super::partition::Part;
use super::separate::unreferenced_values;
use crate::memory::Phase;
use crate::merge::MergeLevel;
use crate::node::{Child, ChildId, Depth, Editor, Key, RunHandle, RunRef};
use crate::version::{MemtableSlot, TreeVersion};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use teak_base::StorageResult;
use teak_block_file::BlockAddress;

/// Separate values that are freed in one step. Readers and writers that pin or allocate space wait
/// for a step.
const VALUES_PER_BATCH: usize = 256;

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

impl JobContext<'_> {
    /// Makes the outcome part of the current version and releases the claim.
    ///
    /// # Errors
    /// Errors of reading the index blocks of consumed runs, and their pages that refer to separate
    /// values. The tree is then unchanged.
    pub(super) fn install(&self, outcome: JobOutcome) -> StorageResult<()> {
        // This reads blocks, so it is done before the lock is taken.
        let addresses = consumed_addresses(&outcome)?;
        let values =
            unreferenced_values(&self.tree.file, outcome.released(), &outcome.written.copied)?;
        let JobOutcome {
            written,
            parts,
            parent,
            consumed,
            replacements,
            cuts,
            flushed,
            relocated,
        } = outcome;
        let tree = self.tree;
        // Until all blocks are freed.
        let _no_capture = tree.freeing.read();
        let since = Instant::now();
        let mut install = tree.install.lock();
        tree.cache.lock_times().freezes.record_since(since);
        let state = &mut *install;
        self.claim.release(state);
        let version = tree.version.load_full();
        if consumed.is_some() && version.awaits_base != self.version.awaits_base {
            // The base was installed while the job ran, which divided the child. The child's runs
            // are still in the tree, so the result is discarded.
            return Ok(());
        }
        let mut editor = Editor::new(
            Arc::clone(&version.root),
            &self.options,
            &state.claimed,
            self.claim.id(),
            &mut state.next_child_id,
        );
        if let Some(target) = &consumed {
            consume(&mut editor, target, &replacements, &cuts);
        }
        if let Some((target, runs)) = &relocated {
            replace(&mut editor, target, runs);
        }
        // Each part is placed in front of the existing runs, so the oldest must be placed first.
        for part in parts.iter().rev() {
            place(&mut editor, part, parent);
        }
        editor.release_own();
        if let Some(target) = &consumed
            && !version.awaits_base
        {
            // Splits the leaf, or drops it, if that has become necessary. Other jobs did not do
            // this while the leaf was claimed.
            let lower = &target.range.lower;
            editor.change(lower, Depth::Leaf, &mut |editor, leaf, range| {
                divide_at_gaps(editor, Arc::clone(leaf), range)
            });
        }
        let (root, freed) = editor.finish();
        tree.file
            .publish(written.blocks, &freed_addresses(&freed, &addresses));
        let mut frozen = version.frozen.clone();
        if let Some(slot) = &flushed {
            let oldest = frozen.pop();
            assert!(
                oldest.is_some_and(|oldest| Arc::ptr_eq(&oldest, slot)),
                "memtables are flushed oldest first"
            );
            if let Some(boundary) = slot.boundary.get() {
                state.flushed_lsn = state.flushed_lsn.max(*boundary);
            }
            let write_ids = slot.memtable.write_id_range();
            state.add_undurable(slot.first_lsn(), write_ids.map(|(oldest, _)| oldest));
            slot.memtable.enter(Phase::Retired);
        }
        state.changed = true;
        let new = Arc::new(TreeVersion {
            active: Arc::clone(&version.active),
            frozen,
            flushed: version.flushed + u64::from(flushed.is_some()),
            root,
            pin: Arc::new(tree.file.pin()),
            awaits_base: version.awaits_base,
        });
        tree.version.store(new);
        drop(install);
        // No entry of the new version refers to them, so the lock is not needed.
        for batch in values.chunks(VALUES_PER_BATCH) {
            tree.file.publish(Vec::new(), batch);
        }
        Ok(())
    }
}

/// Removes the consumed runs from their child, and inserts the replacements at the position of the
/// newest consumed run.
fn consume(editor: &mut Editor<'_>, target: &Target, replacements: &[RunRef], cuts: &[Key]) {
    let depth = Depth::Child(target.id);
    editor.change(&target.range.lower, depth, &mut |editor, child, range| {
        let is_consumed = |run: &RunRef| target.runs.iter().any(|c| c.is_same_run(run));
        let place = child.runs.iter().position(is_consumed).unwrap_or(0);
        let mut runs = Vec::with_capacity(child.runs.len() + replacements.len());
        let (newer, rest) = child.runs.split_at_checked(place).unwrap_or_default();
        runs.extend_from_slice(newer);
        runs.extend_from_slice(replacements);
        runs.extend(rest.iter().filter(|run| !is_consumed(run)).cloned());
        let child = Child::new(child.id, runs, child.below.clone(), editor.options());
        if cuts.is_empty() {
            vec![(range.lower.clone(), child)]
        } else {
            divide_at(editor, &child, range, cuts)
        }
    });
}

/// Replaces runs of a child by their copies, at the same positions among its runs.
fn replace(editor: &mut Editor<'_>, target: &Target, relocated: &[Relocated]) {
    let depth = Depth::Child(target.id);
    editor.change(&target.range.lower, depth, &mut |editor, child, range| {
        let mut runs = child.runs.clone();
        for moved in relocated {
            let place = runs.iter_mut().find(|run| run.is_same_run(&moved.old));
            let Some(place) = place else {
                unreachable!("a claimed child keeps its runs");
            };
            *place = moved.new.clone();
        }
        let child = Child::new(child.id, runs, child.below.clone(), editor.options());
        vec![(range.lower.clone(), child)]
    });
}

fn place(editor: &mut Editor<'_>, part: &Part, parent: ChildId) {
    match part.level {
        MergeLevel::Bottom => editor.add_run(&part.run, Depth::Leaf, &divide_at_gaps),
        MergeLevel::Upper => {
            let depth = if parent == ChildId::ROOT {
                Depth::Root
            } else {
                Depth::Below(parent)
            };
            editor.add_run(&part.run, depth, &|_, child, range| {
                vec![(range.lower.clone(), child)]
            });
        }
    }
}

type Addresses = HashMap<*const RunHandle, Vec<BlockAddress>>;

/// The blocks to free for each run that may lose its last reference in the installation.
fn consumed_addresses(outcome: &JobOutcome) -> StorageResult<Addresses> {
    let mut addresses = Addresses::new();
    for run in outcome.released() {
        addresses.insert(Arc::as_ptr(&run.handle), run.handle.run.addresses()?);
    }
    for moved in outcome.relocated.iter().flat_map(|(_, runs)| runs) {
        addresses.insert(Arc::as_ptr(&moved.old.handle), moved.freed.clone());
    }
    Ok(addresses)
}

fn freed_addresses(freed: &[Arc<RunHandle>], addresses: &Addresses) -> Vec<BlockAddress> {
    let mut blocks = Vec::new();
    for handle in freed {
        let found = addresses.get(&Arc::as_ptr(handle));
        // Only consumed and relocated runs can lose their last reference in an installation.
        debug_assert!(found.is_some(), "an installation frees what it consumed");
        blocks.extend(found.into_iter().flatten().copied());
    }
    blocks
}
