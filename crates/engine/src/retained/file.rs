//! The file of the retained log records of one table. See "Retained records" in
//! `docs/design/format.md`.
//!
//! The header is written last. The file is complete and synced before a
//! catalogue refers to it, and never changed afterwards.

use crate::core::files::IndexFiles;
use crate::error::{EngineError, EngineResult};
use crate::name::retained_path;
use std::path::Path;
use std::sync::Arc;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::{checksum, checksum_parts};
use teak_base::cipher::ENVELOPE_BYTES;
use teak_base::limits::LSN_MAX;
use teak_base::{Codec, Encryption, FileId, KeyVersion, Lsn, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};
use teak_write_ahead_log::{RECORD_BYTES_MAX, Record};

const MAGIC: &[u8; 8] = b"TEAKRETN";
const VERSION: u32 = 1;

/// Magic, version, zero, instance, table, end, records, length, checksum.
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 8 + 8 + 8 + 8 + 8;
/// Stored length, raw length, codec, whether the payload is encrypted, zeros, checksum.
const BATCH_HEADER_BYTES: usize = 4 + 4 + 1 + 1 + 6 + 8;
/// A batch is written when its records have so many bytes.
const BATCH_BYTES: usize = 256 << 10;
/// A shorter batch is not compressed.
const COMPRESSED_MIN: usize = 256;
/// Limits the memory that is allocated if a length is damaged.
const BATCH_BYTES_MAX: usize = BATCH_BYTES + RECORD_BYTES_MAX + 8 + ENVELOPE_BYTES;

/// What the header contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    instance: u64,
    table: u64,
    end: Lsn,
    records: u64,
    length: u64,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(MAGIC);
        out.put_u32(VERSION);
        out.put_u32(0);
        out.put_u64(self.instance);
        out.put_u64(self.table);
        out.put_u64(self.end.0);
        out.put_u64(self.records);
        out.put_u64(self.length);
        let sum = checksum(&out);
        out.put_u64(sum);
        out
    }

    fn decode(path: &Path, bytes: &[u8]) -> StorageResult<Self> {
        let corrupt = |reason: &str| StorageError::corrupt(path, 0, reason);
        let (summed, sum) = bytes
            .split_at_checked(HEADER_BYTES - 8)
            .ok_or_else(|| corrupt("the header is cut off"))?;
        let malformed = |_: Malformed| corrupt("the header is malformed");
        let mut take = Take::new(summed);
        if take.take(MAGIC.len()).map_err(malformed)? != MAGIC {
            return Err(corrupt("not a file of retained records"));
        }
        StorageError::check_version(path, take.u32().map_err(malformed)?, VERSION)?;
        if Take::new(sum).u64().map_err(malformed)? != checksum(summed) {
            return Err(corrupt("the header's checksum is wrong"));
        }
        let mut fields = || {
            take.u32()?;
            Ok(Self {
                instance: take.u64()?,
                table: take.u64()?,
                end: Lsn(take.u64()?),
                records: take.u64()?,
                length: take.u64()?,
            })
        };
        let header: Self = fields().map_err(malformed)?;
        if header.end.0 > LSN_MAX {
            return Err(malformed(Malformed));
        }
        Ok(header)
    }

    /// A part of the checksum and of the associated data of the batch at an offset, so that a batch at another place is not
    /// accepted.
    fn batch_place(&self, offset: u64) -> [u8; 24] {
        let mut place = [0; 24];
        let numbers = [self.instance, self.table, offset];
        for (slot, byte) in place
            .iter_mut()
            .zip(numbers.map(u64::to_le_bytes).as_flattened())
        {
            *slot = *byte;
        }
        place
    }

    fn require_owner(&self, path: &Path, instance: u64, table: u64) -> StorageResult<()> {
        if (self.instance, self.table) != (instance, table) {
            let reason = "the records are those of another table or instance";
            return Err(StorageError::corrupt(path, 0, reason));
        }
        Ok(())
    }
}

/// Where files of retained records are.
#[derive(Clone, Copy)]
pub(crate) struct RetainedPlace<'a> {
    pub disk: &'a Arc<dyn Disk>,
    pub directory: &'a Path,
    pub instance: u64,
    /// That of the log.
    pub encryption: &'a Encryption,
}

impl<'a> RetainedPlace<'a> {
    /// That of a data directory.
    pub(crate) fn of(files: &'a IndexFiles, instance: u64) -> Self {
        Self {
            disk: &files.disk,
            directory: &files.directory,
            instance,
            encryption: &files.log_encryption,
        }
    }
}

/// Writes the retained records of a table. The file remains open until it is synced:
/// an operating system may report a failed write only to handles that were open when
/// it failed. Many tables may be unavailable; the engine's disk bounds the number of
/// open files.
pub(crate) struct RetainedWriter {
    file: Arc<dyn DiskFile>,
    header: Header,
    batch: Vec<u8>,
    encryption: Encryption,
    key: Option<KeyVersion>,
}

impl RetainedWriter {
    /// Creates the file.
    ///
    /// # Errors
    /// `AlreadyExists`; `NoSpace`, `Io`.
    pub(crate) fn create(place: RetainedPlace<'_>, table: u64) -> StorageResult<Self> {
        let path = retained_path(place.directory, table);
        let key = place.encryption.current(&path)?;
        Ok(Self {
            file: place.disk.create(&path)?,
            encryption: place.encryption.clone(),
            key,
            header: Header {
                instance: place.instance,
                table,
                end: Lsn(0),
                records: 0,
                length: HEADER_BYTES as u64,
            },
            batch: Vec::new(),
        })
    }

    /// Adds a record. Returns the bytes that it takes in memory until a batch is
    /// written.
    pub(crate) fn push(&mut self, lsn: Lsn, record: &Record<'_>) -> usize {
        let before = self.batch.len();
        self.batch.put_u64(lsn.0);
        record.encode(&mut self.batch);
        self.header.records += 1;
        self.batch.len() - before
    }

    /// Whether enough records for a batch are in memory.
    pub(crate) fn is_batch_full(&self) -> bool {
        self.batch.len() >= BATCH_BYTES
    }

    /// Writes the records that are in memory. Returns the bytes of memory that they
    /// used.
    pub(crate) fn write_batch(&mut self) -> StorageResult<usize> {
        if self.batch.is_empty() {
            return Ok(0);
        }
        let raw = std::mem::take(&mut self.batch);
        let envelope = self.key.map_or(0, |_| ENVELOPE_BYTES);
        let mut payload = vec![0; envelope];
        let wanted = match raw.len() {
            0..COMPRESSED_MIN => Codec::None,
            _ => Codec::Lz4,
        };
        let codec = wanted.compress(&raw, &mut payload);
        let mut out = Vec::with_capacity(BATCH_HEADER_BYTES + payload.len());
        out.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        out.put_u32(u32::try_from(raw.len()).unwrap_or(u32::MAX));
        out.put_u8(codec.number());
        out.put_u8(u8::from(self.key.is_some()));
        out.extend_from_slice(&[0; 6]);
        let place = self.header.batch_place(self.header.length);
        if let Some(key) = self.key {
            let associated = [&place, out.as_slice()].concat();
            let path = self.file.path();
            self.encryption.seal(path, key, &associated, &mut payload)?;
        }
        let sum = checksum_parts(&[&place, &out, &payload]);
        out.put_u64(sum);
        out.extend_from_slice(&payload);
        self.file.write_all_at(&out, self.header.length)?;
        self.header.length += out.len() as u64;
        Ok(raw.len())
    }

    /// Writes the rest and the header, and syncs the file. `end`: the log before
    /// this position was searched for records. Returns the length of the file.
    /// The caller syncs the directory.
    pub(crate) fn finish(mut self, end: Lsn) -> StorageResult<u64> {
        self.write_batch()?;
        self.header.end = end;
        self.file.write_all_at(&self.header.encode(), 0)?;
        self.file.sync()?;
        Ok(self.header.length)
    }
}

/// Visits the retained records of a table in the order of the log. Returns the
/// position up to which the log was searched. Verifies the whole file first: none
/// of the records of a damaged file is visited.
pub(crate) fn read_retained(
    place: RetainedPlace<'_>,
    table: u64,
    visit: &mut dyn FnMut(Lsn, &Record<'_>) -> EngineResult<()>,
) -> EngineResult<Lsn> {
    let path = retained_path(place.directory, table);
    let file = place.disk.open(&path)?;
    let header = read_header(file.as_ref(), &path)?;
    header.require_owner(&path, place.instance, table)?;
    require_length(file.as_ref(), &path, &header)?;
    decode_batches(file.as_ref(), place.encryption, &header, &mut |_, _| Ok(()))?;
    decode_batches(file.as_ref(), place.encryption, &header, visit)?;
    Ok(header.end)
}

/// Retained records in a damaged batch or after one.
pub(crate) struct UnreadRecords {
    /// Their number; `None` when the header is damaged.
    pub records: Option<u64>,
    /// Names the file and the damage.
    pub cause: StorageError,
}

/// Visits the retained records of a table up to the first damaged batch, if there may be records
/// at or after `from`. Returns the number of those that it could not visit, and why; `None` if it
/// visited all.
///
/// # Errors
/// Those of `visit`; `Corrupt` when the file is that of another table; errors that are no damage,
/// after which the file may be readable later.
pub(crate) fn read_undamaged(
    place: RetainedPlace<'_>,
    table: u64,
    from: Lsn,
    visit: &mut dyn FnMut(Lsn, &Record<'_>) -> EngineResult<()>,
) -> EngineResult<Option<UnreadRecords>> {
    let path = retained_path(place.directory, table);
    let file = place.disk.open(&path)?;
    let header = match read_header(file.as_ref(), &path) {
        Err(cause) if cause.is_corrupt() => {
            let records = None;
            return Ok(Some(UnreadRecords { records, cause }));
        }
        header => header?,
    };
    header.require_owner(&path, place.instance, table)?;
    if from >= header.end {
        return Ok(None);
    }
    let (mut read, mut is_stopped) = (0, false);
    let mut visit = |lsn: Lsn, record: &Record<'_>| {
        visit(lsn, record).inspect_err(|_| is_stopped = true)?;
        read += 1;
        Ok(())
    };
    match decode_batches(file.as_ref(), place.encryption, &header, &mut visit) {
        Err(EngineError::Storage(cause)) if cause.is_corrupt() && !is_stopped => {
            let records = Some(header.records.saturating_sub(read));
            Ok(Some(UnreadRecords { records, cause }))
        }
        decoded => decoded.map(|()| None),
    }
}

/// Whether the writer of a file was interrupted, so that no catalogue refers to the file.
pub(super) fn is_unfinished(file: &dyn DiskFile) -> StorageResult<bool> {
    if file.len()? < HEADER_BYTES as u64 {
        return Ok(true);
    }
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0)?;
    Ok(magic == [0; MAGIC.len()])
}

/// Whether a file of retained records may contain records of index files that `is_own` does not
/// accept.
pub(crate) fn contains_others(
    (disk, encryption): (&Arc<dyn Disk>, &Encryption),
    path: &Path,
    is_own: &dyn Fn(FileId) -> bool,
) -> bool {
    let search = || {
        let file = disk.open(path)?;
        if is_unfinished(file.as_ref())? {
            return Ok(false);
        }
        let header = read_header(file.as_ref(), path)?;
        let mut found = false;
        decode_batches(file.as_ref(), encryption, &header, &mut |_, record| {
            found |= match *record {
                Record::Write { operations, .. } => operations
                    .into_iter()
                    .any(|operation| !is_own(operation.file)),
                Record::DeleteRange { file, .. } => !is_own(file),
                _ => true,
            };
            Ok(())
        })?;
        Ok::<_, EngineError>(found)
    };
    // Records that cannot be read may be of any file.
    search().unwrap_or(true)
}

/// Decodes a file of retained records, of any table.
///
/// # Errors
/// `Corrupt`, `UnsupportedFormat`, `Io`; those of `visit`.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_retained(
    file: &dyn DiskFile,
    visit: &mut dyn FnMut(Lsn, &Record<'_>) -> EngineResult<()>,
) -> EngineResult<()> {
    let path = file.path().to_path_buf();
    let header = read_header(file, &path)?;
    require_length(file, &path, &header)?;
    decode_batches(file, &Encryption::default(), &header, visit)
}

fn read_header(file: &dyn DiskFile, path: &Path) -> StorageResult<Header> {
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    Header::decode(path, &bytes)
}

fn require_length(file: &dyn DiskFile, path: &Path, header: &Header) -> StorageResult<()> {
    if file.len()? < header.length {
        return Err(StorageError::corrupt(path, 0, "the file is cut off"));
    }
    Ok(())
}

fn decode_batches(
    file: &dyn DiskFile,
    encryption: &Encryption,
    header: &Header,
    visit: &mut dyn FnMut(Lsn, &Record<'_>) -> EngineResult<()>,
) -> EngineResult<()> {
    let path = file.path();
    let mut offset = HEADER_BYTES as u64;
    let mut records = 0;
    while offset < header.length {
        let corrupt =
            |reason: &str| EngineError::Storage(StorageError::corrupt(path, offset, reason));
        let (raw, end) = read_batch(file, encryption, header, offset)?;
        let mut take = Take::new(&raw);
        while !take.is_empty() {
            let mut next = || Ok::<_, Malformed>((take.u64()?, Record::decode(&mut take)?));
            let (lsn, record) = next().map_err(|_| corrupt("a record is malformed"))?;
            if lsn >= header.end.0 {
                return Err(corrupt("a record's position is not valid"));
            }
            visit(Lsn(lsn), &record)?;
            records += 1;
        }
        offset = end;
    }
    if records != header.records {
        let reason = format!("{records} records instead of {}", header.records);
        return Err(StorageError::corrupt(path, 0, reason).into());
    }
    Ok(())
}

/// Reads and verifies the batch at `offset`. Returns its records and its end.
fn read_batch(
    file: &dyn DiskFile,
    encryption: &Encryption,
    header: &Header,
    offset: u64,
) -> StorageResult<(Vec<u8>, u64)> {
    let path = file.path();
    let corrupt = |reason: &str| StorageError::corrupt(path, offset, reason);
    let mut bytes = [0; BATCH_HEADER_BYTES];
    file.read_exact_at(&mut bytes, offset)?;
    let (summed, sum) = bytes.split_at(BATCH_HEADER_BYTES - 8);
    let mut take = Take::new(summed);
    let mut fields = || Ok::<_, Malformed>((take.u32()?, take.u32()?, take.u8()?, take.u8()?));
    let (stored, raw, codec, is_encrypted) =
        fields().map_err(|_| corrupt("a batch is malformed"))?;
    let start = offset + BATCH_HEADER_BYTES as u64;
    let end = start + u64::from(stored);
    if end > header.length || stored.max(raw) as usize > BATCH_BYTES_MAX {
        return Err(corrupt("a batch is too long"));
    }
    let mut payload = vec![0; stored as usize];
    file.read_exact_at(&mut payload, start)?;
    let place = header.batch_place(offset);
    let expected = checksum_parts(&[&place, summed, &payload]);
    if Take::new(sum).u64() != Ok(expected) {
        return Err(corrupt("a batch has a wrong checksum"));
    }
    let packed: &[u8] = if is_encrypted == 0 {
        &payload
    } else {
        let associated = [&place, summed].concat();
        encryption.unseal((path, offset), &associated, &mut payload)?
    };
    let codec = Codec::from_number(codec);
    let raw = codec.and_then(|codec| codec.decompress(packed, raw as usize).ok());
    let raw = raw.ok_or_else(|| corrupt("a batch does not decompress"))?;
    Ok((raw, end))
}

#[cfg(test)]
mod tests;
