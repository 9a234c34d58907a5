//! Values of entries, in the page or in a block of their own.
//!
//! A *separate value* is one of at least [`crate::TreeOptions::separate_value_bytes`]. It is written
//! into a block of its own when its entry leaves the memtable, or when a bulk load writes it. The
//! page contains a reference. Merges copy the reference, so the value is written once.
//!
//! Ownership: every entry of a version is in exactly one run, inside the part of it that a child
//! refers to, and a separate value belongs to exactly one entry. A job that consumes an entry
//! either copies its reference into the output, or frees the value when its result is installed.
//! See `flush/separate.rs`.

use crate::block_memory::BlockCharge;
use std::sync::Arc;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::checksum;
use teak_base::{Codec, StorageResult};
use teak_block_file::{BlockAddress, BlockDescription, BlockKind};

/// The layout number of value blocks, which contain only the bytes of the value.
pub(crate) const VALUE_LAYOUT: u8 = 1;

/// The header of a value block.
pub(crate) fn value_block_description(codec: Codec) -> BlockDescription {
    BlockDescription {
        kind: BlockKind::Value,
        layout: VALUE_LAYOUT,
        codec,
    }
}

/// The address of a separate value. The length and the checksum let a reader detect another value
/// at this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueReference {
    /// The block.
    pub address: BlockAddress,
    /// Length of the value, in bytes.
    pub raw_bytes: u32,
    /// XXH3 of the value.
    pub checksum: u64,
}

/// The encoded form of a reference: address, length u32, checksum u64.
pub type EncodedReference = [u8; ValueReference::ENCODED_BYTES];

impl ValueReference {
    /// Length of the encoded form, in bytes.
    pub const ENCODED_BYTES: usize = BlockAddress::ENCODED_BYTES + 12;

    /// The reference of `value`, which was written at `address`.
    #[must_use]
    pub fn new(address: BlockAddress, value: &[u8]) -> Self {
        let Ok(raw_bytes) = u32::try_from(value.len()) else {
            unreachable!("values are limited far below 4 GiB");
        };
        Self {
            address,
            raw_bytes,
            checksum: checksum(value),
        }
    }

    /// Appends the encoded form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.address.encode(out);
        out.put_u32(self.raw_bytes);
        out.put_u64(self.checksum);
    }

    /// The encoded form.
    #[must_use]
    pub fn encoded(&self) -> EncodedReference {
        let mut out = Vec::with_capacity(Self::ENCODED_BYTES);
        self.encode(&mut out);
        let Ok(encoded) = out.try_into() else {
            unreachable!("a reference has a fixed length");
        };
        encoded
    }

    /// Decodes a reference. Does not check that there is such a block.
    #[must_use]
    pub fn decode(encoded: &EncodedReference) -> Self {
        match Self::take(&mut Take::new(encoded)) {
            Ok(reference) => reference,
            Err(Malformed) => unreachable!("the array is as long as a reference"),
        }
    }

    fn take(take: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            address: BlockAddress::decode(take)?,
            raw_bytes: take.u32()?,
            checksum: take.u64()?,
        })
    }

    /// Bytes of the block in the file, with header and padding.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.address.end() - self.address.offset
    }
}

/// A separate value in memory.
#[derive(Debug)]
pub struct SeparateValue {
    bytes: Vec<u8>,
    /// Counts its memory.
    _charge: BlockCharge,
}

impl SeparateValue {
    /// `charge`: counts the capacity of `bytes`.
    pub(crate) fn new(bytes: Vec<u8>, charge: BlockCharge) -> Self {
        Self {
            _charge: charge,
            bytes,
        }
    }

    /// The value.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Reads separate values.
pub trait ReadSeparate {
    /// Returns a value, from the cache or the file.
    ///
    /// # Errors
    /// Errors of reading blocks.
    fn read_separate(&self, reference: &ValueReference) -> StorageResult<Arc<SeparateValue>>;
}

/// The value of an entry as it is stored; empty for a delete.
#[derive(Clone, Copy)]
pub enum StoredValue<'a> {
    /// The value.
    Inline(&'a [u8]),
    /// The encoded reference to a separate value, and the reader for it.
    Separate(&'a EncodedReference, &'a dyn ReadSeparate),
}

impl StoredValue<'_> {
    /// Appends the value to `out`. Reads a separate value from the cache or the file.
    ///
    /// # Errors
    /// Errors of reading blocks; `out` is then unchanged.
    pub fn append_to(&self, out: &mut Vec<u8>) -> StorageResult<()> {
        match self {
            Self::Inline(bytes) => out.extend_from_slice(bytes),
            Self::Separate(encoded, reader) => {
                let value = reader.read_separate(&ValueReference::decode(encoded))?;
                out.extend_from_slice(value.bytes());
            }
        }
        Ok(())
    }

    /// A copy of the value.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn to_vec(&self) -> StorageResult<Vec<u8>> {
        let mut value = Vec::new();
        self.append_to(&mut value)?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_example_holds() {
        let address = BlockAddress {
            offset: 0x2000,
            bytes: 0x4024,
        };
        let reference = ValueReference::new(address, &[7; 0x4000]);
        let mut encoded = Vec::new();
        reference.encode(&mut encoded);
        let documented = crate::test_support::documented_bytes("## Separate value");
        assert_eq!(encoded, documented, "{encoded:02x?}");
        let documented = documented.try_into().expect("it is a reference");
        assert_eq!(ValueReference::decode(&documented), reference);
        assert_eq!(reference.stored_bytes(), 0x4080);
    }
}
