//! Loads of entries into a tree with data.

use super::{Model, Random, Subject, key};
use std::collections::BTreeMap;
use teak_base::{Operation, WriteId};
use teak_tree::{PausedLoad, WriteStatus};

/// A load that is written, but not installed. No other write may add its keys.
pub struct PendingLoad {
    load: PausedLoad,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl PendingLoad {
    /// Writes a load of random keys that have no value and no undecided version.
    pub fn write(random: &mut Random, model: &mut Model, subject: &Subject, keys: usize) -> Self {
        let id = model.statuses.begin();
        let from = random.below(keys);
        let count = [keys, keys / 4, 3][random.below(3)];
        let mut rows = BTreeMap::new();
        for number in from..(from + count).min(keys) {
            let key = key(number);
            if !random.one_in(4) && model.lock_absent(id, &key) {
                let length = [10, 10, 400][random.below(3)];
                let value = format!("loaded {number} by {id}, {}", ".".repeat(length));
                rows.insert(key, value.into_bytes());
            }
        }
        let tree = &subject.tree;
        let mut load = tree.bulk_load(tree.begin_load(id));
        if random.one_in(2) {
            load.expect_bytes(random.below(100_000) as u64, random.below(2) == 0);
        }
        for (key, value) in &rows {
            load.push(key, value).unwrap();
            if random.one_in(20) {
                load = tree.bulk_load(load.pause().unwrap());
            }
        }
        let load = load.pause().unwrap();
        assert_eq!(load.entries(), rows.len() as u64);
        let (first, last) = load.key_range().unzip();
        assert_eq!(first, rows.first_key_value().map(|(key, _)| key.as_slice()));
        assert_eq!(last, rows.last_key_value().map(|(key, _)| key.as_slice()));
        Self { load, rows }
    }

    /// Drops the load.
    pub fn abandon(self, model: &mut Model) {
        model.decide(self.load.write_id(), false);
    }

    /// Installs the load, whose write is active afterwards, and makes it durable. No job must be
    /// claimed.
    pub fn install(mut self, model: &mut Model, subject: &mut Subject) {
        let tree = &subject.tree;
        if tree.holds_unflushed_deletes() {
            subject.freeze(model);
            while let Some(job) = tree.next_memtable_job() {
                job.run(&model.horizon()).unwrap();
            }
        }
        while let Some(node) = tree.install_load(&mut self.load).unwrap() {
            tree.read_required(&mut self.load, &node).unwrap();
        }
        model.add_loaded(self.load.write_id(), self.rows);
        subject.checkpoint().unwrap();
    }
}

impl Model {
    /// Reserves a key for a load, if it has no value and no undecided version.
    fn lock_absent(&mut self, id: WriteId, key: &[u8]) -> bool {
        let versions = self.versions.get(key);
        let mut versions = versions.into_iter().flatten().rev();
        let newest = versions.find(|(id, ..)| self.statuses.get(*id) != WriteStatus::Aborted);
        if newest.is_some_and(|(_, operation, _)| *operation == Operation::Put)
            || !self.may_write(id, key)
        {
            return false;
        }
        self.locked.insert(key.to_vec(), id);
        true
    }

    fn add_loaded(&mut self, id: WriteId, rows: BTreeMap<Vec<u8>, Vec<u8>>) {
        for (key, value) in rows {
            let versions = self.versions.get_mut(&key).unwrap();
            versions.push((id, Operation::Put, value));
        }
        self.active.push(id);
    }
}
