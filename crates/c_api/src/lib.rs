//! The C interface of the Teak storage engine: opaque handles, a status for
//! every call that can fail, a message for every error, and no panic across the
//! boundary. `include/teak.h` and `include/teak_server.h` are generated from
//! these sources and their doc comments.
//!
//! This crate only translates. Its files use `unsafe` for pointers from C; the
//! contract of those pointers is stated once, in `boundary`.

#![allow(unsafe_code, non_camel_case_types)]
#![allow(clippy::missing_safety_doc)] // The contract is the header's.

#[cfg(feature = "allocator")]
mod allocator;
mod boundary;

pub mod backup;
pub mod codec;
pub mod cursor;
pub mod engine;
pub mod errors;
pub mod handles;
pub mod index;
pub mod load;
pub mod monitoring;
pub mod options;
pub mod row;
pub mod server;
pub mod slice;
pub mod status;
pub mod table;
pub mod table_counter;
pub mod transaction;
pub mod version;
