//! Rows with a number as key and some text as value.

use super::Subject;
use teak_base::{Operation, WriteId};

pub fn key(row: u64) -> Vec<u8> {
    format!("{row:024}").into_bytes()
}

pub fn put(subject: &Subject, id: u64, row: u64) {
    let guard = subject.tree.write_guard();
    let value = format!("value {id} of row {row}, which has some more text");
    guard.insert(WriteId(id), Operation::Put, &key(row), value.as_bytes());
}
