//! The block codec: a 36-byte header that contains the block's own address,
//! then the stored (usually compressed, maybe encrypted) payload.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | file id |
//! | 8 | 8 | offset of this block |
//! | 16 | 4 | raw bytes |
//! | 20 | 4 | stored bytes |
//! | 24 | 1 | kind |
//! | 25 | 1 | layout |
//! | 26 | 1 | codec |
//! | 27 | 1 | header version: 1, or 2 if the payload is encrypted |
//! | 28 | 8 | checksum of bytes 0..28 and the stored payload |
//!
//! An encrypted payload is one of `teak_base::cipher`; bytes 0..28 are the associated data. So a block is refused
//! anywhere else than where it was written.

use crate::address::BlockAddress;
use crate::layout::BLOCK_HEADER_BYTES;
use std::path::Path;
use teak_base::bytes::{Malformed, Take};
use teak_base::checksum::checksum_parts;
use teak_base::cipher::{ENVELOPE_BYTES, envelope_key};
use teak_base::limits::BLOCK_RAW_BYTES_MAX;
use teak_base::{Codec, Encryption, FileId, KeyVersion, StorageError, StorageResult};

const CHECKED_BYTES: usize = 28;
const _: () = assert!(CHECKED_BYTES + 8 == BLOCK_HEADER_BYTES);

const PLAIN_VERSION: u8 = 1;
const ENCRYPTED_VERSION: u8 = 2;

/// Bytes of a stored payload before its first byte that the codec has written.
pub(crate) fn envelope_bytes(key: Option<KeyVersion>) -> usize {
    match key {
        Some(_) => ENVELOPE_BYTES,
        None => 0,
    }
}

/// The kind of a block. The numbers are on disk and never change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum BlockKind {
    /// Entries of a run.
    Page = 1,
    /// An index block of a run: addresses, counts and last keys of some pages, and their filter.
    RunIndex = 2,
    /// A node of the tree.
    Node = 3,
    /// Free extents of a checkpoint; used by this crate only.
    SpaceMap = 4,
    /// A value that is stored apart from its entry.
    Value = 5,
    /// The numbers of references to runs that several children share.
    SharedRuns = 6,
}

impl BlockKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [BlockKind; 6] = [
        Self::Page,
        Self::RunIndex,
        Self::Node,
        Self::SpaceMap,
        Self::Value,
        Self::SharedRuns,
    ];

    /// The kind with this on-disk number; `None` if there is none.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// The on-disk number.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// The fields of the header that the caller chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockDescription {
    /// The kind of the block.
    pub kind: BlockKind,
    /// The layout of the raw bytes; the caller defines the numbers.
    pub layout: u8,
    /// For a write, the codec to try; after a read, the codec used ([`Codec::None`] if compression
    /// did not reduce the size).
    pub codec: Codec,
}

/// A block that was read, verified and decompressed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The fields of the header.
    pub description: BlockDescription,
    /// The bytes that were passed to the writer.
    pub raw: Vec<u8>,
}

/// What a header contains, apart from the length and the checksum of the payload.
pub(crate) struct NewBlock {
    pub file: FileId,
    pub offset: u64,
    pub description: BlockDescription,
    pub raw_bytes: u32,
    /// The key with which the payload is encrypted.
    pub key: Option<KeyVersion>,
}

impl NewBlock {
    /// The header without its checksum.
    fn checked(&self, stored_bytes: usize) -> [u8; CHECKED_BYTES] {
        let mut checked = [0; CHECKED_BYTES];
        let stored_bytes = u32::try_from(stored_bytes).unwrap_or(u32::MAX);
        let version = match self.key {
            Some(_) => ENCRYPTED_VERSION,
            None => PLAIN_VERSION,
        };
        let fields: [&[u8]; 5] = [
            &self.file.0.to_le_bytes(),
            &self.offset.to_le_bytes(),
            &self.raw_bytes.to_le_bytes(),
            &stored_bytes.to_le_bytes(),
            &[
                self.description.kind.number(),
                self.description.layout,
                self.description.codec.number(),
                version,
            ],
        ];
        let bytes = fields.into_iter().flatten();
        for (slot, byte) in checked.iter_mut().zip(bytes) {
            *slot = *byte;
        }
        checked
    }

    /// Completes a block, which has space for the header and, if it is encrypted, for an envelope, and then what the
    /// codec has written.
    ///
    /// # Errors
    /// `Key`.
    pub fn seal(
        &self,
        path: &Path,
        encryption: &Encryption,
        block: &mut [u8],
    ) -> StorageResult<()> {
        let (header, stored) = block.split_at_mut(BLOCK_HEADER_BYTES);
        let checked = self.checked(stored.len());
        if let Some(key) = self.key {
            encryption.seal(path, key, &checked, stored)?;
        }
        header.copy_from_slice(&with_checksum(checked, stored));
        Ok(())
    }

    /// The header of a block that is not encrypted.
    pub fn plain_header(&self, stored: &[u8]) -> [u8; BLOCK_HEADER_BYTES] {
        with_checksum(self.checked(stored.len()), stored)
    }
}

fn with_checksum(checked: [u8; CHECKED_BYTES], stored: &[u8]) -> [u8; BLOCK_HEADER_BYTES] {
    let mut header = [0; BLOCK_HEADER_BYTES];
    let sum = checksum_parts(&[&checked, stored]).to_le_bytes();
    for (slot, byte) in header.iter_mut().zip(checked.into_iter().chain(sum)) {
        *slot = byte;
    }
    header
}

/// A verified block that is neither decrypted nor decompressed.
pub(crate) struct StoredBlock {
    pub description: BlockDescription,
    pub raw_bytes: u32,
    pub is_encrypted: bool,
}

/// Verifies the bytes read at `address`.
///
/// # Errors
/// `Corrupt` with the reason; `UnsupportedFormat`.
pub(crate) fn verify(
    path: &Path,
    file: FileId,
    address: BlockAddress,
    kind: BlockKind,
    bytes: &[u8],
) -> StorageResult<StoredBlock> {
    let corrupt = |reason: String| StorageError::corrupt(path, address.offset, reason);
    let (header, stored) = bytes
        .split_at_checked(BLOCK_HEADER_BYTES)
        .ok_or_else(|| corrupt("shorter than a block header".into()))?;
    let fields = Fields::take(header).map_err(|_| corrupt("shorter than a block header".into()))?;
    let (checked, _) = header.split_at(CHECKED_BYTES);
    if fields.file != file.0 {
        let found = fields.file;
        return Err(corrupt(format!(
            "the block names file {found}, but the file is {file}"
        )));
    }
    if fields.offset != address.offset {
        let found = fields.offset;
        return Err(corrupt(format!(
            "the block names offset {found} as its own"
        )));
    }
    if checksum_parts(&[checked, stored]) != fields.checksum {
        return Err(corrupt("the block's checksum does not match".into()));
    }
    let is_encrypted = fields.header_version == ENCRYPTED_VERSION;
    if !is_encrypted && fields.header_version != PLAIN_VERSION {
        let (found, supported) = (fields.header_version, ENCRYPTED_VERSION);
        StorageError::check_version(path, found.into(), supported.into())?;
    }
    if fields.stored_bytes as usize != stored.len() {
        return Err(corrupt(format!(
            "the block's stored size is {} bytes, but its address specifies {}",
            fields.stored_bytes,
            stored.len()
        )));
    }
    let found = BlockKind::from_number(fields.kind)
        .ok_or_else(|| corrupt(format!("block kind {} is unknown", fields.kind)))?;
    if found != kind {
        return Err(corrupt(format!(
            "a {kind:?} block was expected, a {found:?} block was found"
        )));
    }
    let codec = Codec::from_number(fields.codec)
        .ok_or_else(|| corrupt(format!("codec {} is unknown", fields.codec)))?;
    let raw_bytes = fields.raw_bytes;
    if raw_bytes as usize > BLOCK_RAW_BYTES_MAX {
        return Err(corrupt(format!("{raw_bytes} raw bytes exceed the limit")));
    }
    Ok(StoredBlock {
        description: BlockDescription {
            kind,
            layout: fields.layout,
            codec,
        },
        raw_bytes,
        is_encrypted,
    })
}

/// What the codec has written of a block that was read at `address` and verified: a part of `bytes`, or of `decrypted`.
///
/// # Errors
/// `Key`, `Corrupt`.
pub(crate) fn decrypt<'a>(
    path: &Path,
    encryption: &Encryption,
    address: BlockAddress,
    block: &StoredBlock,
    bytes: &'a [u8],
    decrypted: &'a mut Vec<u8>,
) -> StorageResult<&'a [u8]> {
    let (header, stored) = bytes.split_at(BLOCK_HEADER_BYTES.min(bytes.len()));
    if !block.is_encrypted {
        return Ok(stored);
    }
    let checked = header.get(..CHECKED_BYTES).unwrap_or_default();
    decrypted.extend_from_slice(stored);
    let plain = encryption.unseal((path, address.offset), checked, decrypted)?;
    Ok(plain)
}

/// Verifies, decrypts and decompresses the bytes read at `address`.
///
/// # Errors
/// `Corrupt` with the reason; `UnsupportedFormat`, `Key`.
pub(crate) fn decode(
    path: &Path,
    encryption: &Encryption,
    file: FileId,
    (address, kind): (BlockAddress, BlockKind),
    bytes: &[u8],
) -> StorageResult<Block> {
    let block = verify(path, file, address, kind, bytes)?;
    let mut decrypted = Vec::new();
    let stored = decrypt(path, encryption, address, &block, bytes, &mut decrypted)?;
    let StoredBlock {
        description,
        raw_bytes,
        ..
    } = block;
    let codec = description.codec;
    let raw = codec.decompress(stored, raw_bytes as usize).map_err(|_| {
        let reason = format!("the payload is not {raw_bytes} bytes of {codec:?}");
        StorageError::corrupt(path, address.offset, reason)
    })?;
    Ok(Block { description, raw })
}

/// What the header of a block claims; nothing of it is verified.
pub(crate) struct ClaimedBlock {
    pub file: FileId,
    pub address: BlockAddress,
    pub kind: Option<BlockKind>,
    pub checksum: u64,
}

/// Reads the header that `bytes` begin with. `None` if they are shorter, or if the block would be too large.
pub(crate) fn claimed_block(bytes: &[u8]) -> Option<ClaimedBlock> {
    let fields = Fields::take(bytes).ok()?;
    let header = u32::try_from(BLOCK_HEADER_BYTES).ok()?;
    let address = BlockAddress {
        offset: fields.offset,
        bytes: fields.stored_bytes.checked_add(header)?,
    };
    Some(ClaimedBlock {
        file: FileId(fields.file),
        address,
        kind: BlockKind::from_number(fields.kind),
        checksum: fields.checksum,
    })
}

/// The key that the front of a block claims; `None` if it is not encrypted.
pub(crate) fn claimed_key(front: &[u8]) -> Option<KeyVersion> {
    let (header, payload) = front.split_at_checked(BLOCK_HEADER_BYTES)?;
    let fields = Fields::take(header).ok()?;
    let is_encrypted = fields.header_version == ENCRYPTED_VERSION;
    is_encrypted.then(|| envelope_key(payload)).flatten()
}

struct Fields {
    file: u64,
    offset: u64,
    raw_bytes: u32,
    stored_bytes: u32,
    kind: u8,
    layout: u8,
    codec: u8,
    header_version: u8,
    checksum: u64,
}

impl Fields {
    fn take(header: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(header);
        Ok(Self {
            file: take.u64()?,
            offset: take.u64()?,
            raw_bytes: take.u32()?,
            stored_bytes: take.u32()?,
            kind: take.u8()?,
            layout: take.u8()?,
            codec: take.u8()?,
            header_version: take.u8()?,
            checksum: take.u64()?,
        })
    }
}
