//! Support for the tests: directories, and index files that the tree and the engine write.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

pub mod engine;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use teak_base::{CommitSequence, FileId, Lsn, Operation, WriteId};
use teak_disk::{Disk, RealDisk};
use teak_tree::{
    Column, ColumnKind, Horizon, PageCache, PageColumns, Tree, TreeOptions, ValueTail, WriteStatus,
};

pub const ROWS: u32 = 20_000;

struct Committed([CommitSequence; 1]);

impl Horizon for Committed {
    fn status(&self, _id: WriteId) -> WriteStatus {
        WriteStatus::Committed(CommitSequence(1))
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.0
    }
}

/// A directory that is removed at the end of the test.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("teak-tools-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("db")).unwrap();
        Self(path)
    }

    pub fn teak(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_teak"));
        command
            .current_dir(&self.0)
            .args(arguments)
            .output()
            .unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Creates the file of an index: keys of four bytes, and values of a byte, a number and a string.
pub fn create(path: &Path) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let column = |kind, width| Column::new(kind, width).unwrap();
    let tail = ValueTail {
        optional: vec![],
        variable: vec![None],
    };
    let options = TreeOptions {
        columns: PageColumns::with_tail(
            vec![column(ColumnKind::UnsignedBig, 4)],
            vec![
                column(ColumnKind::Bytes, 1),
                column(ColumnKind::UnsignedLittle, 4),
            ],
            tail,
        ),
        ..TreeOptions::default()
    };
    let cache = Arc::new(PageCache::new(8 << 20));
    let tree = Tree::create(&disk, path, FileId(7), options, &cache).unwrap();
    let guard = tree.write_guard();
    for row in 0..ROWS {
        let mut value = vec![0];
        value.extend_from_slice(&(row % 1000).to_le_bytes());
        let text = format!("row {}", u64::from(row) * 7919 % 10_007);
        value.push(text.len() as u8);
        value.extend_from_slice(text.as_bytes());
        guard.insert(WriteId(1), Operation::Put, &row.to_be_bytes(), &value);
    }
    drop(guard);
    tree.freeze(|| Lsn(1));
    tree.settle(&Committed([CommitSequence(1)])).unwrap();
    tree.checkpoint(&|_| Ok(())).unwrap();
}

pub fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The contents of all files below a directory, by path.
pub fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => found.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

/// Copies all files below a directory.
pub fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy_all(&path, &target),
            false => drop(std::fs::copy(&path, &target).unwrap()),
        }
    }
}
