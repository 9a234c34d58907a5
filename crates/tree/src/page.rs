//! Pages: the unit in which a run is written, read, checked and cached.
//!
//! Layout 3 stores the parts of its entries in separate streams, which compress better: heads
//! (operation, lengths, write id), then all keys, then all values. Keys of equal length may be
//! stored as byte planes: all first bytes, all second bytes, and so on. The leading bytes of
//! values, which contain the columns of fixed width, may be stored in the same way. If the columns are
//! known, both may be stored by column, each encoded by its type; values also wholly (`tail`). Byte format: `docs/design/format.md`,
//! "Page, layout 3".

mod builder;
mod column_choice;
mod column_list;
mod column_page;
mod columns;
mod decode;
mod encoded_columns;
mod projection;
mod reader;
mod row_page;
mod sizes;
mod streams;
mod tail;
mod value_tail;
mod zones;

pub use builder::PageBuilder;
pub use column_choice::{ColumnChoice, ReadColumn};
pub use column_page::ColumnPage;
pub(crate) use column_page::Opened;
pub use columns::PageColumns;
pub use projection::Projection;
pub use reader::Page;
pub(crate) use row_page::{OpenedRows, RowPage};
pub use sizes::{PagePart, PartSize};
pub(crate) use sizes::{page_columns, part_sizes};
pub use value_tail::{OptionalColumn, ValueTail};
pub(crate) use zones::{PageZones, keep_common};

/// The layout number in a page block's header.
pub const PAGE_LAYOUT: u8 = 3;

/// The number in a head of a put whose value is a reference to a separate value. Other heads
/// contain the number of the operation.
const SEPARATE_PUT: u8 = 3;

/// Flag: the key stream holds byte planes.
const FLAG_KEY_PLANES: u8 = 1;
/// Flag: every entry is a settled put, and no value is separate.
const FLAG_SETTLED_PUTS: u8 = 2;
/// Flag: all keys have the same length, and the heads omit it.
const FLAG_KEYS_OF_ONE_LENGTH: u8 = 4;
/// Flag: all values have the same length, and the heads omit it.
const FLAG_VALUES_OF_ONE_LENGTH: u8 = 8;
/// Flag: the key stream holds encoded columns.
const FLAG_KEY_COLUMNS: u8 = 16;
/// Flag: the leading bytes of values are encoded columns.
const FLAG_VALUE_COLUMNS: u8 = 32;
/// Flag: values are stored wholly as columns, and the heads omit their lengths.
const FLAG_VALUE_TAIL: u8 = 64;
const FLAGS_KNOWN: u8 = 127;

/// Bytes before the heads: flags u8; entries, key length, value length, head bytes, key bytes, bytes of
/// the key stream, value bytes, and leading bytes of values that are stored apart, u32 each.
const PAGE_HEADER_BYTES: usize = 33;
