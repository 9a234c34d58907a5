//! Pages: the unit in which a run is written, read, checked and cached.
//!
//! Layout 2 stores the parts of its entries in separate streams, which compress better: heads
//! (operation, lengths, write id), then all keys, then all values. Keys of equal length may be
//! stored as byte planes: all first bytes, all second bytes, and so on. The leading bytes of
//! values, which contain the columns of fixed width, may be stored in the same way. Byte format:
//! `docs/design/format.md`, "Page, layout 2".

mod builder;
mod decode;
mod planes;
mod reader;

pub use builder::PageBuilder;
pub use reader::Page;

/// The layout number in a page block's header.
pub const PAGE_LAYOUT_ROW: u8 = 2;

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
const FLAGS_KNOWN: u8 = 15;

/// Bytes before the heads: flags u8, entries u32, key length u32, value length
/// u32, head bytes u32, key bytes u32, value planes u32.
const PAGE_HEADER_BYTES: usize = 25;
