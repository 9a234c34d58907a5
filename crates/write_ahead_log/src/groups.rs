//! Which committers become durable together, and how many syncs go on at once.
//!
//! Groups are numbered. One is *gathered*: those who wait for the next leader.
//! One may be *written*, by its leader. Up to two are *synced*: a device takes
//! two small syncs in less time than one after the other. A sync makes
//! everything durable that was written when it began, so when one ends the older
//! ones are as good as over.
//!
//! Two at once gain where the log is what committers wait for. Where it syncs
//! seldom, they slow each other down when they happen to meet, and one at a
//! time is synced. So it is where many commit: who comes meanwhile gathers to a
//! large group, which costs less processor time for each committer than more
//! syncs do. They are counted over all groups on their way, as two small groups
//! at once may be one large one.

use crate::load::Load;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Instant;

/// Groups that are told apart: one gathered, one written, two synced.
const GROUPS: usize = 4;

/// Syncs that go on at once.
pub(crate) const SYNCS_MAX: usize = 2;

/// Parts of a committer in which they are counted.
const PARTS: u32 = 64;

/// Committers up to which two groups are synced at once: two, and no third of
/// late.
const FEW: u32 = 2 * PARTS + PARTS / 2;

/// A large number of committers counts for less with each group behind it, by
/// one in so many.
const GROUPS_REMEMBERED: u32 = 32;

/// More committers of one group are not told apart.
const MEMBERS_MAX: u32 = 1 << 16;

/// A committer that waits. Whoever takes it out of its group's list wakes it,
/// so that nobody in a list has gone.
#[derive(Debug)]
pub(crate) struct Waiter {
    thread: Thread,
    woken: AtomicBool,
}

thread_local! {
    static WAITER: Arc<Waiter> = Arc::new(Waiter {
        thread: thread::current(),
        woken: AtomicBool::new(false),
    });
}

impl Waiter {
    /// The calling thread's.
    fn own() -> Arc<Self> {
        WAITER.with(Arc::clone)
    }

    /// Waits to be woken, once.
    pub(crate) fn wait(&self) {
        while !self.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    pub(crate) fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// A group on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) number: u64,
    /// Stream position before which everything is durable with it.
    pub(crate) end: u64,
    /// Which handle of the file it is synced through.
    pub(crate) handle: usize,
    /// Committers.
    members: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The group that was written last, or is being written.
    newest: Option<Group>,
    number: u64,
    /// Oldest first.
    syncing: Vec<Group>,
    /// Who waits, by group.
    waiting: [Vec<Arc<Waiter>>; GROUPS],
    /// Committers of a group and of those synced when it begins, in parts; the
    /// most of late.
    committers: u32,
    load: Load,
}

impl Groups {
    /// The group that is gathered.
    pub(crate) fn next(&self) -> u64 {
        self.number + 1
    }

    /// The group that makes everything before `wanted` durable.
    pub(crate) fn group_of(&self, wanted: u64) -> u64 {
        let older = self.syncing.iter().chain(&self.newest);
        let mut holding = older.filter(|group| wanted <= group.end);
        holding.next().map_or(self.next(), |group| group.number)
    }

    /// Whether another group may be synced now.
    pub(crate) fn may_sync(&self) -> bool {
        match self.syncing.as_slice() {
            [] => true,
            [_] => self.load.is_high() && !self.are_many(),
            _ => false,
        }
    }

    /// Whether many commit.
    pub(crate) fn are_many(&self) -> bool {
        self.committers > FEW
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "a remainder is less than the length"
    )]
    fn waiting(&mut self, number: u64) -> &mut Vec<Arc<Waiter>> {
        let place = number % self.waiting.len() as u64;
        &mut self.waiting[usize::try_from(place).unwrap_or(0)]
    }

    /// The calling thread waits for a group from now on.
    pub(crate) fn wait(&mut self, number: u64) -> Arc<Waiter> {
        let waiter = Waiter::own();
        self.waiting(number).push(Arc::clone(&waiter));
        waiter
    }

    /// One of those gathered, for the caller to wake.
    pub(crate) fn take_next(&mut self) -> Option<Arc<Waiter>> {
        let next = self.next();
        self.waiting(next).pop()
    }

    /// All that wait for a group, for the caller to wake.
    pub(crate) fn take_all(&mut self, number: u64) -> Vec<Arc<Waiter>> {
        std::mem::take(self.waiting(number))
    }

    /// All that wait, for the caller to wake.
    pub(crate) fn take_everybody(&mut self) -> Vec<Arc<Waiter>> {
        self.waiting.iter_mut().flat_map(std::mem::take).collect()
    }

    /// The gathered group has its leader, and will be durable up to `end`.
    pub(crate) fn begin(&mut self, end: u64) -> Group {
        self.number += 1;
        let members = self.waiting(self.number).len() + 1;
        let members = u32::try_from(members)
            .unwrap_or(MEMBERS_MAX)
            .min(MEMBERS_MAX);
        let others: u32 = self.syncing.iter().map(|group| group.members).sum();
        let before = self.committers - self.committers / GROUPS_REMEMBERED;
        self.committers = before.max((members + others) * PARTS);
        let used = |handle: &usize| self.syncing.iter().all(|group| group.handle != *handle);
        let group = Group {
            number: self.number,
            end,
            handle: (0..SYNCS_MAX).find(used).unwrap_or(0),
            members,
        };
        self.newest = Some(group);
        group
    }

    /// A written group is synced from now on.
    pub(crate) fn begin_sync(&mut self, group: Group, now: Instant) {
        self.load.begin(now);
        self.newest = None;
        self.syncing.push(group);
    }

    /// A group is over. Returns who waits for it, and for those that are as good
    /// as over.
    pub(crate) fn end(&mut self, group: Group, now: Instant) -> Vec<Arc<Waiter>> {
        if self.newest == Some(group) {
            self.newest = None;
        }
        self.syncing.retain(|other| other.number != group.number);
        if self.syncing.is_empty() {
            self.load.end(now);
        }
        let mut waiters = self.take_all(group.number);
        let older = |other: &Group| (other.number < group.number).then_some(other.number);
        let older: Vec<u64> = self.syncing.iter().filter_map(older).collect();
        for number in older {
            waiters.extend(self.take_all(number));
        }
        waiters
    }
}

#[cfg(test)]
mod tests {
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

        /// A group of so many comes together and is synced.
        fn begin(&mut self, members: usize) -> Group {
            let groups = &mut self.groups;
            for _ in 1..members {
                groups.wait(groups.next());
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

        /// Groups of so many, one after the other, that long apart.
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
    fn a_second_sync_begins_beside_a_small_group() {
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
            groups.wait(group);
        }
        // What was written before the second began is durable with it.
        assert_eq!(groups.end(second, now).len(), 3);
        assert_eq!(groups.group_of(second.end), groups.next());
        assert!(groups.may_sync());
        let third = groups.begin(second.end + 10);
        assert_eq!(third.handle, second.handle);
        groups.begin_sync(third, now);
        assert!(groups.end(first, now).is_empty());
        assert_eq!(groups.take_everybody().len(), 1);
    }

    #[test]
    fn large_groups_are_synced_one_at_a_time() {
        let mut log = Log::new();
        log.commit(6, SYNC / 4);
        log.begin(1);
        assert!(!log.groups.may_sync());
        // Where fewer commit, two are synced at once again.
        log.end_all();
        log.commit(1, SYNC / 4);
        log.begin(1);
        assert!(log.groups.may_sync());
    }

    #[test]
    fn many_committers_are_not_split_over_two_syncs_for_long() {
        let mut log = Log::new();
        log.commit(1, SYNC / 4);
        // Four commit without end, two of them with each of two syncs.
        let mut older = log.begin(2);
        let mut syncs_at_once = 0;
        while log.groups.may_sync() {
            syncs_at_once += 1;
            assert!(syncs_at_once < 20, "four are many");
            let newer = log.begin(2);
            log.now += SYNC / 2;
            log.groups.end(older, log.now);
            older = newer;
        }
    }

    #[test]
    fn a_log_that_is_seldom_synced_takes_one_at_a_time() {
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
}
