//! The table of the threads: rows of each worker, and the shared accounts.

use std::collections::BTreeMap;
use teak_engine::{
    EngineResult, EngineTransaction, IndexNumber, ReadMode, RowChange, RowEntry, TableHandle,
};

pub(super) const ACCOUNTS: u64 = 6;
/// The sum of all accounts.
pub(super) const SUM: u64 = ACCOUNTS * 1000;
/// The owner of the accounts.
pub(super) const SHARED_OWNER: u8 = 255;

/// Rows of one owner: number to value.
pub(super) type Rows = BTreeMap<u64, u64>;

pub(super) fn key_of(owner: u8, number: u64) -> Vec<u8> {
    let mut key = vec![owner];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn value_of(value: u64) -> Vec<u8> {
    let mut bytes = value.to_be_bytes().to_vec();
    // Some rows are long, so that memtables fill up.
    bytes.resize(8 + usize::try_from(value % 200).unwrap_or(0), 0x55);
    bytes
}

fn second_of(key: &[u8], value: u64) -> Vec<u8> {
    [&value.to_be_bytes(), key].concat()
}

pub(super) fn number_at(bytes: &[u8], start: usize) -> u64 {
    let eight = bytes.get(start..).and_then(|rest| rest.first_chunk::<8>());
    eight.map_or(u64::MAX, |eight| u64::from_be_bytes(*eight))
}

/// Writes one row: inserts it if there is no old value, and deletes it if there is no new value.
pub(super) fn write(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    key: &[u8],
    old: Option<u64>,
    new: Option<u64>,
) -> EngineResult<()> {
    let second = |value: u64| second_of(key, value);
    let (before, after) = (old.map(second), new.map(second));
    let value = new.map(value_of).unwrap_or_default();
    let entry = |index, key, value| RowEntry {
        index: IndexNumber(index),
        unique: index == 0,
        key,
        value,
    };
    match (&before, &after) {
        (None, Some(after)) => transaction.insert(
            table,
            &[entry(0, key, value.as_slice()), entry(1, after, &[])],
        ),
        (Some(before), None) => {
            transaction.delete(table, &[entry(0, key, &[]), entry(1, before, &[])])
        }
        (Some(before), Some(after)) => transaction.update(
            table,
            &[
                RowChange {
                    index: IndexNumber::ROWS,
                    unique: true,
                    old_key: Some(key),
                    new_key: Some(key),
                    new_value: &value,
                },
                RowChange {
                    index: IndexNumber(1),
                    unique: false,
                    old_key: Some(before),
                    new_key: Some(after),
                    new_value: &[],
                },
            ],
        ),
        (None, None) => Ok(()),
    }
}

/// The rows of an owner that the transaction sees.
pub(super) fn read(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    owner: u8,
) -> EngineResult<Rows> {
    let mut cursor = transaction.cursor(table, IndexNumber::ROWS, ReadMode::Snapshot)?;
    let end = owner.checked_add(1).map(|end| [end]);
    cursor.set_bounds(Some(&[owner]), end.as_ref().map(<[u8; 1]>::as_slice));
    let mut rows = Rows::new();
    let mut row = cursor.first(transaction)?;
    while let Some(found) = row {
        rows.insert(number_at(found.key, 1), number_at(found.value, 0));
        row = cursor.next(transaction)?;
    }
    Ok(rows)
}
