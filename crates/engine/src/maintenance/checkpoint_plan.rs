//! Which indexes a round of checkpoints writes, and in which order.
//!
//! An index must be written when its oldest undurable record is more than an eighth
//! of the log's limit behind the end of the log, or when much freed space in its
//! file cannot be reused before a checkpoint. The periodic round also writes up to
//! `OTHERS_MAX` of the other changed indexes, the oldest first. This limit bounds the
//! syncs of a period when thousands of tables have few writes. Temporary tables are
//! not included.

use super::flusher::FlushContext;
use crate::core::index::Index;
use std::sync::{Arc, Weak};
use std::time::Instant;
use teak_base::Lsn;

/// Maximum number of changed indexes that a periodic round writes although their
/// checkpoints free neither much of the log nor much space in files.
const OTHERS_MAX: usize = 256;

/// Freed space below this does not make a checkpoint due, in bytes.
const PENDING_FREE_MIN: u64 = 1 << 20;

/// A checkpoint is due when the freed space that cannot be reused before it exceeds the size of the
/// file divided by this number.
const PENDING_FREE_FRACTION: u64 = 16;

/// What a round covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// Indexes that must be written.
    Due,
    /// Those of `Due`, and some of the others that have changed.
    Period,
    /// Those of `Due`, and all others whose trees have changed.
    Changed,
    /// All that have changed; every memtable is flushed first.
    All,
}

/// One index in the order of a round.
pub(super) struct Planned {
    /// The oldest log record that recovery of the index needs.
    pub oldest: Lsn,
    /// Whether its memtables must be flushed first.
    pub flush: bool,
    /// Not owned, so that the table can be closed: then the index needs no checkpoint.
    pub index: Weak<Index>,
}

/// The state of an index that matters for the choice.
struct Candidate {
    /// The oldest record whose entries are in no durable checkpoint.
    oldest: Option<Lsn>,
    /// The oldest record whose entries are only in memory.
    unflushed: Option<Lsn>,
    /// Whether the tree has changed since its last checkpoint.
    changed: bool,
    /// Whether much freed space cannot be reused before a checkpoint.
    holds_space: bool,
    /// Whether the caller of `plan` requests a checkpoint of this index.
    wanted: bool,
}

enum Choice {
    No,
    Other,
    Must { flush: bool },
}

impl Candidate {
    fn of(index: &Arc<Index>, wanted: bool) -> Self {
        let tree = &index.tree;
        let changed = tree.needs_checkpoint();
        let holds_space = || {
            let file = tree.file_statistics();
            let allowed = PENDING_FREE_MIN.max(file.file_bytes / PENDING_FREE_FRACTION);
            file.pending_free_bytes > allowed
        };
        Self {
            oldest: tree.oldest_undurable_lsn(),
            unflushed: tree.oldest_unflushed_lsn(),
            changed,
            holds_space: changed && holds_space(),
            wanted,
        }
    }

    /// Whether a round writes the index. The log before `keep` should be trimmed.
    fn choose(&self, scope: Scope, keep: Lsn) -> Choice {
        let is_old = |lsn: Option<Lsn>| lsn.is_some_and(|lsn| lsn < keep);
        let everything = self.wanted || scope == Scope::All;
        let flush = self.unflushed.is_some() && (everything || is_old(self.unflushed));
        if flush {
            return Choice::Must { flush };
        }
        let is_changed_wanted = everything || scope == Scope::Changed;
        match self.changed {
            true if is_changed_wanted || self.holds_space || is_old(self.oldest) => {
                Choice::Must { flush }
            }
            true if scope == Scope::Period => Choice::Other,
            _ => Choice::No,
        }
    }
}

/// Chooses the indexes of a round, the oldest first, so that the log can be trimmed
/// while the round is running. The round should make it possible to trim the log
/// before `keep`. Rounds in the background (`Due`, `Period`) leave out indexes
/// whose checkpoints failed recently.
pub(super) fn plan(
    context: &FlushContext<'_>,
    scope: Scope,
    keep: Lsn,
    wanted: &[Arc<Index>],
) -> Vec<Planned> {
    let now = Instant::now();
    let mut candidates = Vec::new();
    let is_background = matches!(scope, Scope::Due | Scope::Period);
    let mut indexes = context.written.snapshot();
    let known = indexes.len();
    indexes.extend(wanted.iter().cloned());
    let is_wanted = |index: &Arc<Index>| wanted.iter().any(|other| Arc::ptr_eq(index, other));
    for (place, index) in indexes.iter().enumerate() {
        let wanted = place >= known;
        let skipped = index.is_dropped()
            || index.is_temporary()
            || is_background && !index.may_checkpoint(now);
        if skipped || !wanted && is_wanted(index) {
            continue;
        }
        candidates.push((Candidate::of(index, wanted), Arc::downgrade(index)));
    }
    choose(candidates, scope, keep)
}

fn choose(candidates: Vec<(Candidate, Weak<Index>)>, scope: Scope, keep: Lsn) -> Vec<Planned> {
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    for (candidate, index) in candidates {
        let oldest = candidate.oldest.unwrap_or(Lsn(u64::MAX));
        let planned = |flush| Planned {
            oldest,
            flush,
            index,
        };
        match candidate.choose(scope, keep) {
            Choice::No => {}
            Choice::Other => others.push(planned(false)),
            Choice::Must { flush } => chosen.push(planned(flush)),
        }
    }
    others.sort_by_key(|other| other.oldest);
    others.truncate(OTHERS_MAX);
    chosen.append(&mut others);
    chosen.sort_by_key(|planned| planned.oldest);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(oldest: u64, changed: bool, in_memory: bool) -> (Candidate, Weak<Index>) {
        let candidate = Candidate {
            oldest: Some(Lsn(oldest)),
            unflushed: in_memory.then_some(Lsn(oldest)),
            changed,
            holds_space: false,
            wanted: false,
        };
        (candidate, Weak::new())
    }

    fn positions(planned: &[Planned]) -> Vec<u64> {
        planned.iter().map(|planned| planned.oldest.0).collect()
    }

    #[test]
    fn many_indexes_with_few_writes_cost_few_checkpoints() {
        let rarely_written = || (0..15_000).rev().map(|n| candidate(1000 + n, true, false));
        let planned = choose(rarely_written().collect(), Scope::Period, Lsn(1000));
        assert_eq!(planned.len(), OTHERS_MAX);
        // The oldest ones are chosen, so that every index is written in some round.
        assert!(positions(&planned).into_iter().eq(1000..1256));
        assert!(choose(rarely_written().collect(), Scope::Due, Lsn(1000)).is_empty());
        let all = choose(rarely_written().collect(), Scope::Changed, Lsn(1000));
        assert_eq!(all.len(), 15_000);
    }

    #[test]
    fn what_holds_back_the_log_is_written_oldest_first() {
        let candidates = vec![
            candidate(30, true, false),
            candidate(10, false, true),
            candidate(99, false, true),
            candidate(20, true, true),
        ];
        let planned = choose(candidates, Scope::Due, Lsn(50));
        assert_eq!(positions(&planned), [10, 20, 30]);
        let flushed: Vec<bool> = planned.iter().map(|planned| planned.flush).collect();
        assert_eq!(flushed, [true, true, false]);
    }

    #[test]
    fn unchanged_indexes_cost_nothing() {
        for scope in [Scope::Due, Scope::Period, Scope::Changed, Scope::All] {
            let idle = Candidate {
                oldest: None,
                unflushed: None,
                changed: false,
                holds_space: false,
                wanted: true,
            };
            assert!(choose(vec![(idle, Weak::new())], scope, Lsn(50)).is_empty());
        }
    }

    #[test]
    fn freed_space_makes_a_checkpoint_due() {
        let (mut large, index) = candidate(70, true, false);
        large.holds_space = true;
        let planned = choose(vec![(large, index)], Scope::Due, Lsn(50));
        assert_eq!(positions(&planned), [70]);
    }
}
