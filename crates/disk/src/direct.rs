//! Files that bypass the cache of the operating system (`O_DIRECT`).
//!
//! The operating system then requires that offsets, lengths and addresses of buffers are multiples
//! of the sector size of the device. Callers need not respect that:
//! 1. A read reads the sectors that contain the range into an aligned buffer. It assumes the sector
//!    size of most devices, until one refuses that.
//! 2. A write copies the bytes into an aligned buffer. The first and the last sector, if the range
//!    covers them only in part, are read before, and written with their other bytes unchanged. A
//!    lock for each of them prevents that two such writes lose each other's bytes. The cache of the
//!    operating system writes whole sectors in the same way.
//! 3. So a write of a part of the last sector makes the file longer than its last byte, up to the
//!    end of the sector.

use crate::disk::{Disk, DiskFile};
use crate::locks::DiskLock;
use crate::real::{RealDisk, RealFile, read_write};
use crate::system::reads_sectors_directly;
use parking_lot::{Mutex, MutexGuard};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use teak_base::pool::Pool;
use teak_base::{StorageError, StorageResult};

/// A multiple of the sector size of all devices.
const SECTOR: usize = 4096;
const SECTOR_BYTES: u64 = SECTOR as u64;

/// The sector size of most devices. Where the file system permits, reads are multiples of it until a device refuses that: a block
/// of 17 KiB at any offset is part of five or six sectors of 4 KiB, but rarely fills them.
const SMALL_SECTOR: usize = 512;

/// Maximum size of a read or write of the operating system, and of a buffer.
const TRANSFER_BYTES: usize = 512 << 10;
const _: () = assert!(TRANSFER_BYTES.is_multiple_of(SECTOR));

/// The number of locks. Sectors that are written in part share them.
const LOCKS: usize = 256;

/// A file that is created to find out whether the file system has direct I/O.
const PROBE_FILE: &str = "#teak_direct_io_probe";

static BUFFERS: Pool<AlignedBuffer> = Pool::new();

/// The file system, which opens files with a certain extension so that they bypass the cache of the
/// operating system.
#[derive(Debug)]
pub struct DirectDisk {
    extension: &'static str,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct DirectFile {
    file: RealFile,
    /// The same for all handles of a file.
    inode: u64,
    shared: Arc<Shared>,
}

/// What the files of a disk share.
#[derive(Debug)]
struct Shared {
    locks: SectorLocks,
    /// [`SMALL_SECTOR`], or [`SECTOR`] after a device has refused a read.
    read_sector: AtomicUsize,
}

#[derive(Debug)]
struct SectorLocks([Mutex<()>; LOCKS]);

/// Memory that begins at a multiple of [`SECTOR`].
#[derive(Debug)]
struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// A buffer of [`TRANSFER_BYTES`].
    fn take() -> Self {
        BUFFERS.take().unwrap_or_else(|| {
            let bytes = vec![0; TRANSFER_BYTES + SECTOR];
            let start = bytes.as_ptr().align_offset(SECTOR);
            Self { bytes, start }
        })
    }

    /// The first `length` bytes, at most [`TRANSFER_BYTES`].
    fn first(&mut self, length: usize) -> &mut [u8] {
        let (_, aligned) = self.bytes.split_at_mut(self.start);
        let (first, _) = aligned.split_at_mut(length);
        first
    }

    fn put(self) {
        BUFFERS.put(self);
    }
}

impl SectorLocks {
    fn number(inode: u64, sector: u64) -> usize {
        let mixed = (inode ^ sector.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        usize::try_from(mixed >> 32).unwrap_or(0) % LOCKS
    }

    /// Locks the sectors of a file that a write covers in part.
    fn lock(&self, inode: u64, sectors: &[u64]) -> Vec<MutexGuard<'_, ()>> {
        let mut numbers: Vec<usize> = sectors
            .iter()
            .map(|sector| Self::number(inode, *sector))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        let locks = numbers.iter().filter_map(|number| self.0.get(*number));
        locks.map(Mutex::lock).collect()
    }
}

impl DirectDisk {
    /// The file system of a directory. Files whose names have the extension are opened for direct
    /// I/O; an empty extension stands for all files.
    ///
    /// # Errors
    /// `Io` when the file system has no direct I/O.
    pub fn new(directory: &Path, extension: &'static str) -> StorageResult<Self> {
        let existing = directory.ancestors().find(|path| path.exists());
        let existing = existing.unwrap_or(directory);
        let path = existing.join(PROBE_FILE);
        let probed = probe(&path);
        // The probe fails if the file could not be created, so there is nothing else to report.
        let _ = std::fs::remove_file(&path);
        probed.map_err(|error| StorageError::from_io("open for direct I/O", &path, error))?;
        let opened = File::open(existing);
        let has_small_sectors = opened.is_ok_and(|directory| reads_sectors_directly(&directory));
        let read_sector = if has_small_sectors {
            SMALL_SECTOR
        } else {
            SECTOR
        };
        Ok(Self {
            extension,
            shared: Arc::new(Shared {
                locks: SectorLocks(std::array::from_fn(|_| Mutex::new(()))),
                read_sector: AtomicUsize::new(read_sector),
            }),
        })
    }

    fn is_direct(&self, path: &Path) -> bool {
        self.extension.is_empty() || path.extension() == Some(OsStr::new(self.extension))
    }

    fn direct(&self, file: RealFile) -> StorageResult<Arc<dyn DiskFile>> {
        let metadata = file.file.metadata();
        let metadata =
            metadata.map_err(|error| StorageError::from_io("stat", &file.path, error))?;
        Ok(Arc::new(DirectFile {
            file,
            inode: metadata.ino(),
            shared: Arc::clone(&self.shared),
        }))
    }
}

/// Writes a sector and reads it.
fn probe(path: &Path) -> io::Result<()> {
    let mut file = read_write()
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)?;
    let mut buffer = AlignedBuffer::take();
    file.write_all(buffer.first(SECTOR))?;
    file.rewind()?;
    file.read_exact(buffer.first(SECTOR))?;
    buffer.put();
    Ok(())
}

impl Disk for DirectDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        if !self.is_direct(path) {
            return RealDisk.create(path);
        }
        self.direct(RealFile::create(path, libc::O_DIRECT)?)
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        if !self.is_direct(path) {
            return RealDisk.open(path);
        }
        self.direct(RealFile::open(path, libc::O_DIRECT)?)
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        RealDisk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        RealDisk.rename(from, to)
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        RealDisk.exists(path)
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        RealDisk.list(directory)
    }

    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        RealDisk.create_directories(directory)
    }

    fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
        RealDisk.sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        RealDisk.lock(path)
    }
}

fn start_of_sector(offset: u64, sector: usize) -> u64 {
    offset - offset % sector as u64
}

/// The part of a range that one transfer covers: the offset of its first sector, the bytes before
/// the range in this sector, and the bytes of the range.
fn transfer(offset: u64, left: usize, sector: usize) -> (u64, usize, usize) {
    let start = start_of_sector(offset, sector);
    let before = usize::try_from(offset - start).unwrap_or(0);
    (start, before, left.min(TRANSFER_BYTES - before))
}

impl DirectFile {
    /// Reads whole sectors of this size. Returns fewer bytes than the buffer has at the end of the
    /// file.
    fn read_sectors(&self, buffer: &mut [u8], start: u64, sector: usize) -> io::Result<usize> {
        let mut read = 0;
        loop {
            let (_, rest) = buffer.split_at_mut(read);
            let bytes = match self.file.file.read_at(rest, start + read as u64) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            read += bytes;
            // A transfer ends within a sector only at the end of the file.
            if bytes == 0 || read == buffer.len() || !read.is_multiple_of(sector) {
                return Ok(read);
            }
        }
    }

    /// The error of a failed read.
    fn not_read(&self, error: io::Error) -> StorageError {
        StorageError::from_io("read", &self.file.path, error)
    }

    /// Reads the beginning of a range of `left` bytes with one transfer into `aligned`.
    fn read_transfer<'a>(
        &self,
        aligned: &'a mut AlignedBuffer,
        offset: u64,
        left: usize,
    ) -> StorageResult<&'a [u8]> {
        let mut sector = self.shared.read_sector.load(Ordering::Relaxed);
        let (before, count) = loop {
            let (start, before, count) = transfer(offset, left, sector);
            let sectors = aligned.first((before + count).next_multiple_of(sector));
            match self.read_sectors(sectors, start, sector) {
                Ok(read) if read < before + count => return Err(self.file.short(offset)),
                Ok(_) => break (before, count),
                Err(error) if error.kind() == io::ErrorKind::InvalidInput && sector < SECTOR => {
                    sector = SECTOR;
                    self.shared.read_sector.store(sector, Ordering::Relaxed);
                }
                Err(error) => return Err(self.not_read(error)),
            }
        };
        let (_, found) = aligned.first(before + count).split_at(before);
        Ok(found)
    }

    /// Fills `buffer` from one sector; bytes after the end of the file are zeros.
    fn read_before_write(&self, buffer: &mut [u8], start: u64) -> StorageResult<()> {
        let read = self.read_sectors(buffer, start, SECTOR);
        let read = read.map_err(|error| self.not_read(error))?;
        let (_, missing) = buffer.split_at_mut(read);
        missing.fill(0);
        Ok(())
    }

    fn write_with(
        &self,
        buffer: &mut AlignedBuffer,
        bytes: &[u8],
        offset: u64,
    ) -> StorageResult<()> {
        let mut rest = bytes;
        let mut offset = offset;
        while !rest.is_empty() {
            let (start, before, count) = transfer(offset, rest.len(), SECTOR);
            let (part, after) = rest.split_at(count);
            let length = (before + count).next_multiple_of(SECTOR);
            let sectors = buffer.first(length);
            let ends_within = !(before + count).is_multiple_of(SECTOR);
            if before > 0 || (ends_within && length == SECTOR) {
                let (first, _) = sectors.split_at_mut(SECTOR);
                self.read_before_write(first, start)?;
            }
            if ends_within && length > SECTOR {
                let (_, last) = sectors.split_at_mut(length - SECTOR);
                let last_start = start + (length - SECTOR) as u64;
                self.read_before_write(last, last_start)?;
            }
            let (_, target) = sectors.split_at_mut(before);
            let (target, _) = target.split_at_mut(count);
            target.copy_from_slice(part);
            let written = self.file.file.write_all_at(sectors, start);
            written.map_err(|error| StorageError::from_io("write", &self.file.path, error))?;
            offset += count as u64;
            rest = after;
        }
        Ok(())
    }
}

impl DiskFile for DirectFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(self.file.short(offset));
        }
        let mut aligned = AlignedBuffer::take();
        let mut rest = buffer;
        let mut offset = offset;
        while !rest.is_empty() {
            let found = self.read_transfer(&mut aligned, offset, rest.len())?;
            let (part, after) = rest.split_at_mut(found.len());
            part.copy_from_slice(found);
            offset += found.len() as u64;
            rest = after;
        }
        aligned.put();
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        let end = offset + bytes.len() as u64;
        let mut partial = Vec::with_capacity(2);
        for edge in [offset, end] {
            if !edge.is_multiple_of(SECTOR_BYTES) {
                partial.push(start_of_sector(edge, SECTOR));
            }
        }
        let _locked = self.shared.locks.lock(self.inode, &partial);
        let mut buffer = AlignedBuffer::take();
        let written = self.write_with(&mut buffer, bytes, offset);
        buffer.put();
        written
    }

    fn sync(&self) -> StorageResult<()> {
        self.file.sync()
    }

    fn len(&self) -> StorageResult<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> StorageResult<()> {
        self.file.reserve(bytes)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn is_direct(&self) -> bool {
        true
    }
}
