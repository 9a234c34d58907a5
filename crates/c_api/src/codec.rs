//! Compression codecs.

use crate::boundary::Failure;
use ::teak_engine::Codec;

/// A compression codec, see teak_index_definition.codec.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_codec {
    /// The default, TEAK_CODEC_ZSTD.
    TEAK_CODEC_DEFAULT = 0,
    /// No compression.
    TEAK_CODEC_NONE = 1,
    /// LZ4.
    TEAK_CODEC_LZ4 = 2,
    /// Zstandard.
    TEAK_CODEC_ZSTD = 3,
    /// zlib.
    TEAK_CODEC_ZLIB = 4,
    /// Snappy.
    TEAK_CODEC_SNAPPY = 5,
    /// LZMA.
    TEAK_CODEC_LZMA = 6,
}

/// The number of a `teak_codec`, as C passes it.
pub type teak_codec_number = u32;

pub(crate) fn codec_of(number: teak_codec_number) -> Result<Codec, Failure> {
    match number {
        0 | 3 => Ok(Codec::Zstd),
        1 => Ok(Codec::None),
        2 => Ok(Codec::Lz4),
        4 => Ok(Codec::Zlib),
        5 => Ok(Codec::Snappy),
        6 => Ok(Codec::Lzma),
        _ => Err(Failure::invalid("codec is not a teak_codec")),
    }
}

pub(crate) fn number_of(codec: Codec) -> teak_codec_number {
    u32::from(codec.number()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_codecs_agree() {
        for number in 1..=6 {
            assert!(codec_of(number).is_ok_and(|codec| number_of(codec) == number));
        }
        assert!(codec_of(7).is_err());
    }
}
