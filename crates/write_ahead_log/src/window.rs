//! A view of a segment file that moves forward, and the batches in the file.

use crate::format::{BATCH_HEADER_BYTES, BATCH_MAGIC, BatchHeader, HeaderError};
use teak_base::StorageResult;
use teak_disk::DiskFile;

/// Bytes that one read requests from the disk.
pub(crate) const WINDOW_BYTES: usize = 1 << 20;

/// A view of a file that moves forward.
pub(crate) struct Window<'f> {
    pub(crate) file: &'f dyn DiskFile,
    file_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'f> Window<'f> {
    pub(crate) fn new(file: &'f dyn DiskFile) -> StorageResult<Self> {
        Ok(Self {
            file,
            file_bytes: file.len()?,
            start: 0,
            bytes: Vec::new(),
        })
    }

    /// At least `bytes` bytes at `offset`, or `None` if the file ends before that.
    fn view(&mut self, offset: u64, bytes: usize) -> StorageResult<Option<&[u8]>> {
        let left = self.file_bytes.saturating_sub(offset);
        if (bytes as u64) > left {
            return Ok(None);
        }
        if self.inside(offset, bytes).is_none() {
            let wanted = usize::try_from(left).unwrap_or(usize::MAX);
            self.bytes.resize(wanted.min(bytes.max(WINDOW_BYTES)), 0);
            self.start = offset;
            if let Err(error) = self.file.read_exact_at(&mut self.bytes, offset) {
                self.bytes.clear();
                return Err(error);
            }
        }
        Ok(self.inside(offset, bytes))
    }

    fn inside(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let skip = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let found = self.bytes.get(skip..)?;
        (found.len() >= bytes).then_some(found)
    }

    /// The batch at `offset`, or the reason why there is none.
    #[allow(
        clippy::type_complexity,
        reason = "an I/O error, or a batch, or the reason why there is none"
    )]
    pub(crate) fn batch(
        &mut self,
        seed: u64,
        offset: u64,
    ) -> StorageResult<Result<(BatchHeader, &[u8]), &'static str>> {
        let Some(front) = self.view(offset, BATCH_HEADER_BYTES)? else {
            return Ok(Err("the file ends inside a batch"));
        };
        let header = match BatchHeader::decode(front) {
            Ok(header) => header,
            Err(HeaderError::Invalid(reason)) => return Ok(Err(reason)),
            Err(HeaderError::Version(_)) => return Ok(Err("the batch's version")),
        };
        let whole = BATCH_HEADER_BYTES + header.stored_bytes as usize;
        let Some(batch) = self.view(offset, whole)? else {
            return Ok(Err("the file ends inside a batch"));
        };
        let parts = batch
            .get(..whole)
            .and_then(|batch| batch.split_at_checked(BATCH_HEADER_BYTES));
        match parts {
            Some((front, payload)) if BatchHeader::checks(seed, front, payload) => {
                Ok(Ok((header, payload)))
            }
            _ => Ok(Err("a batch's checksum")),
        }
    }

    /// The offset of the next batch magic at or after `offset`.
    pub(crate) fn find_magic(&mut self, mut offset: u64) -> StorageResult<Option<u64>> {
        while let Some(bytes) = self.view(offset, BATCH_MAGIC.len())? {
            let found = bytes
                .windows(BATCH_MAGIC.len())
                .position(|window| window == BATCH_MAGIC);
            if let Some(skip) = found {
                return Ok(Some(offset + skip as u64));
            }
            offset += (bytes.len() - BATCH_MAGIC.len() + 1) as u64;
        }
        Ok(None)
    }
}
