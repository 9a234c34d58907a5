//! Compression of blocks and log batches. Zstandard contexts are pooled, because creating one costs
//! more than compressing a page.

use crate::limits::BLOCK_RAW_BYTES_MAX;
use crate::pool::Pool;
use std::io::{Read, Write};

/// A compression codec of a block or log batch. The numbers are on disk and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Not compressed.
    None = 0,
    /// LZ4 block format: fast, for data that will be merged soon, and for the log.
    Lz4 = 1,
    /// Zstandard: the default of tables.
    Zstd = 2,
    /// zlib (DEFLATE).
    Zlib = 3,
    /// Snappy.
    Snappy = 4,
    /// LZMA in an xz container: compresses best, but is slow.
    Lzma = 5,
}

/// The stored bytes are damaged, or do not decompress to the expected size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecompressError;

const ZSTD_LEVEL: i32 = 1;
const ZLIB_LEVEL: u32 = 6;
const LZMA_LEVEL: u32 = 6;
/// Limit of the decoder's memory: the header of an xz stream may request a
/// dictionary of up to 4 GiB. Level 6 uses 8 MiB.
const LZMA_MEMORY_BYTES_MAX: u64 = 16 * 1024 * 1024;

static ZSTD_COMPRESSORS: Pool<zstd::bulk::Compressor<'static>> = Pool::new();
static ZSTD_DECOMPRESSORS: Pool<zstd::bulk::Decompressor<'static>> = Pool::new();

impl Codec {
    /// Every codec, in the order of their numbers.
    pub const ALL: [Codec; 6] = [
        Codec::None,
        Codec::Lz4,
        Codec::Zstd,
        Codec::Zlib,
        Codec::Snappy,
        Codec::Lzma,
    ];

    /// The codec with this on-disk number; `None` if there is none.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Codec> {
        Self::ALL.into_iter().find(|codec| codec.number() == number)
    }

    /// The on-disk number.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The codec of a table option value: none, lz4, zstd, zlib, snappy, lzma.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Codec> {
        Self::ALL
            .into_iter()
            .find(|codec| codec.name().eq_ignore_ascii_case(name))
    }

    /// The value of the table option.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
            Codec::Zlib => "zlib",
            Codec::Snappy => "snappy",
            Codec::Lzma => "lzma",
        }
    }

    /// Appends the compressed form of `raw` to `out` and returns the codec used. If the compressed
    /// form is not smaller, appends `raw` itself and returns [`Codec::None`].
    #[must_use]
    pub fn compress(self, raw: &[u8], out: &mut Vec<u8>) -> Codec {
        let start = out.len();
        let done = match self {
            Codec::None => false,
            Codec::Lz4 => {
                out.resize(
                    start + lz4_flex::block::get_maximum_output_size(raw.len()),
                    0,
                );
                let written = out
                    .get_mut(start..)
                    .and_then(|space| lz4_flex::block::compress_into(raw, space).ok());
                out.truncate(start + written.unwrap_or(0));
                written.is_some()
            }
            Codec::Zstd => compress_zstd(raw, out).is_some(),
            Codec::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(
                    &mut *out,
                    flate2::Compression::new(ZLIB_LEVEL),
                );
                encoder.write_all(raw).is_ok() && encoder.finish().is_ok()
            }
            Codec::Snappy => {
                out.resize(start + snap::raw::max_compress_len(raw.len()), 0);
                let written = out
                    .get_mut(start..)
                    .and_then(|space| snap::raw::Encoder::new().compress(raw, space).ok());
                out.truncate(start + written.unwrap_or(0));
                written.is_some()
            }
            Codec::Lzma => {
                let mut encoder = liblzma::write::XzEncoder::new(&mut *out, LZMA_LEVEL);
                encoder.write_all(raw).is_ok() && encoder.finish().is_ok()
            }
        };
        if done && out.len() - start < raw.len() {
            return self;
        }
        out.truncate(start);
        out.extend_from_slice(raw);
        Codec::None
    }

    /// Decompresses `stored` to exactly `raw_len` bytes.
    ///
    /// # Errors
    /// [`DecompressError`] when the bytes are damaged or have another size, or when `raw_len` is
    /// above [`BLOCK_RAW_BYTES_MAX`].
    pub fn decompress(self, stored: &[u8], raw_len: usize) -> Result<Vec<u8>, DecompressError> {
        if raw_len > BLOCK_RAW_BYTES_MAX {
            return Err(DecompressError);
        }
        let raw = match self {
            Codec::None => stored.to_vec(),
            Codec::Lz4 => {
                lz4_flex::block::decompress(stored, raw_len).map_err(|_| DecompressError)?
            }
            Codec::Zstd => decompress_zstd(stored, raw_len)?,
            Codec::Zlib => read_exactly(flate2::read::ZlibDecoder::new(stored), raw_len)?,
            Codec::Snappy => {
                if snap::raw::decompress_len(stored).ok() != Some(raw_len) {
                    return Err(DecompressError);
                }
                snap::raw::Decoder::new()
                    .decompress_vec(stored)
                    .map_err(|_| DecompressError)?
            }
            Codec::Lzma => {
                let stream = liblzma::stream::Stream::new_stream_decoder(LZMA_MEMORY_BYTES_MAX, 0)
                    .map_err(|_| DecompressError)?;
                read_exactly(
                    liblzma::read::XzDecoder::new_stream(stored, stream),
                    raw_len,
                )?
            }
        };
        if raw.len() == raw_len {
            Ok(raw)
        } else {
            Err(DecompressError)
        }
    }
}

fn compress_zstd(raw: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut compressor = match ZSTD_COMPRESSORS.take() {
        Some(compressor) => compressor,
        None => zstd::bulk::Compressor::new(ZSTD_LEVEL).ok()?,
    };
    let start = out.len();
    out.resize(start + zstd::zstd_safe::compress_bound(raw.len()), 0);
    let space = out.get_mut(start..);
    let written = space.and_then(|space| compressor.compress_to_buffer(raw, space).ok());
    out.truncate(start + written.unwrap_or(0));
    ZSTD_COMPRESSORS.put(compressor);
    written.map(|_| ())
}

fn decompress_zstd(stored: &[u8], raw_len: usize) -> Result<Vec<u8>, DecompressError> {
    let mut decompressor = match ZSTD_DECOMPRESSORS.take() {
        Some(decompressor) => decompressor,
        None => zstd::bulk::Decompressor::new().map_err(|_| DecompressError)?,
    };
    let raw = decompressor.decompress(stored, raw_len);
    ZSTD_DECOMPRESSORS.put(decompressor);
    raw.map_err(|_| DecompressError)
}

fn read_exactly(reader: impl Read, raw_len: usize) -> Result<Vec<u8>, DecompressError> {
    let mut raw = Vec::with_capacity(raw_len);
    // Reading one more byte than expected detects a stream that is too long.
    let read = reader
        .take(raw_len as u64 + 1)
        .read_to_end(&mut raw)
        .map_err(|_| DecompressError)?;
    if read == raw_len {
        Ok(raw)
    } else {
        Err(DecompressError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_codec_round_trips(bytes in proptest::collection::vec(0u8..8, 0..4000)) {
            for codec in Codec::ALL {
                let mut stored = vec![7, 7];
                let used = codec.compress(&bytes, &mut stored);
                prop_assert_eq!(&stored[..2], &[7, 7]);
                let raw = used.decompress(&stored[2..], bytes.len());
                prop_assert_eq!(raw, Ok(bytes.clone()));
            }
        }

        #[test]
        fn damaged_input_never_panics(bytes: Vec<u8>, raw_len in 0usize..5000) {
            for codec in Codec::ALL {
                let _ = codec.decompress(&bytes, raw_len);
            }
        }
    }

    #[test]
    fn incompressible_bytes_are_stored() {
        let bytes: Vec<u8> = (0..=255u8).collect();
        let mut stored = Vec::new();
        assert_eq!(Codec::Lz4.compress(&bytes, &mut stored), Codec::None);
        assert_eq!(stored, bytes);
    }

    #[test]
    fn an_xz_stream_that_requests_too_much_memory_is_refused() {
        let raw = b"a row ".repeat(50);
        let encode = |dictionary: u32| {
            let mut options = liblzma::stream::LzmaOptions::new_preset(LZMA_LEVEL).unwrap();
            options.dict_size(dictionary);
            let mut filters = liblzma::stream::Filters::new();
            filters.lzma2(&options);
            let check = liblzma::stream::Check::Crc64;
            let stream = liblzma::stream::Stream::new_stream_encoder(&filters, check).unwrap();
            let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
            encoder.write_all(&raw).unwrap();
            encoder.finish().unwrap()
        };
        let modest = Codec::Lzma.decompress(&encode(8 << 20), raw.len());
        assert_eq!(modest, Ok(raw.clone()));
        let greedy = Codec::Lzma.decompress(&encode(64 << 20), raw.len());
        assert_eq!(greedy, Err(DecompressError));
    }

    #[test]
    fn numbers_and_names_round_trip() {
        for codec in Codec::ALL {
            assert_eq!(Codec::from_number(codec.number()), Some(codec));
            assert_eq!(Codec::from_name(codec.name()), Some(codec));
        }
        assert_eq!(Codec::from_number(6), None);
    }
}
