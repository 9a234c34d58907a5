//! Writes: guards of the active memtable, and freezing it.

use crate::memory::Phase;
use crate::tree::Tree;
use crate::version::{MemtableSlot, TreeVersion};
use parking_lot::RwLockReadGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use teak_base::{Lsn, Operation, WriteId};

/// A shared lock of the active memtable. While a guard exists, the memtable is not frozen, so the
/// flush boundary does not separate the log position of a record from its entries.
///
/// A thread may hold guards of several trees if all threads that do so take them in the same order,
/// such as the order of the indexes in their table. Otherwise two such threads and two freezes may
/// deadlock, because a waiting freeze blocks new guards.
#[derive(Debug)]
pub struct WriteGuard<'a> {
    slot: RwLockReadGuard<'a, Arc<MemtableSlot>>,
}

impl WriteGuard<'_> {
    /// Sets the log position of the record whose entries are inserted next. Call this once for each
    /// record, before its entries are inserted.
    #[inline]
    pub fn set_lsn(&self, lsn: Lsn) {
        self.slot.note_lsn(lsn);
    }

    /// Adds the newest version of a key.
    ///
    /// # Panics
    /// When key or value exceed the limits of `teak_base::limits`.
    #[inline]
    pub fn insert(&self, write_id: WriteId, operation: Operation, key: &[u8], value: &[u8]) {
        self.slot.memtable.insert(write_id, operation, key, value);
    }

    /// Deletes all keys from `start` (inclusive) to `end` (exclusive; empty: no
    /// end).
    pub fn delete_range(&self, write_id: WriteId, start: &[u8], end: &[u8]) {
        self.slot.memtable.delete_range(write_id, start, end);
    }

    /// Bytes of the active memtable.
    #[must_use]
    pub fn memtable_bytes(&self) -> u64 {
        self.slot.memtable.bytes()
    }
}

impl Tree {
    /// Waits until every write guard that existed at the call is dropped.
    pub fn wait_for_writers(&self) {
        drop(self.active.write());
    }

    /// Takes a guard of the active memtable for insertions.
    pub fn write_guard(&self) -> WriteGuard<'_> {
        WriteGuard {
            slot: self
                .active
                .try_read()
                .unwrap_or_else(|| self.wait_to_write()),
        }
    }

    #[cold]
    fn wait_to_write(&self) -> RwLockReadGuard<'_, Arc<MemtableSlot>> {
        let since = Instant::now();
        let slot = self.active.read();
        self.cache.lock_times().writers.record_since(since);
        slot
    }

    /// Freezes the active memtable, so that it can be flushed, and starts a new one. Returns false
    /// when it was empty. `boundary` is called while no guard is held. It must return a log
    /// position after all records that were logged for this tree so far, and not after those that
    /// are logged for it later.
    pub fn freeze(&self, boundary: impl FnOnce() -> Lsn) -> bool {
        let since = Instant::now();
        let mut active = self.active.write();
        let boundary = boundary();
        let mut install = self.install.lock();
        self.cache.lock_times().freezes.record_since(since);
        if active.memtable.is_empty() {
            let version = self.version.load();
            if version.frozen.is_empty() {
                install.flushed_lsn = install.flushed_lsn.max(boundary);
            }
            return false;
        }
        // Only a freeze sets a boundary, and this slot was active until now.
        let _ = active.boundary.set(boundary);
        let frozen = std::mem::replace(&mut *active, MemtableSlot::new(&self.account));
        frozen.memtable.enter(Phase::Frozen);
        let version = self.version.load_full();
        let mut all = Vec::with_capacity(version.frozen.len() + 1);
        all.push(frozen);
        all.extend(version.frozen.iter().cloned());
        self.publish_version(TreeVersion {
            active: Arc::clone(&active),
            frozen: all,
            flushed: version.flushed,
            root: Arc::clone(&version.root),
            pin: Arc::clone(&version.pin),
            checkpoint_pin: Arc::clone(&version.checkpoint_pin),
            awaits_base: version.awaits_base,
        });
        self.generation.fetch_add(1, Ordering::Release);
        true
    }

    /// The bytes by which the memtables of the tree have grown since it was
    /// opened. Never decreases.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.account.written()
    }

    /// Removes the memtables from the sums of live memory. For a dropped tree, whose memtables will
    /// not be flushed.
    pub fn abandon(&self) {
        for slot in self.load_version().memtables() {
            slot.memtable.enter(Phase::Retired);
        }
    }

    /// Bytes of the active memtable.
    #[must_use]
    pub fn memtable_bytes(&self) -> u64 {
        self.version.load().active.memtable.bytes()
    }

    /// Number of entries in the active memtable.
    #[must_use]
    pub fn memtable_entries(&self) -> u64 {
        self.version.load().active.memtable.entries()
    }

    /// Whether merging the active memtable is worth its cost. The memtable is either so large,
    /// compared with the tree, that merging it makes reads faster, or it has so many deletes that
    /// merging it frees space. The merge writes a few times the bytes of the memtable.
    #[must_use]
    pub fn memtable_is_large_part(&self) -> bool {
        const BYTES_MIN: u64 = 1 << 20;
        const SHARE: u64 = 4;
        const DELETES_MIN: u64 = 1000;
        const DELETED_SHARE: u64 = 50;
        let version = self.version.load();
        let (memtable, flushed) = (&version.active.memtable, &version.root.summary);
        let bytes = memtable.bytes();
        let deletes = memtable.deletes();
        bytes >= BYTES_MIN && bytes >= flushed.raw_bytes / SHARE
            || deletes >= DELETES_MIN && deletes >= flushed.entries / DELETED_SHARE
    }

    /// Bytes of frozen memtables that have not been flushed.
    #[must_use]
    pub fn frozen_bytes(&self) -> u64 {
        self.load_version().frozen_bytes()
    }

    /// Bytes of these memtables in [`MemtableMemory`](crate::MemtableMemory). More than
    /// [`Tree::frozen_bytes`], because memory is counted there in larger units.
    #[must_use]
    pub fn frozen_charged_bytes(&self) -> u64 {
        let version = self.version.load();
        let frozen = version.frozen.iter();
        frozen.map(|slot| slot.memtable.charged_bytes()).sum()
    }

    /// Number of frozen memtables that have not been flushed.
    #[must_use]
    pub fn frozen_memtables(&self) -> usize {
        self.version.load().frozen.len()
    }

    /// Number of memtables that were frozen since the tree was opened. All of them are flushed when
    /// [`Tree::memtables_flushed`] returns at least this number.
    #[must_use]
    pub fn memtables_frozen(&self) -> u64 {
        let version = self.version.load();
        version.flushed + version.frozen.len() as u64
    }

    /// Number of memtables that were flushed since the tree was opened.
    #[must_use]
    pub fn memtables_flushed(&self) -> u64 {
        self.version.load().flushed
    }

    /// Log position of the oldest record whose entries are only in memory.
    #[must_use]
    pub fn oldest_unflushed_lsn(&self) -> Option<Lsn> {
        let version = self.version.load();
        let lsns = version.memtables().filter_map(|slot| slot.first_lsn());
        lsns.min()
    }

    /// A log position. The entries of all earlier records of this index are in runs.
    #[must_use]
    pub fn flushed_lsn(&self) -> Lsn {
        self.install.lock().flushed_lsn
    }
}
