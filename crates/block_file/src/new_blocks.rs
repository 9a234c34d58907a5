//! The blocks that a superblock makes durable together with itself, in one sync.
//!
//! A small checkpoint writes its superblock without syncing the new blocks
//! first. The superblock lists their space with a checksum, so that a reader
//! after a crash detects a superblock that reached the disk before them, and
//! uses the older one.

use crate::extents::Extent;
use crate::layout::{BLOCK_UNIT_BYTES, BLOCKS_START};
use teak_base::StorageResult;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::checksum;
use teak_disk::DiskFile;

/// Maximum number of extents that a superblock lists.
const EXTENTS_MAX: usize = 59;

/// Maximum total size of the listed blocks, because both the checkpoint and a
/// reader after a crash read them.
const BYTES_MAX: u64 = 1024 * 1024;

/// Bytes in the superblock: checksum, number of extents, reserved, extents.
pub(crate) const ENCODED_BYTES: usize = 8 + 4 + 4 + EXTENTS_MAX * 16;

/// The new blocks of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NewBlocks {
    /// Checksum of the bytes of all extents.
    pub checksum: u64,
    /// Ordered by offset.
    pub extents: Vec<Extent>,
}

impl NewBlocks {
    /// Describes the blocks in `extents`, which are written but not synced;
    /// `None` when a superblock cannot list them.
    ///
    /// # Errors
    /// Those of reading them.
    pub fn describe(file: &dyn DiskFile, extents: Vec<Extent>) -> StorageResult<Option<Self>> {
        let bytes: u64 = extents.iter().map(|extent| extent.bytes).sum();
        if extents.len() > EXTENTS_MAX || bytes > BYTES_MAX {
            return Ok(None);
        }
        let checksum = checksum(&read(file, &extents)?);
        Ok(Some(Self { checksum, extents }))
    }

    /// Writes the blocks again, for a sync by the caller, if the file has them as
    /// described; returns false if not. (A sync that failed may have left them in
    /// the operating system's cache only.)
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn restore(&self, file: &dyn DiskFile) -> StorageResult<bool> {
        let Some(bytes) = self.read_from(file)? else {
            return Ok(false);
        };
        let mut rest = bytes.as_slice();
        for extent in &self.extents {
            let (block, after) = rest.split_at(length_of(*extent).min(rest.len()));
            file.write_all_at(block, extent.offset)?;
            rest = after;
        }
        Ok(true)
    }

    /// Whether the blocks are in the file as described.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_on(&self, file: &dyn DiskFile) -> StorageResult<bool> {
        Ok(self.read_from(file)?.is_some())
    }

    fn read_from(&self, file: &dyn DiskFile) -> StorageResult<Option<Vec<u8>>> {
        let length = file.len()?;
        if self.extents.iter().any(|extent| extent.end() > length) {
            return Ok(None);
        }
        let bytes = read(file, &self.extents)?;
        Ok((checksum(&bytes) == self.checksum).then_some(bytes))
    }

    /// Appends [`ENCODED_BYTES`] bytes.
    pub fn encode(this: Option<&Self>, out: &mut Vec<u8>) {
        let end = out.len() + ENCODED_BYTES;
        if let Some(new) = this {
            out.put_u64(new.checksum);
            out.put_u32(u32::try_from(new.extents.len()).unwrap_or(u32::MAX));
            out.put_u32(0);
            for extent in &new.extents {
                out.put_u64(extent.offset);
                out.put_u64(extent.bytes);
            }
        }
        out.resize(end, 0);
    }

    /// Decodes [`ENCODED_BYTES`] bytes. No extent may reach beyond `end`.
    pub fn decode(take: &mut Take<'_>, end: u64) -> Result<Option<Self>, Malformed> {
        let mut take = Take::new(take.take(ENCODED_BYTES)?);
        let checksum = take.u64()?;
        let count = take.u32()? as usize;
        if take.u32()? != 0 || count > EXTENTS_MAX {
            return Err(Malformed);
        }
        let mut extents = Vec::with_capacity(count);
        let (mut position, mut bytes) = (BLOCKS_START, 0);
        for _ in 0..count {
            let extent = Extent {
                offset: take.u64()?,
                bytes: take.u64()?,
            };
            let in_units = (extent.offset | extent.bytes).is_multiple_of(BLOCK_UNIT_BYTES);
            if !in_units || extent.offset < position || extent.bytes == 0 {
                return Err(Malformed);
            }
            position = extent.offset.checked_add(extent.bytes).ok_or(Malformed)?;
            bytes += extent.bytes;
            if position > end || bytes > BYTES_MAX {
                return Err(Malformed);
            }
            extents.push(extent);
        }
        let is_zero = take.rest().iter().all(|&byte| byte == 0);
        if !is_zero || (count == 0 && checksum != 0) {
            return Err(Malformed);
        }
        Ok((count > 0).then_some(Self { checksum, extents }))
    }
}

fn length_of(extent: Extent) -> usize {
    usize::try_from(extent.bytes).unwrap_or(usize::MAX)
}

fn read(file: &dyn DiskFile, extents: &[Extent]) -> StorageResult<Vec<u8>> {
    let mut bytes = vec![0; extents.iter().copied().map(length_of).sum()];
    let mut rest = bytes.as_mut_slice();
    for extent in extents {
        let (block, after) = rest.split_at_mut(length_of(*extent).min(rest.len()));
        file.read_exact_at(block, extent.offset)?;
        rest = after;
    }
    Ok(bytes)
}
