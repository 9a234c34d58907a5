//! `teak verify` and `teak inspect` on files of the tree.

// A test fails by a panic.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use teak_base::{CommitSequence, FileId, Lsn, Operation, WriteId};
use teak_disk::{Disk, RealDisk};
use teak_tree::{
    Column, ColumnKind, Horizon, PageCache, PageColumns, Tree, TreeOptions, ValueTail, WriteStatus,
};

const ROWS: u32 = 20_000;

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
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("teak-tools-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("db")).unwrap();
        Self(path)
    }

    fn teak(&self, arguments: &[&str]) -> Output {
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
fn create(path: &Path) {
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

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn verify_reports_each_file_and_fails_for_a_damaged_one() {
    let directory = Directory::new("verify");
    create(&directory.0.join("db/one.teak"));
    create(&directory.0.join("db/two.teak"));
    std::fs::write(directory.0.join("db/other.frm"), b"no index").unwrap();
    let checked = directory.teak(&["verify", "."]);
    assert!(checked.status.success(), "{checked:?}");
    let lines = text(&checked);
    assert_eq!(lines.matches("ok ").count(), 2, "{lines}");
    assert!(lines.contains("20,000 entries") && lines.ends_with("2 files, 0 damaged\n"));

    let path = directory.0.join("db/two.teak");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 600] {
        *byte ^= 0x55;
    }
    std::fs::write(&path, &bytes).unwrap();
    let checked = directory.teak(&["verify", "--quiet", "db"]);
    assert_eq!(checked.status.code(), Some(1));
    let lines = text(&checked);
    assert!(
        lines.starts_with("damaged  db/two.teak: ") && lines.lines().count() == 1,
        "{lines}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the file was changed");

    let missing = directory.teak(&["verify", "db/none.teak"]);
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn inspect_shows_levels_and_columns() {
    let directory = Directory::new("inspect");
    create(&directory.0.join("db/one.teak"));
    let shown = directory.teak(&["inspect", "db/one.teak"]);
    assert!(shown.status.success(), "{shown:?}");
    let lines = text(&shown);
    assert!(
        lines.contains("leaves") && lines.contains("key column 0"),
        "{lines}"
    );

    let shown = directory.teak(&["inspect", "--json", "db"]);
    let reports: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let report = &reports[0];
    assert_eq!(report["levels"][0]["entries"], ROWS);
    assert_eq!(report["bottom"]["entries"], ROWS);
    let parts = report["parts"].as_array().unwrap();
    let names: Vec<_> = parts
        .iter()
        .map(|part| part["part"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "heads of entries",
            "key column 0",
            "column 0",
            "column 1",
            "column 2"
        ]
    );
    let sum = |field: &str| {
        parts
            .iter()
            .map(|part| part[field].as_u64().unwrap())
            .sum::<u64>()
    };
    let encoded = report["bottom"]["encoded_bytes"].as_u64().unwrap();
    // The lists of columns are not in the parts.
    assert!(sum("encoded_bytes") <= encoded && sum("encoded_bytes") * 100 > encoded * 95);
    for part in &parts[1..] {
        assert_eq!(part["values"], ROWS, "{part}");
    }
    assert_eq!(parts[3]["raw_bytes"], u64::from(ROWS) * 4);
}
