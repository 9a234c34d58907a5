//! Segment files: listing, creating and opening them.

use crate::error::WriteError;
use crate::format::{HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::groups::SYNCS_MAX;
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
    /// Further handles of the same file, for concurrent syncs: an operating
    /// system reports a failed write once to each handle. `None` if they could
    /// not be opened.
    pub(crate) sync_handles: Option<[Arc<dyn DiskFile>; SYNCS_MAX]>,
    pub(crate) header: SegmentHeader,
    /// The checksum of the header.
    pub(crate) seed: u64,
}

impl Segment {
    /// Creates a segment with `reserved_bytes` reserved after its header, and makes header and name
    /// durable. The header is written last, because a segment with a header continues the log. So a
    /// creation that fails on a full disk leaves no valid segment.
    pub(crate) fn create(
        disk: &dyn Disk,
        directory: &Path,
        header: SegmentHeader,
        reserved_bytes: u64,
    ) -> Result<Segment, WriteError> {
        let path = segment_path(directory, header.number);
        let (bytes, seed) = header.encode();
        let created = match disk.create(&path) {
            // An earlier creation on a full disk has left this file.
            Err(StorageError::AlreadyExists { .. }) => {
                disk.remove(&path).and_then(|()| disk.create(&path))
            }
            other => other,
        };
        let prepared = created.and_then(|file| {
            file.reserve(SEGMENT_HEADER_BYTES as u64 + reserved_bytes)?;
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
        let sync_handles = disk
            .open(&path)
            .and_then(|one| Ok([one, disk.open(&path)?]));
        Ok(Segment {
            file,
            sync_handles: sync_handles.ok(),
            header,
            seed,
        })
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
