//! Reads a log that may be damaged, without changing it. For tools.
//!
//! 1. The segments in the directory are read in the order of their numbers. Those of another instance than the newest
//!    one, and recycled ones whose header names another segment, are not part of the log.
//! 2. In a segment, batches are read while their checksums are valid. The first other byte of the last segment is the
//!    end of the log, unless a later batch says that the log was durable beyond it.
//! 3. Elsewhere, it is damage: it is reported, and reading continues at the next batch of the segment that is valid.

use crate::format::{HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use crate::record::Record;
use crate::segment::{list_segments, segment_path};
use crate::window::Window;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::bytes::Take;
use teak_base::{Encryption, Lsn, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

/// A part of a log that may be damaged.
#[derive(Debug)]
#[non_exhaustive]
pub enum LogPart<'a> {
    /// A segment begins.
    Segment {
        /// The file.
        path: &'a Path,
        /// Bytes of the file.
        bytes: u64,
    },
    /// A record.
    Record {
        /// The number of its segment.
        segment: u64,
        /// The offset in the file of the batch that contains it.
        offset: u64,
        /// Its position in the log.
        lsn: Lsn,
        /// Its encoded bytes, uncompressed.
        bytes: u64,
        /// The record.
        record: Record<'a>,
    },
    /// Bytes that cannot be read, or records that are missing.
    Damage(StorageError),
    /// Intact records that cannot be decrypted.
    Encrypted(StorageError),
    /// A segment that is not part of the log.
    Unused {
        /// The file.
        path: &'a Path,
        /// Why.
        reason: &'a str,
    },
    /// The end of the log.
    End {
        /// The position after the last record.
        lsn: Lsn,
        /// The file in which it ends.
        path: &'a Path,
        /// The end of the last batch in the file.
        offset: u64,
    },
}

/// A segment whose header is valid.
struct Opened {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    number: u64,
    header: SegmentHeader,
    seed: u64,
}

/// Why a segment cannot be read.
enum Unreadable {
    Damaged(StorageError),
    Unused(PathBuf, &'static str),
}

/// Passes all records of the log in a directory that can be read to `visit`, in order, and reports everything else.
/// Nothing is written. Memory: one batch, at most 64 MiB, and its stored bytes.
///
/// # Errors
/// Errors of `visit`; those of listing and opening files.
pub fn survey_log<E: From<StorageError>>(
    disk: &dyn Disk,
    directory: &Path,
    encryption: &Encryption,
    visit: &mut dyn FnMut(LogPart<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut opened = Vec::new();
    for number in list_segments(disk, directory)? {
        opened.push(open(disk, directory, number)?);
    }
    let newest = opened.iter().rev().flatten().next();
    let instance = newest.map(|segment| segment.header.instance);
    let last = opened.iter().rposition(|segment| {
        let first = |segment| first_batch(segment).ok().flatten();
        segment
            .as_ref()
            .is_ok_and(|segment| first(segment).is_some())
    });
    let mut survey = Survey {
        visit,
        encryption,
        position: None,
        chain: None,
    };
    for (place, segment) in opened.into_iter().enumerate() {
        let segment = match segment {
            Ok(segment) => segment,
            Err(Unreadable::Damaged(error)) => {
                (survey.visit)(LogPart::Damage(error))?;
                survey.chain = None;
                continue;
            }
            Err(Unreadable::Unused(path, reason)) => {
                (survey.visit)(LogPart::Unused {
                    path: &path,
                    reason,
                })?;
                continue;
            }
        };
        let unused = if Some(segment.header.instance) != instance {
            Some("it belongs to the log of another instance")
        } else if last.is_none_or(|last| place > last) {
            Some("it has no records yet")
        } else {
            None
        };
        if let Some(reason) = unused {
            let path = &segment.path;
            (survey.visit)(LogPart::Unused { path, reason })?;
            continue;
        }
        survey.segment(&segment, Some(place) == last)?;
    }
    Ok(())
}

/// Opens a segment.
fn open(
    disk: &dyn Disk,
    directory: &Path,
    number: u64,
) -> StorageResult<Result<Opened, Unreadable>> {
    let path = segment_path(directory, number);
    let file = disk.open(&path)?;
    let bytes = file.len()?;
    let mut header = [0; SEGMENT_HEADER_BYTES];
    if bytes < header.len() as u64 {
        let reason = "its creation did not finish";
        return Ok(Err(Unreadable::Unused(path, reason)));
    }
    if let Err(error) = file.read_exact_at(&mut header, 0) {
        return Ok(Err(Unreadable::Damaged(error)));
    }
    Ok(match SegmentHeader::decode(&header) {
        Ok((header, _)) if header.number != number => {
            Err(Unreadable::Unused(path, "its records were trimmed"))
        }
        Ok((header, seed)) => Ok(Opened {
            path,
            file,
            number,
            header,
            seed,
        }),
        Err(HeaderError::Version(found)) => {
            Err(Unreadable::Damaged(StorageError::UnsupportedFormat {
                path,
                found,
                supported: crate::format::FORMAT_VERSION,
            }))
        }
        Err(HeaderError::Invalid(_)) if bytes == SEGMENT_HEADER_BYTES as u64 => {
            Err(Unreadable::Unused(path, "its creation did not finish"))
        }
        Err(HeaderError::Invalid(reason)) => {
            Err(Unreadable::Damaged(StorageError::corrupt(&path, 0, reason)))
        }
    })
}

/// The position of the first batch and the checksum before it; `None` for a segment that was prepared and not used.
fn first_batch(segment: &Opened) -> StorageResult<Option<(u64, u64)>> {
    if segment.header.kind == SegmentKind::Begun {
        return Ok(Some((segment.header.first_lsn, segment.header.previous)));
    }
    let mut window = Window::new(segment.file.as_ref())?;
    let mut at = SEGMENT_HEADER_BYTES as u64;
    // The first batch may be damaged, and later ones not.
    while let Some(found) = window.find_magic(at)? {
        if let Ok((batch, _)) = window.batch(segment.seed, found)? {
            return Ok(Some((batch.first_lsn, batch.previous)));
        }
        at = found + 1;
    }
    Ok(None)
}

struct Survey<'a, E> {
    encryption: &'a Encryption,
    visit: &'a mut dyn FnMut(LogPart<'_>) -> Result<(), E>,
    /// The position after the last record that was read.
    position: Option<u64>,
    /// The checksum that the next batch or segment must contain; `None` after damage.
    chain: Option<u64>,
}

impl<E: From<StorageError>> Survey<'_, E> {
    fn damage(&mut self, path: &Path, offset: u64, reason: impl Into<String>) -> Result<(), E> {
        self.chain = None;
        (self.visit)(LogPart::Damage(StorageError::corrupt(path, offset, reason)))
    }

    fn segment(&mut self, segment: &Opened, is_last: bool) -> Result<(), E> {
        let bytes = segment.file.len()?;
        let path = segment.path.as_path();
        (self.visit)(LogPart::Segment { path, bytes })?;
        if let Some((first, previous)) = first_batch(segment)? {
            let continues = self.position.is_none_or(|position| position == first);
            if !continues || self.chain.is_some_and(|chain| chain != previous) {
                let after = self.position.unwrap_or(0);
                let reason =
                    format!("the log ended at {after}, but this segment begins at {first}");
                self.damage(path, 0, reason)?;
            }
            self.position = Some(first);
            self.chain = match segment.header.kind {
                SegmentKind::Begun => Some(segment.seed),
                SegmentKind::Prepared => Some(previous),
            };
        }
        let mut window = Window::new(segment.file.as_ref())?;
        let mut at = SEGMENT_HEADER_BYTES as u64;
        loop {
            let reason = match self.batch(segment, &mut window, at)? {
                Ok(next) => {
                    at = next;
                    continue;
                }
                Err(reason) => reason,
            };
            let next = next_batch(segment, &mut window, at, self.position, is_last)?;
            match next {
                Some(found) => {
                    self.damage(
                        path,
                        at,
                        format!("{reason}; the next batch is at byte {found}"),
                    )?;
                    at = found;
                }
                None if is_last => {
                    return (self.visit)(LogPart::End {
                        lsn: Lsn(self.position.unwrap_or(0)),
                        path,
                        offset: at,
                    });
                }
                None => return Ok(()),
            }
        }
    }

    /// Passes on the records of the batch at an offset. Returns the offset of the next batch, or the reason why there is
    /// no batch.
    fn batch(
        &mut self,
        segment: &Opened,
        window: &mut Window<'_>,
        at: u64,
    ) -> Result<Result<u64, &'static str>, E> {
        let path = segment.path.as_path();
        let (header, payload) = match window.batch(segment.seed, at)? {
            Ok(batch) => batch,
            Err(reason) => return Ok(Err(reason)),
        };
        let end = at + header.file_bytes();
        let follows = self
            .position
            .is_none_or(|position| position == header.first_lsn);
        let is_chained = self.chain.is_none_or(|chain| chain == header.previous);
        let raw = header.unpack((path, at), self.encryption, segment.seed, payload);
        if self.chain.is_some() && !(follows && is_chained) {
            return Ok(Err("a batch out of sequence"));
        }
        if !follows {
            let (after, first) = (self.position.unwrap_or(0), header.first_lsn);
            self.damage(
                path,
                at,
                format!("the records from {after} to {first} are lost"),
            )?;
        }
        self.position = Some(header.end_lsn());
        self.chain = Some(header.checksum);
        let raw = match raw {
            Ok(raw) => raw,
            Err(error) => {
                (self.visit)(match error {
                    StorageError::Key { .. } => LogPart::Encrypted(error),
                    damage => LogPart::Damage(damage),
                })?;
                return Ok(Ok(end));
            }
        };
        let mut take = Take::new(&raw);
        while !take.is_empty() {
            let left = take.rest().len() as u64;
            let lsn = Lsn(header.end_lsn() - left);
            let Ok(record) = Record::decode(&mut take) else {
                let reason = format!("the record at position {lsn} does not decode");
                self.damage(path, at, reason)?;
                break;
            };
            (self.visit)(LogPart::Record {
                segment: segment.number,
                offset: at,
                lsn,
                bytes: left - take.rest().len() as u64,
                record,
            })?;
        }
        Ok(Ok(end))
    }
}

/// The next batch of a segment after an unexpected byte at offset `at`. In the last segment, batches do not count that
/// were written while the log may not have been durable at that byte: an unsynced write was lost, and the log ends.
fn next_batch(
    segment: &Opened,
    window: &mut Window<'_>,
    at: u64,
    position: Option<u64>,
    is_last: bool,
) -> StorageResult<Option<u64>> {
    let mut first = None;
    let mut from = at + 1;
    while let Some(found) = window.find_magic(from)? {
        from = found + 1;
        let Ok((header, _)) = window.batch(segment.seed, found)? else {
            continue;
        };
        from = found + header.file_bytes();
        first = first.or(Some(found));
        if !is_last || header.durable > position.unwrap_or(0) {
            return Ok(first);
        }
    }
    Ok(None)
}
