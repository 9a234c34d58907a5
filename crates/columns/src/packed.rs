//! Bytes that are compressed apart from the others of a page.
//!
//! If all bytes of a page were compressed together, a common table of frequencies would fit none of
//! its parts.

use std::borrow::Cow;
use teak_base::Codec as Compression;
use teak_base::bytes::{Malformed, Put, Take};

/// Number of bytes from which they are compressed apart: fewer would not pay for a table of their own.
const PACKED_BYTES_MIN: usize = 256;

/// They must become shorter by this fraction.
const PACKED_FRACTION: usize = 6;

/// The number that stands for bytes as they are.
const PLAIN: u64 = 0;

/// The number that stands for one byte which is repeated. Compressed bytes are never that short.
const REPEATED: u64 = 1;

/// Appends bytes; with `packs`, compressed if that makes them shorter.
pub(crate) fn put_packed(bytes: &[u8], packs: bool, out: &mut Vec<u8>) {
    if let [first, rest @ ..] = bytes
        && rest.iter().all(|byte| byte == first)
    {
        out.put_varint(REPEATED);
        out.put_u8(*first);
        return;
    }
    let mut packed = Vec::new();
    let is_packed = packs
        && bytes.len() >= PACKED_BYTES_MIN
        && Compression::Zstd.compress(bytes, &mut packed) == Compression::Zstd
        && packed.len() + packed.len() / PACKED_FRACTION < bytes.len();
    if is_packed {
        out.put_varint(packed.len() as u64);
        out.extend_from_slice(&packed);
    } else {
        out.put_varint(PLAIN);
        out.extend_from_slice(bytes);
    }
}

/// Reads `count` bytes that [`put_packed`] has written.
pub(crate) fn take_packed<'a>(
    count: usize,
    take: &mut Take<'a>,
) -> Result<Cow<'a, [u8]>, Malformed> {
    match take.varint()? {
        PLAIN => Ok(Cow::Borrowed(take.take(count)?)),
        REPEATED => Ok(Cow::Owned(vec![take.u8()?; count])),
        packed => {
            let packed = usize::try_from(packed).map_err(|_| Malformed)?;
            let bytes = Compression::Zstd.decompress(take.take(packed)?, count);
            Ok(Cow::Owned(bytes.map_err(|_| Malformed)?))
        }
    }
}

/// Skips `count` bytes that [`put_packed`] has written.
pub(crate) fn skip_packed(count: usize, take: &mut Take<'_>) -> Result<(), Malformed> {
    let stored = match take.varint()? {
        PLAIN => count,
        REPEATED => 1,
        packed => usize::try_from(packed).map_err(|_| Malformed)?,
    };
    take.take(stored).map(|_| ())
}

/// Skips `planes` planes of `count` bytes each.
pub(crate) fn skip_planes(
    planes: usize,
    count: usize,
    take: &mut Take<'_>,
) -> Result<(), Malformed> {
    (0..planes).try_for_each(|_| skip_packed(count, take))
}

/// Reads `planes` planes of `count` bytes each, over `out`.
pub(crate) fn take_planes(
    planes: usize,
    count: usize,
    take: &mut Take<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    out.clear();
    for _ in 0..planes {
        out.extend_from_slice(&take_packed(count, take)?);
    }
    Ok(())
}
