//! Concurrent writers, readers, flushes and checkpoints. Batches of writes are numbered. A reader
//! at snapshot `n` must see exactly the batches up to `n`.

// A test or bench fails by a panic, and the numbers that it converts are small.
use crate::common::Random;
use crate::common::committed::At;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use teak_base::{CommitSequence, FileId, Lsn, Operation, TransactionId, WriteId};
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{Horizon, PageCache, Tree, TreeOptions, WriteStatus};

const BATCHES: u64 = 3000;
const WRITES: usize = 12;
const KEYS: usize = 500;

/// The commits, and the snapshots in use.
#[derive(Default)]
struct Commits {
    /// The number of the last batch up to which all batches are complete.
    published: AtomicU64,
    done: Mutex<BTreeMap<u64, ()>>,
    /// Live snapshots, each with its number of readers.
    live: Mutex<BTreeMap<u64, usize>>,
}

impl Commits {
    fn complete(&self, batch: u64) {
        let mut done = self.done.lock().unwrap();
        done.insert(batch, ());
        while done
            .remove(&(self.published.load(Ordering::SeqCst) + 1))
            .is_some()
        {
            // Under the readers' lock, so that a new horizon contains every
            // snapshot that is taken before it.
            let _live = self.live.lock().unwrap();
            self.published.fetch_add(1, Ordering::SeqCst);
        }
    }
    fn take_snapshot(&self) -> u64 {
        let mut live = self.live.lock().unwrap();
        let snapshot = self.published.load(Ordering::SeqCst);
        *live.entry(snapshot).or_default() += 1;
        snapshot
    }
    fn drop_snapshot(&self, snapshot: u64) {
        let mut live = self.live.lock().unwrap();
        let readers = live.get_mut(&snapshot).unwrap();
        *readers -= 1;
        if *readers == 0 {
            live.remove(&snapshot);
        }
    }
    fn horizon(self: &Arc<Self>) -> Now {
        let live = self.live.lock().unwrap();
        let published = self.published.load(Ordering::SeqCst);
        let mut snapshots: Vec<_> = live.keys().map(|s| CommitSequence(*s)).collect();
        snapshots.push(CommitSequence(published));
        Now(snapshots, Arc::clone(self))
    }
}

struct Now(Vec<CommitSequence>, Arc<Commits>);

impl Horizon for Now {
    fn status(&self, id: WriteId) -> WriteStatus {
        if id.0 <= self.1.published.load(Ordering::SeqCst) {
            WriteStatus::Committed(CommitSequence(id.0))
        } else {
            WriteStatus::Active(TransactionId(1))
        }
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.0
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

/// The writes of a batch: keys, and whether they are deletes. The two writers write different keys.
fn writes(batch: u64) -> Vec<(usize, bool)> {
    let mut random = Random(batch * 977);
    let mut writes = BTreeMap::new();
    for _ in 0..WRITES {
        let key = random.below(KEYS / 2) * 2 + (batch % 2) as usize;
        writes.insert(key, random.one_in(4));
    }
    writes.into_iter().collect()
}

/// For each key, the batches that write it, ascending.
type History = Vec<Vec<(u64, bool)>>;

fn history() -> History {
    let mut history = vec![Vec::new(); KEYS];
    for batch in 1..=BATCHES {
        for (key, delete) in writes(batch) {
            history[key].push((batch, delete));
        }
    }
    history
}

fn expected(history: &History, key: usize, snapshot: u64) -> Option<u64> {
    let writes = &history[key];
    let after = writes.partition_point(|(batch, _)| *batch <= snapshot);
    let (batch, delete) = writes[after.checked_sub(1)?];
    (!delete).then_some(batch)
}

fn write_all(tree: &Tree, commits: &Commits, writer: u64) {
    let mut batch = if writer == 0 { 2 } else { 1 };
    while batch <= BATCHES {
        for (number, delete) in writes(batch) {
            let guard = tree.write_guard();
            guard.set_lsn(Lsn(batch));
            let id = WriteId(batch);
            if delete {
                guard.insert(id, Operation::Delete, &key(number), &[]);
            } else {
                let value = batch.to_le_bytes();
                guard.insert(id, Operation::Put, &key(number), &value);
            }
        }
        commits.complete(batch);
        if tree.memtable_bytes() > 16 * 1024 {
            tree.freeze(|| Lsn(batch));
        }
        batch += 2;
        while tree.frozen_memtables() > 4 {
            std::thread::yield_now();
        }
    }
}

fn read_all(tree: &Arc<Tree>, commits: &Commits, history: &History, seed: u64) {
    let mut random = Random(seed);
    let snapshot = commits.take_snapshot();
    let value = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let mut cursor = tree.cursor(At(snapshot));
    let wanted = |number| expected(history, number, snapshot).map(|b| (key(number), b));
    let mut found = Vec::new();
    if random.one_in(2) {
        let mut more = cursor.seek_first().unwrap();
        while more {
            found.push((cursor.key().to_vec(), value(cursor.value().unwrap())));
            more = cursor.next().unwrap();
        }
    } else {
        let mut more = cursor.seek_last().unwrap();
        while more {
            found.push((cursor.key().to_vec(), value(cursor.value().unwrap())));
            more = cursor.previous().unwrap();
        }
        found.reverse();
    }
    let all: Vec<_> = (0..KEYS).filter_map(wanted).collect();
    assert_eq!(found, all, "scan at {snapshot}");
    for _ in 0..100 {
        let number = random.below(KEYS);
        let got = tree.get(&key(number), &At(snapshot)).unwrap();
        assert_eq!(
            got.as_deref().map(value),
            expected(history, number, snapshot),
            "get {number} at {snapshot}"
        );
    }
    commits.drop_snapshot(snapshot);
}

#[test]
fn snapshots_stay_consistent_under_concurrent_work() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let cache = Arc::new(PageCache::new(256 * 1024));
    cache.nodes().set_bytes_max(50_000);
    let path = Path::new("/t.teak");
    let tree = Tree::create(&disk, path, FileId(1), TreeOptions::tiny(), &cache).unwrap();
    let commits = Arc::new(Commits::default());
    let history = history();
    let writing = AtomicU64::new(2);
    let flushing = AtomicBool::new(true);
    let jobs = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (tree, commits, writing) = (&tree, &commits, &writing);
            scope.spawn(move || {
                write_all(tree, commits, writer);
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (tree, commits, writing, history) = (&tree, &commits, &writing, &history);
                scope.spawn(move || {
                    let mut round = 0;
                    while writing.load(Ordering::SeqCst) > 0 || round < 5 {
                        read_all(tree, commits, history, reader * 1000 + round);
                        round += 1;
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let (tree, commits, flushing, jobs) = (&tree, &commits, &flushing, &jobs);
            scope.spawn(move || {
                while flushing.load(Ordering::SeqCst) {
                    let horizon = commits.horizon();
                    let job = tree
                        .next_job()
                        .unwrap()
                        .or_else(|| tree.next_idle_job(&horizon).unwrap());
                    match job {
                        Some(job) => {
                            job.run(&horizon).unwrap();
                            jobs.fetch_add(1, Ordering::SeqCst);
                        }
                        None => std::thread::yield_now(),
                    }
                }
            });
        }
        let (tree, flushing) = (&tree, &flushing);
        scope.spawn(move || {
            while flushing.load(Ordering::SeqCst) {
                tree.checkpoint(&|_| Ok(())).unwrap();
                tree.verify(&mut |_| true).unwrap();
            }
        });
        let outcomes: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        flushing.store(false, Ordering::SeqCst);
        for outcome in outcomes {
            outcome.unwrap();
        }
    });
    assert!(jobs.load(Ordering::SeqCst) > 20);
    tree.freeze(|| Lsn(BATCHES + 1));
    tree.settle(&commits.horizon()).unwrap();
    tree.checkpoint(&|_| Ok(())).unwrap();
    read_all(&tree, &commits, &history, 1);
    let report = tree.verify(&mut |_| true).unwrap();
    drop(tree);
    let tree = Tree::open(&disk, path, None, &cache).unwrap();
    read_all(&tree, &commits, &history, 2);
    assert_eq!(report.block_bytes, tree.file_statistics().live_bytes);
}
