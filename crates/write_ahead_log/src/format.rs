//! The headers of segments and batches: encoding, decoding, checking. The
//! layout is documented in `docs/design/format.md`.

use std::path::Path;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::{checksum, checksum_parts};
use teak_base::cipher::ENVELOPE_BYTES;
use teak_base::codec::Codec;
use teak_base::limits::{BLOCK_RAW_BYTES_MAX, LSN_MAX};
use teak_base::{Encryption, KeyVersion, StorageError, StorageResult};

/// The format version that this build writes and reads.
pub(crate) const FORMAT_VERSION: u32 = 2;

const SEGMENT_MAGIC: [u8; 8] = *b"teak.log";
/// Length of a segment header, in bytes.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
const SEGMENT_SUMMED_BYTES: usize = SEGMENT_HEADER_BYTES - 8;

/// First bytes of every batch.
pub(crate) const BATCH_MAGIC: [u8; 4] = *b"tkba";
/// Length of a batch header, in bytes.
pub(crate) const BATCH_HEADER_BYTES: usize = 48;
const BATCH_SUMMED_BYTES: usize = BATCH_HEADER_BYTES - 8;

/// The reason why a header cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The bytes are not a header that this log wrote.
    Invalid(&'static str),
    /// A different format version.
    Version(u32),
}

impl From<Malformed> for HeaderError {
    fn from(_: Malformed) -> Self {
        HeaderError::Invalid("the header is cut short")
    }
}

/// When the header of a segment was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// When the segment became the current one. The header contains the position of the first
    /// batch.
    Begun,
    /// Earlier, when the position of the first batch was not known: only the first batch contains
    /// it.
    Prepared,
}

impl SegmentKind {
    fn number(self) -> u32 {
        match self {
            Self::Begun => 0,
            Self::Prepared => 1,
        }
    }

    fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Begun),
            1 => Some(Self::Prepared),
            _ => None,
        }
    }
}

/// The first bytes of a segment file. The checksum of every batch covers the
/// checksum of the header. So a batch that the file contained under an earlier
/// number is never accepted as a batch of this segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// When this header was written.
    pub(crate) kind: SegmentKind,
    /// The instance that the log belongs to.
    pub(crate) instance: u64,
    /// The number in the file name. No two segments of a log have the same number.
    pub(crate) number: u64,
    /// Log position of the first batch; for a prepared segment, the end of the
    /// log when it was prepared.
    pub(crate) first_lsn: u64,
    /// Checksum of the last batch of the previous segment, or of that segment's
    /// header if it has no batch; zero in the first segment and in prepared ones.
    pub(crate) previous: u64,
}

impl SegmentHeader {
    /// Encodes the header. Also returns its checksum, which seeds the checksums of the segment's
    /// batches.
    pub(crate) fn encode(&self) -> (Vec<u8>, u64) {
        let mut out = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        out.extend_from_slice(&SEGMENT_MAGIC);
        out.put_u32(FORMAT_VERSION);
        out.put_u32(self.kind.number());
        out.put_u64(self.instance);
        out.put_u64(self.number);
        out.put_u64(self.first_lsn);
        out.put_u64(self.previous);
        out.put_u64(0);
        debug_assert_eq!(out.len(), SEGMENT_SUMMED_BYTES);
        let sum = checksum(&out);
        out.put_u64(sum);
        (out, sum)
    }

    /// Checks and decodes a header; also returns its checksum.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, u64), HeaderError> {
        let mut take = Take::new(bytes);
        let mut summed = Take::new(take.take(SEGMENT_SUMMED_BYTES)?);
        let found = take.u64()?;
        if checksum(summed.rest()) != found {
            return Err(HeaderError::Invalid("the segment header's checksum"));
        }
        if summed.take(SEGMENT_MAGIC.len())? != SEGMENT_MAGIC {
            return Err(HeaderError::Invalid("not a log segment"));
        }
        let version = summed.u32()?;
        if version != FORMAT_VERSION {
            return Err(HeaderError::Version(version));
        }
        let kind = SegmentKind::from_number(summed.u32()?);
        let header = SegmentHeader {
            kind: kind.ok_or(HeaderError::Invalid("the segment's kind"))?,
            instance: summed.u64()?,
            number: summed.u64()?,
            first_lsn: summed.u64()?,
            previous: summed.u64()?,
        };
        if header.first_lsn > LSN_MAX {
            return Err(HeaderError::Invalid("the segment's position"));
        }
        Ok((header, found))
    }
}

/// The bytes before a batch's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    /// Compression of the payload.
    pub(crate) codec: Codec,
    /// Whether the compressed payload is encrypted, see `teak_base::cipher`. The associated data are the seed of the segment,
    /// and the header without its checksum.
    pub(crate) is_encrypted: bool,
    /// Log position of the first byte of the payload.
    pub(crate) first_lsn: u64,
    /// The log before this position was known to be durable when the batch was written.
    pub(crate) durable: u64,
    /// Checksum of the previous batch; in the first batch of a [`SegmentKind::Begun`] segment, the
    /// checksum of the segment's header.
    pub(crate) previous: u64,
    /// Length of the payload uncompressed.
    pub(crate) raw_bytes: u32,
    /// Length of the payload in the file.
    pub(crate) stored_bytes: u32,
    /// Checksum of the segment header's checksum, this header and the payload.
    pub(crate) checksum: u64,
}

impl BatchHeader {
    /// The header without its checksum.
    fn summed(&self) -> [u8; BATCH_SUMMED_BYTES] {
        let mut summed = [0; BATCH_SUMMED_BYTES];
        let parts: [&[u8]; 7] = [
            &BATCH_MAGIC,
            &[self.codec.number(), u8::from(self.is_encrypted), 0, 0],
            &self.first_lsn.to_le_bytes(),
            &self.durable.to_le_bytes(),
            &self.previous.to_le_bytes(),
            &self.raw_bytes.to_le_bytes(),
            &self.stored_bytes.to_le_bytes(),
        ];
        for (slot, byte) in summed.iter_mut().zip(parts.into_iter().flatten()) {
            *slot = *byte;
        }
        summed
    }

    /// The associated data of an encrypted payload.
    fn associated(&self, seed: u64) -> [u8; 8 + BATCH_SUMMED_BYTES] {
        let mut associated = [0; 8 + BATCH_SUMMED_BYTES];
        let bytes = seed.to_le_bytes().into_iter().chain(self.summed());
        for (slot, byte) in associated.iter_mut().zip(bytes) {
            *slot = byte;
        }
        associated
    }

    /// Writes the header and its checksum to the front of `batch`, whose payload
    /// begins at [`BATCH_HEADER_BYTES`]. Returns the checksum.
    pub(crate) fn seal(&self, seed: u64, batch: &mut [u8]) -> u64 {
        assert!(batch.len() >= BATCH_HEADER_BYTES);
        let (header, payload) = batch.split_at_mut(BATCH_HEADER_BYTES);
        let (summed, sum) = header.split_at_mut(BATCH_SUMMED_BYTES);
        summed.copy_from_slice(&self.summed());
        let found = checksum_parts(&[&seed.to_le_bytes(), summed, payload]);
        sum.copy_from_slice(&found.to_le_bytes());
        found
    }

    /// As [`BatchHeader::seal`]. With a key, encrypts the payload first, which begins with space for an envelope.
    pub(crate) fn seal_encrypted(
        &self,
        path: &Path,
        (encryption, key): (&Encryption, Option<KeyVersion>),
        seed: u64,
        batch: &mut [u8],
    ) -> StorageResult<u64> {
        if let Some(key) = key {
            let (_, payload) = batch.split_at_mut(BATCH_HEADER_BYTES);
            encryption.seal(path, key, &self.associated(seed), payload)?;
        }
        Ok(self.seal(seed, batch))
    }

    /// Decrypts and decompresses the payload of a verified batch.
    ///
    /// # Errors
    /// `Corrupt`, `Key`.
    pub(crate) fn unpack(
        &self,
        (path, offset): (&Path, u64),
        encryption: &Encryption,
        seed: u64,
        payload: &[u8],
    ) -> StorageResult<Vec<u8>> {
        let mut decrypted = Vec::new();
        let packed = if self.is_encrypted {
            decrypted.extend_from_slice(payload);
            encryption.unseal((path, offset), &self.associated(seed), &mut decrypted)?
        } else {
            payload
        };
        let raw = self.codec.decompress(packed, self.raw_bytes as usize);
        raw.map_err(|_| StorageError::corrupt(path, offset, "a batch does not decompress"))
    }

    /// Decodes a header before its payload is read. Checks the lengths and the position; the
    /// checksum is checked later ([`BatchHeader::checks`]).
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let mut take = Take::new(bytes);
        if take.take(BATCH_MAGIC.len())? != BATCH_MAGIC {
            return Err(HeaderError::Invalid("no batch begins here"));
        }
        let codec = Codec::from_number(take.u8()?);
        let is_encrypted = match take.u8()? {
            0 => false,
            1 => true,
            _ => return Err(HeaderError::Invalid("the batch's encryption")),
        };
        take.take(2)?;
        let header = BatchHeader {
            codec: codec.ok_or(HeaderError::Invalid("the batch's codec"))?,
            is_encrypted,
            first_lsn: take.u64()?,
            durable: take.u64()?,
            previous: take.u64()?,
            raw_bytes: take.u32()?,
            stored_bytes: take.u32()?,
            checksum: take.u64()?,
        };
        let raw_max = u32::try_from(BLOCK_RAW_BYTES_MAX).unwrap_or(u32::MAX);
        let envelope = if is_encrypted { ENVELOPE_BYTES } else { 0 };
        let stored_max = header.raw_bytes as usize + envelope;
        if header.raw_bytes == 0
            || header.raw_bytes > raw_max
            || header.stored_bytes as usize > stored_max
            || header.first_lsn > LSN_MAX
        {
            return Err(HeaderError::Invalid("the batch's length"));
        }
        Ok(header)
    }

    /// Whether the encoded header and payload match the checksum.
    pub(crate) fn checks(seed: u64, header: &[u8], payload: &[u8]) -> bool {
        let Some((summed, sum)) = header.split_at_checked(BATCH_SUMMED_BYTES) else {
            return false;
        };
        checksum_parts(&[&seed.to_le_bytes(), summed, payload]).to_le_bytes() == sum
    }

    /// Log position after the payload.
    pub(crate) fn end_lsn(&self) -> u64 {
        self.first_lsn + u64::from(self.raw_bytes)
    }

    /// Length of header and payload in the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        BATCH_HEADER_BYTES as u64 + u64::from(self.stored_bytes)
    }
}
