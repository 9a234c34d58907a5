//! Reading and writing one row with its index entries.

use crate::error::{Error, Result};
use crate::schema::IndexEntry;
use crate::session::Session;
use crate::table_state::TableState;
use teak_engine::{EngineError, IndexNumber, ReadMode, RowChange, RowEntry};

pub(crate) fn get(
    session: &Session,
    table: &TableState,
    key: &[u8],
    mode: ReadMode,
) -> Result<Option<Vec<u8>>> {
    session.with(|transaction| {
        let mut cursor = transaction.cursor(&table.handle, IndexNumber::ROWS, mode)?;
        let row = cursor.get(transaction, key)?;
        Ok(row.map(|row| row.value.to_vec()))
    })
}

/// The entries of a row in all indexes, the row index first.
fn entries<'a>(key: &'a [u8], value: &'a [u8], secondary: &'a [IndexEntry]) -> Vec<RowEntry<'a>> {
    let row = RowEntry {
        index: IndexNumber::ROWS,
        unique: true,
        key,
        value,
    };
    let secondary = secondary.iter().map(|entry| RowEntry {
        index: entry.index,
        unique: entry.unique,
        key: &entry.key,
        value: if entry.unique { key } else { &[] },
    });
    std::iter::once(row).chain(secondary).collect()
}

pub(crate) fn insert(
    session: &Session,
    table: &TableState,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    let secondary = table.schema.entries(key, value);
    session.with(|transaction| {
        let written = transaction.insert(&table.handle, &entries(key, value, &secondary));
        written.map_err(|error| table.write_error(error, transaction))
    })
}

/// Replaces the value of a row. `old_value` determines the index entries to delete; it is not used
/// if the table has no secondary indexes. Returns false when there is no such row.
fn replace(
    session: &Session,
    table: &TableState,
    key: &[u8],
    old_value: &[u8],
    value: &[u8],
) -> Result<bool> {
    let old = table.schema.entries(key, old_value);
    let new = table.schema.entries(key, value);
    let mut changes = vec![RowChange {
        index: IndexNumber::ROWS,
        unique: true,
        old_key: Some(key),
        new_key: Some(key),
        new_value: value,
    }];
    let change = |entry: &IndexEntry| RowChange {
        index: entry.index,
        unique: entry.unique,
        old_key: None,
        new_key: None,
        new_value: if entry.unique { key } else { &[] },
    };
    changes.extend(
        old.iter()
            .filter(|e| !new.contains(e))
            .map(|entry| RowChange {
                old_key: Some(&entry.key),
                ..change(entry)
            }),
    );
    changes.extend(
        new.iter()
            .filter(|e| !old.contains(e))
            .map(|entry| RowChange {
                new_key: Some(&entry.key),
                ..change(entry)
            }),
    );
    session.with(
        |transaction| match transaction.update(&table.handle, &changes) {
            Ok(()) => Ok(true),
            Err(EngineError::NotFound) => Ok(false),
            Err(error) => Err(table.write_error(error, transaction)),
        },
    )
}

/// Locks the row and returns its current value. If the table has no secondary indexes, the value is
/// not needed: then returns an empty value, and neither reads nor locks.
fn lock_old(session: &Session, table: &TableState, key: &[u8]) -> Result<Option<Vec<u8>>> {
    if table.schema.indexes.is_empty() {
        return Ok(Some(Vec::new()));
    }
    get(session, table, key, ReadMode::Exclusive)
}

pub(crate) fn update(
    session: &Session,
    table: &TableState,
    key: &[u8],
    value: &[u8],
) -> Result<bool> {
    match lock_old(session, table, key)? {
        Some(old) => replace(session, table, key, &old, value),
        None => Ok(false),
    }
}

pub(crate) fn upsert(
    session: &Session,
    table: &TableState,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    loop {
        match insert(session, table, key, value) {
            Err(Error::DuplicateKey { index: None }) => {}
            outcome => return outcome,
        }
        if update(session, table, key, value)? {
            return Ok(());
        }
        // Another transaction has deleted the row in the meantime: tries to insert it again.
    }
}

pub(crate) fn delete(session: &Session, table: &TableState, key: &[u8]) -> Result<bool> {
    let Some(old) = lock_old(session, table, key)? else {
        return Ok(false);
    };
    let secondary = table.schema.entries(key, &old);
    session.with(|transaction| {
        match transaction.delete(&table.handle, &entries(key, &[], &secondary)) {
            Ok(()) => Ok(true),
            Err(EngineError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    })
}
