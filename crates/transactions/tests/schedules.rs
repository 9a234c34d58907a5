//! Interleavings of the lock manager and of commits, explored by shuttle: its
//! scheduler chooses the next thread at every mutex, condition variable and
//! atomic. A schedule in which no thread can run fails, so a lost wake-up is
//! detected.
//!
//!     cargo test -p teak-transactions --features schedules
//!     SCHEDULES=100000 cargo test --release -p teak-transactions --features schedules
//!
//! A failure prints its schedule; `shuttle::replay` runs it again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;
use std::sync::Arc;
use std::time::Duration;
use teak_base::{FileId, WriteId, WriteIdRanges, WriteStatus};
use teak_transactions::ViewKind;
use teak_transactions::{
    LockMode, RangeLockKind, RangeLocks, RangeQueuePositions, RowName, Savepoint, Transaction,
    TransactionSystem, WaitError, WriteIdTable,
};

const LONG: Duration = Duration::from_secs(3600);

/// Schedules per test, unless `SCHEDULES` is set: half of them random, half with
/// few thread switches at random points.
const SCHEDULES: usize = 200;

/// Thread switches per schedule of the second half.
const SWITCHES: usize = 3;

fn explore(test: impl Fn() + Send + Sync + Clone + 'static) {
    let asked = std::env::var("SCHEDULES").ok();
    let schedules = asked.map_or(SCHEDULES, |text| {
        text.parse().expect("SCHEDULES is a number")
    });
    shuttle::check_random(test.clone(), schedules.div_ceil(2));
    shuttle::check_pct(test, schedules.div_ceil(2), SWITCHES);
}

struct World {
    system: TransactionSystem,
    index: Arc<RangeLocks>,
}

fn world() -> Arc<World> {
    let ids = WriteIdTable::new(WriteId(1), &WriteIdRanges::default());
    Arc::new(World {
        system: TransactionSystem::new(ids, 1),
        index: Arc::new(RangeLocks::new(FileId(1))),
    })
}

impl World {
    fn lock(
        &self,
        transaction: &mut Transaction,
        key: &str,
        mode: LockMode,
    ) -> Result<(), WaitError> {
        let row = RowName::new(&self.index, key.as_bytes());
        self.system.lock(transaction, row, mode, LONG)
    }

    /// Checks that no lock, wait or transaction is left.
    fn assert_clean(&self) {
        assert_eq!(self.system.lock_bytes(), 0);
        assert_eq!(self.system.locks().count(), 0);
        assert!(!self.index.in_use());
        let counts = self.system.counts();
        assert_eq!((counts.active, counts.waiting), (0, 0));
    }
}

/// The use of a row by the transactions that locked it: the number of readers, or the single
/// writer.
#[derive(Default)]
struct Row(AtomicU64);

const WRITER: u64 = 1 << 32;

impl Row {
    fn use_it(&self, mode: LockMode) {
        let mine = if mode == LockMode::Exclusive {
            WRITER
        } else {
            1
        };
        let before = self.0.fetch_add(mine, Ordering::SeqCst);
        assert!(before < WRITER, "the row has a writer");
        assert!(
            mode == LockMode::Shared || before == 0,
            "the row has a reader"
        );
        thread::yield_now();
        self.0.fetch_sub(mine, Ordering::SeqCst);
    }
}

#[test]
fn conflicting_locks_are_never_held_together_and_all_are_served() {
    explore(|| {
        let world = world();
        let row = Arc::new(Row::default());
        let modes = [
            LockMode::Exclusive,
            LockMode::Shared,
            LockMode::Shared,
            LockMode::Exclusive,
        ];
        let threads = modes.map(|mode| {
            let (world, row) = (Arc::clone(&world), Arc::clone(&row));
            thread::spawn(move || {
                let mut mine = world.system.begin();
                world.lock(&mut mine, "x", mode).unwrap();
                row.use_it(mode);
                world.system.publish(mine);
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        world.assert_clean();
    });
}

#[test]
fn each_deadlock_is_resolved_with_one_victim() {
    explore(|| {
        let world = world();
        let threads = [["x", "y"], ["y", "z"], ["z", "x"]].map(|keys| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut mine = world.system.begin();
                let outcome = keys
                    .iter()
                    .try_for_each(|key| world.lock(&mut mine, key, LockMode::Exclusive));
                match outcome {
                    Ok(()) => world.system.publish(mine),
                    Err(_) => drop(world.system.abort(mine)),
                }
                outcome
            })
        });
        let outcomes = threads.map(|thread| thread.join().unwrap());
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert!(failed <= 1, "{outcomes:?}");
        assert_eq!(world.system.counts().deadlocks, failed as u64);
        world.assert_clean();
    });
}

/// A cycle may pass through a queue that still contains the victim of another cycle, whose thread
/// has not run yet.
#[test]
fn all_deadlocks_through_one_queue_are_resolved() {
    const S: LockMode = LockMode::Shared;
    const X: LockMode = LockMode::Exclusive;
    explore(|| {
        let world = world();
        let plans: [&[(&str, LockMode)]; 5] = [
            &[("k", S), ("l", X)],
            &[("l", X), ("k", S)],
            &[("k", X)],
            &[("m", X), ("k", X)],
            &[("k", S), ("m", X)],
        ];
        let threads = plans.map(|plan| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut mine = world.system.begin();
                let locks = plan.iter();
                let _ = locks
                    .map(|(key, mode)| world.lock(&mut mine, key, *mode))
                    .find(Result::is_err);
                world.system.abort(mine);
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        world.assert_clean();
    });
}

#[test]
fn concurrent_upgrades_deadlock_and_one_survives() {
    explore(|| {
        let world = world();
        let row = Arc::new(Row::default());
        let threads = [(); 3].map(|()| {
            let (world, row) = (Arc::clone(&world), Arc::clone(&row));
            thread::spawn(move || {
                let mut mine = world.system.begin();
                let got = world
                    .lock(&mut mine, "x", LockMode::Shared)
                    .and_then(|()| world.lock(&mut mine, "x", LockMode::Exclusive));
                if got.is_ok() {
                    row.use_it(LockMode::Exclusive);
                }
                world.system.abort(mine);
                got
            })
        });
        let outcomes = threads.map(|thread| thread.join().unwrap());
        assert!(outcomes.iter().any(Result::is_ok), "{outcomes:?}");
        world.assert_clean();
    });
}

#[test]
fn a_transaction_that_waits_for_a_write_is_woken_when_it_ends() {
    explore(|| {
        let world = world();
        let mut writer = world.system.begin();
        let kept = world.system.write_id(&mut writer);
        let savepoint = writer.savepoint();
        let undone = world.system.write_id(&mut writer);
        let waiters = [kept, undone, undone].map(|id| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mine = world.system.begin();
                let row = RowName::new(&world.index, b"w");
                world.system.wait_for_write(&mine, id, row, LONG).unwrap();
                assert!(world.system.ids().active_owner(id).is_none());
                world.system.publish(mine);
            })
        });
        let aborted = world.system.rollback_to(&mut writer, savepoint);
        assert_eq!(aborted.iter().collect::<Vec<_>>(), [undone]);
        assert_ne!(savepoint, Savepoint(0));
        world.system.publish(writer);
        for waiter in waiters {
            waiter.join().unwrap();
        }
        world.assert_clean();
    });
}

#[test]
fn an_interrupt_ends_one_wait_and_the_rest_of_the_queue_is_served() {
    explore(|| {
        let world = world();
        let mut holder = world.system.begin();
        world.lock(&mut holder, "x", LockMode::Exclusive).unwrap();
        let mut victim = world.system.begin();
        let interrupter = Arc::clone(victim.handle());
        let killed = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let outcome = world.lock(&mut victim, "x", LockMode::Exclusive);
                assert!(matches!(outcome, Ok(()) | Err(WaitError::Interrupted)));
                world.system.abort(victim);
            })
        };
        let served = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut mine = world.system.begin();
                world.lock(&mut mine, "x", LockMode::Shared).unwrap();
                world.system.publish(mine);
            })
        };
        let killer = thread::spawn(move || interrupter.interrupt());
        killer.join().unwrap();
        // The interrupted transaction ends although the row is still locked.
        killed.join().unwrap();
        world.system.publish(holder);
        served.join().unwrap();
        world.assert_clean();
    });
}

#[test]
fn a_row_range_blocks_all_requests_and_its_release_wakes_them() {
    explore(|| {
        let world = world();
        let row = Arc::new(Row::default());
        let keys: Vec<String> = (0..12).map(|n| format!("{n:02}")).collect();
        let mut big = world.system.begin();
        for key in &keys {
            world.lock(&mut big, key, LockMode::Exclusive).unwrap();
        }
        // The next lock request of `big` escalates.
        let bytes = world.system.lock_bytes();
        world.system.set_lock_bytes_max(bytes + bytes / 8);
        let threads = [
            ("05", LockMode::Exclusive),
            ("05", LockMode::Shared),
            ("07", LockMode::Shared),
        ]
        .map(|(key, mode)| {
            let (world, row) = (Arc::clone(&world), Arc::clone(&row));
            thread::spawn(move || {
                let mut mine = world.system.begin();
                world.lock(&mut mine, key, mode).unwrap();
                if key == "05" {
                    row.use_it(mode);
                }
                world.system.publish(mine);
            })
        });
        world.lock(&mut big, "11x", LockMode::Exclusive).unwrap();
        row.use_it(LockMode::Exclusive);
        world.system.publish(big);
        for thread in threads {
            thread.join().unwrap();
        }
        world.assert_clean();
    });
}

#[test]
fn writers_and_range_locks_alternate_and_all_are_woken() {
    explore(|| {
        let world = world();
        // Stands for the tree. Its mutex stands for the write guard: a writer holds it from the
        // check of range locks to the insertion, and a reader waits for it after its range lock is
        // granted.
        let written = Arc::new(Mutex::new(0));
        let readers = [(); 3].map(|()| {
            let (world, written) = (Arc::clone(&world), Arc::clone(&written));
            thread::spawn(move || {
                let mut mine = world.system.begin();
                let range = (&b"a"[..], Some(&b"m"[..]));
                let (system, index) = (&world.system, &world.index);
                system
                    .lock_range(&mut mine, index, RangeLockKind::Gap, range, LONG)
                    .unwrap();
                let seen = *written.lock().unwrap();
                thread::yield_now();
                assert_eq!(*written.lock().unwrap(), seen, "a phantom");
                system.publish(mine);
            })
        });
        let writers = [b"b", b"c"].map(|key| {
            let (world, written) = (Arc::clone(&world), Arc::clone(&written));
            thread::spawn(move || {
                let mine = world.system.begin();
                let (system, index) = (&world.system, &world.index);
                let mut queue_positions = RangeQueuePositions::default();
                loop {
                    let mut guard = written.lock().unwrap();
                    if !index.blocks(key, true, mine.id()) {
                        *guard += 1;
                        break;
                    }
                    drop(guard);
                    system
                        .wait_for_range_lock(&mine, &mut queue_positions, index, key, true, LONG)
                        .unwrap();
                }
                drop(queue_positions);
                system.publish(mine);
            })
        });
        for thread in readers.into_iter().chain(writers) {
            thread.join().unwrap();
        }
        world.assert_clean();
    });
}

#[test]
fn snapshots_see_whole_transactions_in_the_order_of_their_commits() {
    explore(|| {
        let world = world();
        let written = Arc::new(Mutex::new(Vec::new()));
        let writers = [(); 3].map(|()| {
            let (world, written) = (Arc::clone(&world), Arc::clone(&written));
            thread::spawn(move || {
                let mut mine = world.system.begin();
                let first = world.system.write_id(&mut mine);
                mine.savepoint();
                let second = world.system.write_id(&mut mine);
                written.lock().unwrap().push([first, second]);
                world.system.publish(mine);
            })
        });
        let readers = [(); 2].map(|()| {
            let (world, written) = (Arc::clone(&world), Arc::clone(&written));
            thread::spawn(move || {
                let mut seen_before: Vec<WriteId> = Vec::new();
                for _ in 0..2 {
                    let mut mine = world.system.begin();
                    let snapshot = world.system.take_snapshot(&mut mine);
                    let view = world.system.view(&mine, ViewKind::Snapshot(snapshot));
                    let pairs = written.lock().unwrap().clone();
                    let sees = |pairs: &[[WriteId; 2]]| -> Vec<WriteId> {
                        let both = pairs.iter().filter(|[first, second]| {
                            let seen = view.sees(*first);
                            assert_eq!(seen, view.sees(*second), "half of a transaction");
                            seen
                        });
                        both.map(|[first, _]| *first).collect()
                    };
                    let seen = sees(&pairs);
                    // Sequences start at 1, so a snapshot sees fewer commits than its sequence. A
                    // later snapshot sees at least the same commits.
                    assert!((seen.len() as u64) < snapshot.0);
                    assert!(seen_before.iter().all(|id| seen.contains(id)));
                    world.system.prune();
                    assert_eq!(sees(&pairs), seen, "a snapshot changed");
                    seen_before = seen;
                    world.system.publish(mine);
                }
            })
        });
        for writer in writers {
            writer.join().unwrap();
        }
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(world.system.newest().0, 4);
        world.assert_clean();
    });
}

/// The ids of a transaction, and whether it commits.
type Written = (Vec<WriteId>, bool);

/// Checks what a new snapshot sees of each transaction: all or nothing, never an
/// aborted one, and always the same.
fn check_snapshot(world: &World, written: &Mutex<Vec<Written>>) {
    let mut reader = world.system.begin();
    let snapshot = world.system.take_snapshot(&mut reader);
    let mut before: Vec<bool> = Vec::new();
    for _ in 0..2 {
        let written = written.lock().unwrap().clone();
        let view = world.system.view(&reader, ViewKind::Snapshot(snapshot));
        let mut seen = Vec::new();
        for (ids, commits) in &written {
            let first = view.sees(ids[0]);
            assert!(ids.iter().all(|id| view.sees(*id) == first));
            assert!(*commits || !first);
            seen.push(first);
        }
        assert_eq!(before, seen[..before.len()]);
        before = seen;
    }
    world.system.publish(reader);
}

#[test]
fn snapshots_see_transactions_whole_while_their_ids_are_compacted() {
    explore(|| {
        let world = world();
        let written: Arc<Mutex<Vec<Written>>> = Arc::default();
        let writers = [(3, true), (4, true), (3, false)].map(|(count, commits)| {
            let (world, written) = (Arc::clone(&world), Arc::clone(&written));
            thread::spawn(move || {
                let mut mine = world.system.begin();
                let ids: Vec<WriteId> = (0..count)
                    .map(|_| {
                        mine.savepoint();
                        world.system.write_id(&mut mine)
                    })
                    .collect();
                written.lock().unwrap().push((ids, commits));
                if commits {
                    world.system.publish(mine);
                } else {
                    world.system.abort(mine);
                }
            })
        });
        let reader = {
            let (world, written) = (Arc::clone(&world), Arc::clone(&written));
            thread::spawn(move || check_snapshot(&world, &written))
        };
        world.system.prune();
        check_snapshot(&world, &written);
        world.system.prune();
        for thread in writers.into_iter().chain([reader]) {
            thread.join().unwrap();
        }
        world.system.prune();
        let next = world.system.ids().next();
        assert_eq!(world.system.ids().settled_below(), next);
        for (ids, commits) in written.lock().unwrap().iter() {
            for id in ids {
                let is_aborted = world.system.ids().status(*id) == WriteStatus::Aborted;
                assert_eq!(is_aborted, !commits);
            }
        }
        world.assert_clean();
    });
}
