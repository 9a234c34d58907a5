//! Tests of the number of concurrent syncs.

use super::*;
use std::time::Duration;

const SYNC: Duration = Duration::from_micros(200);

/// Groups, and a clock.
struct Log {
    groups: Groups,
    now: Instant,
}

impl Log {
    fn new() -> Self {
        Self {
            groups: Groups::default(),
            now: Instant::now(),
        }
    }

    /// Creates a group of `members` and begins its sync.
    fn begin(&mut self, members: usize) -> Group {
        let groups = &mut self.groups;
        for _ in 1..members {
            groups.enqueue(groups.next());
        }
        let group = groups.begin(groups.next() * 10);
        assert!(groups.take_next().is_none());
        groups.begin_sync(group, self.now);
        assert_eq!(groups.waiting(group.number).len(), members - 1);
        group
    }

    fn end_all(&mut self) {
        while let Some(group) = self.groups.syncing.last().copied() {
            self.groups.end(group, self.now);
        }
    }

    /// Commits 100 groups of `members`, one after the other, with `apart`
    /// between them.
    fn commit(&mut self, members: usize, apart: Duration) {
        for _ in 0..100 {
            self.now += apart;
            self.begin(members);
            self.now += SYNC;
            self.end_all();
        }
    }
}

#[test]
fn a_second_sync_runs_concurrently_with_that_of_a_small_group() {
    let mut log = Log::new();
    log.commit(1, SYNC / 4);
    let first = log.begin(1);
    assert!(log.groups.may_sync());
    assert_eq!(log.groups.group_of(first.end), first.number);
    assert_eq!(log.groups.group_of(first.end + 1), first.number + 1);
    let second = log.begin(1);
    assert_ne!(first.handle, second.handle);
    let now = log.now;
    let groups = &mut log.groups;
    assert!(!groups.may_sync());
    assert_eq!(groups.group_of(first.end), first.number);
    assert_eq!(groups.group_of(second.end), second.number);
    assert_eq!(groups.group_of(second.end + 1), groups.next());
    for group in [first.number, first.number, second.number, groups.next()] {
        groups.enqueue(group);
    }
    // The second sync covers everything written before it began.
    assert_eq!(groups.end(second, now).len(), 3);
    assert_eq!(groups.group_of(second.end), groups.next());
    assert!(groups.may_sync());
    let third = groups.begin(second.end + 10);
    assert_eq!(third.handle, second.handle);
    groups.begin_sync(third, now);
    assert!(groups.end(first, now).is_empty());
    assert_eq!(groups.take_all_groups().len(), 1);
}

#[test]
fn large_groups_are_synced_one_at_a_time() {
    let mut log = Log::new();
    log.commit(6, SYNC / 4);
    log.begin(1);
    assert!(!log.groups.may_sync());
    // With fewer committers, two syncs run at the same time again.
    log.end_all();
    log.commit(1, SYNC / 4);
    log.begin(1);
    assert!(log.groups.may_sync());
}

#[test]
fn many_committers_are_not_split_over_two_syncs_for_long() {
    let mut log = Log::new();
    log.commit(1, SYNC / 4);
    // Four threads commit continuously, two with each of two syncs.
    let mut older = log.begin(2);
    let mut overlapping_syncs = 0;
    while log.groups.may_sync() {
        overlapping_syncs += 1;
        assert!(overlapping_syncs < 20, "four are many");
        let newer = log.begin(2);
        log.now += SYNC / 2;
        log.groups.end(older, log.now);
        older = newer;
    }
}

#[test]
fn a_log_that_is_rarely_synced_runs_one_sync_at_a_time() {
    let mut log = Log::new();
    log.begin(1);
    assert!(log.groups.may_sync(), "nothing is known yet");
    log.now += SYNC;
    log.end_all();
    for (apart, two) in [(SYNC * 4, false), (SYNC, true), (SYNC * 4, false)] {
        log.commit(1, apart);
        log.now += apart;
        log.begin(1);
        assert_eq!(log.groups.may_sync(), two, "{apart:?} apart");
        log.now += SYNC;
        log.end_all();
    }
}
