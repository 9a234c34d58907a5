//! Deletes that can be dropped under an old snapshot: the snapshot sees neither them nor the rows
//! that they delete, because the rows were inserted after it. The settled watermark does not show
//! this. So garbage makes no job due while the snapshot is open, and the leaves of a queue, which
//! get no more entries after their rows were deleted, would never be merged.
//!
//! 1. When a job places a run in a child, and the deletes in the child's upper runs may be enough,
//!    the start of the run is added to a list in memory.
//! 2. If no other job is due, planning takes a key from the list, and claims the highest child on its
//!    path with enough deletes.
//! 3. The job reads the statuses of the writes. If a snapshot is between the rows and the deletes,
//!    or one of the writes is active, it does nothing, and the key is tried again after the next
//!    flush of a memtable.
//!
//! Each delete is moved down once in each level, so such jobs write a bounded number of bytes for
//! each delete. After a restart there are no old snapshots, so the list is not on disk.

use super::candidate::Candidate;
use super::context::Target;
use super::report::JobKind;
use super::search::{Found, Search};
use crate::TreeOptions;
use crate::hidden_deletes::HiddenDeletes;
use crate::node::{Child, ChildId, Key, KeyRange, RunForm, RunRef, is_garbage_due};
use crate::tree::Tree;
use crate::version::TreeVersion;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::WriteId;
use teak_base::visibility::{Horizon, WriteStatus};

/// Whether upper runs of the child have enough deletes of rows that may be newer than the snapshots.
pub(super) fn may_drop(child: &Child, options: &TreeOptions) -> bool {
    let runs = child.runs.iter();
    let upper = runs.clone().filter(|run| run.handle.form == RunForm::Upper);
    let deletes: u64 = upper
        .map(|run| run.share(run.handle.description().deletes))
        .sum();
    let deleted = match child.is_leaf() {
        true => {
            let rows = runs.filter_map(unsettled_rows);
            deletes.min(rows.map(|(rows, _)| rows).sum())
        }
        false => deletes,
    };
    is_garbage_due(deleted, &child.summary, options)
}

/// The number of rows of a bottom run, and its write ids, if it has no settled rows.
fn unsettled_rows(run: &RunRef) -> Option<(u64, (WriteId, WriteId))> {
    let is_bottom = run.handle.form == RunForm::Bottom;
    let ids = run.handle.only_write_ids().filter(|_| is_bottom)?;
    Some((run.share(run.handle.description().keys), ids))
}

/// Whether the deletes in upper runs of the target can be moved down, and dropped if the target is a
/// leaf: their writes, and those of the rows, have ended, and no snapshot is between them.
pub(super) fn can_drop(target: &Target, horizon: &dyn Horizon) -> bool {
    let runs = target.runs.iter();
    let deletes = runs
        .clone()
        .filter(|run| run.handle.form == RunForm::Upper && run.handle.description().deletes > 0);
    let deletes = deletes.filter_map(|run| run.handle.description().write_ids);
    let rows = runs.filter_map(|run| unsettled_rows(run).map(|(_, ids)| ids));
    let (Some(deletes), Some(rows)) = (commits(deletes, horizon), commits(rows, horizon)) else {
        return false;
    };
    let (Some((_, last)), Some((first, _))) = (deletes, rows) else {
        return true;
    };
    let mut snapshots = horizon.snapshots().iter();
    !snapshots.any(|snapshot| first <= snapshot.0 && snapshot.0 < last)
}

/// The first and the last commit of the outermost ids of these ranges; `None` if one is active.
fn commits(
    ranges: impl Iterator<Item = (WriteId, WriteId)>,
    horizon: &dyn Horizon,
) -> Option<Option<(u64, u64)>> {
    let mut commits: Option<(u64, u64)> = None;
    for id in ranges.flat_map(|(min, max)| [min, max]) {
        match horizon.status(id) {
            WriteStatus::Active(_) => return None,
            WriteStatus::Aborted => {}
            WriteStatus::Committed(at) => {
                let (first, last) = commits.unwrap_or((at.0, at.0));
                commits = Some((first.min(at.0), last.max(at.0)));
            }
        }
    }
    Some(commits)
}

impl Tree {
    /// Adds keys near which deletes may be dropped, to be tried after `from` flushes of memtables.
    pub(super) fn add_hidden(&self, list: &mut HiddenDeletes, keys: &[Key], from: u64) {
        for key in keys {
            list.add(key, from);
        }
        self.hidden_from.store(list.first(), Ordering::Relaxed);
    }

    /// Adds the key of a job that has changed nothing.
    pub(super) fn retry_hidden(&self, key: &Key) {
        let mut install = self.install.lock();
        let from = self.version.load().flushed + 1;
        self.add_hidden(&mut install.hidden, std::slice::from_ref(key), from);
    }

    /// Whether [`Tree::find_hidden`] has a key to try.
    pub(super) fn has_hidden(&self, version: &TreeVersion) -> bool {
        self.hidden_from.load(Ordering::Relaxed) <= version.flushed
    }

    /// Takes keys from the list until there is an unclaimed child with enough deletes on the path of
    /// one.
    pub(super) fn find_hidden(
        &self,
        list: &mut HiddenDeletes,
        claimed: &HashSet<ChildId>,
        version: &TreeVersion,
        search: &Search,
    ) -> Found<(Key, Candidate)> {
        let options = self.options();
        let mut found = None;
        while found.is_none()
            && let Some(key) = list.next(version.flushed).cloned()
        {
            let candidate = on_path(version, &key, search, &options)?;
            list.remove(&key);
            match candidate {
                Some(claimable) if !claimed.contains(&claimable.child.id) => {
                    found = Some((key, claimable));
                }
                Some(_) => list.add(&key, version.flushed + 1),
                None => {}
            }
        }
        self.hidden_from.store(list.first(), Ordering::Relaxed);
        Ok(found)
    }
}

/// The highest child on the path of a key with enough deletes.
fn on_path(
    version: &TreeVersion,
    key: &[u8],
    search: &Search,
    options: &TreeOptions,
) -> Found<Candidate> {
    let mut node = Arc::clone(&version.root);
    let mut range = KeyRange::all();
    loop {
        let position = node.child_position(key);
        range = node.child_range(position, &range);
        let Some(child) = node.children.get(position) else {
            return Ok(None);
        };
        if may_drop(child, options) {
            return Ok(Some(Candidate {
                child: Arc::clone(child),
                range,
                kind: match child.is_leaf() {
                    true => JobKind::Leaf,
                    false => JobKind::Child,
                },
                is_partial: true,
            }));
        }
        let Some(below) = search.below(child, &range)? else {
            return Ok(None);
        };
        node = below.to_arc();
    }
}
