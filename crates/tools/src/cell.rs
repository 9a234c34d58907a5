//! Rows as cells.

/// The value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    /// A number, in decimal digits.
    Number(String),
    Text(String),
    Bytes(Vec<u8>),
}

/// A column of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Whether an INSERT can contain it.
    pub(crate) is_insertable: bool,
}

impl Column {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_insertable: true,
        }
    }
}

/// The names of the columns of an index's pages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnNames {
    pub(crate) keys: Vec<String>,
    /// Without the header of rows.
    pub(crate) values: Vec<String>,
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
