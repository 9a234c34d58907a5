//! The groups of group commit: they decide which commits become durable together, and how many
//! syncs run concurrently.
//!
//! Groups are numbered. One group is *gathering*: its threads wait for the next leader. At most one
//! group is *written* by its leader. Up to two groups are *synced*: a device completes two small
//! syncs faster at the same time than one after the other. A sync makes everything durable that was
//! written before it began, so the end of a sync also ends all older groups.
//!
//! Two syncs run at a time only while the log is being synced for a large share of the time;
//! otherwise they would only slow each other down. If there are many committing threads, only one
//! sync runs: during a sync these threads form one large group, which needs less processor time per
//! commit than several syncs. The committing threads are counted over all groups in progress,
//! because two small concurrent groups may be the halves of a large one.

use crate::sync_load::SyncLoad;
use crate::waiter::Waiter;
use std::sync::Arc;
use std::time::Instant;

/// Groups in progress: one gathers, one is written, two are synced.
const GROUPS: usize = 4;

/// Maximum number of concurrent syncs.
pub(crate) const SYNCS_MAX: usize = 2;

/// The recorded maximum of committing threads is stored in units of 1/64 thread.
const PARTS: u32 = 64;

/// Up to this number of committing threads (in `PARTS`), two groups may be synced concurrently. The
/// value means two threads, and no third one recently.
const FEW_COMMITTERS: u32 = 2 * PARTS + PARTS / 2;

/// The recorded maximum of committing threads decays by 1/32 with each later
/// group.
const DECAY_GROUPS: u32 = 32;

/// Maximum number of threads counted for one group.
const MEMBERS_MAX: u32 = 1 << 16;

/// A group that is written or synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) number: u64,
    /// Log position before which its sync makes everything durable.
    pub(crate) end: u64,
    /// Index of the file handle that it is synced through.
    pub(crate) handle: usize,
    /// Number of its committing threads.
    members: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The group that is being written, or synced by a leader that has not released the leadership.
    newest: Option<Group>,
    /// The number of the last group that got a leader.
    number: u64,
    /// Groups that are synced concurrently, oldest first.
    syncing: Vec<Group>,
    /// The waiting threads of each group.
    waiting: [Vec<Arc<Waiter>>; GROUPS],
    /// Recent maximum of committing threads, in `PARTS`. For each group, counts its threads and the
    /// threads of groups that are being synced when it begins.
    committers: u32,
    load: SyncLoad,
}

impl Groups {
    /// The number of the gathering group.
    pub(crate) fn next(&self) -> u64 {
        self.number + 1
    }

    /// The number of the group that makes everything before `wanted` durable.
    pub(crate) fn group_of(&self, wanted: u64) -> u64 {
        let older = self.syncing.iter().chain(&self.newest);
        let mut holding = older.filter(|group| wanted <= group.end);
        holding.next().map_or(self.next(), |group| group.number)
    }

    /// Whether another sync may begin now.
    pub(crate) fn may_sync(&self) -> bool {
        match self.syncing.as_slice() {
            [] => true,
            [_] => self.load.is_high() && !self.has_many_committers(),
            _ => false,
        }
    }

    /// Whether there are many committing threads.
    pub(crate) fn has_many_committers(&self) -> bool {
        self.committers > FEW_COMMITTERS
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "a remainder is less than the length"
    )]
    fn waiting(&mut self, number: u64) -> &mut Vec<Arc<Waiter>> {
        let index = number % self.waiting.len() as u64;
        &mut self.waiting[usize::try_from(index).unwrap_or(0)]
    }

    /// Adds the calling thread to the waiting threads of a group.
    pub(crate) fn enqueue(&mut self, number: u64) -> Arc<Waiter> {
        let waiter = Waiter::current();
        self.waiting(number).push(Arc::clone(&waiter));
        waiter
    }

    /// Takes one thread of the gathering group, for the caller to wake.
    pub(crate) fn take_next(&mut self) -> Option<Arc<Waiter>> {
        let next = self.next();
        self.waiting(next).pop()
    }

    /// Takes all threads that wait for a group, for the caller to wake.
    pub(crate) fn take_all(&mut self, number: u64) -> Vec<Arc<Waiter>> {
        std::mem::take(self.waiting(number))
    }

    /// Takes all waiting threads, for the caller to wake.
    pub(crate) fn take_all_groups(&mut self) -> Vec<Arc<Waiter>> {
        self.waiting.iter_mut().flat_map(std::mem::take).collect()
    }

    /// Closes the gathering group, which now has a leader and will be durable up to `end`.
    pub(crate) fn begin(&mut self, end: u64) -> Group {
        self.number += 1;
        let members = self.waiting(self.number).len() + 1;
        let members = u32::try_from(members)
            .unwrap_or(MEMBERS_MAX)
            .min(MEMBERS_MAX);
        let others: u32 = self.syncing.iter().map(|group| group.members).sum();
        let before = self.committers - self.committers / DECAY_GROUPS;
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

    /// Records that the sync of a written group begins.
    pub(crate) fn begin_sync(&mut self, group: Group, now: Instant) {
        self.load.begin(now);
        self.newest = None;
        self.syncing.push(group);
    }

    /// Ends a group and all older groups. Returns the threads that wait for them.
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
mod tests;
