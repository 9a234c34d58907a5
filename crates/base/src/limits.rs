//! Limits that the formats and every floor agree on.

/// Longest encoded key, in bytes. SQL keys reach 3072 bytes of column data;
/// terminators, NULL markers and collation weights make them longer.
pub const KEY_BYTES_MAX: usize = 64 * 1024;

/// Longest value, in bytes: a 32 MiB row and its framing.
pub const VALUE_BYTES_MAX: usize = 33 * 1024 * 1024;

/// Largest uncompressed block the readers accept, in bytes; bounds what a
/// corrupt header can make a decoder allocate.
pub const BLOCK_RAW_BYTES_MAX: usize = 64 * 1024 * 1024;
