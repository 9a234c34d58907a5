//! Index files that bypass the cache of the operating system, on the file system.

use crate::common::*;
use std::path::{Path, PathBuf};
use teak_engine::{Engine, FileIo, TableHandle, file_system};
use teak_tree::TreeOptions;

/// A directory on a disk that is removed when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens the engine. Returns the messages, too.
fn open_in(directory: &Path, io: FileIo, threads: usize) -> (Engine, Vec<String>) {
    let mut options = options();
    options.directory = directory.to_path_buf();
    options.background_threads = threads;
    options.cache_bytes = 4 << 20;
    options.commit_sync = false;
    options.tree = TreeOptions::default();
    options.log_segment_bytes = 64 << 20;
    let messages = capture_messages(&mut options);
    let engine = Engine::open(file_system(&options, io), options).unwrap();
    let messages = messages.lock().unwrap().clone();
    (engine, messages)
}

fn is_warned(messages: &[String]) -> bool {
    messages.iter().any(|text| text.contains("direct I/O"))
}

/// Writes rows, in several transactions so that memtables are flushed.
fn write(engine: &Engine, table: &TableHandle, rows: std::ops::Range<u32>) {
    for first in rows.clone().step_by(500) {
        let mut transaction = begin(engine);
        for row in first..(first + 500).min(rows.end) {
            let value = format!("{row:0width$}", width = 10 + row as usize % 700);
            insert(&mut transaction, table, &format!("{row:08}"), &value).unwrap();
        }
        transaction.commit().unwrap();
    }
}

fn check(engine: &Engine, table: &TableHandle, rows: u32) {
    let mut transaction = begin(engine);
    let found = see(&mut transaction, table);
    assert_eq!(found.len(), rows as usize);
    for (row, (key, value)) in (0..rows).zip(&found) {
        assert_eq!(key, &format!("{row:08}"));
        assert_eq!(value.len(), 10 + row as usize % 700);
        assert_eq!(value.parse::<u32>().unwrap(), row);
    }
}

#[test]
fn direct_and_buffered_engines_read_each_others_files() {
    let scratch = Scratch::new("direct");
    let mut rows = 0;
    for (io, threads) in [
        (FileIo::Direct, 2),
        (FileIo::Buffered, 2),
        (FileIo::Direct, 0),
    ] {
        let (engine, messages) = open_in(&scratch.0, io, threads);
        assert!(!is_warned(&messages), "{messages:?}");
        if rows == 0 {
            engine.create_table(&definition(TABLE)).unwrap();
        }
        let table = engine.open_table(TABLE).unwrap();
        check(&engine, &table, rows);
        write(&engine, &table, rows..rows + 20_000);
        rows += 20_000;
        engine.checkpoint().unwrap();
        check(&engine, &table, rows);
        assert!(engine.statistics().bytes_written > 0);
        drop(table);
        match threads {
            // Recovery opens the files again.
            0 => engine.abandon(),
            _ => engine.close().unwrap(),
        }
    }
    let (engine, _) = open_in(&scratch.0, FileIo::Direct, 2);
    let table = engine.open_table(TABLE).unwrap();
    check(&engine, &table, rows);
    assert!(engine.statistics().bytes_read > 0);
    engine.close().unwrap();
}

/// Without direct I/O the engine starts with buffered files and reports this.
#[test]
fn a_file_system_without_direct_io_is_reported() {
    let mut options = options();
    options.directory = "/proc/teak".into();
    let messages = capture_messages(&mut options);
    let _ = file_system(&options, FileIo::Direct);
    assert!(is_warned(&messages.lock().unwrap()));
    messages.lock().unwrap().clear();
    let _ = file_system(&options, FileIo::Buffered);
    assert!(messages.lock().unwrap().is_empty());
}
