//! Rows as text.

use teak::{IndexRow, Result};

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// `index key/primary key` of a row.
pub fn printed(row: Result<IndexRow>) -> String {
    let row = row.unwrap();
    format!("{}/{}", text(&row.index_key), text(&row.key))
}
