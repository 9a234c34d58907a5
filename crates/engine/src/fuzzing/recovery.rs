//! Fuzz target of recovery: the log ends in arbitrary records, and the catalogue has arbitrary ids.
//! If recovery succeeds, the engine is used, closed and opened again.

use crate::catalogue::{read_catalogue, write_catalogue};
use crate::{
    Codec, Engine, EngineOptions, EngineResult, IndexDefinition, IndexNumber, Isolation, ReadMode,
    RowEntry, TableDefinition,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use teak_base::bytes::{Put, Take};
use teak_base::fuzzing::Input;
use teak_base::{FileId, Lsn, Operation, WriteId, WriteIdRange, WriteIdRanges};
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{FilterKeys, TreeOptions};
use teak_write_ahead_log::{IdParts, LogOptions, Record, WriteAheadLog, WriteOperation};

const INSTANCE: u64 = 7;
const TABLE: &str = "./db/t";

fn options() -> EngineOptions {
    let mut options = EngineOptions::new("/data");
    options.background_threads = 0;
    options.cache_bytes = 1 << 20;
    options.lock_timeout = Duration::ZERO;
    options.instance = Some(INSTANCE);
    options.tree = TreeOptions::tiny();
    options.memtable_bytes_min = 0;
    options
}

/// The input contains ids for the catalogue if its first byte is large, then log records: kind,
/// length and body.
pub(super) fn recovery(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    create(&disk).expect("an engine on an empty disk");
    if input.rarely() {
        change_catalogue(&disk, &mut input);
    }
    append(&disk, &mut input);
    let Ok(engine) = Engine::open(Arc::clone(&disk), options()) else {
        return;
    };
    let used = use_table(&engine);
    let closed = engine.close();
    let engine = Engine::open(Arc::clone(&disk), options());
    let engine = match (closed, engine) {
        (_, Ok(engine)) => engine,
        (Ok(()), Err(error)) => panic!("an engine that closed opens again: {error}"),
        (Err(_), Err(_)) => return,
    };
    let _ = used.and_then(|()| use_table(&engine));
}

fn create(disk: &Arc<dyn Disk>) -> EngineResult<()> {
    let engine = Engine::open(Arc::clone(disk), options())?;
    let index = |label: &str| IndexDefinition {
        label: label.into(),
        codec: Codec::Lz4,
        page_bytes: 0,
        encryption_key: None,
        filter_keys: FilterKeys::Whole,
        value_fixed_bytes: 0,
        columns: Default::default(),
    };
    engine.create_table(&TableDefinition {
        name: TABLE.into(),
        indexes: vec![index("PRIMARY"), index("second")],
        metadata: b"metadata".to_vec(),
    })?;
    use_table(&engine)
}

/// Reads a row, inserts a row and runs the background jobs. Fails if the table does not exist.
fn use_table(engine: &Engine) -> EngineResult<()> {
    let table = engine.open_table(TABLE)?;
    let mut transaction = engine.begin(Isolation::RepeatableRead);
    let mut cursor = transaction.cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)?;
    let _ = cursor.get(&mut transaction, b"key")?;
    drop(cursor);
    let entry = |index| RowEntry {
        index: IndexNumber(index),
        unique: false,
        key: b"key",
        value: b"value",
    };
    transaction.insert(&table, &[entry(0), entry(1)])?;
    transaction.commit()?;
    engine.run_background_until_idle()
}

fn change_catalogue(disk: &Arc<dyn Disk>, input: &mut Input<'_>) {
    let directory = Path::new("/data");
    let Ok(Some(mut catalogue)) = read_catalogue(disk, directory) else {
        return;
    };
    let next = input.u64() >> (input.u8() % 64);
    let ids = |input: &mut Input<'_>| -> WriteIdRanges {
        let ids: BTreeSet<u64> = (0..input.below(4))
            .map(|_| next.wrapping_sub(u64::from(input.u16())).max(1))
            .collect();
        ids.into_iter().map(WriteId).collect()
    };
    catalogue.next_write_id = WriteId(next);
    catalogue.active = ids(input);
    catalogue.aborted = ids(input);
    if input.rarely() {
        catalogue.next_table = input.u64();
        catalogue.next_file = input.u64();
    }
    if input.rarely() {
        catalogue.replay_from = Lsn(u64::from(input.u8()));
        catalogue.tables_lsn = Lsn(u64::from(input.u16()));
    }
    write_catalogue(disk, directory, &catalogue).expect("the memory disk takes everything");
}

/// Appends the records that the input contains.
fn append(disk: &Arc<dyn Disk>, input: &mut Input<'_>) {
    let directory = Path::new("/data");
    let mut position = Lsn(0);
    let mut skip = |lsn, _: Record<'_>| {
        position = lsn;
        Ok(())
    };
    let log_options = LogOptions::new(INSTANCE);
    let log = WriteAheadLog::open::<teak_base::StorageError>(
        disk,
        directory,
        log_options,
        Lsn(0),
        &mut skip,
    )
    .expect("the log that the engine left");
    for _ in 0..40 {
        if input.is_empty() {
            break;
        }
        let kind = input.u8();
        let body = input.short_bytes();
        let mut framed = Vec::new();
        framed.put_u32(u32::try_from(body.len() + 1).unwrap_or(0));
        framed.put_u8(kind);
        framed.extend_from_slice(body);
        if let Ok(record) = Record::decode(&mut Take::new(&framed)) {
            log.append(&record).expect("an open log takes records");
        }
    }
    log.sync(log.end()).expect("and makes them durable");
}

pub(super) fn recovery_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut records = Vec::new();
    let mut add = |record: &Record<'_>| {
        let mut encoded = Vec::new();
        record.encode(&mut encoded);
        let (frame, body) = encoded.split_at(5);
        records.push(frame.last().copied().unwrap_or(0));
        records.push(u8::try_from(body.len()).unwrap_or(0));
        records.extend_from_slice(body);
    };
    let operation = |file, operation, key, value| WriteOperation {
        file: FileId(file),
        operation,
        key,
        value,
    };
    add(&Record::Write {
        write_id: WriteId(9),
        operations: (&[
            operation(1, Operation::Put, b"row", b"a value"),
            operation(2, Operation::Put, b"other", b""),
        ])
            .into(),
    });
    add(&Record::Commit {
        transaction: 0,
        parts: IdParts::default(),
        write_ids: [WriteIdRange::one(WriteId(9))].as_slice().into(),
    });
    add(&Record::DeleteRange {
        file: FileId(1),
        write_id: WriteId(10),
        start: b"a",
        end: b"z",
    });
    add(&Record::TableRenamed {
        table_id: 1,
        name: b"db/u",
        paths: &crate::catalogue::encode_paths(&[
            "db/u.PRIMARY-00000001.teak".into(),
            "db/u.second-00000002.teak".into(),
        ]),
    });
    for (table_id, counter, value) in [(1, 2, 300), (0, 0, 12), (0, 1, 12)] {
        add(&Record::Counter {
            table_id,
            counter,
            value,
        });
    }
    for seed in super::decoders::catalogue_record_seeds() {
        let (kind, bytes) = seed.split_at(1);
        match kind {
            [0] => add(&Record::TableCreated { table: bytes }),
            [1] => add(&Record::IndexesChanged { bytes }),
            [3] => add(&Record::TablesAltered { bytes }),
            _ => {}
        }
    }
    add(&Record::TableDropped { table_id: 7 });
    teak_write_ahead_log::fuzzing::example_records(&mut add);
    seeds.push([&[0][..], &records].concat());
    let mut numbers = vec![0xff];
    numbers.put_u64(100);
    numbers.extend([0, 2, 10, 0, 5, 0, 1, 20, 0, 0, 0]);
    seeds.push([&numbers[..], &records].concat());
    seeds
}
