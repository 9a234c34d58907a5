//! Planning: the choice of the next job.

use super::candidate::{Candidate, candidate};
use super::claim::Claim;
use super::context::Target;
use super::job::{FlushJob, Work};
use super::layers::Layers;
use super::report::JobKind;
use super::settling::{find_older, find_unsettled};
use super::tier::cheapest_runs;
use crate::TreeOptions;
use crate::install_state::InstallState;
use crate::node::{
    Child, ChildId, KeyRange, LeafShape, Node, RUN_LOAD_MAX, RunForm, RunRef, run_load,
};
use crate::tree::Tree;
use crate::version::TreeVersion;
use std::collections::HashSet;
use std::sync::Arc;
use teak_base::WriteId;
use teak_base::visibility::Horizon;

/// The backlog of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TreeBacklog {
    /// Bytes of upper runs in children where jobs are due, without frozen memtables. Zero when no
    /// job is due. This and the following sizes are raw bytes of pages, and a share of those of
    /// separate values, which merges do not rewrite.
    pub due_bytes: u64,
    /// Bytes of all upper runs.
    pub upper_bytes: u64,
    /// Bytes of all runs.
    pub merge_bytes: u64,
    /// Maximum number of upper runs of one child.
    pub child_runs: u64,
    /// The same, relative to the number at which a job is due. From 2 on, due flushes from the
    /// level above wait until the runs of the child are merged. Memtables, and jobs that are not
    /// due, still add runs.
    pub run_load: f64,
}

impl Tree {
    /// Claims the most urgent work that is due: the oldest frozen memtable, otherwise a child.
    /// While a child of the root has twice as many runs as make it due, due children come first.
    /// Jobs that are claimed at the same time work on disjoint parts of the tree and may run in
    /// parallel.
    pub fn next_job(self: &Arc<Self>) -> Option<FlushJob> {
        let options = self.options();
        let mut install = self.install.lock();
        let version = self.version.load_full();
        if version.awaits_base {
            let layers = layers_of(&version, &options);
            if layer_load(&layers, &options) >= RUN_LOAD_MAX
                && let Some(job) = self.layer_job(&mut install, &version, &layers)
            {
                return Some(job);
            }
            let job = self.memtable_job(&mut install, &version);
            return job.or_else(|| self.layer_job(&mut install, &version, &layers));
        }
        let mut children = version.root.children.iter();
        let is_crowded = children.any(|child| child.is_full(&options));
        if !is_crowded && let Some(job) = self.memtable_job(&mut install, &version) {
            return Some(job);
        }
        let mut best = None;
        let all = KeyRange::all();
        find_due(&version.root, &all, &install.claimed, &options, &mut best);
        match best {
            Some(candidate) => Some(self.claim_child(&mut install, &version, candidate)),
            None if is_crowded => self.memtable_job(&mut install, &version),
            None => None,
        }
    }

    /// Claims the flush of the oldest frozen memtable, if there is one and no other job has claimed
    /// it. Its flush reads no run, so damaged runs do not prevent it.
    pub fn next_memtable_job(self: &Arc<Self>) -> Option<FlushJob> {
        let mut install = self.install.lock();
        let version = self.version.load_full();
        self.memtable_job(&mut install, &version)
    }

    /// Claims a job for idle times, even if it is not due: it flushes a frozen memtable, moves
    /// entries towards the leaves, or settles write ids. Returns `None` if only claimed children
    /// have such work under this horizon, and for a tree that waits for its base.
    pub fn next_idle_job(self: &Arc<Self>, horizon: &dyn Horizon) -> Option<FlushJob> {
        let mut install = self.install.lock();
        let version = self.version.load_full();
        if let Some(job) = self.memtable_job(&mut install, &version) {
            return Some(job);
        }
        if version.awaits_base {
            return None;
        }
        let all = KeyRange::all();
        let mut found = None;
        if version.root.summary.holds_buffered {
            found = find_buffered(&version.root, &all, &install.claimed);
        }
        if found.is_none() && version.root.summary.holds_pending {
            found = find_pending(&version.root, &all, &install.claimed);
        }
        if found.is_none() && version.root.summary.write_ids.is_some() {
            found = find_unsettled(&version.root, &all, &install.claimed, horizon);
        }
        found.map(|candidate| self.claim_child(&mut install, &version, candidate))
    }

    /// Claims a job on the unclaimed child whose runs (or their separate values) extend furthest
    /// into the file. The job moves the child's blocks that end after `limit` to holes before it.
    /// If a run to move is shared or clipped, the job instead merges the runs of a leaf, or flushes
    /// those of an inner child. Returns `None` when no unclaimed child has blocks that end after
    /// `limit`, and for a tree that waits for its base.
    pub fn next_relocation(self: &Arc<Self>, limit: u64) -> Option<FlushJob> {
        let mut install = self.install.lock();
        let version = self.version.load_full();
        if version.awaits_base {
            return None;
        }
        let all = KeyRange::all();
        let mut found = None;
        find_last_block(&version.root, &all, &install.claimed, limit, &mut found);
        let (child, range, _) = found?;
        let mut runs = child.runs.clone();
        runs.retain(|run| run.handle.description().blocks_end > limit);
        let is_shared = |run: &RunRef| run.clip.is_some() || run.handle.references() > 1;
        if runs.iter().any(is_shared) {
            let kind = match child.below {
                Some(_) => JobKind::Child,
                None => JobKind::Leaf,
            };
            let candidate = candidate(&child, range, kind);
            return Some(self.claim_child(&mut install, &version, candidate));
        }
        let id = child.id;
        let target = Target { id, range, runs };
        let claim = Claim::take(self, &mut install, id);
        Some(FlushJob::new(claim, version, Work::Relocate(target, limit)))
    }

    /// Claims a job that marks, merges or flushes a run with write ids below `below`, so that these
    /// ids disappear from it. All writes below `below` must be settled or aborted. Returns `None`
    /// if no run of an unclaimed child contains such ids, and for a tree that waits for its base.
    /// Memtables are not considered.
    pub fn next_settling_job(
        self: &Arc<Self>,
        horizon: &dyn Horizon,
        below: WriteId,
    ) -> Option<FlushJob> {
        let mut install = self.install.lock();
        let version = self.version.load_full();
        if version.awaits_base {
            return None;
        }
        let all = KeyRange::all();
        let found = find_older(&version.root, &all, &install.claimed, horizon, below);
        found.map(|candidate| self.claim_child(&mut install, &version, candidate))
    }

    /// Compaction debt: the size, as planning counts it, of the upper runs in children where jobs
    /// are due, without frozen memtables. Zero if no job is due.
    #[must_use]
    pub fn pending_work_bytes(&self) -> u64 {
        self.backlog().due_bytes
    }

    /// The backlog at this moment.
    #[must_use]
    pub fn backlog(&self) -> TreeBacklog {
        let version = self.load_version();
        let summary = &version.root.summary;
        let mut backlog = TreeBacklog {
            due_bytes: summary.due_bytes,
            upper_bytes: summary.upper_bytes,
            merge_bytes: summary.merge_bytes,
            child_runs: summary.child_runs,
            run_load: summary.run_load,
        };
        if version.awaits_base {
            let options = self.options();
            let layers = layers_of(&version, &options);
            backlog.child_runs = layers.count();
            backlog.run_load = layer_load(&layers, &options);
            backlog.due_bytes = match backlog.run_load >= 1.0 {
                true => layer_runs(&version, &layers)
                    .iter()
                    .map(RunRef::merge_bytes)
                    .sum(),
                false => 0,
            };
        }
        backlog
    }

    /// Claims a merge of runs of a tree that waits for its base, if one is due.
    fn layer_job(
        self: &Arc<Self>,
        install: &mut InstallState,
        version: &Arc<TreeVersion>,
        layers: &Layers,
    ) -> Option<FlushJob> {
        let leaf = version.root.children.first()?;
        let options = self.options();
        if layer_load(layers, &options) < 1.0 || install.claimed.contains(&leaf.id) {
            return None;
        }
        let target = Target {
            id: leaf.id,
            range: KeyRange::all(),
            runs: layer_runs(version, layers).to_vec(),
        };
        let claim = Claim::take(self, install, leaf.id);
        let work = Work::Consolidate(target);
        Some(FlushJob::new(claim, Arc::clone(version), work))
    }

    fn memtable_job(
        self: &Arc<Self>,
        install: &mut InstallState,
        version: &Arc<TreeVersion>,
    ) -> Option<FlushJob> {
        let oldest = version.frozen.last()?;
        if install.claimed.contains(&ChildId::ROOT) {
            return None;
        }
        Some(FlushJob::new(
            Claim::take(self, install, ChildId::ROOT),
            Arc::clone(version),
            Work::Memtable(Arc::clone(oldest)),
        ))
    }

    pub(super) fn claim_child(
        self: &Arc<Self>,
        install: &mut InstallState,
        version: &Arc<TreeVersion>,
        candidate: Candidate,
    ) -> FlushJob {
        let Candidate {
            child, range, kind, ..
        } = candidate;
        let mut runs = child.runs.clone();
        if kind == JobKind::Consolidate {
            if child.is_leaf() {
                runs.retain(|run| run.handle.form == RunForm::Upper);
            }
            let sizes: Vec<u64> = runs.iter().map(RunRef::merge_bytes).collect();
            let merged = cheapest_runs(&sizes);
            runs = runs.get(merged).unwrap_or_default().to_vec();
        }
        let target = Target {
            id: child.id,
            range,
            runs,
        };
        let work = match (kind, &child.below) {
            (JobKind::Consolidate, _) => Work::Consolidate(target),
            (JobKind::Mark, _) => Work::Mark(target),
            (_, Some(below)) => Work::Child(target, Arc::clone(below)),
            (_, None) => Work::Leaf(target),
        };
        let claim = Claim::take(self, install, child.id);
        FlushJob::new(claim, Arc::clone(version), work)
    }
}

/// The layers of a tree that waits for its base. Its root has one child, a leaf.
fn layers_of(version: &TreeVersion, options: &TreeOptions) -> Layers {
    let runs = version.root.children.first().map(|leaf| &leaf.runs[..]);
    Layers::of(runs.unwrap_or_default(), options.run_bytes_max)
}

/// The runs of such a tree that are merged next.
fn layer_runs<'a>(version: &'a TreeVersion, layers: &Layers) -> &'a [RunRef] {
    let leaf = version.root.children.first();
    let runs = leaf.and_then(|leaf| leaf.runs.get(layers.cheapest()));
    runs.unwrap_or_default()
}

fn layer_load(layers: &Layers, options: &TreeOptions) -> f64 {
    run_load(layers.count(), false, options)
}

/// The kind of a due job on a child; `None` when a child below has so many runs
/// that it must be merged first.
fn due_kind(child: &Child, options: &TreeOptions) -> Option<JobKind> {
    let Some(below) = &child.below else {
        let shape = LeafShape::of(&child.runs);
        return Some(
            if shape.is_fragmented() && shape.deletes_due(options) < 1.0 {
                JobKind::Consolidate
            } else {
                JobKind::Leaf
            },
        );
    };
    let bytes: u64 = child.runs.iter().map(RunRef::merge_bytes).sum();
    if child.runs.len() as u64 >= u64::from(options.child_runs_max)
        && bytes < options.child_buffer_bytes / 2
    {
        return Some(JobKind::Consolidate);
    }
    let mut children = below.children.iter();
    let is_crowded = children.any(|below| below.is_full(options));
    (!is_crowded).then_some(JobKind::Child)
}

fn find_due(
    node: &Node,
    range: &KeyRange,
    claimed: &HashSet<ChildId>,
    options: &TreeOptions,
    best: &mut Option<Candidate>,
) {
    for (child, child_range) in node.children_with_ranges(range) {
        let due_min = best.as_ref().map_or(1.0, |best| best.due);
        if child.summary.due < due_min {
            continue;
        }
        if child.own_due >= due_min
            && best.as_ref().is_none_or(|best| child.own_due > best.due)
            && !claimed.contains(&child.id)
            && let Some(kind) = due_kind(child, options)
        {
            *best = Some(Candidate {
                child: Arc::clone(child),
                range: child_range.clone(),
                kind,
                due: child.own_due,
            });
        }
        if let Some(below) = &child.below {
            find_due(below, &child_range, claimed, options, best);
        }
    }
}

/// Finds an unclaimed inner child with runs. Higher levels come first, so that a later flush of the
/// level below merges their runs together with its own.
fn find_buffered(node: &Node, range: &KeyRange, claimed: &HashSet<ChildId>) -> Option<Candidate> {
    for (child, child_range) in node.children_with_ranges(range) {
        if !child.is_leaf() && !child.runs.is_empty() && !claimed.contains(&child.id) {
            return Some(candidate(child, child_range, JobKind::Child));
        }
    }
    node.children_with_ranges(range)
        .filter(|(child, _)| child.summary.holds_buffered)
        .find_map(|(child, child_range)| {
            find_buffered(child.below.as_ref()?, &child_range, claimed)
        })
}

/// Finds the unclaimed child whose runs extend furthest into the file, beyond `limit`.
fn find_last_block(
    node: &Node,
    range: &KeyRange,
    claimed: &HashSet<ChildId>,
    limit: u64,
    found: &mut Option<(Arc<Child>, KeyRange, u64)>,
) {
    for (child, child_range) in node.children_with_ranges(range) {
        let reached = |found: &Option<(Arc<Child>, KeyRange, u64)>| {
            found.as_ref().map_or(limit, |(_, _, end)| *end)
        };
        if child.summary.blocks_end <= reached(found) {
            continue;
        }
        if let Some(below) = &child.below {
            find_last_block(below, &child_range, claimed, limit, found);
        }
        let runs = child.runs.iter();
        let own_end = runs.map(|run| run.handle.description().blocks_end).max();
        if let Some(end) = own_end
            && end > reached(found)
            && !claimed.contains(&child.id)
        {
            *found = Some((Arc::clone(child), child_range, end));
        }
    }
}

/// Finds an unclaimed leaf with pending runs.
fn find_pending(node: &Node, range: &KeyRange, claimed: &HashSet<ChildId>) -> Option<Candidate> {
    node.children_with_ranges(range)
        .filter(|(child, _)| child.summary.holds_pending)
        .find_map(|(child, child_range)| match &child.below {
            Some(below) => find_pending(below, &child_range, claimed),
            None if claimed.contains(&child.id) => None,
            None => Some(candidate(child, child_range, JobKind::Leaf)),
        })
}
