//! Planning of jobs that are not due.

use super::candidate::{Candidate, candidate};
use super::job::FlushJob;
use super::plan::is_crowded;
use super::report::JobKind;
use super::search::{Found, Search};
use super::settling::{find_older, find_unsettled};
use crate::node::{
    Child, ChildId, KeyRange, Node, RunForm, Summary, is_large_part, is_worth_idle_job,
};
use crate::tree::Tree;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::visibility::Horizon;
use teak_base::{StorageResult, WriteId};

/// Optional jobs of a tree may write this many bytes for each byte that was flushed since it was
/// opened, or was then in upper runs.
const OPTIONAL_FACTOR: u64 = 8;

/// Optional jobs of a tree may always write this many leaves.
const OPTIONAL_LEAVES_MIN: u64 = 8;

/// Finds an unclaimed child below a root.
type Finder<'a> = &'a dyn Fn(&Node, &HashSet<ChildId>, &Search) -> Found<Candidate>;

impl Tree {
    /// Claims a job for idle times, even if it is not due: it flushes a frozen memtable, moves
    /// entries towards the leaves, or settles write ids. Returns `None` if no unclaimed child has
    /// such work under this horizon. A tree that waits for its base has only flushes of memtables.
    ///
    /// # Errors
    /// Errors of reading nodes, if there is no such job elsewhere.
    pub fn next_idle_job(
        self: &Arc<Self>,
        horizon: &dyn Horizon,
    ) -> StorageResult<Option<FlushJob>> {
        let all = KeyRange::all();
        let buffered = |root: &Node, claimed: &HashSet<ChildId>, search: &Search| match root
            .summary
            .holds_buffered
        {
            true => find_buffered(root, &all, claimed, search),
            false => Ok(None),
        };
        let pending = |root: &Node, claimed: &HashSet<ChildId>, search: &Search| match root
            .summary
            .holds_pending
        {
            true => find_pending(root, &all, claimed, search),
            false => Ok(None),
        };
        let unsettled = |root: &Node, claimed: &HashSet<ChildId>, search: &Search| {
            find_unsettled(root, &all, claimed, search, horizon, &|_| true)
        };
        self.first_optional_job(&[&buffered, &pending, &unsettled])
    }

    /// As [`next_idle_job`](Self::next_idle_job), but in a tree of more than a few leaves only jobs that
    /// write little for each byte which they move or settle. So small changes of a large table remain
    /// in upper runs, which are read with filters, instead of causing all of it to be rewritten.
    ///
    /// # Errors
    /// As [`next_idle_job`](Self::next_idle_job).
    pub fn next_worthwhile_job(
        self: &Arc<Self>,
        horizon: &dyn Horizon,
    ) -> StorageResult<Option<FlushJob>> {
        if self.has_few_leaves() {
            return self.next_idle_job(horizon);
        }
        let all = KeyRange::all();
        let worthwhile = |root: &Node, claimed: &HashSet<ChildId>, search: &Search| {
            find_worthwhile(root, &all, claimed, search)
        };
        let unsettled = |root: &Node, claimed: &HashSet<ChildId>, search: &Search| {
            let is_worth = |leaf: &Child| {
                is_large_part(&leaf.runs, |run| {
                    run.handle.form == RunForm::Upper || !run.handle.is_settled()
                })
            };
            find_unsettled(root, &all, claimed, search, horizon, &is_worth)
        };
        self.first_optional_job(&[&worthwhile, &unsettled])
    }

    /// Whether there is nothing to merge for [`next_worthwhile_job`](Self::next_worthwhile_job), and no
    /// memtable waits to be flushed.
    #[must_use]
    pub fn is_merged_for_idle_time(&self) -> bool {
        if self.has_few_leaves() {
            return self.is_fully_merged();
        }
        let version = self.load_version();
        version.frozen.is_empty() && !version.root.summary.holds_idle_work
    }

    fn has_few_leaves(&self) -> bool {
        let bytes = self.load_version().root.summary.merge_bytes;
        bytes <= OPTIONAL_LEAVES_MIN * self.options().leaf_bytes
    }

    /// Claims the flush of a memtable, or the job that the first successful finder finds.
    fn first_optional_job(
        self: &Arc<Self>,
        finders: &[Finder<'_>],
    ) -> StorageResult<Option<FlushJob>> {
        let options = self.options();
        let mut failure = None;
        for find in finders {
            let found = self.search(Search::in_order(), |install, version, search| {
                if (version.awaits_base || !is_crowded(version, &options))
                    && let Some(job) = self.memtable_job(install, version)
                {
                    return Ok(Some(job));
                }
                if version.awaits_base {
                    return Ok(None);
                }
                match find(&version.root, &install.claimed, search)? {
                    Some(candidate) => {
                        let job = self.claim_child(install, version, search, candidate)?;
                        Ok(job.map(FlushJob::optional))
                    }
                    None => Ok(None),
                }
            });
            match found {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// Whether optional jobs, those in idle time and those of [`Tree::next_settling_job`],
    /// have written little compared with what was flushed or loaded. Each may rewrite a leaf for a few
    /// entries, so without this bound they could write any multiple of the entries.
    #[must_use]
    pub fn affords_optional_jobs(&self) -> bool {
        let counters = &self.counters;
        let flushed = counters.raw_bytes_flushed.load(Ordering::Relaxed)
            + counters.raw_bytes_loaded.load(Ordering::Relaxed)
            + self.upper_bytes_opened;
        let written = counters.raw_bytes_optional.load(Ordering::Relaxed);
        let bytes_min = OPTIONAL_LEAVES_MIN * self.options().leaf_bytes;
        written < bytes_min + OPTIONAL_FACTOR * flushed
    }

    /// Claims a job that marks, merges or flushes a run which may have entries of aborted writes
    /// below `below`, so that it has none. Considers only writes below the decided watermark.
    /// Returns `None` if there is no such run in an unclaimed child, and for a tree that waits for
    /// its base. Memtables are not considered.
    ///
    /// # Errors
    /// Errors of reading nodes, if no other run contains such ids.
    pub fn next_settling_job(
        self: &Arc<Self>,
        horizon: &dyn Horizon,
        below: WriteId,
    ) -> StorageResult<Option<FlushJob>> {
        let below = below.min(horizon.decided_below());
        self.search(Search::in_order(), |install, version, search| {
            if version.awaits_base {
                return Ok(None);
            }
            let all = KeyRange::all();
            let claimed = &install.claimed;
            match find_older(&version.root, &all, claimed, search, horizon, below)? {
                Some(candidate) => {
                    let job = self.claim_child(install, version, search, candidate)?;
                    Ok(job.map(FlushJob::optional))
                }
                None => Ok(None),
            }
        })
    }
}

/// Finds an unclaimed inner child with runs. Higher levels come first, so that a later flush of the
/// level below merges their runs together with its own.
fn find_buffered(
    node: &Node,
    range: &KeyRange,
    claimed: &HashSet<ChildId>,
    search: &Search,
) -> Found<Candidate> {
    for (child, child_range) in node.children_with_ranges(range) {
        if !child.runs.is_empty()
            && !claimed.contains(&child.id)
            && search.below(child, &child_range)?.is_some()
        {
            return Ok(Some(candidate(child, child_range, JobKind::Child)));
        }
    }
    for (child, child_range) in node.children_with_ranges(range) {
        let link = child.below.as_ref();
        if link.is_some_and(|link| link.summary().holds_buffered)
            && let Some(below) = search.below(child, &child_range)?
        {
            let found = find_buffered(&below, &child_range, claimed, search)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

/// Finds the first unclaimed child, in key order, that is `wanted`. `has_any`: whether there may be one in a subtree. An inner
/// child precedes those below it.
fn find_first(
    node: &Node,
    range: &KeyRange,
    claimed: &HashSet<ChildId>,
    search: &Search,
    has_any: fn(&Summary) -> bool,
    wanted: fn(&Child) -> bool,
) -> Found<Candidate> {
    for (child, child_range) in node.children_with_ranges(range) {
        if !has_any(&child.summary) {
            continue;
        }
        let below = search.below(child, &child_range)?;
        let kind = match &below {
            Some(_) => JobKind::Child,
            None => JobKind::Leaf,
        };
        let can_run = below.is_some() || child.is_leaf();
        if can_run && !claimed.contains(&child.id) && wanted(child) {
            return Ok(Some(Candidate {
                is_partial: true,
                ..candidate(child, child_range, kind)
            }));
        }
        if let Some(below) = below {
            let found = find_first(&below, &child_range, claimed, search, has_any, wanted)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

/// Finds an unclaimed leaf with pending runs.
fn find_pending(
    root: &Node,
    range: &KeyRange,
    claimed: &HashSet<ChildId>,
    search: &Search,
) -> Found<Candidate> {
    let holds_pending = |summary: &Summary| summary.holds_pending;
    find_first(root, range, claimed, search, holds_pending, Child::is_leaf)
}

/// Finds an unclaimed child that is worth a job in idle time.
fn find_worthwhile(
    root: &Node,
    range: &KeyRange,
    claimed: &HashSet<ChildId>,
    search: &Search,
) -> Found<Candidate> {
    let holds_work = |summary: &Summary| summary.holds_idle_work;
    let is_worth = |child: &Child| {
        let below = child.below.as_ref().map(|link| link.summary());
        is_worth_idle_job(&child.runs, below)
    };
    find_first(root, range, claimed, search, holds_work, is_worth)
}
