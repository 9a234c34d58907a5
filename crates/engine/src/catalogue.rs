//! The catalogue: the tables that exist, and the state that recovery starts
//! from. It is stored in the file `teak.catalogue`.
//!
//! The file is a complete snapshot, replaced atomically. Recovery applies later changes from the
//! log: table changes and counters from `tables_lsn` on, all other records from `replay_from` on.

mod codec;
mod entries;
mod file;

pub(crate) use codec::{
    AlteredTable, ID_MAX, UNNAMED_IDS_MAX, decode_indexes_changed, decode_paths,
    decode_tables_altered, encode_indexes_changed, encode_paths, encode_tables_altered,
};
pub(crate) use entries::{
    Catalogue, IndexEntry, IndexSizes, PreparedEntry, RetainedIds, TEMPORARY_ID_MIN, TableEntry,
};
#[cfg(feature = "fuzzing")]
pub(crate) use file::encode_catalogue;
pub(crate) use file::{
    CATALOGUE_FILE, decode_catalogue, read_catalogue, write_catalogue, write_catalogue_as,
};
