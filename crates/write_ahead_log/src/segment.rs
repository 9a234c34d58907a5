//! Segment files: listing, creating, preparing and opening them.

use crate::error::WriteError;
use crate::format::{HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use crate::groups::SYNCS_MAX;
use crate::window::Window;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

const NAME_PREFIX: &str = "teak.log.";
const NAME_DIGITS: usize = 10;

/// The path of a segment.
pub(crate) fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{NAME_PREFIX}{number:0NAME_DIGITS$}"))
}

/// The number in the name of a segment file; `None` for other files.
fn segment_number(path: &Path) -> Option<u64> {
    let digits = path.file_name()?.to_str()?.strip_prefix(NAME_PREFIX)?;
    if digits.len() != NAME_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// The numbers of the segments in a directory, ascending.
pub(crate) fn list_segments(disk: &dyn Disk, directory: &Path) -> StorageResult<Vec<u64>> {
    let paths = disk.list(directory)?;
    let mut numbers: Vec<u64> = paths.iter().filter_map(|p| segment_number(p)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// An open segment with a valid header.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<dyn DiskFile>,
    /// Additional handles of the same file, for concurrent syncs: an operating system reports a
    /// failed write once to each handle. `None` if they could not be opened, or if the segment is
    /// only read.
    pub(crate) sync_handles: Option<[Arc<dyn DiskFile>; SYNCS_MAX]>,
    pub(crate) header: SegmentHeader,
    /// The checksum of the header.
    pub(crate) seed: u64,
}

/// A segment that is ready for its first batch, with a durable header and name.
#[derive(Debug)]
pub(crate) struct NewSegment {
    pub(crate) segment: Segment,
    /// The end of the space reserved in its file.
    pub(crate) reserved: u64,
    /// The end of the bytes that were written to its file: a header, or the whole reused file.
    pub(crate) written: u64,
}

/// Where the content of a segment begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentStart {
    /// Log position of the first batch.
    pub(crate) first_lsn: u64,
    /// The checksum at the end of the previous segment.
    pub(crate) previous: u64,
    /// The checksum that the first batch must contain as the checksum of the previous batch.
    pub(crate) chain: u64,
}

fn open_sync_handles(disk: &dyn Disk, path: &Path) -> Option<[Arc<dyn DiskFile>; SYNCS_MAX]> {
    let one = disk.open(path).ok()?;
    Some([one, disk.open(path).ok()?])
}

/// Creates the file of a segment. Replaces a file that an earlier attempt left.
fn create_file(disk: &dyn Disk, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
    match disk.create(path) {
        Err(StorageError::AlreadyExists { .. }) => {
            disk.remove(path).and_then(|()| disk.create(path))
        }
        other => other,
    }
}

impl NewSegment {
    /// Creates a segment with `reserved_bytes` reserved after its header, and
    /// makes header and name durable. The header is written after the reservation: a file with
    /// a header is part of the log, and no such file may remain if the disk is full.
    pub(crate) fn create(
        disk: &dyn Disk,
        directory: &Path,
        header: SegmentHeader,
        reserved_bytes: u64,
    ) -> Result<Self, WriteError> {
        let path = segment_path(directory, header.number);
        let (bytes, seed) = header.encode();
        let reserved = SEGMENT_HEADER_BYTES as u64 + reserved_bytes;
        let prepared = create_file(disk, &path).and_then(|file| {
            file.reserve(reserved)?;
            file.write_all_at(&bytes, 0)?;
            Ok(file)
        });
        let file = match prepared {
            Ok(file) => file,
            Err(error) if error.is_no_space() => {
                // If this fails, the next creation or opening removes the file, because it has no
                // header.
                let _ = disk.remove(&path);
                return Err(WriteError::Full(error));
            }
            Err(error) => return Err(WriteError::Broken(error)),
        };
        file.sync()
            .and_then(|()| disk.sync_directory(directory))
            .map_err(WriteError::Broken)?;
        Ok(Self {
            segment: Segment {
                file,
                sync_handles: open_sync_handles(disk, &path),
                header,
                seed,
            },
            reserved,
            written: SEGMENT_HEADER_BYTES as u64,
        })
    }

    /// Makes a segment from the file of a trimmed one. The file is renamed only when the new
    /// header is durable. So every file has the header of the segment that its name says, except
    /// files with the names of trimmed segments, which are not read.
    pub(crate) fn recycle(
        disk: &dyn Disk,
        directory: &Path,
        trimmed: u64,
        header: SegmentHeader,
        reserved_bytes: u64,
    ) -> StorageResult<Self> {
        let old_path = segment_path(directory, trimmed);
        let path = segment_path(directory, header.number);
        let (bytes, seed) = header.encode();
        let reserved = SEGMENT_HEADER_BYTES as u64 + reserved_bytes;
        let file = disk.open(&old_path)?;
        file.reserve(reserved)?;
        file.write_all_at(&bytes, 0)?;
        file.sync()?;
        let written = file.len()?;
        drop(file);
        disk.rename(&old_path, &path)?;
        disk.sync_directory(directory)?;
        Ok(Self {
            segment: Segment {
                file: disk.open(&path)?,
                sync_handles: open_sync_handles(disk, &path),
                header,
                seed,
            },
            reserved: reserved.max(written),
            written,
        })
    }
}

impl Segment {
    /// Where the content begins; `None` for a prepared segment without a first
    /// batch.
    pub(crate) fn start(&self) -> StorageResult<Option<SegmentStart>> {
        match self.header.kind {
            SegmentKind::Begun => Ok(Some(SegmentStart {
                first_lsn: self.header.first_lsn,
                previous: self.header.previous,
                chain: self.seed,
            })),
            SegmentKind::Prepared => {
                let mut window = Window::new(self.file.as_ref())?;
                let first = window.batch(self.seed, SEGMENT_HEADER_BYTES as u64)?;
                Ok(first.ok().map(|(batch, _)| SegmentStart {
                    first_lsn: batch.first_lsn,
                    previous: batch.previous,
                    chain: batch.previous,
                }))
            }
        }
    }

    /// Opens a segment. `None` when the file is at most as long as a header and
    /// has no valid one: its creation did not finish.
    pub(crate) fn open(
        disk: &dyn Disk,
        directory: &Path,
        number: u64,
        instance: u64,
    ) -> StorageResult<Option<Segment>> {
        let file = disk.open(&segment_path(directory, number))?;
        let bytes = file.len()?;
        let mut header = [0u8; SEGMENT_HEADER_BYTES];
        if bytes < header.len() as u64 {
            return Ok(None);
        }
        file.read_exact_at(&mut header, 0)?;
        let (header, seed) = match SegmentHeader::decode(&header) {
            Ok(decoded) => decoded,
            Err(HeaderError::Version(found)) => {
                return Err(StorageError::UnsupportedFormat {
                    path: file.path().to_path_buf(),
                    found,
                    supported: crate::format::FORMAT_VERSION,
                });
            }
            // No batch is written before the header is durable.
            Err(HeaderError::Invalid(_)) if bytes == SEGMENT_HEADER_BYTES as u64 => {
                return Ok(None);
            }
            Err(HeaderError::Invalid(reason)) => {
                return Err(StorageError::corrupt(file.path(), 0, reason));
            }
        };
        let refuse = |reason| Err(StorageError::corrupt(file.path(), 0, reason));
        if header.number != number {
            return refuse("the segment's header names another segment");
        }
        if header.instance != instance {
            return refuse("the segment belongs to the log of another instance");
        }
        Ok(Some(Segment {
            file,
            sync_handles: None,
            header,
            seed,
        }))
    }
}
