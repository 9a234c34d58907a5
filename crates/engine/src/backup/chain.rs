//! A full backup and increments of it, oldest first: verifying and merging them.
//!
//! The list of the newest backup has all blocks of each file. A block that is not in its increment is searched in
//! the one before it, and so on: each list must have the block with the same address and checksum. So nothing can
//! be missing without an error.

use super::list::{BACKUP_LIST_FILE, BackupIdentity, BackupList, ListedBlocks, ListedFile};
use super::{INCREMENT_CATALOGUE_FILE, increment_path};
use crate::catalogue::{CATALOGUE_FILE, decode_catalogue};
use crate::error::{EngineError, EngineResult};
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{FileId, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};
use teak_tree::{BlockRecord, SUPERBLOCK_SIZE, verify_superblock};

/// Bytes that one read requests, and that are written together.
const WINDOW_BYTES: usize = 1 << 20;

/// A full backup, and increments, each of which has the one before it as its base.
#[derive(Debug)]
pub struct BackupChain {
    disk: Arc<dyn Disk>,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    directory: PathBuf,
    list: BackupList,
}

impl Level {
    fn is_increment(&self) -> bool {
        self.list.identity().base.is_some()
    }
}

fn refused<T>(text: String) -> EngineResult<T> {
    Err(EngineError::InvalidArgument(text))
}

/// Checks that a backup has this base.
///
/// # Errors
/// `InvalidArgument` that says which backup is its base.
pub fn check_base(
    (directory, of): (&Path, &BackupIdentity),
    (base_directory, base): (&Path, &BackupList),
) -> EngineResult<()> {
    let (shown, base_shown) = (directory.display(), base_directory.display());
    match of.base {
        None => refused(format!("{shown} is a full backup and has no base")),
        Some((id, _)) if id != base.identity().id => refused(format!(
            "{base_shown} is not the base of {shown}: it is backup {}, and the base is {id}",
            base.identity().id
        )),
        Some((_, checksum)) if checksum != base.checksum() => refused(format!(
            "{base_shown} was changed since it was the base of {shown}: its list of blocks is another one"
        )),
        Some(_) => Ok(()),
    }
}

impl BackupChain {
    /// Opens the lists of backups, the full one first, and checks that each is the base of the next one.
    ///
    /// # Errors
    /// `InvalidArgument` if they are no chain; `Storage` if a list is damaged or missing.
    pub fn open(disk: &Arc<dyn Disk>, directories: &[PathBuf]) -> EngineResult<Self> {
        let mut levels: Vec<Level> = Vec::new();
        for directory in directories {
            let list = BackupList::open(disk, &directory.join(BACKUP_LIST_FILE))?;
            match levels.last() {
                Some(base) => {
                    let of = (directory.as_path(), list.identity());
                    check_base(of, (&base.directory, &base.list))?;
                }
                None => {
                    if let Some((base, _)) = list.identity().base {
                        return refused(format!(
                            "{} is an increment: the full backup must be first, and its base {base} before it",
                            directory.display()
                        ));
                    }
                }
            }
            levels.push(Level {
                directory: directory.clone(),
                list,
            });
        }
        match levels.is_empty() {
            true => refused("no backup is given".to_owned()),
            false => Ok(Self {
                disk: Arc::clone(disk),
                levels,
            }),
        }
    }

    /// The files of the newest backup.
    #[must_use]
    pub fn files(&self) -> &[ListedFile] {
        self.levels.last().map_or(&[], |level| level.list.files())
    }

    /// The list of the newest backup.
    #[must_use]
    pub fn newest(&self) -> Option<&BackupList> {
        self.levels.last().map(|level| &level.list)
    }

    /// Reads all blocks of a file of the newest backup, verifies them, and writes them to an empty file if
    /// there is a target. Calls `progress` with numbers of bytes; its errors end the merge.
    ///
    /// # Errors
    /// `Corrupt` if a block is missing or damaged, or the lists contradict each other; `Io`, `NoSpace`.
    pub fn merge(
        &self,
        listed: &ListedFile,
        target: Option<&dyn DiskFile>,
        progress: &mut dyn FnMut(u64) -> StorageResult<()>,
    ) -> StorageResult<()> {
        let mut sources = Vec::new();
        for level in self.levels.iter().rev() {
            match level.list.find(listed.file) {
                Some(found) => sources.push(Source::open(&self.disk, level, found)?),
                None => break,
            }
        }
        let Some((newest, older)) = sources.split_first_mut() else {
            let path = self.newest().map_or(Path::new(""), BackupList::path);
            return Err(StorageError::corrupt(path, 0, "the file is not listed"));
        };
        let mut output = Output {
            target,
            start: 0,
            bytes: Vec::new(),
        };
        while let Some(record) = newest.blocks.next().transpose()? {
            let bytes = match record.is_changed {
                true => newest.take(&record)?,
                false => from_older(older, &record, newest)?,
            };
            progress(bytes.len() as u64)?;
            output.add(record.address.offset, record.space_bytes(), bytes)?;
        }
        output.flush()?;
        newest.check_end()?;
        let Some(target) = target else {
            return Ok(());
        };
        target.set_len(newest.end)?;
        for slot in 0..2 {
            target.write_all_at(&newest.superblock, slot * SUPERBLOCK_SIZE as u64)?;
        }
        target.sync()
    }

    /// Merges the index files and the catalogue into a directory, in which there are none of them yet.
    ///
    /// # Errors
    /// As [`BackupChain::merge`].
    pub fn merge_all(
        &self,
        disk: &Arc<dyn Disk>,
        directory: &Path,
        progress: &mut dyn FnMut(u64) -> StorageResult<()>,
    ) -> StorageResult<()> {
        for listed in self.files() {
            let path = directory.join(&listed.path);
            let parent = path.parent().unwrap_or(directory);
            disk.create_directories(parent)?;
            let file = disk.create(&path)?;
            self.merge(listed, Some(&*file), progress)?;
            disk.sync_directory(parent)?;
        }
        let (_, bytes) = self.catalogue()?;
        let file = disk.create(&directory.join(CATALOGUE_FILE))?;
        file.write_all_at(&bytes, 0)?;
        file.sync()?;
        disk.sync_directory(directory)
    }

    /// Reads and verifies the catalogue of the newest backup. Returns its path and its bytes.
    ///
    /// # Errors
    /// `Corrupt`, also if it has other files than the list; `NotFound`, `Io`.
    pub fn catalogue(&self) -> StorageResult<(PathBuf, Vec<u8>)> {
        let name = |level: &Level| match level.is_increment() {
            true => INCREMENT_CATALOGUE_FILE,
            false => CATALOGUE_FILE,
        };
        let newest = self.levels.last();
        let path = newest.map(|level| level.directory.join(name(level)));
        let path = path.unwrap_or_default();
        let file = self.disk.open(&path)?;
        let corrupt = |reason: &str| StorageError::corrupt(&path, 0, reason);
        let length = usize::try_from(file.len()?).map_err(|_| corrupt("it is too large"))?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        let catalogue = decode_catalogue(&path, &bytes)?;
        let indexes = catalogue.tables.values().flat_map(|table| &table.indexes);
        let mut named: Vec<(FileId, &Path)> = indexes
            .map(|index| (index.file, index.path.as_path()))
            .collect();
        named.sort_unstable();
        let listed = self.files().iter();
        match listed
            .map(|listed| (listed.file, listed.path.as_path()))
            .eq(named)
        {
            true => Ok((path, bytes)),
            false => Err(corrupt("the backup lists other files than its catalogue")),
        }
    }
}

/// Finds a block in the backups before the newest, the last of them first.
fn from_older<'a>(
    older: &'a mut [Source],
    wanted: &BlockRecord,
    newest: &Source,
) -> StorageResult<&'a [u8]> {
    let lacks = |source: &Source| {
        let path = source.file.path();
        let reason = "the base of an increment lacks a block that it needs";
        StorageError::corrupt(path, wanted.address.offset, reason)
    };
    for source in older {
        let found = source.find(wanted)?;
        let Some(found) = found else {
            return Err(lacks(source));
        };
        if found.is_changed {
            return source.take(&found);
        }
    }
    Err(lacks(newest))
}

/// One file of one backup.
struct Source {
    file: Arc<dyn DiskFile>,
    id: FileId,
    superblock: Vec<u8>,
    /// One past the last byte of the checkpoint.
    end: u64,
    blocks: Peekable<ListedBlocks>,
    /// Where the next block of the increment is; `None` in a full backup.
    packed_at: Option<u64>,
    /// Bytes that were read together, and their offset.
    window: Vec<u8>,
    window_at: u64,
    file_bytes: u64,
}

impl Source {
    fn open(disk: &Arc<dyn Disk>, level: &Level, listed: &ListedFile) -> StorageResult<Self> {
        let path = level.directory.join(&listed.path);
        let path = match level.is_increment() {
            true => increment_path(&path),
            false => path,
        };
        let file = disk.open(&path)?;
        let mut superblock = vec![0; SUPERBLOCK_SIZE];
        file.read_exact_at(&mut superblock, 0)?;
        let expected = (listed.file, listed.generation, listed.superblock_checksum);
        let end = verify_superblock(&path, &superblock, expected)?;
        let file_bytes = file.len()?;
        Ok(Self {
            id: listed.file,
            end,
            blocks: level.list.blocks(listed).peekable(),
            packed_at: level.is_increment().then_some(SUPERBLOCK_SIZE as u64),
            superblock,
            file,
            window: Vec::new(),
            window_at: 0,
            file_bytes,
        })
    }

    /// Advances to a block; `None` if the backup does not list it.
    fn find(&mut self, wanted: &BlockRecord) -> StorageResult<Option<BlockRecord>> {
        loop {
            let is_before = |block: &BlockRecord| block.address.offset < wanted.address.offset;
            match self.blocks.peek() {
                Some(Ok(block)) if is_before(block) => {
                    let (is_changed, bytes) = (block.is_changed, block.space_bytes());
                    self.blocks.next();
                    self.skip(is_changed, bytes);
                }
                Some(Ok(block)) => {
                    let block = *block;
                    let is_same =
                        block.address == wanted.address && block.checksum == wanted.checksum;
                    if !is_same {
                        return Ok(None);
                    }
                    self.blocks.next();
                    return Ok(Some(block));
                }
                Some(Err(error)) => return Err(error.clone()),
                None => return Ok(None),
            }
        }
    }

    fn skip(&mut self, is_changed: bool, bytes: u64) {
        if let Some(packed_at) = self.packed_at.as_mut().filter(|_| is_changed) {
            *packed_at = packed_at.saturating_add(bytes);
        }
    }

    /// Reads and verifies a block of this backup, to which the caller has advanced.
    fn take(&mut self, record: &BlockRecord) -> StorageResult<&[u8]> {
        let at = self.packed_at.unwrap_or(record.address.offset);
        self.skip(true, record.space_bytes());
        let length = record.address.bytes as usize;
        let inside = |window_at: u64, have: usize| {
            let skip = usize::try_from(at.checked_sub(window_at)?).ok()?;
            (skip.checked_add(length)? <= have).then_some(skip)
        };
        if inside(self.window_at, self.window.len()).is_none() {
            let left = usize::try_from(self.file_bytes.saturating_sub(at)).unwrap_or(usize::MAX);
            let missing = "the file ends before a block that the backup lists";
            if left < length {
                return Err(StorageError::corrupt(self.file.path(), at, missing));
            }
            self.window.resize(left.min(WINDOW_BYTES.max(length)), 0);
            self.window_at = at;
            self.file.read_exact_at(&mut self.window, at)?;
        }
        let skip = inside(self.window_at, self.window.len()).unwrap_or(0);
        let bytes = self.window.get(skip..skip + length).unwrap_or_default();
        record.verify(self.file.path(), self.id, bytes)?;
        Ok(bytes)
    }

    /// An increment has nothing after its last block.
    fn check_end(&self) -> StorageResult<()> {
        match self.packed_at {
            Some(at) if at != self.file_bytes => Err(StorageError::corrupt(
                self.file.path(),
                at,
                "the increment has another length than its list says",
            )),
            _ => Ok(()),
        }
    }
}

/// Writes blocks that are next to each other together.
struct Output<'a> {
    target: Option<&'a dyn DiskFile>,
    start: u64,
    bytes: Vec<u8>,
}

impl Output<'_> {
    fn add(&mut self, offset: u64, space: u64, block: &[u8]) -> StorageResult<()> {
        if self.target.is_none() {
            return Ok(());
        }
        let is_next = self.start + self.bytes.len() as u64 == offset;
        if !is_next || self.bytes.len() >= WINDOW_BYTES {
            self.flush()?;
            self.start = offset;
        }
        self.bytes.extend_from_slice(block);
        let padding = usize::try_from(space)
            .unwrap_or(0)
            .saturating_sub(block.len());
        self.bytes.resize(self.bytes.len() + padding, 0);
        Ok(())
    }

    fn flush(&mut self) -> StorageResult<()> {
        if let Some(target) = self.target.filter(|_| !self.bytes.is_empty()) {
            target.write_all_at(&self.bytes, self.start)?;
        }
        self.start += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}
