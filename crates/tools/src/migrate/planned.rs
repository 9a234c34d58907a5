//! A table, and how it is to be converted.

use super::arguments::Arguments;
use super::features::ForeignKey;
use super::tables::Table;
use crate::names::quoted_name;

/// What a table will be, according to a sample of its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub rows: u64,
    pub bytes: u64,
    pub seconds: f64,
    /// Whether all rows were in the sample.
    pub is_complete: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub table: Table,
    /// Why it is not converted.
    pub refusals: Vec<String>,
    /// Foreign keys of the table, and of others that refer to it, which are dropped before.
    pub foreign_keys: Vec<ForeignKey>,
    /// Keys that are dropped with the conversion.
    pub keys: Vec<String>,
    pub estimate: Option<Estimate>,
}

impl Planned {
    /// The statement that converts the table, or a copy of it.
    pub(super) fn statement(&self, quoted_table: &str, arguments: &Arguments) -> String {
        let mut statement = format!("ALTER TABLE {quoted_table} ENGINE = TEAK");
        if let Some(compression) = &arguments.compression {
            statement += &format!(" `COMPRESSION` = {compression}");
        }
        for key in &self.keys {
            statement += &format!(", DROP KEY {}", quoted_name(key));
        }
        statement
    }
}
