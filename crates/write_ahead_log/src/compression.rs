//! Whether a batch is compressed. Rows that do not compress, such as encrypted or compressed values,
//! would make compression the largest cost of a batch.

use teak_base::Codec;

/// Smaller batches are not compressed. Most of them are the commit of one transaction, and its sync
/// writes at least one whole block of the disk.
const COMPRESSED_BYTES_MIN: usize = 1 << 10;

/// Compression is worth its time if it saves at least one part in `SAVED_SHARE`.
const SAVED_SHARE: usize = 16;

/// Number of batches that are not compressed after one for which it was not worth its time.
const SKIPPED: u32 = 7;

/// Chooses the codec of each batch by the results of earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Compression {
    skip: u32,
}

impl Compression {
    /// The codec to try for a batch of this size.
    pub(crate) fn codec(&mut self, raw_bytes: usize) -> Codec {
        if raw_bytes < COMPRESSED_BYTES_MIN {
            return Codec::None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Codec::None;
        }
        Codec::Lz4
    }

    /// Notes the size of a batch for which [`Codec::Lz4`] was tried.
    pub(crate) fn note(&mut self, raw_bytes: usize, stored_bytes: usize) {
        if stored_bytes > raw_bytes - raw_bytes / SAVED_SHARE {
            self.skip = SKIPPED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_after_one_that_does_not_compress_are_not_compressed() {
        let mut compression = Compression::default();
        assert_eq!(compression.codec(1000), Codec::None);
        for _ in 0..3 {
            assert_eq!(compression.codec(5000), Codec::Lz4);
            compression.note(5000, 4500);
        }
        for _ in 0..2 {
            assert_eq!(compression.codec(5000), Codec::Lz4);
            compression.note(5000, 4900);
            for _ in 0..SKIPPED {
                assert_eq!(compression.codec(5000), Codec::None);
            }
        }
        assert_eq!(compression.codec(5000), Codec::Lz4);
    }
}
