//! A small table for tests: rows in index 0, entries `value + key` in index 1.
pub mod backup;
pub mod column_rows;
pub mod repair;

use std::sync::{Arc, Mutex};
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    AddedIndex, Alteration, AlterationPlan, Codec, Engine, EngineError, EngineOptions,
    EngineResult, EngineTransaction, EntryOrder, FilterKeys, IndexDefinition, IndexNumber,
    Isolation, PlannedIndex, ReadMode, RowChange, RowEntry, RowLoad, TableDefinition, TableHandle,
    WaitError,
};
use teak_testing::FaultDisk;
use teak_tree::TreeOptions;

pub const TABLE: &str = "./db/t";

pub type Rows = Vec<(String, String)>;

/// Options without background threads and lock waits, with tiny trees.
pub fn options() -> EngineOptions {
    let mut options = EngineOptions::new("/data");
    options.background_threads = 0;
    options.cache_bytes = 1 << 20;
    options.log_segment_bytes = 1 << 16;
    options.lock_timeout = Duration::ZERO;
    options.instance = Some(7);
    options.tree = TreeOptions::tiny();
    options.memtable_bytes_min = 0;
    options
}

pub fn open(disk: &Arc<impl Disk + 'static>) -> Engine {
    try_open(disk).unwrap()
}

pub fn try_open(disk: &Arc<impl Disk + 'static>) -> EngineResult<Engine> {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    Engine::open(disk, options())
}

/// Collects the engine's messages.
pub fn capture_messages(options: &mut EngineOptions) -> Arc<Mutex<Vec<String>>> {
    let logged = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&logged);
    options.messages = Some(Arc::new(move |_, text: &str| {
        sink.lock().unwrap().push(text.to_owned());
    }));
    logged
}

pub fn definition(name: &str) -> TableDefinition {
    let index = |label: &str, filter_keys| IndexDefinition {
        label: label.into(),
        codec: Codec::Lz4,
        page_bytes: 0,
        encryption_key: None,
        filter_keys,
        value_fixed_bytes: 0,
        columns: Default::default(),
    };
    TableDefinition {
        name: name.into(),
        indexes: vec![
            index("PRIMARY", FilterKeys::Whole),
            index("by_value", FilterKeys::None),
        ],
        metadata: b"metadata".to_vec(),
    }
}

/// An index with the defaults of the plugin.
pub fn index(label: &str) -> IndexDefinition {
    IndexDefinition {
        label: label.into(),
        codec: Codec::Zstd,
        page_bytes: 0,
        encryption_key: None,
        filter_keys: FilterKeys::Whole,
        value_fixed_bytes: 0,
        columns: Default::default(),
    }
}

/// An engine with the table, opened.
pub fn with_table(disk: &Arc<impl Disk + 'static>) -> (Engine, TableHandle) {
    let engine = open(disk);
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    (engine, table)
}

/// Ends the engine without closing it, and opens what a crash of the disk leaves.
pub fn after_crash(
    engine: Engine,
    disk: &FaultDisk,
    seed: u64,
) -> (Arc<FaultDisk>, Engine, TableHandle) {
    engine.abandon();
    let disk = Arc::new(disk.crash(seed));
    let engine = open(&disk);
    let table = engine.open_table(TABLE).unwrap();
    (disk, engine, table)
}

/// Checks that prepared work, which changes the number of rows and writes `key`, survives a crash: it
/// remains invisible and blocks writes of the key until it is committed or rolled back.
pub fn check_prepared_work(
    prepare: impl Fn(&Engine, &TableHandle),
    work: impl Fn(&mut EngineTransaction, &TableHandle),
    key: &str,
    (rows_before, rows_after): (usize, usize),
) {
    for commits in [false, true] {
        let disk = Arc::new(FaultDisk::new(1));
        let (engine, table) = with_table(&disk);
        prepare(&engine, &table);
        let mut transaction = begin(&engine);
        work(&mut transaction, &table);
        transaction.prepare(b"x").unwrap();
        let (_disk, engine, table) = after_crash(engine, &disk, 2);
        drop(transaction);
        let mut writer = begin(&engine);
        assert!(is_timeout(insert(&mut writer, &table, key, "new")));
        writer.rollback();
        assert_eq!(rows(&engine, &table).len(), rows_before);
        let ended = match commits {
            true => engine.commit_prepared(b"x", Duration::ZERO),
            false => engine.rollback_prepared(b"x", Duration::ZERO),
        };
        ended.unwrap();
        let left = if commits { rows_after } else { rows_before };
        assert_eq!(rows(&engine, &table).len(), left);
    }
}

/// As [`with_table`], on a new memory disk.
pub fn fresh() -> (Engine, TableHandle) {
    with_table(&Arc::new(MemoryDisk::new()))
}

pub fn is_timeout<T: std::fmt::Debug>(result: EngineResult<T>) -> bool {
    matches!(result, Err(EngineError::Wait(WaitError::Timeout)))
}

pub fn begin(engine: &Engine) -> EngineTransaction {
    engine.begin(Isolation::RepeatableRead)
}

fn secondary(key: &str, value: &str) -> String {
    format!("{value}\0{key}")
}

pub fn insert(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    key: &str,
    value: &str,
) -> EngineResult<()> {
    let second = secondary(key, value);
    let entry = |index, unique, key, value| RowEntry {
        index: IndexNumber(index),
        unique,
        key,
        value,
    };
    transaction.insert(
        table,
        &[
            entry(0, true, key.as_bytes(), value.as_bytes()),
            entry(1, false, second.as_bytes(), &[]),
        ],
    )
}

pub fn update(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    key: &str,
    old: &str,
    new: &str,
) -> EngineResult<()> {
    let (old, moved) = (secondary(key, old), secondary(key, new));
    let change = |index, unique, old_key, new_key, new_value| RowChange {
        index: IndexNumber(index),
        unique,
        old_key: Some(old_key),
        new_key: Some(new_key),
        new_value,
    };
    transaction.update(
        table,
        &[
            change(0, true, key.as_bytes(), key.as_bytes(), new.as_bytes()),
            change(1, false, old.as_bytes(), moved.as_bytes(), &[]),
        ],
    )
}

pub fn delete(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    key: &str,
    value: &str,
) -> EngineResult<()> {
    let second = secondary(key, value);
    let entry = |index, key| RowEntry {
        index: IndexNumber(index),
        unique: index == 0,
        key,
        value: &[],
    };
    transaction.delete(
        table,
        &[entry(0, key.as_bytes()), entry(1, second.as_bytes())],
    )
}

pub fn commit(engine: &Engine, work: impl FnOnce(&mut EngineTransaction)) {
    let mut transaction = begin(engine);
    work(&mut transaction);
    transaction.commit().unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// All entries of an index that the transaction sees.
pub fn try_scan(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    index: u32,
    mode: ReadMode,
) -> EngineResult<Rows> {
    let mut cursor = transaction.cursor(table, IndexNumber(index), mode)?;
    let mut rows = Rows::new();
    let mut row = cursor.first(transaction)?;
    while let Some(found) = row {
        rows.push((text(found.key), text(found.value)));
        row = cursor.next(transaction)?;
    }
    Ok(rows)
}

/// All entries of the index of rows that the transaction sees, several of a page together.
fn scan_pages(transaction: &mut EngineTransaction, table: &TableHandle) -> Rows {
    let cursor = transaction.cursor(table, IndexNumber::ROWS, ReadMode::Snapshot);
    let mut cursor = cursor.unwrap();
    let mut rows = Rows::new();
    if let Some(row) = cursor.first(transaction).unwrap() {
        rows.push((text(row.key), text(row.value)));
    }
    let mut passed = 0;
    while let Some(found) = cursor.next_rows(transaction, passed, 3).unwrap() {
        rows.extend(found.iter().map(|row| (text(row.key), text(row.value))));
        passed = found.len() - 1;
    }
    rows
}

/// The rows that the transaction's snapshot sees.
pub fn see(transaction: &mut EngineTransaction, table: &TableHandle) -> Rows {
    try_scan(transaction, table, 0, ReadMode::Snapshot).unwrap()
}

/// All committed rows. Checks that forward and backward scans, lookups and the
/// secondary index agree.
pub fn rows(engine: &Engine, table: &TableHandle) -> Rows {
    let mut transaction = begin(engine);
    let rows = try_scan(&mut transaction, table, 0, ReadMode::Snapshot).unwrap();
    assert_eq!(scan_pages(&mut transaction, table), rows);
    let mut cursor = transaction
        .cursor(table, IndexNumber::ROWS, ReadMode::Snapshot)
        .unwrap();
    let mut backward = Rows::new();
    let mut row = cursor.last(&mut transaction).unwrap();
    while let Some(found) = row {
        backward.push((text(found.key), text(found.value)));
        row = cursor.previous(&mut transaction).unwrap();
    }
    backward.reverse();
    assert_eq!(rows, backward);
    for (key, value) in &rows {
        let found = cursor.get(&mut transaction, key.as_bytes()).unwrap();
        assert_eq!(found.map(|row| text(row.value)).as_ref(), Some(value));
    }
    let second = try_scan(&mut transaction, table, 1, ReadMode::Snapshot).unwrap();
    let mut expected: Vec<String> = rows.iter().map(|(k, v)| secondary(k, v)).collect();
    expected.sort();
    let found: Vec<String> = second.into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, expected);
    rows
}

pub fn pairs(pairs: &[(&str, &str)]) -> Rows {
    pairs
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect()
}

/// Adds a row of the table, with its entry in index 1, to a load.
pub fn add_to_load(load: &mut RowLoad, key: &str, value: &str) -> EngineResult<()> {
    let second = format!("{value}\0{key}");
    let entry = |index, key, value| RowEntry {
        index: IndexNumber(index),
        unique: false,
        key,
        value,
    };
    load.add(&[
        entry(0, key.as_bytes(), value.as_bytes()),
        entry(1, second.as_bytes(), b""),
    ])
}

/// Begins to add an index, whose entries are added in any order.
pub fn begin_adding(
    engine: &Engine,
    table: &TableHandle,
    definition: IndexDefinition,
) -> EngineResult<Alteration> {
    let added = AddedIndex {
        definition,
        unique: false,
        entry_order: EntryOrder::Any,
    };
    engine.begin_alteration(table, &[added], Box::new(|| false))
}

/// Keeps these indexes, all that the table has, and adds one.
pub fn plan_with_added(kept: Vec<IndexDefinition>, metadata: &[u8]) -> AlterationPlan {
    let kept = kept.into_iter().zip(0..);
    let kept = kept.map(|(index, number)| PlannedIndex::Kept(IndexNumber(number), index));
    AlterationPlan {
        indexes: kept.chain([PlannedIndex::Added(0)]).collect(),
        metadata: metadata.to_vec(),
    }
}
