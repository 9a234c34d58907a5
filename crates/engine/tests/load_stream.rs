//! Loads whose rows another thread encodes.

use crate::common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    Engine, EngineError, EngineResult, EngineTransaction, LoadStream, RowEncoder, RowLoad,
    TableHandle, WaitError,
};
use teak_testing::{FaultDisk, WriteFailure};

/// Adds the numbers of a batch as rows.
#[derive(Default)]
struct Numbers {
    /// Leaves out this number.
    skipped: Option<u64>,
    /// Waits before each batch while this is set.
    waits: Arc<AtomicBool>,
    batches: Arc<AtomicU64>,
    other_threads: Arc<AtomicU64>,
    caller: Option<thread::ThreadId>,
}

impl RowEncoder for Numbers {
    fn encode(&mut self, batch: &[u8], load: &mut RowLoad) -> EngineResult<()> {
        while self.waits.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        self.batches.fetch_add(1, Ordering::Relaxed);
        let is_other = self.caller.is_some_and(|id| id != thread::current().id());
        self.other_threads
            .fetch_add(is_other.into(), Ordering::Relaxed);
        for number in batch.chunks_exact(8) {
            let n = u64::from_be_bytes(number.try_into().unwrap());
            if self.skipped != Some(n) {
                add_to_load(load, &format!("{n:06}"), &format!("value {n}"))?;
            }
        }
        Ok(())
    }
}

fn expected(numbers: impl Iterator<Item = u64>) -> Rows {
    let row = |n| (format!("{n:06}"), format!("value {n}"));
    let mut rows: Rows = numbers.map(row).collect();
    rows.sort();
    rows
}

/// The numbers below `count`, in another order.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |n| n * 7919 % count)
}

fn pass(stream: &mut LoadStream, numbers: impl Iterator<Item = u64>) -> EngineResult<()> {
    let numbers: Vec<u64> = numbers.collect();
    for batch in numbers.chunks(500) {
        let bytes = batch.iter().flat_map(|n| n.to_be_bytes()).collect();
        stream.pass(bytes, batch.len() as u64)?;
    }
    Ok(())
}

fn begin_stream(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    encoder: Numbers,
) -> LoadStream {
    let load = transaction.begin_load(table, &[true, false], 1).unwrap();
    load.encoded_by(Box::new(encoder))
}

fn with_threads(threads: usize, disk: &Arc<dyn Disk>) -> (Engine, TableHandle) {
    let mut options = options();
    options.background_threads = threads;
    let engine = Engine::open(Arc::clone(disk), options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    (engine, table)
}

fn in_memory(threads: usize) -> (Engine, TableHandle) {
    with_threads(threads, &(Arc::new(MemoryDisk::new()) as _))
}

#[test]
fn rows_are_encoded_by_other_threads_or_by_the_caller() {
    for threads in [0, 2] {
        let (engine, table) = in_memory(threads);
        let mut transaction = begin(&engine);
        let mut load = transaction.begin_load(&table, &[true, false], 1).unwrap();
        add_to_load(&mut load, "before", "").unwrap();
        let other_threads = Arc::new(AtomicU64::new(0));
        let mut stream = load.encoded_by(Box::new(Numbers {
            other_threads: Arc::clone(&other_threads),
            caller: Some(thread::current().id()),
            ..Numbers::default()
        }));
        pass(&mut stream, shuffled(20_000)).unwrap();
        assert_eq!(stream.rows(), 20_001);
        // A batch that is passed alone.
        let large = (20_000..220_000u64).flat_map(u64::to_be_bytes).collect();
        stream.pass(large, 200_000).unwrap();
        let load = stream.finish().unwrap();
        assert_eq!(load.rows(), 220_001);
        transaction.finish_load(load, &mut |_, _| ()).unwrap();
        transaction.commit().unwrap();
        let mut all = expected(0..220_000);
        all.push(("before".into(), String::new()));
        assert_eq!(rows(&engine, &table), all);
        let used_others = other_threads.load(Ordering::Relaxed) > 0;
        assert_eq!(used_others, threads > 0);
    }
}

#[test]
fn a_lost_row_is_an_error() {
    let (engine, table) = in_memory(2);
    let mut transaction = begin(&engine);
    let mut stream = begin_stream(
        &mut transaction,
        &table,
        Numbers {
            skipped: Some(700),
            ..Numbers::default()
        },
    );
    pass(&mut stream, 0..1000).unwrap();
    let finished = stream.finish();
    assert!(matches!(finished, Err(EngineError::Internal(_))));
    transaction.rollback();
    assert!(rows(&engine, &table).is_empty());
}

#[test]
fn a_row_that_is_too_large_ends_the_stream() {
    struct TooLarge;
    impl RowEncoder for TooLarge {
        fn encode(&mut self, batch: &[u8], load: &mut RowLoad) -> EngineResult<()> {
            add_to_load(load, &"k".repeat(batch.len()), "")
        }
    }
    for threads in [0, 2] {
        let (engine, table) = in_memory(threads);
        let mut transaction = begin(&engine);
        let load = transaction.begin_load(&table, &[true, false], 1).unwrap();
        let mut stream = load.encoded_by(Box::new(TooLarge));
        let failed = [1, 100_000, 1]
            .iter()
            .find_map(|length| stream.pass(vec![0; *length], 1).err());
        let failed = failed.or_else(|| stream.finish().err());
        assert!(
            matches!(failed, Some(EngineError::Storage(_))),
            "{failed:?}"
        );
        transaction.rollback();
        assert!(rows(&engine, &table).is_empty());
    }
}

#[test]
fn a_full_disk_ends_the_stream() {
    for threads in [0, 2] {
        let disk = FaultDisk::new(1);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (engine, table) = with_threads(threads, &shared);
        let mut transaction = begin(&engine);
        let mut stream = begin_stream(&mut transaction, &table, Numbers::default());
        disk.fail_write(0, WriteFailure::NoSpace);
        // More than the memory of the sort.
        let passed = pass(&mut stream, shuffled(400_000));
        let failed = passed.and_then(|()| stream.finish().map(drop));
        assert!(matches!(failed, Err(EngineError::Storage(_))), "{failed:?}");
        disk.clear_failures();
        transaction.rollback();
        assert!(rows(&engine, &table).is_empty());
    }
}

#[test]
fn an_interrupt_ends_a_stream_that_waits() {
    let (engine, table) = in_memory(2);
    let mut transaction = begin(&engine);
    let waits = Arc::new(AtomicBool::new(true));
    let mut stream = begin_stream(
        &mut transaction,
        &table,
        Numbers {
            waits: Arc::clone(&waits),
            ..Numbers::default()
        },
    );
    let handle = Arc::clone(transaction.handle());
    let interrupting = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        handle.interrupt();
        waits.store(false, Ordering::Relaxed);
    });
    let passed = pass(&mut stream, 0..1_000_000);
    let interrupted = EngineError::Wait(WaitError::Interrupted);
    assert_eq!(passed.unwrap_err().to_string(), interrupted.to_string());
    interrupting.join().unwrap();
    drop(stream);
    transaction.rollback();
    assert!(rows(&engine, &table).is_empty());
}

#[test]
fn a_dropped_stream_drops_the_batch_that_waits() {
    let (engine, table) = in_memory(2);
    let mut transaction = begin(&engine);
    let (waits, batches) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let encoder = Numbers {
        waits: Arc::clone(&waits),
        batches: Arc::clone(&batches),
        ..Numbers::default()
    };
    let mut stream = begin_stream(&mut transaction, &table, encoder);
    pass(&mut stream, 0..500).unwrap();
    // The worker takes the first batch, or the second one waits for it.
    pass(&mut stream, 500..1000).unwrap();
    let releasing = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        waits.store(false, Ordering::Relaxed);
    });
    drop(stream);
    releasing.join().unwrap();
    assert!(batches.load(Ordering::Relaxed) <= 1);
    transaction.rollback();
    assert!(rows(&engine, &table).is_empty());
}
