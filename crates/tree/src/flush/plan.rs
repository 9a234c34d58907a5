//! Planning: the choice of the next job.

use super::candidate::{Candidate, candidate, touched_runs};
use super::claim::Claim;
use super::context::Target;
use super::job::{FlushJob, Work};
use super::layers::Layers;
use super::report::JobKind;
use super::search::{Found, Priority, Search, find_max};
use super::tier::cheapest_runs;
use crate::TreeOptions;
use crate::install_state::InstallState;
use crate::node::{
    Child, ChildId, KeyRange, LeafShape, Node, RUN_LOAD_MAX, RunForm, RunRef, WATERMARK_MIN,
    prefers_consolidation, run_load,
};
use crate::tree::Tree;
use crate::version::TreeVersion;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{StorageResult, WriteId};

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
    /// The same, relative to the number at which a job is due. From 2 on, memtables and due flushes
    /// from the level above wait until the runs of the child are merged. Jobs that are not due still
    /// add runs, as do loads.
    pub run_load: f64,
    /// The settled watermark from which on a job is due because of garbage (see
    /// [`Tree::note_settled`]), or because deletes may be dropped under an old snapshot, which is due
    /// at any watermark. Writers do not wait for such jobs, so they are not in `due_bytes`.
    pub garbage_due_at: Option<WriteId>,
}

impl TreeBacklog {
    /// Whether a job is due, or will be when garbage can be dropped.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.due_bytes > 0 || self.garbage_due_at.is_some()
    }
}

impl Tree {
    /// Claims the most urgent work that is due: the oldest frozen memtable, otherwise a child.
    /// While a child of the root has twice as many runs as make it due, memtables wait.
    /// Children that are due only because of garbage come last, then those with deletes that may be
    /// dropped under an old snapshot.
    /// Jobs that are claimed at the same time work on disjoint parts of the tree and may run in
    /// parallel.
    ///
    /// # Errors
    /// Errors of reading nodes, if no job is due elsewhere.
    pub fn next_job(self: &Arc<Self>) -> StorageResult<Option<FlushJob>> {
        let options = self.options();
        self.search(Search::default(), |install, version, search| {
            if version.awaits_base {
                let layers = layers_of(version, &options);
                if layer_load(&layers, &options) >= RUN_LOAD_MAX
                    && let Some(job) = self.layer_job(install, version, &layers)
                {
                    return Ok(Some(job));
                }
                let job = self.memtable_job(install, version);
                return Ok(job.or_else(|| self.layer_job(install, version, &layers)));
            }
            if !is_crowded(version, &options)
                && let Some(job) = self.memtable_job(install, version)
            {
                return Ok(Some(job));
            }
            let due = DueSearch {
                root: &version.root,
                search,
                options: &options,
                settled_below: self.settled_below(),
            };
            if let Some(candidate) = due.find_backlog(&install.claimed)? {
                return self.claim_child(install, version, search, candidate);
            }
            if let Some(candidate) = due.find_garbage(&install.claimed)? {
                return self.claim_child(install, version, search, candidate);
            }
            let InstallState {
                hidden, claimed, ..
            } = &mut *install;
            let Some((key, candidate)) = self.find_hidden(hidden, claimed, version, search)? else {
                return Ok(None);
            };
            match self.claim_child(install, version, search, candidate) {
                Ok(Some(job)) => Ok(Some(job.for_hidden(key))),
                failed => {
                    let from = version.flushed + u64::from(failed.is_ok());
                    self.add_hidden(&mut install.hidden, &[key], from);
                    failed
                }
            }
        })
    }

    fn settled_below(&self) -> WriteId {
        WriteId(self.settled_below.load(Ordering::Relaxed))
    }

    /// Reports the settled watermark: all writes below this id are settled or aborted. Garbage makes
    /// a job due only if a merge can drop it, which depends on the watermark.
    pub fn note_settled(&self, below: WriteId) {
        self.settled_below.fetch_max(below.0, Ordering::Relaxed);
    }

    /// Whether memtables should wait for merges, because a child of the root has twice as many runs as
    /// make one due.
    #[must_use]
    pub fn holds_memtables_back(&self) -> bool {
        let version = self.load_version();
        !version.awaits_base && is_crowded(&version, &self.options())
    }

    /// Claims the flush of the oldest frozen memtable, if there is one and no other job has claimed
    /// it, even while memtables should wait. Its flush reads no run, so damaged runs do not prevent it.
    pub fn next_memtable_job(self: &Arc<Self>) -> Option<FlushJob> {
        let mut install = self.install.lock();
        let version = self.version.load_full();
        self.memtable_job(&mut install, &version)
    }

    /// Claims a job on the unclaimed child whose runs (or their separate values) extend furthest
    /// into the file. The job moves the child's blocks that end after `limit` to holes before the
    /// limit. If a run to move is shared or clipped, the job instead merges the runs of a leaf, or
    /// flushes those of an inner child. Returns `None` when no unclaimed child has blocks that end
    /// after `limit`, and for a tree that waits for its base.
    ///
    /// # Errors
    /// Errors of reading nodes, if no other child has such blocks.
    pub fn next_relocation(self: &Arc<Self>, limit: u64) -> StorageResult<Option<FlushJob>> {
        let priority = Priority {
            own: &|child| {
                let ends = child
                    .runs
                    .iter()
                    .map(|run| run.handle.description().blocks_end);
                ends.max().unwrap_or(0)
            },
            below: &|link| link.summary().blocks_end,
            min: limit.saturating_add(1),
        };
        self.search(Search::default(), |install, version, search| {
            if version.awaits_base {
                return Ok(None);
            }
            // A run with several references is clipped in each.
            let is_clipped = |child: &Child| {
                let is_moved = |run: &&RunRef| run.handle.description().blocks_end > limit;
                child
                    .runs
                    .iter()
                    .filter(is_moved)
                    .any(|run| run.clip.is_some())
            };
            let mut choose = |child: &Arc<Child>, range: &KeyRange| {
                let is_flushed = !child.is_leaf() && is_clipped(child);
                if is_flushed && search.below(child, range)?.is_none() {
                    return Ok(None);
                }
                Ok(Some((Arc::clone(child), range.clone())))
            };
            let (root, claimed) = (&version.root, &install.claimed);
            let Some((child, range)) = find_max(root, claimed, search, &priority, &mut choose)?
            else {
                return Ok(None);
            };
            let mut runs = child.runs.clone();
            runs.retain(|run| run.handle.description().blocks_end > limit);
            if is_clipped(&child) {
                let kind = match child.below {
                    Some(_) => JobKind::Child,
                    None => JobKind::Leaf,
                };
                let candidate = candidate(&child, range, kind);
                return self.claim_child(install, version, search, candidate);
            }
            let id = child.id;
            let target = Target { id, range, runs };
            let claim = Claim::take(self, install, id);
            let work = Work::Relocate(target, limit);
            Ok(Some(FlushJob::new(claim, Arc::clone(version), work)))
        })
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
        let options = self.options();
        let mut backlog = TreeBacklog {
            due_bytes: summary.due_bytes,
            upper_bytes: summary.upper_bytes,
            merge_bytes: summary.merge_bytes,
            child_runs: summary.child_runs(),
            run_load: summary.run_load(&options),
            garbage_due_at: match self.has_hidden(&version) {
                true => Some(WATERMARK_MIN),
                false => summary.garbage_due_at,
            },
        };
        if version.awaits_base {
            backlog.garbage_due_at = None;
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

    pub(super) fn memtable_job(
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

    /// Claims the chosen child; `None` if the node below cannot be read.
    pub(super) fn claim_child(
        self: &Arc<Self>,
        install: &mut InstallState,
        version: &Arc<TreeVersion>,
        search: &Search,
        candidate: Candidate,
    ) -> Found<FlushJob> {
        let Candidate {
            child,
            range,
            kind,
            is_partial,
        } = candidate;
        let mut runs = child.runs.clone();
        if kind == JobKind::Consolidate {
            if child.is_leaf() {
                runs.retain(|run| run.handle.form == RunForm::Upper);
            }
            let sizes: Vec<u64> = runs.iter().map(RunRef::merge_bytes).collect();
            let merged = cheapest_runs(&sizes);
            runs = runs.get(merged).unwrap_or_default().to_vec();
        } else if kind == JobKind::Leaf && is_partial {
            runs = touched_runs(&runs);
        }
        let target = Target {
            id: child.id,
            range,
            runs,
        };
        let work = match (kind, &child.below) {
            (JobKind::Consolidate, _) => Work::Consolidate(target),
            (JobKind::Mark, _) => Work::Mark(target),
            (_, Some(_)) => {
                let Some(below) = search.below(&child, &target.range)? else {
                    return Ok(None);
                };
                Work::Child(target, below.to_arc())
            }
            (_, None) => Work::Leaf(target),
        };
        let claim = Claim::take(self, install, child.id);
        Ok(Some(FlushJob::new(claim, Arc::clone(version), work)))
    }
}

/// Whether a child of the root is full.
pub(super) fn is_crowded(version: &TreeVersion, options: &TreeOptions) -> bool {
    let mut children = version.root.children.iter();
    children.any(|child| child.is_full(options))
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

/// The search for a child on which a job is due.
struct DueSearch<'a> {
    root: &'a Node,
    search: &'a Search,
    options: &'a TreeOptions,
    settled_below: WriteId,
}

impl DueSearch<'_> {
    /// Finds the unclaimed child whose job is due most urgently, apart from garbage.
    fn find_backlog(&self, claimed: &HashSet<ChildId>) -> Found<Candidate> {
        // Urgencies are not negative, so their bits are in the same order.
        let priority = Priority {
            own: &|child| child.own_due.to_bits(),
            below: &|link| link.summary().due.to_bits(),
            min: 1.0_f64.to_bits(),
        };
        self.find(claimed, &priority)
    }

    /// Finds the unclaimed child that was first due because of garbage. No node is read for garbage
    /// that a snapshot still needs.
    fn find_garbage(&self, claimed: &HashSet<ChildId>) -> Found<Candidate> {
        let earlier_first = |due_at: Option<WriteId>| due_at.map_or(0, |at| u64::MAX - at.0);
        let priority = Priority {
            own: &|child| earlier_first(child.garbage_due_at),
            below: &|link| earlier_first(link.summary().garbage_due_at),
            min: earlier_first(Some(self.settled_below)),
        };
        self.find(claimed, &priority)
    }

    fn find(&self, claimed: &HashSet<ChildId>, priority: &Priority<'_>) -> Found<Candidate> {
        let (root, search) = (self.root, self.search);
        find_max(root, claimed, search, priority, &mut |child, range| {
            let kind = self.kind(child, range)?;
            Ok(kind.map(|kind| Candidate {
                child: Arc::clone(child),
                range: range.clone(),
                kind,
                is_partial: !child.is_garbage_due(self.settled_below),
            }))
        })
    }

    /// The kind of a due job on a child; `None` when a child below has so many runs
    /// that it must be merged first, or the node below cannot be read.
    fn kind(&self, child: &Child, range: &KeyRange) -> Found<JobKind> {
        let options = self.options;
        if child.is_leaf() {
            let shape = LeafShape::of(&child.runs);
            let is_cheaper = shape.prefers_consolidation(child.id.0, options);
            return Ok(Some(
                match is_cheaper && !child.is_garbage_due(self.settled_below) {
                    true => JobKind::Consolidate,
                    false => JobKind::Leaf,
                },
            ));
        }
        if prefers_consolidation(&child.runs, child.id.0, options) {
            return Ok(Some(JobKind::Consolidate));
        }
        let Some(below) = self.search.below(child, range)? else {
            return Ok(None);
        };
        let mut children = below.children.iter();
        let is_crowded = children.any(|below| below.is_full(options));
        Ok((!is_crowded).then_some(JobKind::Child))
    }
}
