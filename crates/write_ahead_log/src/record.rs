//! The record table. Each record is declared here once; the macro derives its
//! encoding, decoding and printed form. The numbers and the order of fields are part of the disk
//! format and never change; a new requirement gets a new kind of record.
//!
//! An encoded record is its length (u32, of the bytes that follow), its kind
//! (u8) and its fields in the declared order.

use crate::field::{Field, Rest};
use crate::id_list::{IdParts, WriteIds};
use crate::list::Operations;
use std::fmt;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::{FileId, WriteId};

/// Maximum length of an encoded record with its frame, in bytes.
pub const RECORD_BYTES_MAX: usize = 48 * 1024 * 1024;

/// Bytes before a record's fields: length and kind.
const FRAME_BYTES: usize = 5;

macro_rules! log_records {
    ($(
        $(#[$meta:meta])*
        $name:ident = $number:literal { $( $(#[$field_meta:meta])* $field:ident: $type:ty, )* }
    )*) => {
        /// One logical log record. Byte strings are borrowed: from the caller
        /// when appending, from the decompressed batch when reading.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Record<'a> {
            $( $(#[$meta])* $name { $( $(#[$field_meta])* $field: $type, )* }, )*
        }

        impl<'a> Record<'a> {
            /// The numbers of all kinds.
            #[cfg(feature = "fuzzing")]
            pub(crate) const NUMBERS: &'static [u8] = &[ $( $number, )* ];

            /// The number of the kind on disk.
            #[must_use]
            pub fn number(&self) -> u8 {
                match self {
                    $( Record::$name { .. } => $number, )*
                }
            }

            /// The name of the kind.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $( Record::$name { .. } => stringify!($name), )*
                }
            }

            fn put_fields(&self, out: &mut Vec<u8>) {
                match self {
                    $( Record::$name { $($field,)* } => { $( $field.put(out); )* } )*
                }
            }

            /// An upper bound of the encoded length with its frame, in bytes.
            pub(crate) fn bytes_max(&self) -> usize {
                match self {
                    $( Record::$name { $($field,)* } => {
                        FRAME_BYTES $( + $field.bytes_max() )*
                    } )*
                }
            }

            fn take_fields(number: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
                match number {
                    $( $number => Ok(Record::$name { $( $field: <$type>::take(take)?, )* }), )*
                    _ => Err(Malformed),
                }
            }
        }

        impl fmt::Display for Record<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Record::$name { $($field,)* } => {
                        write!(f, stringify!($name))?;
                        $(
                            write!(f, concat!(" ", stringify!($field), "="))?;
                            $field.print(f)?;
                        )*
                        Ok(())
                    } )*
                }
            }
        }
    };
}

log_records! {
    /// One row was written, in all indexes that the write changes.
    Write = 1 {
        /// The write id of the entries.
        write_id: WriteId,
        /// The operations, in the order in which they are applied.
        operations: Operations<'a>,
    }
    /// A key range was deleted in one index.
    DeleteRange = 2 {
        /// The index.
        file: FileId,
        /// The write id of the deletion.
        write_id: WriteId,
        /// First key of the range.
        start: &'a [u8],
        /// First key after the range.
        end: &'a [u8],
    }
    /// A transaction committed. Unless its sync is deferred, the commit is acknowledged when this
    /// record is durable.
    Commit = 3 {
        /// The transaction id; zero if the transaction was not prepared.
        transaction: u64,
        /// The `MoreWriteIds` records with more of its write ids.
        parts: IdParts,
        /// Its write ids that were not rolled back, except those in `parts`.
        write_ids: WriteIds<'a>,
    }
    /// Writes of a transaction were rolled back: all of them, or those since a savepoint or the
    /// begin of a statement.
    Abort = 4 {
        /// The `MoreWriteIds` records with more of the write ids.
        parts: IdParts,
        /// The aborted write ids, except those in `parts`.
        write_ids: WriteIds<'a>,
    }
    /// A transaction was prepared for two-phase commit.
    Prepare = 5 {
        /// The transaction id. The commit record contains the same id.
        transaction: u64,
        /// The XID.
        xid: &'a [u8],
        /// The `MoreWriteIds` records with more of its write ids.
        parts: IdParts,
        /// Its write ids that were not rolled back, except those in `parts`.
        write_ids: WriteIds<'a>,
    }
    /// A table was created.
    TableCreated = 6 {
        /// Its encoded catalogue entry.
        table: &'a [u8],
    }
    /// A table was dropped.
    TableDropped = 7 {
        /// The table.
        table_id: u64,
    }
    /// A table was renamed, and its files moved to new paths.
    TableRenamed = 8 {
        /// The table.
        table_id: u64,
        /// The new name.
        name: &'a [u8],
        /// The new paths, as the catalogue encodes them.
        paths: &'a [u8],
    }
    /// A durable counter of a table changed.
    Counter = 9 {
        /// The table.
        table_id: u64,
        /// The number of the counter.
        counter: u8,
        /// Its new value.
        value: u64,
    }
    /// All indexes of a table were replaced by empty ones (TRUNCATE).
    IndexesChanged = 10 {
        /// The change, as the engine encodes it.
        bytes: &'a [u8],
    }
    /// A record that was revoked before it was written: replay ignores it.
    Void = 11 {
        /// The fields of the revoked record.
        bytes: Rest<'a>,
    }
    /// Write ids that belong to a later record. They have no effect without that record.
    MoreWriteIds = 13 {
        /// The first write id in that record.
        owner: WriteId,
        /// More of its write ids.
        write_ids: WriteIds<'a>,
    }
    /// A write adds rows to the table of an index without records of the rows. Before its transaction
    /// commits, the files of the table contain them. Replay learns that the id is in use, and that
    /// these files may have entries of it.
    Load = 14 {
        /// The index of the rows.
        file: FileId,
        /// The write id.
        write_id: WriteId,
    }
    /// The indexes and metadata of several tables were changed atomically.
    TablesAltered = 12 {
        /// The change, as the engine encodes it.
        bytes: &'a [u8],
    }
}

/// Converts the record at offset `start` of `records` to a void record of the same length. Returns
/// false if `records` ends before it.
pub(crate) fn make_void(records: &mut [u8], start: usize) -> bool {
    let kind = records.get_mut(start + FRAME_BYTES - 1);
    kind.map(|kind| *kind = VOID_KIND).is_some()
}

/// The kind of [`Record::Void`].
const VOID_KIND: u8 = 11;

impl<'a> Record<'a> {
    /// Appends the record with its frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32(0);
        out.put_u8(self.number());
        self.put_fields(out);
        let bytes = out.len() - start - 4;
        if let (Some(frame), Ok(bytes)) = (out.get_mut(start..start + 4), u32::try_from(bytes)) {
            frame.copy_from_slice(&bytes.to_le_bytes());
        }
    }

    /// Decodes one record with its frame from the front of the input.
    ///
    /// # Errors
    /// [`Malformed`] if the frame is incomplete or does not contain exactly one record of a known
    /// kind.
    pub fn decode(take: &mut Take<'a>) -> Result<Self, Malformed> {
        let bytes = usize::try_from(take.u32()?).map_err(|_| Malformed)?;
        let mut body = Take::new(take.take(bytes)?);
        let number = body.u8()?;
        let record = Self::take_fields(number, &mut body)?;
        if body.is_empty() {
            Ok(record)
        } else {
            Err(Malformed)
        }
    }
}
