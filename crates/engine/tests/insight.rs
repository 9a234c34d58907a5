//! Reports about columns, blocks, background jobs and the log.

use crate::common::*;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    BackgroundKind, ColumnPlace, Engine, EngineError, EngineResult, LogNeed, RangeKind,
    StorageError, TableHandle, TableVisitor,
};

const OTHER: &str = "./db/other";

/// Wants tables whose names end with a suffix, and ends after some calls.
struct Reader {
    suffix: &'static str,
    calls_left: Cell<u32>,
    failed: Vec<String>,
}

impl Reader {
    fn of(suffix: &'static str) -> Self {
        Self {
            suffix,
            calls_left: Cell::new(u32::MAX),
            failed: Vec::new(),
        }
    }
}

impl TableVisitor for Reader {
    fn wants(&mut self, table: &str) -> bool {
        table.ends_with(self.suffix)
    }

    fn fails(&mut self, table: &str, error: &EngineError) {
        self.failed.push(format!("{table}: {error}"));
    }

    fn is_interrupted(&self) -> bool {
        let left = self.calls_left.get();
        self.calls_left.set(left.saturating_sub(1));
        left == 0
    }
}

fn fill(engine: &Engine, table: &TableHandle, count: u32) {
    commit(engine, |t| {
        for n in 0..count {
            insert(t, table, &format!("{n:06}"), &format!("value {n}")).unwrap();
        }
    });
}

/// An engine with two tables, of which the first one has flushed rows.
fn with_rows(disk: &Arc<MemoryDisk>) -> Engine {
    let (engine, table) = with_table(disk);
    engine.create_table(&definition(OTHER)).unwrap();
    fill(&engine, &table, 2000);
    engine.settle().unwrap();
    engine.checkpoint().unwrap();
    drop(table);
    engine
}

/// The places of columns by table and index.
fn columns(engine: &Engine, reader: &mut Reader) -> BTreeSet<(String, u32, String)> {
    let mut found = BTreeSet::new();
    let listed = engine.list_columns(reader, &mut |column| {
        assert!(column.sampled_pages <= 32 && column.sampled_pages <= column.pages);
        assert!(column.part_pages <= column.sampled_pages && column.values > 0);
        let place = format!("{:?}", column.place);
        found.insert((column.table.to_owned(), column.number, place));
    });
    listed.unwrap();
    found
}

#[test]
fn columns_of_the_wanted_tables_are_sampled() {
    let disk = Arc::new(MemoryDisk::new());
    let engine = with_rows(&disk);
    let found = columns(&engine, &mut Reader::of("t"));
    let of_rows = |place: ColumnPlace| {
        let places = found.iter().filter(|(_, number, _)| *number == 0);
        let place = format!("{place:?}");
        places.filter(|(_, _, found)| *found == place).count()
    };
    assert_eq!(of_rows(ColumnPlace::Heads), 1);
    assert_eq!(of_rows(ColumnPlace::Keys), 1);
    assert!(found.iter().all(|(table, _, _)| table.ends_with("/t")));
    assert!(found.iter().any(|(_, number, _)| *number == 1));
    // A table without rows has no pages.
    assert!(columns(&engine, &mut Reader::of("other")).is_empty());
}

#[test]
fn reports_open_closed_files_of_the_wanted_tables_only() {
    let disk = Arc::new(MemoryDisk::new());
    with_rows(&disk).close().unwrap();
    let engine = open(&disk);
    assert_eq!(engine.statistics().open_tables, 0);
    assert!(columns(&engine, &mut Reader::of("none")).is_empty());
    assert_eq!(engine.statistics().open_tables, 0);
    assert!(!columns(&engine, &mut Reader::of("/t")).is_empty());
    assert_eq!(engine.statistics().open_tables, 1);
}

#[test]
fn a_table_that_cannot_be_read_is_skipped() {
    let disk = Arc::new(MemoryDisk::new());
    let engine = with_rows(&disk);
    let paths = engine.index_paths(TABLE).unwrap();
    engine.close().unwrap();
    disk.remove(&paths[0]).unwrap();
    let engine = open(&disk);
    let mut reader = Reader::of("");
    let mut ranges = BTreeSet::new();
    let mapped = engine.map_blocks(&mut reader, &mut |range| {
        ranges.insert(range.table.to_owned());
    });
    mapped.unwrap();
    assert_eq!(reader.failed.len(), 1, "{:?}", reader.failed);
    assert!(ranges.iter().all(|table| table.ends_with("other")));
    assert_eq!(ranges.len(), 1);
}

fn is_interrupted(result: &EngineResult<()>) -> bool {
    matches!(result, Err(EngineError::Storage(StorageError::Interrupted)))
}

#[test]
fn a_report_can_be_interrupted() {
    let disk = Arc::new(MemoryDisk::new());
    let engine = with_rows(&disk);
    for calls in [0, 1, 5] {
        let mut reader = Reader::of("");
        reader.calls_left.set(calls);
        let listed = engine.list_columns(&mut reader, &mut |_| {});
        assert!(is_interrupted(&listed), "{listed:?}");
        reader.calls_left.set(calls);
        let mapped = engine.map_blocks(&mut reader, &mut |_| {});
        assert!(is_interrupted(&mapped), "{mapped:?}");
    }
}

#[test]
fn the_block_map_of_each_index_covers_its_file() {
    let disk = Arc::new(MemoryDisk::new());
    let engine = with_rows(&disk);
    let mut bytes = [0, 0];
    let mut has_pages = [false, false];
    let mapped = engine.map_blocks(&mut Reader::of("/t"), &mut |range| {
        let number = range.number as usize;
        bytes[number] += range.range.bytes;
        has_pages[number] |= matches!(range.range.kind, RangeKind::Pages(_));
    });
    mapped.unwrap();
    let paths = engine.index_paths(TABLE).unwrap();
    let of_file = |path: &Path| disk.open(path).unwrap().len().unwrap();
    assert_eq!(bytes.to_vec(), [of_file(&paths[0]), of_file(&paths[1])]);
    assert_eq!(has_pages, [true, true]);
}

#[test]
fn waiting_jobs_are_listed_until_they_have_run() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    let mut found = None;
    for first in 0..200 {
        commit(&engine, |t| {
            for n in 0..100 {
                insert(t, &table, &format!("{:06}", first * 100 + n), "value").unwrap();
            }
        });
        let jobs = engine.background_jobs();
        assert!(jobs.iter().all(|job| job.running.is_none()));
        found = jobs.into_iter().find(|job| job.waiting.is_some());
        if found.is_some() {
            break;
        }
    }
    let job = found.expect("a job waits");
    assert!(matches!(
        job.kind,
        BackgroundKind::Flush | BackgroundKind::Compaction
    ));
    assert!(job.waiting.unwrap().bytes.unwrap() > 0);
    assert!(job.waiting.unwrap().retry_in.is_none());
    assert!(job.index.unwrap().table.ends_with("/t"));
    engine.run_background_until_idle().unwrap();
    assert!(engine.background_jobs().is_empty());
}

#[test]
fn an_index_build_is_a_running_job_with_progress() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    let mut alteration = begin_adding(&engine, &table, index("added")).unwrap();
    let build = |engine: &Engine| {
        let jobs = engine.background_jobs();
        jobs.into_iter()
            .find(|job| job.kind == BackgroundKind::IndexBuild)
    };
    let job = build(&engine).unwrap();
    let name = job.index.unwrap();
    assert_eq!((&*name.index, name.number), ("added", 2));
    assert_eq!(job.running.unwrap().progress, None);
    for n in 0..10u8 {
        alteration.add(0, &[n], b"value").unwrap();
    }
    alteration.build(&mut |_, _| ()).unwrap();
    let job = build(&engine).unwrap();
    assert_eq!(job.running.unwrap().progress, Some((10, 10)));
    drop(alteration);
    assert!(build(&engine).is_none());
}

#[test]
fn the_log_report_names_the_index_that_needs_the_oldest_record() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    engine.checkpoint().unwrap();
    let before = engine.log_report();
    assert_eq!(before.needed_by, LogNeed::Nothing);
    assert_eq!(before.needed_from, before.end);
    fill(&engine, &table, 10);
    let report = engine.log_report();
    let LogNeed::Index(Some(name)) = &report.needed_by else {
        panic!("{:?}", report.needed_by);
    };
    assert!(name.table.ends_with("/t"));
    assert!(before.end <= report.needed_from && report.needed_from < report.end);
    assert!(report.start <= report.replay_from && report.replay_from <= report.needed_from);
    assert!(report.segments > 0 && report.bytes > 0);
    let limits = report.limits.unwrap();
    assert!(limits.slow_bytes < limits.stop_bytes && limits.stop_bytes < limits.bytes_max);
    engine.checkpoint().unwrap();
    let after = engine.log_report();
    assert_eq!(after.needed_by, LogNeed::Nothing);
    assert!(after.replay_from > report.needed_from);
}
