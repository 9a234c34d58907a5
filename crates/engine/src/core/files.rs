//! The files of indexes: creating, opening and removing them.

use super::backup_files::BackupFiles;
use super::file_counts::FileCounts;
use super::live_trees::LiveTrees;
use super::messages::Messages;
use crate::catalogue::IndexEntry;
use crate::name::{ORPHANS_DIRECTORY, file_id_of, new_file_path};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{Encryption, FileId, StorageError, StorageResult};
use teak_disk::{Disk, TemporaryDisk};
use teak_tree::{PageCache, Tree, TreeOptions};

/// The data directory, and shared state for opening index files.
pub(crate) struct IndexFiles {
    pub disk: Arc<dyn Disk>,
    /// The same disk without syncs, for the files of temporary tables.
    temporary: Arc<dyn Disk>,
    pub directory: PathBuf,
    pub cache: Arc<PageCache>,
    pub tree_options: TreeOptions,
    /// How the log and the files of retained records are encrypted.
    pub log_encryption: Encryption,
    pub messages: Messages,
    pub counts: FileCounts,
    pub live_trees: LiveTrees,
    /// The files that a backup needs.
    pub backup: BackupFiles,
    unowned: Mutex<UnownedFiles>,
    /// Directories of index files. The names of these directories are durable. When a file in a
    /// directory is removed, the directory leaves the set: once it is empty, the server may remove
    /// it and create it again.
    durable_directories: Mutex<BTreeSet<PathBuf>>,
}

/// Files that belong to no table, and are removed when the engine is opened next if they are not
/// removed before. The catalogue contains the list.
#[derive(Default)]
struct UnownedFiles {
    files: BTreeSet<FileId>,
    /// The files of the list that were removed, with their directories: a power loss may undo the
    /// removal until the directory is synced.
    removed: BTreeMap<FileId, PathBuf>,
}

/// The parent directories of some paths.
pub(crate) fn parents(root: &Path, paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    paths
        .iter()
        .filter_map(|path| root.join(path).parent().map(Path::to_path_buf))
        .collect()
}

/// Makes the name of a directory or file durable.
fn sync_name(disk: &Arc<dyn Disk>, path: &Path) -> StorageResult<()> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => disk.sync_directory(Path::new(".")),
        Some(parent) => disk.sync_directory(parent),
        None => Ok(()),
    }
}

/// Creates a directory and those above it that are missing, and makes their names durable.
pub(crate) fn make_directory(disk: &Arc<dyn Disk>, directory: &Path) -> StorageResult<()> {
    let mut missing = Vec::new();
    for path in directory.ancestors() {
        if path.as_os_str().is_empty() || disk.exists(path)? {
            break;
        }
        missing.push(path);
    }
    if missing.is_empty() {
        return Ok(());
    }
    disk.create_directories(directory)?;
    let mut missing = missing.into_iter().rev();
    missing.try_for_each(|path| sync_name(disk, path))
}

/// The path at which the file of an index is created.
fn created_path(entry: &IndexEntry) -> PathBuf {
    match entry.is_temporary() {
        true => entry.path.clone(),
        false => new_file_path(&entry.path),
    }
}

pub(crate) fn paths_of(indexes: &[IndexEntry]) -> Vec<PathBuf> {
    indexes.iter().map(|index| index.path.clone()).collect()
}

impl IndexFiles {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        cache: Arc<PageCache>,
        tree_options: TreeOptions,
        log_encryption: Encryption,
        messages: Messages,
    ) -> Self {
        Self {
            temporary: Arc::new(TemporaryDisk::new(Arc::clone(&disk))),
            disk,
            directory,
            cache,
            tree_options,
            log_encryption,
            messages,
            counts: FileCounts::default(),
            live_trees: LiveTrees::default(),
            backup: BackupFiles::default(),
            unowned: Mutex::default(),
            durable_directories: Mutex::default(),
        }
    }

    /// Makes the name of a directory of index files durable, and creates the directory if it is
    /// missing. The server creates the directory of a database and does not sync its name.
    pub(crate) fn make_directory(&self, directory: &Path) -> StorageResult<()> {
        let is_durable = || self.durable_directories.lock().contains(directory);
        if directory == self.directory {
            return Ok(());
        }
        if !self.disk.exists(directory)? {
            make_directory(&self.disk, directory)?;
        } else if !is_durable() {
            sync_name(&self.disk, directory)?;
        }
        let mut durable = self.durable_directories.lock();
        durable.insert(directory.to_path_buf());
        Ok(())
    }

    /// Called before a file is removed or moved.
    fn note_removal(&self, path: &Path) {
        if let Some(directory) = path.parent() {
            self.durable_directories.lock().remove(directory);
        }
    }

    /// Notes that the files of dropped indexes belong to no table. The caller holds the mutex of
    /// table changes.
    pub(crate) fn add_unowned(&self, indexes: &[IndexEntry]) {
        let mut unowned = self.unowned.lock();
        let durable = indexes.iter().filter(|index| !index.is_temporary());
        unowned.files.extend(durable.map(|index| index.file));
    }

    /// The files that belong to no table.
    pub(crate) fn unowned(&self) -> BTreeSet<FileId> {
        self.unowned.lock().files.clone()
    }

    pub(crate) fn set_unowned(&self, files: BTreeSet<FileId>) {
        self.unowned.lock().files = files;
    }

    /// Makes the removal of files durable and takes the files off the list. Files whose directories
    /// cannot be synced now remain on the list.
    pub(crate) fn settle_removed(&self) {
        let removed = std::mem::take(&mut self.unowned.lock().removed);
        let directories: BTreeSet<PathBuf> = removed.values().cloned().collect();
        let sync = |directory: &PathBuf| match self.disk.sync_directory(directory) {
            // The directory was removed, too.
            Err(StorageError::NotFound { .. }) => self.disk.sync_directory(&self.directory),
            synced => synced,
        };
        let synced = directories.into_iter().filter(|path| sync(path).is_ok());
        let synced: BTreeSet<PathBuf> = synced.collect();
        let mut unowned = self.unowned.lock();
        for (file, directory) in removed {
            if synced.contains(&directory) {
                unowned.files.remove(&file);
            } else {
                unowned.removed.insert(file, directory);
            }
        }
    }

    /// Returns an error if the key of an index is not available.
    pub(crate) fn require_key(&self, entry: &IndexEntry) -> StorageResult<()> {
        let encryption = Encryption {
            key: entry.encryption_key,
            ..self.log_encryption.clone()
        };
        encryption
            .current(&self.directory.join(&entry.path))
            .map(|_| ())
    }

    fn new_tree(&self, entry: &IndexEntry) -> StorageResult<Arc<Tree>> {
        let mut options = self.tree_options.clone();
        entry.apply_to(&mut options);
        let disk = if entry.is_temporary() {
            &self.temporary
        } else {
            &self.disk
        };
        let path = self.directory.join(created_path(entry));
        let tree = Tree::create(disk, &path, entry.file, options, &self.cache)?;
        if !entry.is_temporary() {
            tree.count_epochs(self.backup.history.epochs());
        }
        Ok(self.counted(tree, entry))
    }

    fn counted(&self, tree: Arc<Tree>, entry: &IndexEntry) -> Arc<Tree> {
        self.counts
            .register(tree.file_counters(), entry.is_temporary());
        self.live_trees.register(tree.live_versions());
        tree
    }

    /// Uses an index file that a table owns. If it is missing, first repeats the renaming by
    /// [`IndexFiles::publish`], which a crash may have undone in a directory that recovery could not
    /// read.
    fn with_owned<T>(
        &self,
        path: &Path,
        operation: impl Fn(&Path) -> StorageResult<T>,
    ) -> StorageResult<T> {
        let path = self.directory.join(path);
        match operation(&path) {
            Err(StorageError::NotFound { .. }) if self.disk.exists(&new_file_path(&path))? => {
                self.disk.rename(&new_file_path(&path), &path)?;
                operation(&path)
            }
            outcome => outcome,
        }
    }

    /// Opens a tree, unless its file is older than the catalogue.
    pub(crate) fn open_tree(&self, entry: &IndexEntry) -> StorageResult<Arc<Tree>> {
        let generation = entry.durable_generation;
        let tree = self.with_owned(&entry.path, |path| {
            Tree::open_not_before(&self.disk, path, entry.file, generation, &self.cache)
        })?;
        tree.count_epochs(self.backup.history.epochs());
        self.backup.opened(entry.file, &tree);
        Ok(self.counted(tree, entry))
    }

    /// Opens what is left of a damaged tree.
    pub(crate) fn open_damaged_tree(&self, entry: &IndexEntry) -> StorageResult<Arc<Tree>> {
        let generation = entry.durable_generation;
        let tree = self.with_owned(&entry.path, |path| {
            Tree::open_damaged(&self.disk, path, entry.file, generation, &self.cache)
        })?;
        tree.count_epochs(self.backup.history.epochs());
        self.backup.opened(entry.file, &tree);
        Ok(self.counted(tree, entry))
    }

    /// Creates empty index files and makes their names durable, unless they are temporary. They have
    /// the names of new files until [`IndexFiles::publish`]. On failure, removes the files created so
    /// far.
    pub(crate) fn create(&self, indexes: &[IndexEntry]) -> StorageResult<Vec<Arc<Tree>>> {
        let mut trees = Vec::with_capacity(indexes.len());
        let created = self.create_all(indexes, &mut trees);
        if let Err(error) = created {
            self.remove_new(indexes.iter().take(trees.len()));
            return Err(error);
        }
        Ok(trees)
    }

    fn create_all(&self, indexes: &[IndexEntry], trees: &mut Vec<Arc<Tree>>) -> StorageResult<()> {
        // Temporary files are in the data directory itself.
        let durable = indexes.iter().filter(|index| !index.is_temporary());
        let durable: Vec<PathBuf> = durable.map(|index| index.path.clone()).collect();
        let directories = parents(&self.directory, &durable);
        for directory in &directories {
            self.make_directory(directory)?;
        }
        for index in indexes {
            trees.push(self.new_tree(index)?);
        }
        for directory in &directories {
            self.disk.sync_directory(directory)?;
        }
        Ok(())
    }

    /// Gives new files the names of files that a table owns, after the record of the table change is
    /// durable. The new names need no sync: recovery finds the files by both. A file that cannot be
    /// renamed keeps its name, which replaces the path of the entry.
    pub(crate) fn publish<'a>(&self, indexes: impl Iterator<Item = &'a mut IndexEntry>) {
        for index in indexes.filter(|index| !index.is_temporary()) {
            let new = new_file_path(&index.path);
            let (from, to) = (self.directory.join(&new), self.directory.join(&index.path));
            if !self.rename_new(&from, &to) {
                index.path = new;
            }
        }
    }

    /// Gives a new file its name. False if that is not possible; a message reports it.
    pub(crate) fn rename_new(&self, from: &Path, to: &Path) -> bool {
        let renamed = self.disk.rename(from, to);
        if let Err(error) = &renamed {
            let text = format!("{} cannot be renamed now: {error}", from.display());
            self.messages.warning(&text);
        }
        renamed.is_ok()
    }

    /// Removes files that were created and not published.
    pub(crate) fn remove_new<'a>(&self, indexes: impl Iterator<Item = &'a IndexEntry>) {
        let paths: Vec<PathBuf> = indexes.map(created_path).collect();
        self.remove(&paths);
    }

    /// Removes index files that belong to no table. A file that cannot be removed
    /// now is removed when the engine is opened next.
    pub(crate) fn remove(&self, paths: &[PathBuf]) {
        for path in paths {
            let full = self.directory.join(path);
            self.note_removal(&full);
            if let Some(file) = file_id_of(path) {
                self.backup.removes(file, &self.disk, &full);
            }
            match self.disk.remove(&full) {
                Ok(()) | Err(StorageError::NotFound { .. }) => {
                    if let (Some(file), Some(directory)) = (file_id_of(path), path.parent()) {
                        let mut unowned = self.unowned.lock();
                        if unowned.files.contains(&file) {
                            let directory = self.directory.join(directory);
                            unowned.removed.insert(file, directory);
                        }
                    }
                }
                Err(error) => {
                    let text = format!("an unused file cannot be removed now: {error}");
                    self.messages.warning(&text);
                }
            }
        }
    }

    /// Moves index files that a repair has replaced to the directory of orphans. A
    /// file that cannot be moved now is moved when the engine is opened next.
    pub(crate) fn set_aside(&self, paths: &[PathBuf]) {
        for path in paths {
            if let Some(file) = file_id_of(path) {
                let full = self.directory.join(path);
                self.backup.removes(file, &self.disk, &full);
            }
            if let Err(error) = self.move_aside(&self.directory.join(path)) {
                let text = format!("a damaged file cannot be set aside now: {error}");
                self.messages.warning(&text);
            }
        }
    }

    /// Moves a file to the directory of orphans, into a directory with the name of
    /// the one that it was in. Returns its new path.
    ///
    /// # Errors
    /// `Io`, if it is in another file system for example; `NotFound`.
    pub(crate) fn move_aside(&self, path: &Path) -> StorageResult<PathBuf> {
        let target = self.free_name(path)?;
        let parents = || [path, &target].into_iter().filter_map(Path::parent);
        for directory in parents() {
            make_directory(&self.disk, directory)?;
        }
        self.note_removal(path);
        self.disk.rename(path, &target)?;
        for directory in parents() {
            self.disk.sync_directory(directory)?;
        }
        Ok(target)
    }

    /// A path in the directory of orphans at which there is no file.
    fn free_name(&self, path: &Path) -> StorageResult<PathBuf> {
        let orphans = self.directory.join(ORPHANS_DIRECTORY);
        let parent = path.parent().filter(|parent| *parent != self.directory);
        let database = parent.and_then(Path::file_name).unwrap_or_default();
        let name = path.file_name().unwrap_or_default();
        let mut copy = 0;
        loop {
            let mut directory = database.to_os_string();
            if copy > 0 {
                directory.push(format!("~{copy}"));
            }
            let target = orphans.join(directory).join(name);
            if !self.disk.exists(&target)? {
                return Ok(target);
            }
            copy += 1;
        }
    }

    /// Removes new files if appending the record that refers to them has failed with `NoSpace`: the
    /// log has revoked that record. After other errors the record may be durable, so the files
    /// remain.
    pub(crate) fn remove_unlogged(&self, indexes: &[IndexEntry], error: &StorageError) {
        if error.is_no_space() {
            self.remove_new(indexes.iter());
        }
    }

    /// Renames files and makes their names durable. If a file cannot be renamed, its old path
    /// replaces the one in `new`.
    pub(crate) fn rename(&self, old: &[PathBuf], new: &mut [PathBuf]) -> StorageResult<()> {
        let root = &self.directory;
        let mut outcome = Ok(());
        for (old, new) in old.iter().zip(&mut *new) {
            self.note_removal(&root.join(old));
            let target = root.join(&*new);
            let renamed = self.with_owned(old, |path| self.disk.rename(path, &target));
            if let Err(error) = renamed {
                new.clone_from(old);
                outcome = Err(error);
            }
        }
        for directory in parents(root, old).union(&parents(root, new)) {
            if let Err(error) = self.disk.sync_directory(directory) {
                outcome = Err(error);
            }
        }
        outcome
    }
}
