//! The number of rows of a table, for every live snapshot.
//!
//! A table has a *base*, which is the number of rows before all commits since the table's state was
//! loaded, and the *changes* of these commits: for each commit sequence how many rows it has added. The
//! number that a snapshot sees is the base plus the changes of all commits up to the snapshot. The
//! changes are counted even while the base is unknown. A scan of a whole index under a snapshot finds
//! the base: it is the number of rows found less the changes that the snapshot sees.
//!
//! 1. The commit of a transaction adds its changes before its commit sequence is visible.
//! 2. When the changes have become many, those between two live snapshots are added up, and those that
//!    all snapshots see are *folded*. So their number depends on the number of live snapshots.
//!
//! A commit whose changes are not known makes the count unknown for all older snapshots and, until a
//! scan, for all later ones.

use parking_lot::Mutex;
use std::collections::VecDeque;
use teak_base::{CommitSequence, FileId};

/// Number of changes from which they are added up.
const CHANGES_MIN: usize = 64;

/// The number of rows of one table. It is counted for the file that contains the rows: if they are in
/// another one, because the table was truncated or rebuilt, the count starts again.
#[derive(Debug, Default)]
pub(crate) struct RowCount {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: FileId,
    base: Option<i64>,
    /// Changes that all live snapshots see.
    folded: i64,
    /// The newest commit of the folded changes. The count is unknown for snapshots before it.
    folded_to: CommitSequence,
    /// Ascending.
    changes: VecDeque<(CommitSequence, i64)>,
    /// The number of changes at which they are added up again.
    fold_at: usize,
    /// The newest commit whose changes are not known.
    unknown_at: CommitSequence,
}

impl State {
    /// The state for the rows in `file`; starts again if that is a newer one. `None` for an older one.
    /// `unknown_at`: the newest commit whose changes of any table are not known.
    fn of(&mut self, file: FileId, unknown_at: CommitSequence) -> Option<&mut Self> {
        if self.file < file {
            *self = Self {
                file,
                ..Self::default()
            };
        }
        if self.unknown_at < unknown_at {
            self.forget(unknown_at);
        }
        (self.file == file).then_some(self)
    }

    fn forget(&mut self, at: CommitSequence) {
        self.base = None;
        self.unknown_at = at;
    }

    /// The sum of the changes that a snapshot sees. `None` if the snapshot is too old.
    fn seen(&self, snapshot: CommitSequence) -> Option<i64> {
        if snapshot < self.folded_to || snapshot < self.unknown_at {
            return None;
        }
        let seen = self.changes.partition_point(|(at, _)| *at <= snapshot);
        let changes = self.changes.range(..seen);
        Some(self.folded + changes.map(|(_, change)| change).sum::<i64>())
    }
}

impl RowCount {
    /// Called when the table has exactly `rows` rows in `file` for snapshots from `since` on, and no
    /// transaction writes it. `None`: the number is not known.
    pub(crate) fn set(&self, file: FileId, since: CommitSequence, rows: Option<u64>) {
        *self.state.lock() = State {
            file,
            base: rows.and_then(|rows| i64::try_from(rows).ok()),
            unknown_at: since,
            ..State::default()
        };
    }

    /// Makes the count unknown, when no transaction writes the table.
    pub(crate) fn forget(&self) {
        *self.state.lock() = State::default();
    }

    /// Adds the change of a commit; `None`: it is not known. Called in the order of the commits, and
    /// before the commit is visible.
    pub(crate) fn add(&self, file: FileId, at: CommitSequence, change: Option<i64>) {
        let mut state = self.state.lock();
        let Some(state) = state.of(file, CommitSequence(0)) else {
            return;
        };
        let Some(change) = change else {
            state.forget(at);
            return;
        };
        match state.changes.back_mut() {
            Some((last, sum)) if *last == at => *sum += change,
            _ => state.changes.push_back((at, change)),
        }
    }

    /// Whether there are so many changes that they should be added up.
    pub(crate) fn is_fold_due(&self) -> bool {
        let state = self.state.lock();
        state.changes.len() >= state.fold_at.max(CHANGES_MIN)
    }

    /// Adds up changes. `snapshots`: the live ones, ascending, followed by the newest visible commit; later
    /// ones are not older than that.
    pub(crate) fn fold(&self, snapshots: &[CommitSequence]) {
        let (Some(oldest), Some(newest)) = (snapshots.first(), snapshots.last()) else {
            return;
        };
        let mut state = self.state.lock();
        let mut kept: VecDeque<(CommitSequence, i64)> = VecDeque::new();
        let mut kept_group = None;
        for (at, change) in std::mem::take(&mut state.changes) {
            if at <= *oldest {
                state.folded += change;
                state.folded_to = at;
                continue;
            }
            // The oldest snapshot that sees the change. No snapshot is between the changes of a group.
            let group = (at <= *newest).then(|| snapshots.partition_point(|held| *held < at));
            match kept.back_mut() {
                Some((last, sum)) if group.is_some() && group == kept_group => {
                    *last = at;
                    *sum += change;
                }
                _ => kept.push_back((at, change)),
            }
            kept_group = group;
        }
        state.fold_at = kept.len() * 2;
        state.changes = kept;
    }

    /// The number of rows that a live snapshot sees, if it is known. `unknown_at`: the newest commit
    /// whose changes of any table are not known.
    pub(crate) fn at(
        &self,
        file: FileId,
        snapshot: CommitSequence,
        unknown_at: CommitSequence,
    ) -> Option<u64> {
        let mut state = self.state.lock();
        let state = state.of(file, unknown_at)?;
        let rows = state.base? + state.seen(snapshot)?;
        u64::try_from(rows).ok()
    }

    /// The number of all committed rows, if it is known.
    pub(crate) fn newest(&self, file: FileId, unknown_at: CommitSequence) -> Option<u64> {
        self.at(file, CommitSequence(u64::MAX), unknown_at)
    }

    /// Notes the number of rows that a scan under a live snapshot has found.
    pub(crate) fn learn(
        &self,
        file: FileId,
        snapshot: CommitSequence,
        unknown_at: CommitSequence,
        rows: u64,
    ) {
        let mut state = self.state.lock();
        if let Some(state) = state.of(file, unknown_at)
            && let Some(seen) = state.seen(snapshot)
            && let Ok(rows) = i64::try_from(rows)
        {
            state.base = Some(rows - seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: FileId = FileId(7);
    const NEVER: CommitSequence = CommitSequence(0);

    fn at(count: &RowCount, snapshot: u64) -> Option<u64> {
        count.at(FILE, CommitSequence(snapshot), NEVER)
    }

    #[test]
    fn each_snapshot_has_its_own_count() {
        let count = RowCount::default();
        assert_eq!(at(&count, 3), None);
        count.set(FILE, NEVER, Some(0));
        count.add(FILE, CommitSequence(5), Some(10));
        count.add(FILE, CommitSequence(5), Some(1));
        count.add(FILE, CommitSequence(9), Some(-4));
        assert_eq!(
            [4, 5, 8, 9].map(|s| at(&count, s)),
            [0, 11, 11, 7].map(Some)
        );
        assert_eq!(count.newest(FILE, NEVER), Some(7));
        // Another file has other rows.
        assert_eq!(count.at(FileId(8), CommitSequence(9), NEVER), None);
        count.add(FILE, CommitSequence(10), Some(1));
        assert_eq!(count.at(FileId(8), CommitSequence(10), NEVER), None);
        assert_eq!(at(&count, 10), None);
    }

    #[test]
    fn a_scan_finds_the_base_while_others_write() {
        let count = RowCount::default();
        count.add(FILE, CommitSequence(2), Some(100));
        count.add(FILE, CommitSequence(4), Some(-1));
        count.learn(FILE, CommitSequence(3), NEVER, 1100);
        assert_eq!(
            [1, 2, 3, 4].map(|s| at(&count, s)),
            [1000, 1100, 1100, 1099].map(Some)
        );
    }

    #[test]
    fn unknown_changes_make_the_count_unknown_until_a_scan() {
        let count = RowCount::default();
        count.set(FILE, NEVER, Some(5));
        count.add(FILE, CommitSequence(3), Some(1));
        count.add(FILE, CommitSequence(4), None);
        count.add(FILE, CommitSequence(5), Some(1));
        assert_eq!([3, 4, 5].map(|s| at(&count, s)), [None; 3]);
        // The snapshot of this scan is older than the change.
        count.learn(FILE, CommitSequence(3), NEVER, 6);
        assert_eq!(at(&count, 5), None);
        count.learn(FILE, CommitSequence(4), NEVER, 50);
        assert_eq!([3, 4, 5].map(|s| at(&count, s)), [None, Some(50), Some(51)]);
        // A commit that may have changed any table.
        let any = CommitSequence(6);
        assert_eq!(count.at(FILE, CommitSequence(5), any), None);
        count.learn(FILE, CommitSequence(5), any, 51);
        assert_eq!(count.at(FILE, CommitSequence(6), any), None);
        assert_eq!(count.newest(FILE, any), None);
        count.learn(FILE, CommitSequence(6), any, 60);
        assert_eq!(
            [5, 6, 7].map(|s| count.at(FILE, CommitSequence(s), any)),
            [None, Some(60), Some(60)]
        );
        // Rows that are known only from a commit on.
        count.set(FileId(9), CommitSequence(20), Some(3));
        assert_eq!(
            [19, 20].map(|s| count.at(FileId(9), CommitSequence(s), any)),
            [None, Some(3)]
        );
    }

    proptest! {
        #[test]
        fn folding_changes_no_count_of_a_live_snapshot(
            steps in proptest::collection::vec((0u8..10, -5i64..20), 1..400),
        ) {
            let count = RowCount::default();
            count.set(FILE, NEVER, Some(10_000));
            let (mut newest, mut rows) = (1u64, 10_000i64);
            let mut live: Vec<(u64, i64)> = Vec::new();
            for (kind, change) in steps {
                match kind {
                    0 => live.push((newest, rows)),
                    1 if !live.is_empty() => drop(live.swap_remove(usize::try_from(change.unsigned_abs()).unwrap() % live.len())),
                    2 => {
                        let mut list: Vec<u64> = live.iter().map(|(at, _)| *at).filter(|at| *at < newest).collect();
                        list.push(newest);
                        list.sort_unstable();
                        list.dedup();
                        count.fold(&list.iter().map(|at| CommitSequence(*at)).collect::<Vec<_>>());
                        prop_assert!(count.state.lock().changes.len() <= list.len());
                    }
                    _ => {
                        newest += 1;
                        rows += change;
                        count.add(FILE, CommitSequence(newest), Some(change));
                    }
                }
                for (snapshot, rows) in live.iter().chain([&(newest, rows)]) {
                    prop_assert_eq!(at(&count, *snapshot), u64::try_from(*rows).ok());
                }
            }
        }
    }
}
