//! Authenticated encryption with keys of a key management.
//!
//! A [`KeySource`] has keys of 16 to 64 bytes, by id and version. From each, HKDF with SHA-256 derives a key of 256 bits
//! that nothing but Teak uses. Data is encrypted with XAES-256-GCM, whose nonces of 192 bits are so long that random ones
//! do not repeat: neither in a copy of a data directory that is used with the original, nor after a restore.
//!
//! This crate knows no files and starts no threads.

mod key_cache;
mod xaes;

pub use key_cache::{KeySource, KeySourceError, PluginCipher};
pub use xaes::XaesKey;
