//! The rows of a table of a data directory, as the server would see them after a start.
//!
//! The engine opens the directory on a disk that keeps all changes in temporary files. So recovery, with its rules for
//! the log, prepared transactions and unfinished DDL, is that of the server.

use super::arguments::{Arguments, undecodable};
use crate::cell::Column;
use crate::keys;
use crate::names::{find, shown, table_of, without_partition};
use crate::output::{RowWriter, open};
use crate::progress::{Progress, Unit};
use crate::rows::RowReader;
use crate::stored_file::frm_beside;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use teak_disk::OverlayDisk;
use teak_engine::{
    Engine, EngineError, EngineOptions, IndexNumber, Isolation, Level, ReadMode, StoredTable,
};

/// Memory for blocks and for entries of the log.
const CACHE_BYTES: u64 = 128 << 20;

const CATALOGUE: &str = "teak.catalogue";

pub(super) fn run(arguments: &Arguments) -> io::Result<()> {
    let engine = open_engine(arguments)?;
    let mut names = engine.table_names();
    names.sort();
    if arguments.tables {
        let mut output = open(arguments.output.as_ref())?;
        for name in names {
            writeln!(output, "{}", shown(&name))?;
        }
        return output.flush();
    }
    let Some(wanted) = &arguments.table else {
        let message = "which table? --table NAME names it, --tables lists all";
        return Err(io::Error::other(message));
    };
    let found = find(wanted, &names);
    if found.is_empty() {
        let message = format!("there is no table {wanted}; --tables lists all");
        return Err(io::Error::other(message));
    }
    match engine.prepared().len() {
        0 => {}
        1 => eprintln!("teak: 1 prepared transaction is left out"),
        prepared => eprintln!("teak: {prepared} prepared transactions are left out"),
    }
    dump(&engine, &found, arguments)
}

fn open_engine(arguments: &Arguments) -> io::Result<Engine> {
    let directory = &arguments.path;
    if !directory.join(CATALOGUE).exists() {
        let message = format!(
            "{}: there is no {CATALOGUE}: not a data directory",
            directory.display()
        );
        return Err(io::Error::other(message));
    }
    let scratch = arguments.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let mut options = EngineOptions::new(directory);
    options.cache_bytes = CACHE_BYTES;
    // No work in the background: nothing is merged or moved.
    options.background_threads = 0;
    options.spill_directory = Some(scratch.clone());
    options.encryption = keys::encryption();
    // Nothing is written that could reach a bound.
    options.log_bytes_max = 1 << 50;
    options.messages = Some(Arc::new(|level, text| {
        if level != Level::Note {
            eprintln!("teak: {text}");
        }
    }));
    let opened = Engine::open(Arc::new(OverlayDisk::new(scratch)), options);
    opened.map_err(|error| match error {
        EngineError::Storage(teak_engine::StorageError::InUse { .. }) => io::Error::other(format!(
            "{}: a server is using the data directory; stop it, or copy the files",
            directory.display()
        )),
        error => io::Error::other(error),
    })
}

/// The reader of the rows of a table; says if names and types are not known.
fn reader_of(directory: &Path, table: &StoredTable) -> io::Result<RowReader> {
    let rows = table.indexes.first();
    let rows = rows.ok_or_else(|| io::Error::other("the table has no index"))?;
    let frm = frm_beside(directory, &table.name);
    let (reader, reason) = RowReader::new(Some(&table.metadata), frm, &rows.columns);
    if let Some(reason) = reason {
        eprintln!(
            "teak: {}: no names and types of columns: {reason}",
            table.name
        );
    }
    Ok(reader)
}

fn dump(engine: &Engine, names: &[String], arguments: &Arguments) -> io::Result<()> {
    let tables: Result<Vec<_>, _> = names.iter().map(|name| engine.stored_table(name)).collect();
    let tables = tables.map_err(io::Error::other)?;
    let readers: io::Result<Vec<_>> = tables
        .iter()
        .map(|table| reader_of(&arguments.path, table))
        .collect();
    let readers = readers?;
    let columns: &[Column] = readers.first().map_or(&[], RowReader::columns);
    if readers.iter().any(|reader| reader.columns() != columns) {
        let message = "the partitions have different columns; dump them one by one";
        return Err(io::Error::other(message));
    }
    let rows = |table: &StoredTable| table.indexes.first().map_or(0, |index| index.entries);
    let total: u64 = tables.iter().map(rows).sum();
    let wanted = names.first().map_or("", String::as_str);
    let into = arguments.into.clone().unwrap_or_else(|| table_of(wanted));
    let mut output = open(arguments.output.as_ref())?;
    let mut writer = RowWriter::new(&mut *output, arguments.format, columns, &into)?;
    let mut progress = Progress::new(shown(without_partition(wanted)), Unit::Rows, total);
    let mut written = 0;
    for (table, reader) in tables.iter().zip(&readers) {
        scan(engine, &table.name, &mut |key, value| {
            if !arguments.wants_after(written) {
                return Ok(false);
            }
            let cells = reader.read(key, value);
            writer.row(&cells.map_err(|reason| undecodable(key, &reason))?)?;
            written += 1;
            progress.at(written);
            Ok(true)
        })?;
    }
    writer.finish()
}

/// Gets the key and the value of a row, and returns whether it wants more.
type OnRow<'a> = dyn FnMut(&[u8], &[u8]) -> io::Result<bool> + 'a;

/// Passes the rows of a table to `on_row` until it returns false.
fn scan(engine: &Engine, name: &str, on_row: &mut OnRow<'_>) -> io::Result<()> {
    let failed = |error: EngineError| match error {
        EngineError::TableDamaged { .. } | EngineError::Storage(_) => io::Error::other(format!(
            "{error}\n`teak recover` reads what is left of a damaged file"
        )),
        error => io::Error::other(error),
    };
    let table = engine.open_table(name).map_err(failed)?;
    let mut transaction = engine.begin(Isolation::RepeatableRead);
    let cursor = transaction.cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot);
    let mut cursor = cursor.map_err(failed)?;
    let mut row = cursor.first(&mut transaction).map_err(failed)?;
    while let Some(found) = row {
        if !on_row(found.key, found.value)? {
            break;
        }
        row = cursor.next(&mut transaction).map_err(failed)?;
    }
    Ok(())
}
