//! Which committers become durable together, and how many syncs go on at once.
//!
//! Groups are numbered. One is *gathered*: those who wait for the next leader.
//! One may be *written*, by its leader. Up to two are *synced*: a device takes
//! two small syncs in little more time than one, so a second committer need not
//! wait for the first one's to end. A sync makes everything durable that was
//! written when it began, so when one ends the older ones are as good as over.
//!
//! Where many commit, groups are large, and one at a time is synced: who comes
//! meanwhile gathers to a large group again, which costs less processor time
//! for each committer than more syncs do.

/// Groups that are told apart: one gathered, one written, two synced.
pub(crate) const GROUPS: usize = 4;

/// Syncs that go on at once.
pub(crate) const SYNCS_MAX: usize = 2;

/// Committers of a group, on the average, up to which two are synced at once.
const SMALL_GROUP: u32 = 2;

/// Parts of a committer in which the average is kept, and how many groups it
/// goes back, about.
const PARTS: u32 = 16;
const GROUPS_AVERAGED: u32 = 8;

/// A group on its way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) number: u64,
    /// Stream position before which everything is durable with it.
    pub(crate) end: u64,
    /// Which handle of the file it is synced through.
    pub(crate) handle: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The group that was written last, or is being written.
    newest: Option<Group>,
    number: u64,
    /// Oldest first.
    syncing: Vec<Group>,
    /// Who waits, by group.
    waiting: [u32; GROUPS],
    /// Committers of a group, on the average of the last ones, in parts.
    average: u32,
}

/// Where the waiters of a group are found.
pub(crate) fn place(number: u64) -> usize {
    usize::try_from(number % GROUPS as u64).unwrap_or(0)
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
            [_] => !self.are_large(),
            _ => false,
        }
    }

    /// Whether many commit.
    pub(crate) fn are_large(&self) -> bool {
        self.average > SMALL_GROUP * PARTS
    }

    /// Whether anybody is gathered.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.get(place(self.next())).is_some_and(|n| *n > 0)
    }

    /// Somebody begins to wait for a group, or has waited.
    pub(crate) fn wait(&mut self, number: u64, begins: bool) {
        if let Some(waiting) = self.waiting.get_mut(place(number)) {
            *waiting = if begins {
                *waiting + 1
            } else {
                waiting.saturating_sub(1)
            };
        }
    }

    /// The gathered group has its leader, and will be durable up to `end`.
    pub(crate) fn begin(&mut self, end: u64) -> Group {
        self.number += 1;
        let waiting = self.waiting.get(place(self.number)).copied();
        let members = waiting.unwrap_or(0) + 1;
        let others = self.average * (GROUPS_AVERAGED - 1);
        self.average = (others + members * PARTS) / GROUPS_AVERAGED;
        let used = |handle: &usize| self.syncing.iter().all(|group| group.handle != *handle);
        let group = Group {
            number: self.number,
            end,
            handle: (0..SYNCS_MAX).find(used).unwrap_or(0),
        };
        self.newest = Some(group);
        group
    }

    /// A written group is synced from now on.
    pub(crate) fn begin_sync(&mut self, group: Group) {
        self.newest = None;
        self.syncing.push(group);
    }

    /// A group is over. Returns it and those that are as good as over.
    pub(crate) fn end(&mut self, group: Group) -> impl Iterator<Item = u64> + use<> {
        if self.newest == Some(group) {
            self.newest = None;
        }
        self.syncing.retain(|other| other.number != group.number);
        let older: Vec<u64> = self.syncing.iter().map(|other| other.number).collect();
        older
            .into_iter()
            .filter(move |other| *other < group.number)
            .chain(std::iter::once(group.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_sync_begins_beside_a_small_group() {
        let mut groups = Groups::default();
        let first = groups.begin(10);
        assert_eq!((groups.group_of(10), groups.group_of(11)), (1, 2));
        groups.begin_sync(first);
        assert!(groups.may_sync());
        let second = groups.begin(20);
        assert_ne!(first.handle, second.handle);
        groups.begin_sync(second);
        assert!(!groups.may_sync());
        assert_eq!(
            (groups.group_of(5), groups.group_of(11), groups.group_of(21)),
            (1, 2, 3)
        );
        // What was written before the second began is durable with it.
        assert_eq!(groups.end(second).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(groups.group_of(20), 3);
        assert!(groups.may_sync());
        let third = groups.begin(30);
        assert_eq!(third.handle, second.handle);
        groups.begin_sync(third);
        assert_eq!(groups.end(first).collect::<Vec<_>>(), [1]);
    }

    /// A group of so many, from its gathering to its end.
    fn commit(groups: &mut Groups, members: u32) {
        for _ in 1..members {
            groups.wait(groups.next(), true);
        }
        assert_eq!(groups.is_awaited(), members > 1);
        let group = groups.begin(10);
        assert!(!groups.is_awaited());
        groups.begin_sync(group);
        for _ in 1..members {
            groups.wait(group.number, false);
        }
    }

    fn end_all(groups: &mut Groups) {
        while let Some(group) = groups.syncing.last().copied() {
            assert_eq!(groups.end(group).last(), Some(group.number));
        }
    }

    #[test]
    fn large_groups_are_synced_one_at_a_time() {
        let mut groups = Groups::default();
        for _ in 0..20 {
            commit(&mut groups, 6);
            end_all(&mut groups);
        }
        commit(&mut groups, 1);
        assert!(!groups.may_sync());
        // Where fewer commit, two are synced at once again.
        for _ in 0..20 {
            end_all(&mut groups);
            commit(&mut groups, 1);
        }
        assert!(groups.may_sync());
    }
}
