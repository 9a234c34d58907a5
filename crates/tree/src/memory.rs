//! The memory of the memtables of all trees that share a page cache.
//!
//! A memtable is *active* while it is written, *frozen* until it is flushed, and *retired*
//! afterwards, while readers of an older version use it. Memtables charge their growth in steps of
//! at least 4 KiB, so most insertions do not change the sums. The cost of reading the sums does not
//! depend on the number of trees.

use crate::huge_chunk::{HUGE_CHUNK_BYTES, HugeChunk};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use teak_base::FileId;

/// Bytes of memtables, by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemtableUse {
    /// Active memtables.
    pub active: u64,
    /// Frozen memtables, which wait to be flushed.
    pub frozen: u64,
    /// Flushed memtables that readers of older versions use.
    pub retired: u64,
}

impl MemtableUse {
    /// Bytes of the memtables that flushes can release.
    #[must_use]
    pub fn live(self) -> u64 {
        self.active + self.frozen
    }

    /// Bytes of all memtables.
    #[must_use]
    pub fn total(self) -> u64 {
        self.live() + self.retired
    }
}

/// The sums over all memtables, and the trees that need attention.
#[derive(Debug, Default)]
pub struct MemtableMemory {
    active: AtomicU64,
    frozen: AtomicU64,
    retired: AtomicU64,
    written: AtomicU64,
    /// The active memtables by size, with the files of their trees. The sizes are at most an eighth
    /// too small.
    sizes: Mutex<BTreeSet<(u64, FileId)>>,
    /// The largest of these sizes.
    largest_bytes: AtomicU64,
    /// The files of trees whose readers have passed many invisible keys.
    slow_reads: Mutex<BTreeSet<FileId>>,
    has_slow_reads: AtomicBool,
    /// Memory of dropped memtables that later memtables will use.
    spare: Mutex<Vec<HugeChunk>>,
    /// Limit of the bytes of live memtables and spare memory together.
    spare_bytes_max: AtomicU64,
    /// Whether spare memory was taken since it was last released.
    spare_taken: AtomicBool,
    /// Bytes of all mapped chunks, spare ones included.
    mapped: AtomicU64,
    /// Number of accounts.
    trees: AtomicUsize,
}

/// # Spare memory
impl MemtableMemory {
    /// Sets how many bytes live memtables and spare memory may have together, initially zero. Above
    /// this limit the memory of dropped memtables is unmapped.
    pub fn set_spare_bytes_max(&self, bytes: u64) {
        self.spare_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of spare memory.
    #[must_use]
    pub fn spare_bytes(&self) -> u64 {
        bytes_of(self.spare.lock().len())
    }

    pub(crate) fn take_chunk(&self) -> HugeChunk {
        let spare = self.spare.lock().pop();
        if let Some(chunk) = spare {
            self.spare_taken.store(true, Ordering::Relaxed);
            return chunk;
        }
        self.mapped.fetch_add(bytes_of(1), Ordering::Relaxed);
        HugeChunk::map()
    }

    /// Bytes of mapped chunks. On Linux they do not come from the allocator.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped.load(Ordering::Relaxed)
    }

    pub(crate) fn return_chunk(&self, chunk: HugeChunk) {
        let live = self.used().live();
        let bytes_max = self.spare_bytes_max.load(Ordering::Relaxed);
        let mut spare = self.spare.lock();
        if live + bytes_of(spare.len() + 1) <= bytes_max {
            spare.push(chunk);
            return;
        }
        drop(spare);
        self.mapped.fetch_sub(bytes_of(1), Ordering::Relaxed);
        drop(chunk);
    }

    /// Unmaps spare memory, unless some was taken since the previous call. The caller calls this
    /// periodically.
    pub fn release_spare(&self) {
        if self.spare_taken.swap(false, Ordering::Relaxed) {
            return;
        }
        let released = std::mem::take(&mut *self.spare.lock());
        let bytes = bytes_of(released.len());
        self.mapped.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn bytes_of(chunks: usize) -> u64 {
    (chunks * HUGE_CHUNK_BYTES) as u64
}

impl MemtableMemory {
    /// The bytes in memtables now.
    #[must_use]
    pub fn used(&self) -> MemtableUse {
        let load = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        MemtableUse {
            active: load(&self.active),
            frozen: load(&self.frozen),
            retired: load(&self.retired),
        }
    }

    /// The number of trees that are open, or whose memtables readers use.
    #[must_use]
    pub fn trees(&self) -> usize {
        self.trees.load(Ordering::Relaxed)
    }

    /// The bytes by which memtables have grown since this was created. Never decreases.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The largest active memtable, or the next smaller one after `place`: its
    /// size, and the file of its tree.
    #[must_use]
    pub fn largest(&self, place: Option<(u64, FileId)>) -> Option<(u64, FileId)> {
        let sizes = self.sizes.lock();
        match place {
            Some(place) => sizes.range(..place).next_back().copied(),
            None => sizes.last().copied(),
        }
    }

    /// The size of the largest active memtable.
    #[must_use]
    pub fn largest_bytes(&self) -> u64 {
        self.largest_bytes.load(Ordering::Relaxed)
    }

    /// Changes the size under which an active memtable is listed. Zero means that it is not listed.
    fn list(&self, file: FileId, before: u64, now: u64) {
        let mut sizes = self.sizes.lock();
        if before > 0 {
            sizes.remove(&(before, file));
        }
        if now > 0 {
            sizes.insert((now, file));
        }
        let largest = sizes.last().map_or(0, |(bytes, _)| *bytes);
        self.largest_bytes.store(largest, Ordering::Relaxed);
    }

    /// Whether readers of some tree have passed many invisible keys.
    #[inline]
    #[must_use]
    pub fn has_slow_reads(&self) -> bool {
        self.has_slow_reads.load(Ordering::Relaxed)
    }

    /// Takes the list of trees whose readers have passed many invisible keys.
    /// [`crate::Tree::next_reader_job`] may have a job for each.
    #[must_use]
    pub fn take_slow_reads(&self) -> BTreeSet<FileId> {
        if !self.has_slow_reads.swap(false, Ordering::AcqRel) {
            return BTreeSet::new();
        }
        std::mem::take(&mut *self.slow_reads.lock())
    }

    fn add_slow_read(&self, file: FileId) {
        self.slow_reads.lock().insert(file);
        self.has_slow_reads.store(true, Ordering::Release);
    }

    fn sum(&self, phase: Phase) -> &AtomicU64 {
        match phase {
            Phase::Active => &self.active,
            Phase::Frozen => &self.frozen,
            Phase::Retired => &self.retired,
        }
    }
}

/// The account of one tree's memtables.
#[derive(Debug)]
pub(crate) struct TreeAccount {
    memory: Arc<MemtableMemory>,
    file: FileId,
    /// Bytes by which the tree's memtables have grown. Never decreases.
    written: AtomicU64,
}

impl TreeAccount {
    pub(crate) fn new(memory: &Arc<MemtableMemory>, file: FileId) -> Arc<Self> {
        memory.trees.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            memory: Arc::clone(memory),
            file,
            written: AtomicU64::new(0),
        })
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Puts the tree on the list of slow reads.
    pub(crate) fn request_reader_job(&self) {
        self.memory.add_slow_read(self.file);
    }
}

impl Drop for TreeAccount {
    fn drop(&mut self) {
        self.memory.trees.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state of a memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Active,
    Frozen,
    Retired,
}

#[derive(Debug)]
struct Charged {
    bytes: u64,
    phase: Phase,
    /// The size under which an active memtable is in the list of sizes; zero
    /// when it is not.
    listed: u64,
}

/// The charge of one memtable. Dropping it subtracts the bytes from the sums.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<TreeAccount>,
    charged: Mutex<Charged>,
}

impl Charge {
    pub(crate) fn new(account: &Arc<TreeAccount>) -> Self {
        Self {
            account: Arc::clone(account),
            charged: Mutex::new(Charged {
                bytes: 0,
                phase: Phase::Active,
                listed: 0,
            }),
        }
    }

    /// The charge of a memtable that belongs to no tree.
    pub(crate) fn detached() -> Self {
        Self::new(&TreeAccount::new(&Arc::default(), FileId(0)))
    }

    /// Raises the charge to `bytes`.
    pub(crate) fn grow_to(&self, bytes: u64) {
        let account = &*self.account;
        let mut charged = self.charged.lock();
        let growth = bytes.saturating_sub(charged.bytes);
        if growth == 0 {
            return;
        }
        charged.bytes = bytes;
        account
            .memory
            .sum(charged.phase)
            .fetch_add(growth, Ordering::Relaxed);
        account.memory.written.fetch_add(growth, Ordering::Relaxed);
        account.written.fetch_add(growth, Ordering::Relaxed);
        if charged.phase == Phase::Active && bytes > charged.listed + charged.listed / 8 {
            account.memory.list(account.file, charged.listed, bytes);
            charged.listed = bytes;
        }
    }

    /// The bytes in the sums.
    pub(crate) fn bytes(&self) -> u64 {
        self.charged.lock().bytes
    }

    /// The sums that the charge belongs to.
    pub(crate) fn memory(&self) -> &MemtableMemory {
        &self.account.memory
    }

    /// Changes the state of the memtable to a later one: from active to frozen, or from either to
    /// retired.
    pub(crate) fn enter(&self, phase: Phase) {
        let memory = &self.account.memory;
        let mut charged = self.charged.lock();
        if phase <= charged.phase {
            return;
        }
        memory
            .sum(charged.phase)
            .fetch_sub(charged.bytes, Ordering::Relaxed);
        memory
            .sum(phase)
            .fetch_add(charged.bytes, Ordering::Relaxed);
        charged.phase = phase;
        self.remove_from_list(&mut charged);
    }

    /// Subtracts the bytes from the sums, because the memtable is no longer used.
    pub(crate) fn release(&self) {
        let mut charged = self.charged.lock();
        let bytes = std::mem::take(&mut charged.bytes);
        let sum = self.account.memory.sum(charged.phase);
        sum.fetch_sub(bytes, Ordering::Relaxed);
        self.remove_from_list(&mut charged);
    }

    fn remove_from_list(&self, charged: &mut Charged) {
        if charged.listed > 0 {
            let listed = std::mem::take(&mut charged.listed);
            self.account.memory.list(self.account.file, listed, 0);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_follow_growth_states_and_drops() {
        let memory: Arc<MemtableMemory> = Arc::default();
        let first = TreeAccount::new(&memory, FileId(1));
        let second = TreeAccount::new(&memory, FileId(2));
        let (a, b) = (Charge::new(&first), Charge::new(&second));
        a.grow_to(100);
        a.grow_to(90);
        b.grow_to(300);
        assert_eq!(memory.used().active, 400);
        assert_eq!(memory.largest(None), Some((300, FileId(2))));
        let second_largest = memory.largest(Some((300, FileId(2))));
        assert_eq!(second_largest, Some((100, FileId(1))));
        assert_eq!(memory.largest(second_largest), None);
        b.enter(Phase::Frozen);
        assert_eq!(memory.largest(None), Some((100, FileId(1))));
        b.enter(Phase::Retired);
        b.enter(Phase::Frozen);
        let used = memory.used();
        assert_eq!((used.live(), used.retired), (100, 300));
        // A later memtable of the same tree.
        let c = Charge::new(&second);
        c.grow_to(8);
        drop(a);
        assert_eq!(memory.largest(None), Some((8, FileId(2))));
        drop((b, c));
        assert_eq!(memory.used(), MemtableUse::default());
        assert_eq!((memory.largest(None), memory.largest_bytes()), (None, 0));
        assert_eq!((memory.written(), second.written()), (408, 308));
        assert_eq!(memory.trees(), 2);
        drop((first, second));
        assert_eq!(memory.trees(), 0);
    }

    #[test]
    fn slow_reads_are_taken_once() {
        let memory = MemtableMemory::default();
        memory.add_slow_read(FileId(3));
        memory.add_slow_read(FileId(3));
        assert_eq!(memory.take_slow_reads().len(), 1);
        assert!(memory.take_slow_reads().is_empty());
    }
}
