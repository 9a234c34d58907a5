//! The list of keys near which a merge may drop deletes under an old snapshot (see
//! `flush::hidden`).

use crate::node::Key;
use std::collections::VecDeque;

/// The maximum length of the list. More keys are left out: their leaves are merged when other jobs
/// on them are due, or when the snapshot has ended.
const KEYS_MAX: usize = 1024;

/// The list of keys near which deletes may be dropped.
#[derive(Debug, Default)]
pub(crate) struct HiddenDeletes {
    /// Each with the number of flushed memtables from which on it is tried.
    keys: VecDeque<(u64, Key)>,
}

impl HiddenDeletes {
    pub(crate) fn add(&mut self, key: &[u8], from: u64) {
        let is_known = self.keys.iter().any(|(_, known)| **known == *key);
        if !is_known && self.keys.len() < KEYS_MAX {
            self.keys.push_back((from, key.into()));
        }
    }

    /// The first key that can be tried.
    pub(crate) fn next(&self, flushed: u64) -> Option<&Key> {
        let due = self.keys.iter().find(|(from, _)| *from <= flushed);
        due.map(|(_, key)| key)
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        self.keys.retain(|(_, known)| **known != *key);
    }

    /// The number of flushed memtables from which on some key is tried.
    pub(crate) fn first(&self) -> u64 {
        let from = self.keys.iter().map(|(from, _)| *from);
        from.min().unwrap_or(u64::MAX)
    }
}
