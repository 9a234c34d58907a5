//! Support for the tests of the log: logs in memory, and records of simple values.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{FileId, Lsn, Operation, StorageError, StorageResult, WriteId};
use teak_disk::{Disk, MemoryDisk};
use teak_write_ahead_log::{LogOptions, Record, WriteAheadLog, WriteOperation};

pub const INSTANCE: u64 = 7;

pub fn directory() -> PathBuf {
    PathBuf::from("/log")
}

pub fn memory() -> Arc<dyn Disk> {
    let disk = MemoryDisk::new();
    disk.create_directories(&directory()).unwrap();
    Arc::new(disk)
}

pub fn options() -> LogOptions {
    LogOptions::new(INSTANCE)
}

pub fn small_segments() -> LogOptions {
    let mut options = options();
    options.segment_bytes = 600;
    options
}

/// Opens a log and returns its records in printed form.
pub fn open_listing(
    disk: &Arc<dyn Disk>,
    options: LogOptions,
    from: u64,
) -> StorageResult<(WriteAheadLog, Vec<String>)> {
    let mut found = Vec::new();
    let log = WriteAheadLog::open::<StorageError>(
        disk,
        &directory(),
        options,
        Lsn(from),
        &mut |lsn, record| {
            found.push(format!("{lsn} {record}"));
            Ok(())
        },
    )?;
    Ok((log, found))
}

pub fn open(disk: &Arc<dyn Disk>, options: LogOptions) -> WriteAheadLog {
    open_listing(disk, options, 0).unwrap().0
}

/// Returns the records of the log in printed form. Opens a copy, so that the log does not change.
pub fn list(disk: &Arc<dyn Disk>) -> StorageResult<Vec<String>> {
    let (_, found) = open_listing(&copy(disk), options(), 0)?;
    Ok(found)
}

/// Appends the `n`th row of a fixed sequence; returns its printed form.
pub fn append_row(log: &WriteAheadLog, n: u64) -> (Lsn, String) {
    try_append_row(log, n).unwrap()
}

pub fn try_append_row(log: &WriteAheadLog, n: u64) -> StorageResult<(Lsn, String)> {
    let key = format!("key-{n:06}");
    let value = vec![b'a' + u8::try_from(n % 26).unwrap(); usize::try_from(n % 90).unwrap()];
    let operations = [
        WriteOperation {
            file: FileId(1),
            operation: Operation::Put,
            key: key.as_bytes(),
            value: &value,
        },
        WriteOperation {
            file: FileId(2),
            operation: Operation::Delete,
            key: &key.as_bytes()[3..],
            value: b"",
        },
    ];
    let record = Record::Write {
        write_id: WriteId(n + 1),
        operations: (&operations).into(),
    };
    let lsn = log.append(&record)?;
    Ok((lsn, format!("{lsn} {record}")))
}

pub fn segment(number: u64) -> PathBuf {
    directory().join(format!("teak.log.{number:010}"))
}

pub fn contents(disk: &Arc<dyn Disk>, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub fn overwrite(disk: &Arc<dyn Disk>, path: &Path, bytes: &[u8]) {
    let file = disk.open(path).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

/// The same files on a new disk.
pub fn copy(disk: &Arc<dyn Disk>) -> Arc<dyn Disk> {
    let copy = memory();
    for path in disk.list(&directory()).unwrap() {
        copy.create(&path)
            .unwrap()
            .write_all_at(&contents(disk, &path), 0)
            .unwrap();
    }
    copy
}

pub fn is_corrupt<T>(result: &StorageResult<T>) -> bool {
    matches!(result, Err(StorageError::Corrupt { .. }))
}

/// Appends a record and makes it durable, or revokes it.
pub fn append_durably(log: &WriteAheadLog, record: &Record<'_>) -> StorageResult<Lsn> {
    let lsn = log.append(record)?;
    log.sync_or_revoke(lsn)?;
    Ok(lsn)
}
