//! Definitions of tables, as a data directory stores them.
//!
//! The catalogue contains the metadata of each table: the .frm file of its definition, and how rows were stored before the
//! last changes of columns. The .frm file contains the names and types of columns.

mod collation;
mod frm;
mod frm_bytes;
mod frm_keys;
mod metadata;

pub(crate) use self::collation::{Encoding, KeyText, encoding_of, key_text_of};
pub(crate) use self::frm::{Frm, FrmColumn, Type};
pub(crate) use self::frm_keys::KeyPart;
pub(crate) use self::metadata::{EarlierRows, Layout, LayoutColumn, Metadata};
