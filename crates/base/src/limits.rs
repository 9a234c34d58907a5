//! Limits of the file formats.

/// Longest encoded key, in bytes. SQL keys reach 3072 bytes of column data;
/// terminators, NULL markers and collation weights make them longer.
pub const KEY_BYTES_MAX: usize = 64 * 1024;

/// Longest value, in bytes: a 32 MiB row and its framing.
pub const VALUE_BYTES_MAX: usize = 33 * 1024 * 1024;

/// Largest uncompressed block that readers accept, in bytes. It limits the memory
/// that a decoder allocates for a corrupt header.
pub const BLOCK_RAW_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Largest position of the log that readers accept. No log reaches it, because positions count
/// bytes; a sum with a larger position could overflow.
pub const LSN_MAX: u64 = 1 << 62;
