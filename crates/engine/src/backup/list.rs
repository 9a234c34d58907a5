//! The list of the blocks of a backup, `teak_blocks` in its directory.
//!
//! It has every block of each index file with its checksum, and says which of them the backup contains; its base has the
//! others. The server reads the list of the base when it makes an increment, so nothing in it is trusted: parts
//! have checksums, sizes are bounded, and paths do not leave the directory.
//!
//! 1. The header identifies the backup and its base.
//! 2. Chunks follow with the records of blocks. Each belongs to one file; those of several files may be mixed.
//! 3. The index at the end lists the files with the offsets of their chunks.

use crate::core::backup_history::BackupId;
use parking_lot::Mutex;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::checksum_parts;
use teak_base::{FileId, Lsn, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};
use teak_tree::{BlockRecord, EMPTY_FILE_BYTES};

/// The name of the list in the directory of a backup.
pub const BACKUP_LIST_FILE: &str = "teak_blocks";

const MAGIC: &[u8; 8] = b"TEAKBLKS";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 96;
/// File, start, payload bytes, records, checksum.
const CHUNK_HEADER_BYTES: usize = 8 + 8 + 4 + 4 + 8;
/// Magic, offset and length of the index, checksum.
const TRAILER_BYTES: usize = 8 + 8 + 8 + 8;
const TRAILER_MAGIC: &[u8; 8] = b"TEAKBLKE";
/// A chunk ends when it has as many bytes.
const CHUNK_BYTES: usize = 128 << 10;
/// Limits of what is read.
const CHUNK_BYTES_MAX: usize = 2 * CHUNK_BYTES;
const INDEX_BYTES_MAX: u64 = 256 << 20;
const PATH_BYTES_MAX: usize = 4096;

/// Which backup a directory contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupIdentity {
    /// The backup.
    pub id: BackupId,
    /// The base of an increment, and the checksum of its list.
    pub base: Option<(BackupId, u64)>,
    /// The data directory.
    pub instance: u64,
    /// The number of the cut.
    pub cut: u64,
    /// The position in the log of the cut.
    pub position: Lsn,
}

/// An index file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedFile {
    /// Its id, which no other file of the data directory ever has.
    pub file: FileId,
    /// The number of its checkpoint.
    pub generation: u64,
    /// XXH3 of the superblock in the backup.
    pub superblock_checksum: u64,
    /// The path in the data directory.
    pub path: PathBuf,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes that all blocks occupy.
    pub block_bytes: u64,
    /// Bytes that the blocks in the backup occupy.
    pub changed_bytes: u64,
    chunks: Vec<u64>,
}

impl BackupIdentity {
    fn encode(&self) -> Vec<u8> {
        let (base, base_checksum) = self.base.unwrap_or((BackupId::NONE, 0));
        let mut out = MAGIC.to_vec();
        out.put_u32(VERSION);
        out.put_u32(0);
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&base.0);
        out.put_u64(base_checksum);
        out.put_u64(self.instance);
        out.put_u64(self.cut);
        out.put_u64(self.position.0);
        out.put_u64(0);
        let sum = checksum_parts(&[&out]);
        out.put_u64(sum);
        out
    }

    fn decode(path: &Path, bytes: &[u8]) -> StorageResult<Self> {
        let corrupt = |reason: &str| StorageError::corrupt(path, 0, reason);
        let malformed = |_: Malformed| corrupt("the header is malformed");
        let mut take = Take::new(bytes);
        if take.take(MAGIC.len()).map_err(malformed)? != MAGIC {
            return Err(corrupt("this is not the list of a backup"));
        }
        StorageError::check_version(path, take.u32().map_err(malformed)?, VERSION)?;
        let (checked, sum) = bytes
            .split_at_checked(HEADER_BYTES - 8)
            .ok_or(Malformed)
            .map_err(malformed)?;
        if Take::new(sum).u64().map_err(malformed)? != checksum_parts(&[checked]) {
            return Err(corrupt("the checksum of the header does not match"));
        }
        Self::fields(&mut take).map_err(malformed)
    }

    fn fields(take: &mut Take<'_>) -> Result<Self, Malformed> {
        take.u32()?;
        let id = BackupId::take(take)?;
        let base = BackupId::take(take)?;
        let base_checksum = take.u64()?;
        Ok(Self {
            id,
            base: (base != BackupId::NONE).then_some((base, base_checksum)),
            instance: take.u64()?,
            cut: take.u64()?,
            position: Lsn(take.u64()?),
        })
    }
}

impl ListedFile {
    pub(super) fn new(file: FileId, generation: u64, path: &Path) -> Self {
        Self {
            file,
            generation,
            superblock_checksum: 0,
            path: path.to_path_buf(),
            blocks: 0,
            block_bytes: 0,
            changed_bytes: 0,
            chunks: Vec::new(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let numbers = [
            self.file.0,
            self.generation,
            self.blocks,
            self.block_bytes,
            self.changed_bytes,
        ];
        for number in numbers {
            out.put_varint(number);
        }
        out.put_u64(self.superblock_checksum);
        out.put_bytes(self.path.as_os_str().as_encoded_bytes());
        out.put_varint(self.chunks.len() as u64);
        for chunk in &self.chunks {
            out.put_varint(*chunk);
        }
    }

    fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let file = FileId(take.varint()?);
        let generation = take.varint()?;
        let (blocks, block_bytes, changed_bytes) = (take.varint()?, take.varint()?, take.varint()?);
        let superblock_checksum = take.u64()?;
        let path = take.bytes()?;
        if path.len() > PATH_BYTES_MAX {
            return Err(Malformed);
        }
        let path = PathBuf::from(std::str::from_utf8(path).map_err(|_| Malformed)?);
        let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
        if path.as_os_str().is_empty() || !path.components().all(is_inside) {
            return Err(Malformed);
        }
        let mut chunks = Vec::new();
        for _ in 0..take.varint()? {
            chunks.push(take.varint()?);
        }
        Ok(Self {
            file,
            generation,
            superblock_checksum,
            path,
            blocks,
            block_bytes,
            changed_bytes,
            chunks,
        })
    }
}

/// Writes a list. Several threads may add files.
pub(super) struct ListWriter {
    pub file: Arc<dyn DiskFile>,
    identity: BackupIdentity,
    pub written: Mutex<Written>,
}

pub(super) struct Written {
    end: u64,
    pub files: Vec<ListedFile>,
}

/// The records of one file.
pub(super) struct FileWriter<'a> {
    list: &'a ListWriter,
    listed: ListedFile,
    start: u64,
    position: u64,
    records: u32,
    payload: Vec<u8>,
}

impl ListWriter {
    pub(super) fn create(
        disk: &Arc<dyn Disk>,
        directory: &Path,
        identity: BackupIdentity,
    ) -> StorageResult<Self> {
        let file = disk.create(&directory.join(BACKUP_LIST_FILE))?;
        file.write_all_at(&identity.encode(), 0)?;
        Ok(Self {
            file,
            identity,
            written: Mutex::new(Written {
                end: HEADER_BYTES as u64,
                files: Vec::new(),
            }),
        })
    }

    pub(super) fn begin(&self, listed: ListedFile) -> FileWriter<'_> {
        FileWriter {
            list: self,
            listed,
            start: EMPTY_FILE_BYTES,
            position: EMPTY_FILE_BYTES,
            records: 0,
            payload: Vec::new(),
        }
    }

    /// Writes the index and syncs. Returns the bytes of the list.
    pub(super) fn finish(&self) -> StorageResult<u64> {
        let mut written = self.written.lock();
        written.files.sort_by_key(|listed| listed.file);
        let index = encode_index(&written.files);
        let mut trailer = TRAILER_MAGIC.to_vec();
        trailer.put_u64(written.end);
        trailer.put_u64(index.len() as u64);
        let sum = checksum_parts(&[&self.identity.encode(), &index, &trailer]);
        trailer.put_u64(sum);
        self.file.write_all_at(&index, written.end)?;
        let at = written.end + index.len() as u64;
        self.file.write_all_at(&trailer, at)?;
        self.file.sync()?;
        Ok(at + trailer.len() as u64)
    }
}

pub(super) fn encode_index(files: &[ListedFile]) -> Vec<u8> {
    let mut index = Vec::new();
    index.put_varint(files.len() as u64);
    for listed in files {
        listed.encode(&mut index);
    }
    index
}

/// The checksum of a chunk, which covers where it is and to which backup it belongs.
fn chunk_checksum(id: BackupId, offset: u64, header: &[u8], payload: &[u8]) -> u64 {
    checksum_parts(&[&id.0, &offset.to_le_bytes(), header, payload])
}

impl FileWriter<'_> {
    pub(super) fn file(&self) -> FileId {
        self.listed.file
    }

    pub(super) fn add(&mut self, record: BlockRecord) -> StorageResult<()> {
        let bytes = record.space_bytes();
        self.listed.blocks += 1;
        self.listed.block_bytes += bytes;
        if record.is_changed {
            self.listed.changed_bytes += bytes;
        }
        record.encode(&mut self.position, &mut self.payload);
        self.records += 1;
        match self.payload.len() < CHUNK_BYTES {
            true => Ok(()),
            false => self.write_chunk(),
        }
    }

    fn write_chunk(&mut self) -> StorageResult<()> {
        let mut chunk = Vec::with_capacity(CHUNK_HEADER_BYTES + self.payload.len());
        chunk.put_u64(self.listed.file.0);
        chunk.put_u64(self.start);
        chunk.put_u32(u32::try_from(self.payload.len()).unwrap_or(u32::MAX));
        chunk.put_u32(self.records);
        let mut written = self.list.written.lock();
        let (id, at) = (self.list.identity.id, written.end);
        let sum = chunk_checksum(id, at, &chunk, &self.payload);
        chunk.put_u64(sum);
        chunk.append(&mut self.payload);
        self.list.file.write_all_at(&chunk, at)?;
        written.end += chunk.len() as u64;
        self.listed.chunks.push(at);
        self.start = self.position;
        self.records = 0;
        Ok(())
    }

    pub(super) fn finish(mut self, superblock_checksum: u64) -> StorageResult<()> {
        if self.records > 0 {
            self.write_chunk()?;
        }
        self.listed.superblock_checksum = superblock_checksum;
        self.list.written.lock().files.push(self.listed);
        Ok(())
    }
}

/// The list of a backup.
#[derive(Clone, Debug)]
pub struct BackupList {
    file: Arc<dyn DiskFile>,
    identity: BackupIdentity,
    files: Vec<ListedFile>,
    checksum: u64,
    bytes: u64,
}

impl BackupList {
    /// Opens a list, and reads its header and index.
    ///
    /// # Errors
    /// `Corrupt`, also if the list is not complete; `UnsupportedFormat`, `NotFound`, `Io`.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path) -> StorageResult<Self> {
        let file = disk.open(path)?;
        let bytes = file.len()?;
        let corrupt = |reason: &str| StorageError::corrupt(path, 0, reason);
        let cut_off = || corrupt("the list of the backup is cut off");
        let trailer_at = bytes.checked_sub(TRAILER_BYTES as u64);
        let trailer_at = trailer_at.filter(|at| *at >= HEADER_BYTES as u64);
        let trailer_at = trailer_at.ok_or_else(cut_off)?;
        let mut header = vec![0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0)?;
        let identity = BackupIdentity::decode(path, &header)?;
        let mut trailer = vec![0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, trailer_at)?;
        let malformed = |_: Malformed| corrupt("the index of the list is malformed");
        let (checked, sum) = trailer.split_at(TRAILER_BYTES - 8);
        let mut take = Take::new(checked);
        if take.take(TRAILER_MAGIC.len()).map_err(malformed)? != TRAILER_MAGIC {
            return Err(cut_off());
        }
        let (at, length) = (
            take.u64().map_err(malformed)?,
            take.u64().map_err(malformed)?,
        );
        let is_here = at >= HEADER_BYTES as u64 && at.checked_add(length) == Some(trailer_at);
        if !is_here || length > INDEX_BYTES_MAX {
            return Err(corrupt("the index of the list is malformed"));
        }
        let mut index = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut index, at)?;
        let checksum = Take::new(sum).u64().map_err(malformed)?;
        if checksum_parts(&[&header, &index, checked]) != checksum {
            return Err(corrupt("the checksum of the index does not match"));
        }
        let files = Self::decode_index(&index).map_err(malformed)?;
        Ok(Self {
            file,
            identity,
            files,
            checksum,
            bytes,
        })
    }

    pub(super) fn decode_index(bytes: &[u8]) -> Result<Vec<ListedFile>, Malformed> {
        let mut take = Take::new(bytes);
        let mut files: Vec<ListedFile> = Vec::new();
        for _ in 0..take.varint()? {
            let listed = ListedFile::decode(&mut take)?;
            if files.last().is_some_and(|last| last.file >= listed.file) {
                return Err(Malformed);
            }
            files.push(listed);
        }
        match take.is_empty() {
            true => Ok(files),
            false => Err(Malformed),
        }
    }

    /// The backup that it describes.
    #[must_use]
    pub fn identity(&self) -> &BackupIdentity {
        &self.identity
    }

    /// The index files, by id.
    #[must_use]
    pub fn files(&self) -> &[ListedFile] {
        &self.files
    }

    /// The checksum of the header and the index.
    #[must_use]
    pub fn checksum(&self) -> u64 {
        self.checksum
    }

    /// The bytes of the list.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The path of the list.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The file with an id.
    #[must_use]
    pub fn find(&self, file: FileId) -> Option<&ListedFile> {
        let found = self.files.binary_search_by_key(&file, |listed| listed.file);
        self.files.get(found.ok()?)
    }

    /// The blocks of a file, by offset. An error ends them.
    #[must_use]
    pub fn blocks(&self, listed: &ListedFile) -> ListedBlocks {
        ListedBlocks {
            file: Arc::clone(&self.file),
            id: self.identity.id,
            of: listed.file,
            chunks: listed.chunks.clone().into_iter(),
            position: EMPTY_FILE_BYTES,
            left: listed.blocks,
            records: Vec::new().into_iter(),
        }
    }
}

/// See [`BackupList::blocks`].
#[derive(Debug)]
pub struct ListedBlocks {
    file: Arc<dyn DiskFile>,
    id: BackupId,
    of: FileId,
    chunks: std::vec::IntoIter<u64>,
    position: u64,
    left: u64,
    records: std::vec::IntoIter<BlockRecord>,
}

impl ListedBlocks {
    fn read_chunk(&mut self, at: u64) -> StorageResult<Vec<BlockRecord>> {
        let corrupt = |reason: &str| StorageError::corrupt(self.file.path(), at, reason);
        let malformed = |_: Malformed| corrupt("a part of the list is malformed");
        let mut header = vec![0; CHUNK_HEADER_BYTES];
        self.file.read_exact_at(&mut header, at)?;
        let (checked, sum) = header.split_at(CHUNK_HEADER_BYTES - 8);
        let mut take = Take::new(checked);
        let (of, start) = (
            take.u64().map_err(malformed)?,
            take.u64().map_err(malformed)?,
        );
        let length = take.u32().map_err(malformed)? as usize;
        let records = take.u32().map_err(malformed)?;
        if length > CHUNK_BYTES_MAX || records as usize > length {
            return Err(malformed(Malformed));
        }
        let mut payload = vec![0; length];
        self.file
            .read_exact_at(&mut payload, at + CHUNK_HEADER_BYTES as u64)?;
        let sum = Take::new(sum).u64().map_err(malformed)?;
        if chunk_checksum(self.id, at, checked, &payload) != sum {
            return Err(corrupt("the checksum of a part of the list does not match"));
        }
        if of != self.of.0 || start != self.position {
            return Err(corrupt("a part of the list is of another file"));
        }
        let mut take = Take::new(&payload);
        let mut found = Vec::with_capacity(records as usize);
        for _ in 0..records {
            let record = BlockRecord::decode(&mut self.position, &mut take);
            found.push(record.map_err(|_| {
                StorageError::corrupt(self.file.path(), at, "a part of the list is malformed")
            })?);
        }
        match take.is_empty() {
            true => Ok(found),
            false => Err(StorageError::corrupt(
                self.file.path(),
                at,
                "a part of the list is malformed",
            )),
        }
    }

    fn advance(&mut self) -> StorageResult<Option<BlockRecord>> {
        loop {
            if let Some(record) = self.records.next() {
                self.left = self.left.wrapping_sub(1);
                return Ok(Some(record));
            }
            let Some(at) = self.chunks.next() else {
                return match self.left {
                    0 => Ok(None),
                    _ => Err(StorageError::corrupt(
                        self.file.path(),
                        0,
                        "the list has another number of blocks than its index says",
                    )),
                };
            };
            self.records = self.read_chunk(at)?.into_iter();
        }
    }
}

impl Iterator for ListedBlocks {
    type Item = StorageResult<BlockRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_))) {
            self.chunks = Vec::new().into_iter();
            self.left = 0;
        }
        next
    }
}

#[cfg(test)]
mod tests;
