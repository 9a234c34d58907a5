//! Jobs for readers: deletes that have cost scans about as much as a merge are moved down and
//! dropped.
//!
//! 1. Cursors count the invisible keys that they pass, except in short sequences. The cursor with
//!    which the count of the tree reaches [`PASSED_KEYS_MAX`] stores its key in the tree and adds
//!    the tree to the list of slow reads.
//! 2. The owner of the tree freezes the active memtable if it has many deletes
//!    ([`Tree::memtable_slows_readers`]), and runs the job for the key ([`Tree::next_reader_job`]):
//!    the flush of the highest inner child on the path of the key that has many deletes, otherwise
//!    the merge of the leaf if it has many.
//!
//! In runs, only deletes that a merge can drop make a child eligible. So deletes that merges must
//! retain for an old snapshot do not cause merges.

use super::candidate::{Candidate, candidate};
use super::job::FlushJob;
use super::report::JobKind;
use super::search::{Found, Search};
use crate::node::{ChildId, KeyRange, RunRef};
use crate::tree::Tree;
use crate::version::TreeVersion;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::StorageResult;
use teak_base::visibility::{Horizon, WriteRangeStatus};

/// Number of invisible keys that readers pass before deletes are merged for them. Passing so many
/// takes about as long as merging a leaf.
const PASSED_KEYS_MAX: u64 = 200_000;
/// Minimum number of deletes in the active memtable, or in the runs of a child, for which a reader
/// job is worth its cost.
const DELETES_MIN: u64 = 1000;

impl Tree {
    /// Counts invisible keys that a cursor passed near `key`.
    #[cold]
    pub(crate) fn count_passed(&self, keys: u64, key: &[u8]) {
        let before = self.passed_keys.fetch_add(keys, Ordering::Relaxed);
        if before < PASSED_KEYS_MAX && before + keys >= PASSED_KEYS_MAX {
            *self.slow_read.lock() = Some(key.into());
            self.account.request_reader_job();
        }
    }

    /// Whether the active memtable has so many deletes that it should be flushed before
    /// [`Tree::next_reader_job`]. In a queue, where rows are inserted at one end and deleted at the
    /// other, all these deletes precede the first row.
    #[must_use]
    pub fn memtable_slows_readers(&self) -> bool {
        self.load_version().active.memtable.deletes() >= DELETES_MIN
    }

    /// Puts the tree on the list of slow reads again.
    pub fn repeat_reader_request(&self) {
        self.account.request_reader_job();
    }

    /// Claims the job for readers that have passed many invisible keys, and ends their request.
    /// `None` when there is no request, or no unclaimed child on the path has enough deletes that a
    /// merge can drop.
    ///
    /// # Errors
    /// Errors of reading nodes.
    pub fn next_reader_job(
        self: &Arc<Self>,
        horizon: &dyn Horizon,
    ) -> StorageResult<Option<FlushJob>> {
        let Some(key) = self.slow_read.lock().take() else {
            return Ok(None);
        };
        self.passed_keys.store(0, Ordering::Relaxed);
        self.search(Search::default(), |install, version, search| {
            if version.awaits_base {
                return Ok(None);
            }
            match find_deletes(version, &key, &install.claimed, search, horizon)? {
                Some(candidate) => self.claim_child(install, version, search, candidate),
                None => Ok(None),
            }
        })
    }
}

/// The highest unclaimed child with many deletes on the path of a key.
fn find_deletes(
    version: &TreeVersion,
    key: &[u8],
    claimed: &HashSet<ChildId>,
    search: &Search,
    horizon: &dyn Horizon,
) -> Found<Candidate> {
    let mut node = Arc::clone(&version.root);
    let mut range = KeyRange::all();
    loop {
        let position = node.child_position(key);
        range = node.child_range(position, &range);
        let Some(child) = node.children.get(position) else {
            return Ok(None);
        };
        let is_free = !claimed.contains(&child.id);
        if is_free && droppable_deletes(&child.runs, horizon) >= DELETES_MIN {
            let kind = match &child.below {
                Some(_) => JobKind::Child,
                None => JobKind::Leaf,
            };
            return Ok(Some(candidate(child, range, kind)));
        }
        let Some(below) = search.below(child, &range)? else {
            return Ok(None);
        };
        node = below.to_arc();
    }
}

/// The number of deletes in runs whose writes are all settled or aborted.
fn droppable_deletes(runs: &[RunRef], horizon: &dyn Horizon) -> u64 {
    let droppable = runs.iter().filter(|run| {
        let description = run.handle.description();
        description.deletes > 0
            && (run.handle.is_settled()
                || description.write_ids.is_none_or(|(min, max)| {
                    horizon.range_status(min, max) != WriteRangeStatus::Unsettled
                }))
    });
    droppable
        .map(|run| run.share(run.handle.description().deletes))
        .sum()
}
