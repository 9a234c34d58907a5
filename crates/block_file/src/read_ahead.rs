//! Reading ahead of a sequential reader, for files that the operating system does not read ahead.
//!
//! 1. A reader passes its blocks in the order of its reads. When it has read two blocks that follow
//!    each other in the file, the next one is read together with the bytes after it, 64 KiB at
//!    first, then twice as many each time.
//! 2. A later block within these bytes is decoded from memory.
//!
//! The bytes are those of the time at which they were read. The caller makes sure that no block
//! which it reads is written or freed during the life of the [`ReadAhead`]. Other blocks in the
//! same bytes may be written at any time, and are not used.

use crate::address::BlockAddress;
use crate::block::{Block, BlockKind, decode};
use crate::file::BlockFile;
use std::sync::atomic::Ordering;
use teak_base::StorageResult;

const AHEAD_BYTES_MIN: usize = 64 << 10;
const AHEAD_BYTES_MAX: usize = 256 << 10;

/// Blocks that follow each other may have a gap of this size between them.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// Number of blocks that follow each other after which bytes are read ahead.
const SEQUENCE_MIN: u32 = 2;

/// What one sequential reader of a file has read ahead.
#[derive(Debug, Default)]
pub struct ReadAhead {
    /// The bytes, and their place in the file.
    bytes: Vec<u8>,
    offset: u64,
    /// The end of the last block.
    end: u64,
    /// Number of blocks so far that followed each other.
    sequence: u32,
}

impl ReadAhead {
    fn find(&self, address: BlockAddress) -> Option<&[u8]> {
        let start = usize::try_from(address.offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(address.bytes as usize)?;
        self.bytes.get(start..end)
    }

    fn note(&mut self, address: BlockAddress) {
        let follows = (self.end..self.end + GAP_BYTES_MAX).contains(&address.offset);
        self.sequence = if follows { self.sequence + 1 } else { 1 };
        self.end = address.end();
    }
}

impl BlockFile {
    /// As [`BlockFile::read_block`], for the next block of a reader that may be sequential.
    ///
    /// # Errors
    /// As [`BlockFile::read_block`].
    pub fn read_block_ahead(
        &self,
        ahead: &mut ReadAhead,
        address: BlockAddress,
        kind: BlockKind,
    ) -> StorageResult<Block> {
        let shared = self.shared();
        if !shared.is_direct {
            return self.read_block(address, kind);
        }
        let is_sequence = ahead.sequence >= SEQUENCE_MIN;
        ahead.note(address);
        if ahead.find(address).is_none() {
            if !is_sequence || ahead.sequence < SEQUENCE_MIN {
                ahead.bytes = Vec::new();
                return self.read_block(address, kind);
            }
            let wanted = (ahead.bytes.len() * 2).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
            let wanted = wanted.max(address.bytes as usize);
            let left = self.file_bytes().saturating_sub(address.offset);
            let wanted = usize::try_from(left).map_or(wanted, |left| left.min(wanted));
            ahead.bytes.resize(wanted, 0);
            ahead.offset = address.offset;
            let read = shared.file.read_exact_at(&mut ahead.bytes, address.offset);
            if read.is_err() {
                // The file may be shorter. If the block cannot be read, this returns the error.
                ahead.bytes.clear();
                return self.read_block(address, kind);
            }
        }
        let Some(bytes) = ahead.find(address) else {
            return self.read_block(address, kind);
        };
        let encryption = shared.encryption();
        let place = (address, kind);
        let block = decode(self.path(), &encryption, shared.id, place, bytes)?;
        let counters = &shared.counters;
        counters.blocks_read.fetch_add(1, Ordering::Relaxed);
        let bytes = u64::from(address.bytes);
        counters.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockDescription;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use teak_base::{Codec, FileId};
    use teak_disk::{Disk, DiskFile, DiskLock, MemoryDisk};

    /// A disk in memory that counts reads, and whose files claim to bypass a cache.
    #[derive(Debug, Default)]
    struct CountingDisk {
        disk: MemoryDisk,
        reads: Arc<AtomicU64>,
    }

    #[derive(Debug)]
    struct CountingFile(Arc<dyn DiskFile>, Arc<AtomicU64>);

    impl Disk for CountingDisk {
        fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
            let file = self.disk.create(path)?;
            Ok(Arc::new(CountingFile(file, Arc::clone(&self.reads))))
        }

        fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
            self.disk.open(path)
        }

        fn remove(&self, path: &Path) -> StorageResult<()> {
            self.disk.remove(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
            self.disk.rename(from, to)
        }

        fn exists(&self, path: &Path) -> StorageResult<bool> {
            self.disk.exists(path)
        }

        fn list(&self, directory: &Path) -> StorageResult<Vec<std::path::PathBuf>> {
            self.disk.list(directory)
        }

        fn create_directories(&self, directory: &Path) -> StorageResult<()> {
            self.disk.create_directories(directory)
        }

        fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
            self.disk.sync_directory(directory)
        }

        fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
            self.disk.lock(path)
        }
    }

    impl DiskFile for CountingFile {
        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.read_exact_at(buffer, offset)
        }

        fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
            self.0.write_all_at(bytes, offset)
        }

        fn sync(&self) -> StorageResult<()> {
            self.0.sync()
        }

        fn len(&self) -> StorageResult<u64> {
            self.0.len()
        }

        fn set_len(&self, bytes: u64) -> StorageResult<()> {
            self.0.set_len(bytes)
        }

        fn reserve(&self, bytes: u64) -> StorageResult<()> {
            self.0.reserve(bytes)
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn is_direct(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_sequence_takes_few_reads_and_other_blocks_one_each() {
        let reads = Arc::new(AtomicU64::new(0));
        let disk: Arc<dyn Disk> = Arc::new(CountingDisk {
            disk: MemoryDisk::new(),
            reads: Arc::clone(&reads),
        });
        disk.create_directories(Path::new("/d")).unwrap();
        let file = BlockFile::create(&disk, Path::new("/d/f"), FileId(1), b"").unwrap();
        let description = BlockDescription {
            kind: BlockKind::Page,
            layout: 1,
            codec: Codec::None,
        };
        let raw = |number: usize| vec![u8::try_from(number % 251).unwrap(); 10_000];
        let mut writer = file.writer(0);
        let blocks: Vec<BlockAddress> = (0..200)
            .map(|number| writer.write(description, &raw(number)).unwrap())
            .collect();
        file.publish(vec![writer.finish().unwrap()], &[]);
        reads.store(0, Ordering::Relaxed);
        let mut ahead = ReadAhead::default();
        for (number, address) in blocks.iter().enumerate() {
            let block = file.read_block_ahead(&mut ahead, *address, BlockKind::Page);
            assert!(block.unwrap().raw == raw(number));
        }
        // Two blocks, 64 KiB, 128 KiB, and seven times 256 KiB.
        let sequential = reads.swap(0, Ordering::Relaxed);
        assert!(sequential <= 12, "{sequential}");
        // Backward, and in steps.
        let mut ahead = ReadAhead::default();
        let order = (0..200).rev().step_by(3).chain((0..190).step_by(11));
        let mut count = 0;
        for number in order {
            let block = file.read_block_ahead(&mut ahead, blocks[number], BlockKind::Page);
            assert!(block.unwrap().raw == raw(number));
            count += 1;
        }
        assert_eq!(reads.load(Ordering::Relaxed), count);
        assert_eq!(file.statistics().blocks_read, 200 + count);
    }
}
