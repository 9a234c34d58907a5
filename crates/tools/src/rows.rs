//! Rows as cells: decodes the keys and values of the index of a table's rows.

mod key;
mod layout;
mod sql;
mod text;
mod times;
mod untyped;
mod value;

use self::sql::SqlRows;
use self::untyped::UntypedRows;
use crate::cell::{Cell, Column, ColumnNames};
use crate::definition::{Frm, Metadata};
use teak_tree::PageColumns;

/// Decodes rows.
pub(crate) enum RowReader {
    /// With the definition of the table.
    Sql(Box<SqlRows>),
    /// Without it.
    Untyped(UntypedRows),
}

impl RowReader {
    /// `metadata`: of the table, if it is known; `frm`: a definition that is used if the metadata does not contain one;
    /// `columns`: those of the index. Also returns why names and types are not known.
    pub(crate) fn new(
        metadata: Option<&[u8]>,
        frm: Option<Frm>,
        columns: &PageColumns,
    ) -> (Self, Option<String>) {
        let untyped = |reason| (Self::Untyped(UntypedRows::new(columns)), Some(reason));
        let decoded = match metadata.map(Metadata::decode).transpose() {
            Ok(decoded) => decoded.flatten(),
            Err(error) => return untyped(error),
        };
        let (version, earlier, stored) = match decoded {
            Some(metadata) => (
                Some(metadata.schema_version),
                metadata.earlier,
                metadata.frm,
            ),
            None if frm.is_none() => {
                return untyped("the definition of the table is not known".to_owned());
            }
            None => Default::default(),
        };
        let Some(frm) = stored.or(frm) else {
            return untyped("the definition of the table is not in the catalogue".to_owned());
        };
        match SqlRows::new(frm, version, earlier, columns) {
            Ok(rows) => (Self::Sql(Box::new(rows)), None),
            Err(reason) => untyped(reason),
        }
    }

    pub(crate) fn columns(&self) -> &[Column] {
        match self {
            Self::Sql(rows) => rows.columns(),
            Self::Untyped(rows) => rows.columns(),
        }
    }

    /// The names of the columns as pages store them.
    pub(crate) fn stored_names(&self) -> Option<ColumnNames> {
        match self {
            Self::Sql(rows) => Some(rows.stored_names()),
            Self::Untyped(_) => None,
        }
    }

    /// The values of a key's columns as text; `None` if they are not known, or the bytes are not a key.
    pub(crate) fn read_key(&self, key: &[u8]) -> Option<Vec<String>> {
        match self {
            Self::Sql(rows) => rows.key_texts(key),
            Self::Untyped(_) => None,
        }
    }

    /// Decodes a row.
    ///
    /// # Errors
    /// Why it does not match the definition.
    pub(crate) fn read(&self, key: &[u8], value: &[u8]) -> Result<Vec<Cell>, String> {
        match self {
            Self::Sql(rows) => rows.read(key, value),
            Self::Untyped(rows) => Ok(rows.read(key, value)),
        }
    }
}
