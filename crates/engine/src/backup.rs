//! Hot backup: a copy of the data directory as of one moment, while it is in use.
//!
//! The copy is what a crash at that moment would have left on the disk, so that opening it is an
//! ordinary recovery:
//! - each index file in the state of its last durable checkpoint,
//! - the log from the position that recovery needs up to the moment of the cut,
//! - the catalogue.
//!
//! Steps:
//! 1. Cut (`cut`): pin the checkpoints and retain the log, in milliseconds and without I/O on index
//!    files.
//! 2. Copy the log and the files ([`Backup::copy_step`]), without locks. Every block and every batch
//!    is verified.
//! 3. Write the list of blocks, and the catalogue ([`Backup::finish`]). Without a catalogue the copy cannot be opened, so a
//!    copy that was interrupted is not mistaken for a backup.
//!
//! If the target has the list of another backup in `teak_base`, the backup is an increment: of the index files it has only
//! the blocks that the base lacks, and its catalogue has another name, so that it is not mistaken for a data directory.
//! [`BackupChain`] merges a full backup and increments.
//!
//! What the copy needs is released file by file, and the rest when the [`Backup`] is dropped.

mod chain;
mod cut;
mod job;
mod list;
#[cfg(feature = "fuzzing")]
mod list_fuzzing;

use self::list::{FileWriter, ListWriter};
use crate::catalogue::{CATALOGUE_FILE, Catalogue, write_catalogue_as};
use crate::core::EngineCore;
use crate::core::backup_files::{BackupLimits, FileToCopy};
use crate::core::backup_history::BackupId;
use crate::core::backup_job::CopyCounts;
use crate::core::files::make_directory;
use crate::core::opening::slot_of;
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use teak_base::{FileId, Lsn, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};
use teak_tree::{CheckpointPin, Tree};
use teak_write_ahead_log::LogHold;

pub use self::chain::{BackupChain, check_base};
pub use self::job::{BackupReport, BackupRequest};
pub use self::list::{BACKUP_LIST_FILE, BackupIdentity, BackupList, ListedBlocks, ListedFile};

#[cfg(feature = "fuzzing")]
pub(crate) use self::list_fuzzing::{fuzz_list_parts, fuzz_list_seed};

/// The list of the base in the target of an increment.
pub const BASE_LIST_FILE: &str = "teak_base";

/// The catalogue of an increment.
pub const INCREMENT_CATALOGUE_FILE: &str = "teak.catalogue-increment";

/// The path of the increment of an index file.
#[must_use]
pub fn increment_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push("-increment");
    PathBuf::from(name)
}

/// How long a thread that copies waits for a thread that is removing the file.
const REMOVAL_POLL_PERIOD: Duration = Duration::from_millis(1);

/// Maximum time between two checks whether the backup was cancelled while the copy is slowed.
const THROTTLE_STEP: Duration = Duration::from_millis(50);

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupFile {
    /// The path, relative to the data directory and to the target.
    pub path: PathBuf,
    /// The id of the index file.
    pub file: FileId,
    /// The table of the index when the cut was made.
    pub table: u64,
    /// The number of its last durable checkpoint then, or of an earlier one.
    generation: u64,
}

/// Where a backup is copied to.
#[derive(Clone, Debug)]
pub struct BackupTarget {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The directory. It may contain other files, but no data directory of the engine.
    pub directory: PathBuf,
    /// Limit of the bytes that all threads together copy per second; zero: no limit.
    pub bytes_per_second: u64,
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Number of files, the log included.
    pub files: u64,
    /// Number of files that are copied.
    pub files_copied: u64,
    /// Bytes that are copied.
    pub bytes_copied: u64,
    /// Bytes that are on the disk only because the backup needs them.
    pub pinned_bytes: u64,
}

/// A cut, and its copy. Several threads may copy concurrently.
pub struct Backup {
    core: Arc<EngineCore>,
    catalogue: Catalogue,
    cut: Cut,
    files: Vec<BackupFile>,
    /// The next file to copy; zero is the log.
    next: AtomicUsize,
    counts: Arc<CopyCounts>,
    directories: Mutex<BTreeSet<PathBuf>>,
    began: Instant,
    paced_bytes: AtomicU64,
    output: Mutex<Option<Arc<Output>>>,
}

/// The lists of a copy.
struct Output {
    /// The list of the base of an increment.
    base: Option<BackupList>,
    list: ListWriter,
}

/// The moment of which a backup is a copy.
struct Cut {
    hold: LogHold,
    /// The number of the cut.
    number: u64,
    id: BackupId,
    /// The end of the copied log.
    until: Lsn,
    duration: Duration,
}

impl Engine {
    /// Cuts a backup: pins the state that all transactions have now that are committed. A transaction
    /// that commits during the call may or may not be part of it. A commit that the caller blocks is
    /// not part of it.
    ///
    /// # Errors
    /// `BackupFailed` when another backup is in progress, a table is unavailable, read-only or
    /// damaged, or loads end all the time; errors of the log.
    pub fn begin_backup(&self, limits: BackupLimits) -> EngineResult<Backup> {
        Backup::cut(&self.core, limits, Arc::default())
    }
}

impl Backup {
    fn new(
        core: &Arc<EngineCore>,
        catalogue: Catalogue,
        cut: Cut,
        counts: Arc<CopyCounts>,
    ) -> Self {
        let tables = catalogue.tables.values();
        let files: Vec<BackupFile> = tables
            .flat_map(|table| {
                table.indexes.iter().map(|index| BackupFile {
                    path: index.path.clone(),
                    file: index.file,
                    table: table.id,
                    generation: index.durable_generation,
                })
            })
            .collect();
        counts
            .files
            .store(files.len() as u64 + 1, Ordering::Relaxed);
        Self {
            core: Arc::clone(core),
            catalogue,
            cut,
            files,
            next: AtomicUsize::new(0),
            counts,
            directories: Mutex::default(),
            began: Instant::now(),
            paced_bytes: AtomicU64::new(0),
            output: Mutex::new(None),
        }
    }

    /// The position of the log that the backup contains.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.cut.until
    }

    /// How long the cut took.
    #[must_use]
    pub fn cut_duration(&self) -> Duration {
        self.cut.duration
    }

    /// The index files.
    #[must_use]
    pub fn files(&self) -> &[BackupFile] {
        &self.files
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> BackupProgress {
        let core = &self.core;
        BackupProgress {
            files: self.counts.files.load(Ordering::Relaxed),
            files_copied: self.counts.files_copied.load(Ordering::Relaxed),
            bytes_copied: self.counts.bytes_copied.load(Ordering::Relaxed),
            pinned_bytes: core.files.backup.pinned_bytes() + core.log.held_bytes(),
        }
    }

    /// Ends the backup: all later steps fail with this reason.
    pub fn cancel(&self, reason: &str) {
        let core = &self.core;
        core.files.backup.cancel(&core.log, &core.messages, reason);
    }

    /// Copies the next file. Returns false if there is no other. Further threads may call this with
    /// the same target. After an error the backup has ended, and its copy is incomplete.
    ///
    /// # Errors
    /// `BackupFailed` when the backup was cancelled, or the target contains a data directory;
    /// `Storage` when a file is damaged, or cannot be read or written.
    pub fn copy_step(&self, target: &BackupTarget) -> EngineResult<bool> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let file = at.checked_sub(1).map(|at| self.files.get(at));
        if let Some(None) = file {
            return Ok(false);
        }
        let copied = self.output(target).and_then(|output| match file {
            Some(Some(file)) => self.copy_file(file, target, &output),
            _ => self.copy_log(target),
        });
        match copied {
            Ok(()) => {
                self.counts.files_copied.fetch_add(1, Ordering::AcqRel);
                Ok(true)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Copies all files and finishes the backup.
    ///
    /// # Errors
    /// Those of [`Backup::copy_step`] and [`Backup::finish`].
    pub fn copy(&self, target: &BackupTarget) -> EngineResult<()> {
        while self.copy_step(target)? {}
        self.finish(target)
    }

    /// Writes the catalogue and makes the copy durable, after all files were copied. Then the target
    /// is a data directory.
    ///
    /// # Errors
    /// `InvalidArgument` when a file is not copied yet; `BackupFailed`, `Storage`.
    pub fn finish(&self, target: &BackupTarget) -> EngineResult<()> {
        let counts = &self.counts;
        if counts.files_copied.load(Ordering::Acquire) < counts.files.load(Ordering::Relaxed) {
            let text = "a backup is finished before all its files are copied";
            return Err(EngineError::InvalidArgument(text.into()));
        }
        let write = || -> EngineResult<()> {
            self.core.files.backup.renew()?;
            for directory in &*self.directories.lock() {
                target.disk.sync_directory(directory)?;
            }
            let output = self.output(target)?;
            let bytes = output.list.finish()?;
            counts.bytes_copied.fetch_add(bytes, Ordering::Relaxed);
            // The backup is complete only after it can be the base of an increment.
            let (files, cut) = (&self.core.files, &self.cut);
            let history = &files.backup.history;
            history.add(&files.disk, &files.directory, (cut.number, cut.id))?;
            history.write_empty(&target.disk, &target.directory)?;
            let name = match output.base {
                Some(_) => INCREMENT_CATALOGUE_FILE,
                None => CATALOGUE_FILE,
            };
            let (disk, directory) = (&target.disk, &target.directory);
            Ok(write_catalogue_as(name, disk, directory, &self.catalogue)?)
        };
        write().map_err(|error| self.failed(error))
    }

    /// The error to return. Ends the backup.
    fn failed(&self, error: EngineError) -> EngineError {
        let backup = &self.core.files.backup;
        match backup.cancelled() {
            // The error may be a consequence of the cancellation, which has released what is copied.
            Some(reason) => EngineError::BackupFailed(reason),
            None => {
                self.cancel(&error.to_string());
                error
            }
        }
    }

    /// Called for each copied piece: counts it, limits the rate, and renews the lease.
    fn note_copied(&self, target: &BackupTarget, bytes: u64) -> StorageResult<()> {
        self.counts.bytes_copied.fetch_add(bytes, Ordering::Relaxed);
        let backup = &self.core.files.backup;
        backup.renew()?;
        let paced = self.paced_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if target.bytes_per_second == 0 {
            return Ok(());
        }
        let milliseconds = u128::from(paced) * 1000 / u128::from(target.bytes_per_second);
        let due = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(u64::MAX));
        loop {
            let early = due.saturating_sub(self.began.elapsed());
            if early.is_zero() {
                return Ok(());
            }
            std::thread::sleep(early.min(THROTTLE_STEP));
            backup.renew()?;
        }
    }

    fn copy_log(&self, target: &BackupTarget) -> EngineResult<()> {
        let core = &self.core;
        core.files.backup.renew()?;
        core.log.sync(self.cut.until)?;
        let range = (self.catalogue.replay_from, self.cut.until);
        core.log
            .copy_between(range, &*target.disk, &target.directory, &mut |bytes| {
                self.note_copied(target, bytes)
            })?;
        // A backup that was cancelled has released the hold already.
        core.files.backup.renew()?;
        Ok(core.log.end_hold(self.cut.hold)?)
    }

    /// Creates the directory and the list of blocks, before the first file is copied. Refuses a directory that
    /// contains a data directory of the engine or another backup.
    fn output(&self, target: &BackupTarget) -> EngineResult<Arc<Output>> {
        // The other threads wait until one has checked it.
        let mut output = self.output.lock();
        if let Some(output) = &*output {
            return Ok(Arc::clone(output));
        }
        let (disk, directory) = (&target.disk, &target.directory);
        make_directory(disk, directory)?;
        let is_other = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            let others = [CATALOGUE_FILE, INCREMENT_CATALOGUE_FILE, BACKUP_LIST_FILE];
            name.is_some_and(|name| name.starts_with("teak.log.") || others.contains(&name))
        };
        let files = disk.list(directory)?;
        if let Some(path) = files.iter().find(|path| is_other(path)) {
            let text = format!("the target contains {}", path.display());
            return Err(EngineError::BackupFailed(text));
        }
        let base = self.core.base_of_increment(disk, directory)?;
        let identity = BackupIdentity {
            id: self.cut.id,
            base: base
                .as_ref()
                .map(|base| (base.identity().id, base.checksum())),
            instance: self.core.instance,
            cut: self.cut.number,
            position: self.cut.until,
        };
        let list = ListWriter::create(disk, directory, identity)?;
        Ok(Arc::clone(output.insert(Arc::new(Output { base, list }))))
    }

    fn copy_file(
        &self,
        file: &BackupFile,
        target: &BackupTarget,
        output: &Output,
    ) -> EngineResult<()> {
        let backup = &self.core.files.backup;
        let pin = self.pinned(file)?;
        if pin.generation() < file.generation {
            // What opens a damaged file can use an older checkpoint.
            let path = self.core.files.directory.join(&file.path);
            let reason = "the last checkpoint of the file cannot be read";
            return Err(StorageError::corrupt(&path, 0, reason).into());
        }
        let path = target.directory.join(&file.path);
        let directory = path.parent().unwrap_or(&target.directory);
        self.make_directory(target, directory)?;
        let listed = ListedFile::new(file.file, pin.generation(), &file.path);
        let writer = output.list.begin(listed);
        match &output.base {
            None => {
                let copy = target.disk.create(&path)?;
                self.copy_whole(&pin, target, &*copy, writer)?;
            }
            Some(base) => {
                let copy = target.disk.create(&increment_path(&path))?;
                self.copy_increment(&pin, target, &*copy, (base, writer))?;
            }
        }
        drop(pin);
        backup.copied(file.file);
        Ok(())
    }

    fn copy_whole(
        &self,
        pin: &CheckpointPin,
        target: &BackupTarget,
        copy: &dyn DiskFile,
        mut writer: FileWriter<'_>,
    ) -> StorageResult<()> {
        let copied = pin.copy_to(copy, &mut |block| writer.add(block), &mut |bytes| {
            self.note_copied(target, bytes)
        })?;
        writer.finish(copied.superblock_checksum)
    }

    fn copy_increment(
        &self,
        pin: &CheckpointPin,
        target: &BackupTarget,
        copy: &dyn DiskFile,
        (base, mut writer): (&BackupList, FileWriter<'_>),
    ) -> StorageResult<()> {
        let file = writer.file();
        let listed = base.find(file);
        if let Some(listed) = listed.filter(|listed| listed.generation > pin.generation()) {
            let reason = format!(
                "checkpoint {} of file {file} is later than the last one of the server",
                listed.generation
            );
            return Err(StorageError::corrupt(base.path(), 0, reason));
        }
        let mut blocks = listed
            .map(|listed| base.blocks(listed))
            .into_iter()
            .flatten();
        let copied = pin.copy_changes(
            (&mut blocks, base.identity().cut),
            copy,
            &mut |block| writer.add(block),
            &mut |bytes| self.note_copied(target, bytes),
        )?;
        writer.finish(copied.superblock_checksum)
    }

    fn make_directory(&self, target: &BackupTarget, directory: &Path) -> StorageResult<()> {
        let mut directories = self.directories.lock();
        if !directories.contains(directory) {
            make_directory(&target.disk, directory)?;
            directories.insert(directory.to_path_buf());
        }
        Ok(())
    }

    /// The pin of a file. Pins it first if it has been closed since the cut.
    fn pinned(&self, file: &BackupFile) -> EngineResult<Arc<CheckpointPin>> {
        let backup = &self.core.files.backup;
        loop {
            match backup.to_copy(file.file)? {
                FileToCopy::Pinned(pin) => return Ok(pin),
                FileToCopy::Closed => {
                    if !self.pin_closed(file)? {
                        // The table was dropped or its files replaced, and the thread that does this
                        // pins the file before it removes it.
                        std::thread::sleep(REMOVAL_POLL_PERIOD);
                    }
                }
            }
        }
    }

    /// Pins a closed file, unless a tree has pinned it. Returns false if it belongs to no table.
    fn pin_closed(&self, file: &BackupFile) -> EngineResult<bool> {
        let core = &self.core;
        // The path does not change, and the file is not removed.
        let _changes = core.table_changes.lock();
        let Some(slot) = slot_of(&core.tables, file.table) else {
            return Ok(false);
        };
        // No thread opens the table.
        let open = slot.lock();
        let path = {
            let tables = core.tables.lock();
            let state = tables.by_id.get(&file.table);
            let mut indexes = state.iter().flat_map(|state| &state.entry.indexes);
            indexes
                .find(|index| index.file == file.file)
                .map(|index| (index.path.clone(), index.durable_generation))
        };
        let Some((path, generation)) = path else {
            return Ok(false);
        };
        if let Some(table) = open.as_ref().filter(|table| table.is_open()) {
            // A table that is opened for a repair has only some of its files open.
            let indexes = table.open_indexes();
            let mut open = indexes.iter().flat_map(|indexes| indexes.iter());
            return Ok(open.any(|index| index.entry.file == file.file));
        }
        let path = core.files.directory.join(path);
        let pin = Tree::pin_closed(&core.files.disk, &path, file.file, generation)?;
        core.files.backup.pin_closed(file.file, pin);
        Ok(true)
    }
}

impl EngineCore {
    /// The list of the base in the target of an increment; `None` if a full backup is made.
    ///
    /// # Errors
    /// `BackupFailed` if the base is not a backup of this data directory; `Corrupt` if its list is damaged.
    fn base_of_increment(
        &self,
        disk: &Arc<dyn Disk>,
        directory: &Path,
    ) -> EngineResult<Option<BackupList>> {
        let path = directory.join(BASE_LIST_FILE);
        if !disk.exists(&path)? {
            return Ok(None);
        }
        let base = BackupList::open(disk, &path)?;
        let identity = base.identity();
        let refused = |reason: &str| {
            let id = identity.id;
            Err(EngineError::BackupFailed(format!(
                "the base, backup {id}, {reason}"
            )))
        };
        if identity.instance != self.instance {
            return refused("is of another server");
        }
        match self.files.backup.history.cut_of(identity.id) {
            Some(cut) if cut == identity.cut => Ok(Some(base)),
            Some(_) => refused("has another number than the server knows: it is damaged"),
            None => refused(
                "is not known to the server: it was not completed, is not one of the last 64 backups, or the data \
                 directory was restored since. Make a full backup",
            ),
        }
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        let core = &self.core;
        core.files.backup.end();
        if let Err(error) = core.log.end_hold(self.cut.hold) {
            let text = format!("a log segment was not removed: {error}");
            core.messages.warning(&text);
        }
    }
}
