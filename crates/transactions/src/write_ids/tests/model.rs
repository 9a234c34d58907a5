//! Compares the table with a plain list of statuses, for all live snapshots.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    /// A transaction allocates ids. If a second transaction is given, the two alternate.
    Write(u64, Option<u64>, u64),
    Commit(u64),
    CommitInBulk(u64),
    Abort(u64),
    /// Aborts the last ids of a transaction.
    RollBack(u64, u64),
    Snapshot,
    Release(usize),
    Prune,
    Compact,
    /// `Forget(below, first, count)`: forgets aborted ids below `below`, except `count` ids from
    /// `first` on.
    Forget(u64, u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let transaction = 1..6u64;
    let step = prop_oneof![
        6 => (transaction.clone(), proptest::option::of(transaction.clone()), 1..6000u64)
            .prop_map(|(a, b, count)| Step::Write(a, b, count)),
        4 => transaction.clone().prop_map(Step::Commit),
        1 => transaction.clone().prop_map(Step::CommitInBulk),
        1 => transaction.clone().prop_map(Step::Abort),
        1 => (transaction, 1..50u64).prop_map(|(t, count)| Step::RollBack(t, count)),
        2 => Just(Step::Snapshot),
        1 => (0..4usize).prop_map(Step::Release),
        2 => Just(Step::Prune),
        3 => Just(Step::Compact),
        1 => (0..20_000u64, 0..20_000u64, 0..6000u64)
            .prop_map(|(below, kept, count)| Step::Forget(below, kept, count)),
    ];
    proptest::collection::vec(step, 1..60)
}

struct Model {
    table: WriteIdTable,
    /// By id; id 0 is not used.
    statuses: Vec<WriteStatus>,
    active: BTreeMap<u64, WriteIdRanges>,
    snapshots: Vec<u64>,
    published: u64,
}

impl Model {
    fn new() -> Self {
        Self {
            table: fresh(),
            statuses: vec![WriteStatus::Committed(CommitSequence(0))],
            active: BTreeMap::new(),
            snapshots: Vec::new(),
            published: 1,
        }
    }

    fn write(&mut self, transaction: u64) {
        // Transaction ids are never reused.
        let owner = TransactionId(transaction + 10 * self.published);
        let ids = self.active.entry(owner.0).or_default();
        ids.push(self.table.allocate(owner));
        self.statuses.push(WriteStatus::Active(owner));
    }

    /// Removes the oldest active transaction of a session. The session is the last digit of the
    /// transaction's id.
    fn take(&mut self, session: u64) -> Option<(TransactionId, WriteIdRanges)> {
        let owners = self.active.keys().copied();
        let owner = owners.into_iter().find(|owner| owner % 10 == session)?;
        Some((TransactionId(owner), self.active.remove(&owner)?))
    }

    fn set(&mut self, ids: &WriteIdRanges, status: WriteStatus) {
        for id in ids.iter() {
            self.statuses[usize::try_from(id.0).unwrap()] = status;
        }
    }

    fn live(&self) -> Vec<CommitSequence> {
        let mut live = self.snapshots.clone();
        live.push(self.published);
        live.sort_unstable();
        live.dedup();
        live.into_iter().map(CommitSequence).collect()
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Write(a, b, count) => {
                for n in 0..count {
                    self.write(b.filter(|_| n % 2 == 1).unwrap_or(a));
                }
            }
            Step::Commit(session) => {
                if let Some((_, ids)) = self.take(session) {
                    self.table
                        .commit(ids.ranges(), CommitSequence(self.published + 1));
                    self.published += 1;
                    self.set(&ids, WriteStatus::Committed(CommitSequence(self.published)));
                }
            }
            Step::CommitInBulk(session) => {
                if let Some((owner, ids)) = self.take(session) {
                    self.published += 1;
                    let sequence = CommitSequence(self.published);
                    let live = self.live();
                    self.set(&ids, WriteStatus::Committed(sequence));
                    self.table.commit_in_bulk(ids.ranges(), owner, |begin| {
                        begin(sequence);
                        // Builds pieces of ids that are being committed.
                        self.table.prune(&live);
                        self.check();
                        sequence
                    });
                }
            }
            Step::Abort(session) => {
                if let Some((_, ids)) = self.take(session) {
                    self.table.abort(ids.ranges());
                    self.set(&ids, WriteStatus::Aborted);
                }
            }
            Step::RollBack(session, count) => {
                if let Some((owner, mut ids)) = self.take(session) {
                    let aborted = ids.split_off(ids.len().saturating_sub(count));
                    self.active.insert(owner.0, ids);
                    self.table.abort(aborted.ranges());
                    self.set(&aborted, WriteStatus::Aborted);
                }
            }
            Step::Snapshot => self.snapshots.push(self.published),
            Step::Release(place) if !self.snapshots.is_empty() => {
                self.snapshots.swap_remove(place % self.snapshots.len());
            }
            Step::Release(_) => {}
            Step::Prune => {
                let settled = self.table.prune(&self.live());
                let oldest = self.live()[0];
                let is_settled = |status: &WriteStatus| match status {
                    WriteStatus::Committed(at) => *at <= oldest,
                    WriteStatus::Aborted => true,
                    WriteStatus::Active(_) => false,
                };
                let expected = self.statuses.iter().position(|s| !is_settled(s));
                let expected = expected.unwrap_or(self.statuses.len());
                assert_eq!(settled.0, expected as u64);
                let is_active = |status: &WriteStatus| matches!(status, WriteStatus::Active(_));
                let active = self.statuses.iter().position(is_active);
                let expected = active.unwrap_or(self.statuses.len());
                assert_eq!(self.table.decided_below().0, expected as u64);
            }
            Step::Compact => {
                self.table.compact_step(&self.live());
            }
            Step::Forget(below, first, count) => {
                let mut kept = WriteIdRanges::default();
                let first = WriteId(first);
                kept.push_range(WriteIdRange { first, count });
                self.table.forget_aborted(WriteId(below), &kept);
                let below = below.min(self.table.decided_below().0);
                let statuses = (0..below).zip(&mut self.statuses);
                for (_, status) in statuses.filter(|(id, _)| !kept.contains(WriteId(*id))) {
                    if *status == WriteStatus::Aborted {
                        *status = WriteStatus::Committed(CommitSequence(0));
                    }
                }
            }
        }
    }

    fn check(&self) {
        let live = self.live();
        for (id, status) in self.statuses.iter().enumerate().skip(1) {
            let id = id as u64;
            let found = self.table.status(WriteId(id));
            match (*status, found) {
                (WriteStatus::Committed(at), WriteStatus::Committed(found)) => {
                    for snapshot in &live {
                        assert_eq!(at <= *snapshot, found <= *snapshot, "id {id}");
                    }
                }
                (status, found) => assert_eq!(status, found, "id {id}"),
            }
        }
        let aborted = self.statuses.iter().enumerate();
        let aborted: WriteIdRanges = aborted
            .filter(|(_, status)| **status == WriteStatus::Aborted)
            .map(|(id, _)| WriteId(id as u64))
            .collect();
        assert_eq!(self.table.aborted_below(self.table.next()), aborted);
        let decided = self.table.decided_below();
        let newest = aborted.iter().filter(|id| *id < decided).last();
        assert_eq!(self.table.newest_aborted(), newest);
        let directory = self.table.directory.load();
        assert_eq!(PieceTotals::of(&directory.pieces), directory.totals);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_live_snapshot_sees_what_a_plain_list_shows(steps in steps()) {
        let mut model = Model::new();
        for step in &steps {
            model.run(step);
            if !matches!(step, Step::Write(..) | Step::Snapshot) {
                model.check();
            }
        }
        model.check();
        let next = model.table.next();
        let active: WriteIdRanges = model.statuses.iter().enumerate()
            .filter(|(_, status)| matches!(status, WriteStatus::Active(_)))
            .map(|(id, _)| WriteId(id as u64))
            .collect();
        prop_assert_eq!(model.table.active_below(next), active);
    }

    #[test]
    fn status_of_a_range_is_that_of_its_ids(steps in steps(), ranges in proptest::collection::vec((1..40_000u64, 1..9000u64), 8)) {
        let mut model = Model::new();
        steps.iter().for_each(|step| model.run(step));
        let oldest = model.live()[0];
        for (min, length) in ranges {
            let max = (min + length).min(model.statuses.len() as u64 - 1);
            if max < min {
                continue;
            }
            let (mut aborted, mut settled) = (0, true);
            for id in min..=max {
                match model.table.status(WriteId(id)) {
                    WriteStatus::Committed(at) => settled &= at <= oldest,
                    WriteStatus::Aborted => aborted += 1,
                    WriteStatus::Active(_) => settled = false,
                }
            }
            let (min, max) = (WriteId(min), WriteId(max));
            let expected = if settled {
                WriteRangeStatus::of(aborted, min, max)
            } else {
                WriteRangeStatus::Unsettled
            };
            prop_assert_eq!(model.table.range_status(min, max, oldest), expected);
            let has_aborted = (min.0..=max.0).any(|id| model.table.status(WriteId(id)) == WriteStatus::Aborted);
            prop_assert_eq!(model.table.may_have_aborted(min, max), has_aborted);
        }
    }
}
