//! The C interface of the Teak storage engine: opaque handles, a status for
//! every call, a sentence for every error, and no panic across the border.
//! What the calls mean is written in `include/teak.h`, which is generated from
//! these sources.
//!
//! This crate only translates. All its files may use `unsafe`, for pointers
//! from C; what they may be is said once, at [`arguments`].

#![allow(unsafe_code, non_camel_case_types)]
#![allow(clippy::missing_safety_doc)] // The contract is the header's.

pub mod alter;
pub mod arguments;
pub mod cursor;
pub mod engine;
pub mod locks;
pub mod prepared;
pub mod status;
pub mod table;
pub mod transaction;
pub mod write;
