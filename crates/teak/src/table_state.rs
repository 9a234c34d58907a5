//! The state that the handles of an open table share.

use crate::error::{Error, Result};
use crate::schema::TableSchema;
use std::sync::Arc;
use teak_engine::{Engine, EngineError, EngineTransaction, IndexNumber, TableHandle};

pub(crate) struct TableState {
    pub engine: Arc<Engine>,
    pub schema: TableSchema,
    pub handle: TableHandle,
}

impl TableState {
    /// The number of a secondary index and whether it is unique.
    pub(crate) fn index(&self, name: &str) -> Result<(IndexNumber, bool)> {
        let mut numbered = self.schema.numbered();
        match numbered.find(|(_, index)| index.name == name) {
            Some((number, index)) => Ok((number, index.unique)),
            None => Err(Error::NoSuchIndex {
                name: name.to_owned(),
            }),
        }
    }

    /// Converts the error of a write. A duplicate-key error gets the name of the index that
    /// contains the key.
    pub(crate) fn write_error(&self, error: EngineError, transaction: &EngineTransaction) -> Error {
        if !matches!(error, EngineError::DuplicateKey) {
            return error.into();
        }
        let refused = transaction.duplicate().index;
        let mut numbered = self.schema.numbered();
        let index = numbered.find(|(number, _)| *number == refused);
        Error::DuplicateKey {
            index: index.map(|(_, index)| index.name.clone()),
        }
    }
}
