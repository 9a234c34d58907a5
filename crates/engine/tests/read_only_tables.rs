//! The log records of read-only tables are retained in files of their own: the log
//! is trimmed, other tables can be written without limit, and no row is lost.

use crate::common::*;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use teak_disk::Disk;
use teak_engine::{
    AddedIndex, Alteration, AlterationPlan, Engine, EngineError, EngineOptions, EngineResult,
    EntryOrder, IndexNumber, PlannedIndex, TableHandle,
};
use teak_testing::{FaultDisk, GateDisk};

const OTHER: &str = "./db/other";

/// The part of the path that only the files of [`TABLE`] have.
const FILES: &str = "db/t.";

/// The part of the path that only files of retained records have.
const RETAINED: &str = "teak.retained";

fn small_log() -> EngineOptions {
    let mut options = options();
    options.cache_bytes = 8 << 20;
    options.log_bytes_max = 2 << 20;
    options
}

/// An engine on a disk that can block or fail operations. The disk below it simulates power
/// losses.
struct Setup {
    faults: FaultDisk,
    gates: GateDisk,
    engine: Engine,
}

impl Setup {
    fn open(faults: FaultDisk, options: EngineOptions) -> Self {
        let gates = GateDisk::new(Arc::new(faults.clone()));
        Self::open_gated(faults, gates, options)
    }

    fn open_gated(faults: FaultDisk, gates: GateDisk, options: EngineOptions) -> Self {
        let engine = Engine::open(Arc::new(gates.clone()), options).unwrap();
        Self {
            faults,
            gates,
            engine,
        }
    }

    /// An engine on an empty disk, with two tables.
    fn new(options: EngineOptions) -> Self {
        let setup = Self::open(FaultDisk::new(1), options);
        setup.engine.create_table(&definition(TABLE)).unwrap();
        setup.engine.create_table(&definition(OTHER)).unwrap();
        setup
    }

    fn table(&self) -> TableHandle {
        self.engine.open_table(TABLE).unwrap()
    }

    fn other(&self) -> TableHandle {
        self.engine.open_table(OTHER).unwrap()
    }

    /// Fails the syncs of the table's files, and runs a checkpoint, which makes the table
    /// read-only.
    fn fail_syncs(&self) {
        self.gates.fail_syncs(FILES);
        assert!(self.engine.checkpoint().is_err());
        assert_eq!(self.engine.statistics().read_only_tables, 1);
    }

    /// Writes twice the log's bound to the other table.
    fn write_elsewhere(&self) {
        let bound = self.engine.statistics().log_bytes_limit;
        let end = self.engine.log_end().0;
        let other = self.other();
        while self.engine.log_end().0 < end + 2 * bound {
            let key = format!("k{:012}", self.engine.log_end().0);
            put(&self.engine, &other, &key).unwrap();
        }
        assert!(self.engine.statistics().log_bytes_used <= bound);
    }

    /// Simulates a power loss, and opens the engine again.
    fn reopen(self, seed: u64) -> Self {
        let disk = self.faults.crash(seed);
        drop(self);
        Self::open(disk, small_log())
    }

    fn keys(&self) -> Vec<String> {
        let rows = rows(&self.engine, &self.table());
        rows.into_iter().map(|(key, _)| key).collect()
    }

    fn other_has(&self, key: &str) -> bool {
        let rows = rows(&self.engine, &self.other());
        rows.iter().any(|(found, _)| found == key)
    }

    fn retained_files(&self) -> usize {
        let all = self.faults.list("/data".as_ref()).unwrap();
        let is_retained = |path: &&std::path::PathBuf| path.to_str().unwrap().contains(RETAINED);
        all.iter().filter(is_retained).count()
    }
}

fn put(engine: &Engine, table: &TableHandle, key: &str) -> EngineResult<()> {
    put_value(engine, table, key, 400)
}

fn put_value(engine: &Engine, table: &TableHandle, key: &str, bytes: usize) -> EngineResult<()> {
    let mut transaction = begin(engine);
    insert(&mut transaction, table, key, &"v".repeat(bytes))?;
    transaction.commit()
}

fn is_read_only(outcome: EngineResult<()>) -> bool {
    matches!(outcome, Err(EngineError::TableReadOnly { .. }))
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{n:05}")).collect()
}

#[test]
fn others_write_more_than_the_logs_bound_while_a_file_refuses_syncs() {
    for part in ["db/t.", "db/t.PRIMARY", "db/t.by_value"] {
        let setup = Setup::new(small_log());
        let (engine, table) = (&setup.engine, setup.table());
        for key in numbered(50) {
            put(engine, &table, &key).unwrap();
        }
        setup.gates.fail_syncs(part);
        assert!(engine.checkpoint().is_err());
        assert!(is_read_only(put(engine, &table, "x")));
        setup.write_elsewhere();
        assert_eq!(setup.keys(), numbered(50));
        let statistics = engine.statistics();
        assert_eq!(statistics.read_only_tables, 1);
        assert_eq!(statistics.unavailable_tables, 0);
        assert!(statistics.retained_bytes > 0);
        assert!(engine.status_text().contains("LOG RECORDS RETAINED"));
        drop(table);
        let setup = setup.reopen(1);
        assert_eq!(setup.keys(), numbered(50));
        assert_eq!(setup.retained_files(), 0);
        assert_eq!(setup.engine.statistics().retained_bytes, 0);
        put(&setup.engine, &setup.table(), "later").unwrap();
        let setup = setup.reopen(2);
        assert_eq!(setup.keys().len(), 51);
    }
}

#[test]
fn several_tables_of_a_failed_file_system_become_read_only() {
    let setup = Setup::new(small_log());
    let names: Vec<String> = (0..5).map(|n| format!("./away/t{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        setup.engine.create_table(&definition(name)).unwrap();
        let table = setup.engine.open_table(name).unwrap();
        for key in numbered(n) {
            put(&setup.engine, &table, &key).unwrap();
        }
    }
    setup.gates.fail_syncs("away/");
    assert!(setup.engine.checkpoint().is_err());
    setup.write_elsewhere();
    // No row was written to the first table, so its files were not synced.
    assert_eq!(setup.engine.statistics().read_only_tables, 4);
    assert_eq!(setup.retained_files(), 4);
    let setup = setup.reopen(1);
    for (n, name) in names.iter().enumerate() {
        let table = setup.engine.open_table(name).unwrap();
        assert_eq!(rows(&setup.engine, &table).len(), n);
    }
    assert_eq!(setup.retained_files(), 0);
}

/// Writes a row to both tables.
fn write_both(
    setup: &Setup,
    transaction: &mut teak_engine::EngineTransaction,
    key: &str,
) -> EngineResult<()> {
    insert(transaction, &setup.table(), key, "1")?;
    insert(transaction, &setup.other(), key, "1")
}

/// Transactions that wrote both tables end before and after the records of one table are
/// retained.
#[test]
fn transactions_of_several_tables_keep_their_outcomes() {
    for (commits, restarts) in [(true, false), (true, true), (false, false), (false, true)] {
        let setup = Setup::new(small_log());
        let engine = &setup.engine;
        let mut first = begin(engine);
        write_both(&setup, &mut first, "committed before").unwrap();
        first.commit().unwrap();
        let mut undone = begin(engine);
        write_both(&setup, &mut undone, "rolled back before").unwrap();
        undone.rollback();
        let mut in_part = begin(engine);
        write_both(&setup, &mut in_part, "kept part").unwrap();
        let savepoint = in_part.savepoint().unwrap();
        write_both(&setup, &mut in_part, "undone part").unwrap();
        let mut active = begin(engine);
        write_both(&setup, &mut active, "active").unwrap();
        let mut prepared = begin(engine);
        write_both(&setup, &mut prepared, "prepared").unwrap();
        prepared.prepare(b"x").unwrap();
        let mut forgotten = begin(engine);
        write_both(&setup, &mut forgotten, "never ended").unwrap();

        setup.fail_syncs();
        setup.write_elsewhere();
        assert!(setup.engine.statistics().retained_bytes > 0);
        in_part.rollback_to_savepoint(savepoint).unwrap();
        in_part.commit().unwrap();
        match commits {
            true => active.commit().unwrap(),
            false => active.rollback(),
        }
        prepared.detach();
        let end = |engine: &Engine| match commits {
            true => engine.commit_prepared(b"x", Duration::ZERO).unwrap(),
            false => engine.rollback_prepared(b"x", Duration::ZERO).unwrap(),
        };
        if !restarts {
            end(engine);
        }
        setup.write_elsewhere();
        std::mem::forget(forgotten);
        let mut setup = setup.reopen(1);
        if restarts {
            end(&setup.engine);
        }
        let mut expected = vec!["committed before", "kept part"];
        if commits {
            expected.extend(["active", "prepared"]);
        }
        expected.sort_unstable();
        for seed in 0..2 {
            assert_eq!(setup.keys(), expected, "{commits} {restarts}");
            for key in ["active", "prepared"] {
                assert_eq!(setup.other_has(key), commits, "{key} {restarts}");
            }
            assert!(setup.other_has("kept part"));
            assert!(!setup.other_has("undone part"));
            assert!(!setup.other_has("never ended"));
            setup.write_elsewhere();
            setup = setup.reopen(seed);
        }
    }
}

/// A crash during or between the steps: the copy of the records, the catalogue that notes it, and
/// trimming the log.
#[test]
fn power_loss_at_any_point_loses_nothing() {
    let mut after = 0;
    loop {
        let setup = Setup::new(small_log());
        let table = setup.table();
        for key in numbered(20) {
            put(&setup.engine, &table, &key).unwrap();
        }
        let mut active = begin(&setup.engine);
        write_both(&setup, &mut active, "active").unwrap();
        setup.gates.fail_syncs(FILES);
        let begun = setup.faults.changes();
        setup.faults.cut_power(after);
        let _ = setup.engine.checkpoint();
        let changes = setup.faults.changes() - begun;
        let has_noted = setup.engine.statistics().retained_bytes > 0;
        let other = setup.other();
        let written = (0..20).take_while(|n| {
            let key = format!("o{n:05}");
            put(&setup.engine, &other, &key).is_ok()
        });
        let written = written.count();
        let is_committed = active.commit().is_ok();
        drop((table, other));
        let setup = setup.reopen(after);
        let mut found = setup.keys();
        let has_active = found.pop_if(|key| key == "active").is_some();
        assert!(has_active || !is_committed);
        assert_eq!(setup.other_has("active"), has_active);
        assert_eq!(found, numbered(20), "{after}");
        assert!(rows(&setup.engine, &setup.other()).len() >= written);
        put(&setup.engine, &setup.table(), "later").unwrap();
        let setup = setup.reopen(after);
        assert!(setup.keys().contains(&"later".into()));
        if has_noted && changes < after {
            assert!(after > 10);
            break;
        }
        after += 1;
    }
}

#[test]
fn a_failure_of_the_retained_file_keeps_the_log() {
    let failures: [fn(&GateDisk); 3] = [
        |gates| gates.fail(RETAINED),
        |gates| gates.fail_syncs(RETAINED),
        |gates| gates.fill_up(RETAINED),
    ];
    for fail in failures {
        let mut options = small_log();
        let logged = capture_messages(&mut options);
        let setup = Setup::new(options);
        let table = setup.table();
        for key in numbered(20) {
            put(&setup.engine, &table, &key).unwrap();
        }
        fail(&setup.gates);
        setup.fail_syncs();
        assert_eq!(setup.engine.statistics().retained_bytes, 0);
        assert_eq!(setup.retained_files(), 0);
        let messages = logged.lock().unwrap();
        let is_reported = |text: &&String| text.contains("cannot be retained now");
        assert_eq!(
            messages.iter().filter(is_reported).count(),
            1,
            "{messages:?}"
        );
        drop(messages);
        put(&setup.engine, &setup.other(), "row").unwrap();
        // After a crash now, recovery finds the records in the log.
        let copy = Setup::open(setup.faults.crash(1), small_log());
        assert_eq!(copy.keys(), numbered(20));
        assert!(copy.other_has("row"));
        setup.gates.open_gate(RETAINED);
        while setup.engine.statistics().retained_bytes == 0 {
            thread::sleep(Duration::from_millis(5));
            let _ = setup.engine.run_maintenance();
        }
        setup.write_elsewhere();
        drop(table);
        let setup = setup.reopen(2);
        assert_eq!(setup.keys(), numbered(20));
    }
}

/// Fills the file system of the table, and writes rows with values of `bytes` bytes until the table
/// is read-only. Returns the number of rows.
fn fill_up(setup: &Setup, bytes: usize) -> usize {
    let table = setup.table();
    setup.gates.fill_up(FILES);
    let mut count = 0;
    loop {
        match put_value(&setup.engine, &table, &format!("{count:05}"), bytes) {
            Ok(()) => count += 1,
            refused => {
                assert!(is_read_only(refused));
                return count;
            }
        }
        let _ = setup.engine.run_maintenance();
    }
}

fn large_cache() -> EngineOptions {
    let mut options = small_log();
    options.cache_bytes = 64 << 20;
    options
}

#[test]
fn a_table_on_a_full_file_system_recovers_by_itself() {
    let setup = Setup::new(large_cache());
    // Each checkpoint freezes a memtable of one row, which needs more memory than its entries.
    let count = fill_up(&setup, 400);
    setup.write_elsewhere();
    assert_eq!(setup.keys(), numbered(count));
    assert!(is_read_only(put(&setup.engine, &setup.table(), "x")));
    assert_eq!(setup.retained_files(), 1);
    setup.gates.open_gate(FILES);
    while is_read_only(put(&setup.engine, &setup.table(), "x")) {
        thread::sleep(Duration::from_millis(5));
        setup.engine.run_due_maintenance().unwrap();
    }
    let statistics = setup.engine.statistics();
    assert_eq!(statistics.read_only_tables, 0);
    assert_eq!(statistics.retained_bytes, 0);
    assert_eq!(setup.retained_files(), 0);
    assert_eq!(setup.keys().len(), count + 1);
    let setup = setup.reopen(1);
    assert_eq!(setup.keys().len(), count + 1);
    // The table becomes read-only once more.
    setup.fail_syncs_after_a_write();
    setup.write_elsewhere();
    let setup = setup.reopen(2);
    assert_eq!(setup.keys().len(), count + 2);
}

impl Setup {
    fn fail_syncs_after_a_write(&self) {
        put(&self.engine, &self.table(), "y").unwrap();
        self.fail_syncs();
    }
}

/// The background threads make the table writable, without a call of the test.
#[test]
fn threads_make_a_table_writable_again() {
    let mut options = large_cache();
    options.background_threads = 2;
    options.checkpoint_period = Duration::from_millis(100);
    let setup = Setup::new(options);
    let count = fill_up(&setup, 4000);
    setup.write_elsewhere();
    setup.gates.open_gate(FILES);
    while is_read_only(put(&setup.engine, &setup.table(), "x")) {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(setup.retained_files(), 0);
    assert_eq!(setup.keys().len(), count + 1);
    let setup = setup.reopen(1);
    assert_eq!(setup.keys().len(), count + 1);
}

/// Power is lost while the table becomes writable again.
#[test]
fn power_loss_during_the_recovery_of_a_table_loses_nothing() {
    let mut after = 0;
    loop {
        let setup = Setup::new(small_log());
        let table = setup.table();
        for key in numbered(20) {
            put(&setup.engine, &table, &key).unwrap();
        }
        // A full file system, unlike a failed sync, lets the file be used again later.
        setup.gates.fill_up(FILES);
        let other = setup.other();
        while setup.engine.statistics().retained_bytes == 0 {
            let key = format!("k{:012}", setup.engine.log_end().0);
            put(&setup.engine, &other, &key).unwrap();
            let _ = setup.engine.run_maintenance();
        }
        setup.gates.open_gate(FILES);
        let begun = setup.faults.changes();
        setup.faults.cut_power(after);
        let mut accepted = false;
        while !accepted && setup.faults.changes() <= begun + after {
            let _ = setup.engine.checkpoint();
            accepted = put(&setup.engine, &table, "later").is_ok();
        }
        let is_over = accepted && setup.faults.changes() <= begun + after;
        drop((table, other));
        let setup = setup.reopen(after);
        let found = setup.keys();
        assert_eq!(found[..20], numbered(20), "{after}");
        assert!(found.len() > 20 || !accepted, "{after}");
        if is_over {
            assert!(after > 10);
            break;
        }
        after += 3;
    }
}

/// A table has used most of the memory of memtables when its file system becomes full.
#[test]
fn memtables_that_cannot_be_flushed_do_not_stop_writers_of_others() {
    for threads in [0, 2] {
        let mut options = options();
        options.cache_bytes = 8 << 20;
        options.background_threads = threads;
        options.log_bytes_max = 256 << 20;
        let setup = Setup::new(options);
        let engine = &setup.engine;
        let (table, other) = (setup.table(), setup.other());
        let quota = engine.statistics().memtable_bytes_limit;
        let has_much = || engine.statistics().memtable_bytes > quota / 16 * 11;
        setup.gates.hold(FILES);
        let written = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let keys = (0..).take_while(|n| {
                    (threads > 0 || !has_much()) && put(engine, &table, &format!("{n:05}")).is_ok()
                });
                keys.count()
            });
            while !has_much() {
                thread::sleep(Duration::from_millis(1));
            }
            setup.gates.fill_up(FILES);
            writer.join().unwrap()
        });
        let mut bytes = 0;
        while bytes < 3 * quota {
            put(engine, &other, &format!("{bytes:010}")).unwrap();
            bytes += 400;
        }
        assert!(put(engine, &table, "x").is_err() || threads == 0);
        setup.gates.open_gate(FILES);
        engine.checkpoint().unwrap();
        assert!(setup.keys().len() >= written);
    }
}

fn drop_index(setup: &Setup) {
    let table = setup.table();
    let mut kept = definition(TABLE).indexes;
    let alteration = setup
        .engine
        .begin_alteration(&table, &[], Box::new(|| false))
        .unwrap();
    let plan = AlterationPlan {
        indexes: vec![PlannedIndex::Kept(IndexNumber::ROWS, kept.remove(0))],
        metadata: b"metadata".to_vec(),
    };
    Alteration::commit(vec![(alteration, plan)]).unwrap();
}

fn rebuild(setup: &Setup, is_repair: bool) {
    let table = setup.engine.open_damaged_table(TABLE).unwrap();
    let added = definition(TABLE).indexes.into_iter().enumerate();
    let added: Vec<AddedIndex> = added
        .map(|(number, definition)| AddedIndex {
            definition,
            unique: number == 0,
            entry_order: EntryOrder::Any,
        })
        .collect();
    let mut alteration = setup
        .engine
        .begin_alteration(&table, &added, Box::new(|| false))
        .unwrap();
    if is_repair {
        alteration.repair(10);
    }
    table
        .salvage(
            Box::new(|| false),
            &mut |row| {
                alteration.add(0, row.key, row.value)?;
                let second = [row.value, b"\0", row.key].concat();
                alteration.add(1, &second, &[])
            },
            &mut |text| panic!("{text}"),
        )
        .unwrap();
    alteration.build(&mut |_, _| {}).unwrap();
    let plan = AlterationPlan {
        indexes: vec![PlannedIndex::Added(0), PlannedIndex::Added(1)],
        metadata: b"metadata".to_vec(),
    };
    Alteration::commit(vec![(alteration, plan)]).unwrap();
}

/// A read-only table with 30 rows whose records are retained.
fn retained() -> Setup {
    let setup = Setup::new(small_log());
    let table = setup.table();
    for key in numbered(20) {
        put(&setup.engine, &table, &key).unwrap();
    }
    setup.engine.checkpoint().unwrap();
    for key in &numbered(30)[20..] {
        put(&setup.engine, &table, key).unwrap();
    }
    setup.fail_syncs();
    setup.write_elsewhere();
    assert_eq!(setup.retained_files(), 1);
    setup
}

#[test]
fn a_read_only_table_is_dropped_or_truncated() {
    for drops in [true, false] {
        let setup = retained();
        if !drops {
            // Truncating must be able to create new files.
            setup.gates.open_gate(FILES);
        }
        match drops {
            true => setup.engine.drop_table(TABLE).unwrap(),
            false => setup.engine.truncate_table(TABLE).unwrap(),
        }
        assert_eq!(setup.retained_files(), 0);
        assert_eq!(setup.engine.statistics().retained_bytes, 0);
        if !drops {
            put(&setup.engine, &setup.table(), "new").unwrap();
        }
        let setup = setup.reopen(1);
        assert_eq!(setup.retained_files(), 0);
        match drops {
            true => assert!(setup.engine.open_table(TABLE).is_err()),
            false => assert_eq!(setup.keys(), ["new"]),
        }
    }
}

#[test]
fn a_read_only_table_is_renamed() {
    let setup = retained();
    setup.engine.rename_table(TABLE, "./db/t.renamed").unwrap();
    setup.write_elsewhere();
    let setup = setup.reopen(1);
    let table = setup.engine.open_table("./db/t.renamed").unwrap();
    assert_eq!(rows(&setup.engine, &table).len(), 30);
    assert_eq!(setup.retained_files(), 0);
}

#[test]
fn a_read_only_table_is_rebuilt_or_repaired() {
    for is_repair in [true, false] {
        let setup = retained();
        setup.gates.open_gate(FILES);
        rebuild(&setup, is_repair);
        assert_eq!(setup.retained_files(), 0);
        assert_eq!(setup.engine.statistics().retained_bytes, 0);
        let aside = setup.faults.list("/data/#teak_orphans/".as_ref()).unwrap();
        let aside = aside
            .iter()
            .filter(|path| path.to_str().unwrap().contains(RETAINED));
        assert_eq!(aside.count(), usize::from(is_repair));
        put(&setup.engine, &setup.table(), "new").unwrap();
        assert_eq!(setup.keys().len(), 31);
        setup.write_elsewhere();
        assert_eq!(setup.engine.statistics().read_only_tables, 0);
        let setup = setup.reopen(1);
        assert_eq!(setup.keys().len(), 31);
    }
}

#[test]
fn an_alteration_that_keeps_the_failed_file_keeps_the_records() {
    for crashes in [true, false] {
        let setup = retained();
        drop_index(&setup);
        if !crashes {
            setup.write_elsewhere();
        }
        let setup = setup.reopen(1);
        let table = setup.table();
        let mut reader = begin(&setup.engine);
        assert_eq!(see(&mut reader, &table).len(), 30);
        assert_eq!(setup.retained_files(), 0);
    }
}

/// An index is added to a read-only table, before or after its records are retained.
#[test]
fn an_index_is_added_to_a_read_only_table() {
    for is_retained in [true, false] {
        let setup = Setup::new(small_log());
        let (engine, table) = (&setup.engine, setup.table());
        for key in numbered(20) {
            put(engine, &table, &key).unwrap();
        }
        let mut extra = definition(TABLE).indexes.remove(0);
        extra.label = "extra".into();
        let added = AddedIndex {
            definition: extra,
            unique: true,
            entry_order: EntryOrder::Any,
        };
        let fail = || {
            setup.gates.fail_syncs("db/t.PRIMARY");
            assert!(engine.checkpoint().is_err());
            assert_eq!(setup.retained_files(), 1);
        };
        if is_retained {
            fail();
        }
        let mut alteration = engine
            .begin_alteration(&table, &[added], Box::new(|| false))
            .unwrap();
        if !is_retained {
            fail();
        }
        for (key, value) in see(&mut begin(engine), &table) {
            alteration.add(0, key.as_bytes(), value.as_bytes()).unwrap();
        }
        alteration.build(&mut |_, _| {}).unwrap();
        let plan = plan_with_added(definition(TABLE).indexes, b"metadata");
        Alteration::commit(vec![(alteration, plan)]).unwrap();
        assert!(is_read_only(put(engine, &table, "x")));
        drop(table);
        for writes in [false, true] {
            if writes {
                setup.write_elsewhere();
            }
            let copy = Setup::open(setup.faults.crash(1), small_log());
            assert_eq!(copy.keys(), numbered(20));
            let mut reader = begin(&copy.engine);
            let mode = teak_engine::ReadMode::Snapshot;
            let found = try_scan(&mut reader, &copy.table(), 2, mode).unwrap();
            assert_eq!(found.len(), 20);
            assert_eq!(copy.retained_files(), 0);
        }
    }
}

/// The index whose file fails is dropped. The files of the other indexes are durable, so the table
/// is writable.
#[test]
fn dropping_the_failed_index_makes_the_table_writable() {
    let setup = Setup::new(small_log());
    let table = setup.table();
    for key in numbered(20) {
        put(&setup.engine, &table, &key).unwrap();
    }
    setup.gates.fail_syncs("db/t.by_value");
    assert!(setup.engine.checkpoint().is_err());
    assert_eq!(setup.retained_files(), 1);
    drop_index(&setup);
    setup.engine.checkpoint().unwrap();
    assert_eq!(setup.engine.statistics().read_only_tables, 0);
    assert_eq!(setup.retained_files(), 0);
    setup.write_elsewhere();
    drop(table);
    let setup = setup.reopen(1);
    let mut reader = begin(&setup.engine);
    assert_eq!(see(&mut reader, &setup.table()).len(), 20);
}

/// The file still fails when the engine is opened, in several restarts.
#[test]
fn a_table_that_still_fails_after_a_restart_is_unavailable_until_it_works() {
    let mut faults = {
        let setup = retained();
        setup.faults.crash(1)
    };
    for seed in 2..5 {
        let gates = GateDisk::new(Arc::new(faults.clone()));
        gates.fill_up(FILES);
        let setup = Setup::open_gated(faults, gates, small_log());
        let refused = setup.engine.open_table(TABLE).map(|_| ()).unwrap_err();
        assert!(
            matches!(refused, EngineError::TableUnavailable { .. }),
            "{refused}"
        );
        assert_eq!(setup.engine.statistics().unavailable_tables, 1);
        assert_eq!(setup.engine.statistics().read_only_tables, 0);
        setup.write_elsewhere();
        assert_eq!(setup.retained_files(), 1);
        if seed == 4 {
            setup.gates.open_gate(FILES);
            assert_eq!(setup.keys(), numbered(30));
            assert_eq!(setup.retained_files(), 0);
            assert_eq!(setup.engine.statistics().unavailable_tables, 0);
        }
        faults = setup.faults.crash(seed);
    }
    let setup = Setup::open(faults, small_log());
    assert_eq!(setup.keys(), numbered(30));
}

#[test]
fn aborted_ids_are_forgotten_while_a_table_is_read_only() {
    let setup = retained();
    let other = setup.other();
    for n in 0..20 {
        let mut undone = begin(&setup.engine);
        insert(&mut undone, &other, &format!("undone {n}"), "1").unwrap();
        undone.rollback();
    }
    let before = setup.engine.statistics().aborted_ids;
    assert!(before >= 20);
    for _ in 0..10 {
        let _ = setup.engine.settle();
        let _ = setup.engine.checkpoint();
        let _ = setup.engine.run_maintenance();
    }
    assert_eq!(setup.engine.statistics().aborted_ids, 0);
    drop(other);
    assert_eq!(setup.keys(), numbered(30));
}
