//! Fuzz target of a whole tree: it is opened, verified, read, written, merged, checkpointed and
//! opened again. On a damaged tree each operation may return an error but must not panic. If
//! `verify` accepts the tree, all operations must succeed and lose no data.

use super::tree_builder::build;
use crate::{Horizon, PageCache, Tree, Visibility, WriteStatus};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use teak_base::fuzzing::{Input, Random};
use teak_base::{CommitSequence, FileId, Lsn, Operation, StorageError, StorageResult, WriteId};
use teak_disk::{Disk, MemoryDisk};

/// Limit of cursor steps and of jobs; larger than any of these trees needs.
const STEPS_MAX: usize = 5000;
const JOBS_MAX: usize = 200;

/// A visibility and horizon under which all writes are committed and visible.
struct All;

impl Visibility for All {
    fn is_visible(&self, _id: WriteId) -> bool {
        true
    }
}

impl Horizon for All {
    fn status(&self, _id: WriteId) -> WriteStatus {
        WriteStatus::Committed(CommitSequence(1))
    }

    fn snapshots(&self) -> &[CommitSequence] {
        &[CommitSequence(1)]
    }
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// The input has the format of `tree_builder`.
pub(super) fn tree_file(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let path = Path::new("/fuzz.teak");
    build(&disk, path, &mut input).expect("the memory disk takes everything");
    let Ok(tree) = open(&disk, path) else {
        return;
    };
    let sound = tree.verify(&mut |_| true).is_ok();
    let rows = use_tree(&tree, &mut input);
    if !sound {
        return;
    }
    let rows = rows.unwrap_or_else(|error| panic!("a sound tree fails: {error}"));
    drop(tree);
    let tree = open(&disk, path).expect("a sound tree opens again");
    tree.verify(&mut |_| true).expect("it remains valid");
    assert_eq!(scan(&tree).expect("it can be read"), rows);
}

fn open(disk: &Arc<dyn Disk>, path: &Path) -> StorageResult<Arc<Tree>> {
    let cache = Arc::new(PageCache::new(1 << 20));
    Tree::open(disk, path, Some(FileId(1)), &cache)
}

/// Reads, writes and merges. Returns the rows at the end, which a checkpoint
/// contains.
fn use_tree(tree: &Arc<Tree>, input: &mut Input<'_>) -> StorageResult<Rows> {
    let before = read_all_ways(tree);
    let _ = (
        tree.statistics(),
        tree.estimate_entries(),
        tree.write_id_range(),
    );
    for bound in [&b"a"[..], b"b\x05", b"c\x30"] {
        tree.estimate_range(Bound::Included(bound), Bound::Unbounded, All)?;
        tree.estimate_range(Bound::Unbounded, Bound::Excluded(bound), All)?;
    }
    let mut expected = before?;
    for _ in 0..input.below(5) {
        let (key, value) = (vec![b'a' + input.below(5), input.u8()], vec![input.u8(); 5]);
        tree.write_guard()
            .insert(WriteId(3), Operation::Put, &key, &value);
        expected.retain(|row| row.0 != key);
        expected.push((key, value));
    }
    expected.sort();
    tree.freeze(|| Lsn(20));
    for number in 0.. {
        let job = match tree.next_job()? {
            Some(job) => Some(job),
            None => tree.next_idle_job(&All)?,
        };
        let Some(job) = job else {
            break;
        };
        assert!(number < JOBS_MAX, "merging comes to an end");
        job.run(&All)?;
    }
    let rows = read_all_ways(tree)?;
    assert_eq!(rows, expected, "merging keeps what there is");
    tree.checkpoint(&|_| Ok(()))?;
    Ok(rows)
}

fn scan(tree: &Arc<Tree>) -> StorageResult<Rows> {
    let mut rows = Rows::new();
    let mut cursor = tree.cursor(All);
    let mut found = cursor.seek_first()?;
    while found {
        rows.push((cursor.key().to_vec(), cursor.value()?.to_vec()));
        assert!(rows.len() < STEPS_MAX, "a scan ends");
        found = cursor.next()?;
    }
    Ok(rows)
}

/// Scans forward, backward and key by key; the results must agree if the tree
/// is valid.
fn read_all_ways(tree: &Arc<Tree>) -> StorageResult<Rows> {
    let forwards = scan(tree);
    let mut backwards = Rows::new();
    let mut cursor = tree.cursor(All);
    let mut found = cursor.seek_last()?;
    while found {
        backwards.push((cursor.key().to_vec(), cursor.value()?.to_vec()));
        assert!(backwards.len() < STEPS_MAX, "a scan ends");
        found = cursor.previous()?;
    }
    backwards.reverse();
    let rows = forwards?;
    let mut values = Vec::new();
    for (key, _) in &rows {
        values.push(tree.get(key, &All)?);
    }
    if tree.verify(&mut |_| true).is_ok() {
        assert_eq!(rows, backwards, "both directions find the same");
        assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
        for ((_, value), found) in rows.iter().zip(values) {
            assert_eq!(Some(value), found.as_ref());
        }
        return Ok(rows);
    }
    Err(StorageError::Interrupted)
}

/// A run whose first key is less than its description says, because a byte of the page was changed.
const OTHER_FIRST_KEY: [u8; 45] = [
    0xd7, 0x1c, 0x02, 0xcb, 0xda, 0x11, 0xf6, 0xfe, 0xac, 0xc8, 0xd2, 0x01, 0x2b, 0x61, 0x69, 0xeb,
    0x2c, 0x4e, 0x30, 0xe6, 0xf8, 0xaf, 0xc7, 0x35, 0xf8, 0x2f, 0xcd, 0x9d, 0xff, 0x30, 0xe9, 0xba,
    0x5f, 0x47, 0x1d, 0x78, 0xac, 0xc8, 0xd2, 0x01, 0x2b, 0x70, 0x75, 0x00, 0x00,
];

pub(super) fn tree_file_seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(7);
    let random = (0..40).map(|number| {
        let bytes = 50 + number * 20;
        (0..bytes)
            .map(|_| random.number().to_le_bytes()[0])
            // Most seeds avoid the rare cases.
            .map(|byte| {
                if byte >= 0xf0 && number % 4 != 0 {
                    byte / 2
                } else {
                    byte
                }
            })
            .collect()
    });
    random.chain([OTHER_FIRST_KEY.to_vec()]).collect()
}
