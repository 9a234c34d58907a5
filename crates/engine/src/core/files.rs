//! The files of indexes: creating, opening and removing them.

use super::messages::Messages;
use crate::catalogue::IndexEntry;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};
use teak_disk::{Disk, TemporaryDisk};
use teak_tree::{PageCache, Tree, TreeOptions};

/// Receives index files that belong to no table, in the data directory.
pub(crate) const ORPHANS_DIRECTORY: &str = "#teak_orphans";

/// The data directory, and shared state for opening index files.
pub(crate) struct IndexFiles {
    pub disk: Arc<dyn Disk>,
    /// The same disk without syncs, for the files of temporary tables.
    temporary: Arc<dyn Disk>,
    pub directory: PathBuf,
    pub cache: Arc<PageCache>,
    pub tree_options: TreeOptions,
    pub messages: Messages,
}

/// The parent directories of some paths.
pub(crate) fn parents(root: &Path, paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    paths
        .iter()
        .filter_map(|path| root.join(path).parent().map(Path::to_path_buf))
        .collect()
}

/// Creates a directory and makes its name durable.
pub(crate) fn make_directory(disk: &Arc<dyn Disk>, directory: &Path) -> StorageResult<()> {
    if disk.exists(directory)? {
        return Ok(());
    }
    disk.create_directories(directory)?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => disk.sync_directory(parent),
        _ => Ok(()),
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
        messages: Messages,
    ) -> Self {
        Self {
            temporary: Arc::new(TemporaryDisk::new(Arc::clone(&disk))),
            disk,
            directory,
            cache,
            tree_options,
            messages,
        }
    }

    fn new_tree(&self, entry: &IndexEntry) -> StorageResult<Arc<Tree>> {
        let mut options = self.tree_options.clone();
        entry.apply_to(&mut options);
        let disk = if entry.is_temporary() {
            &self.temporary
        } else {
            &self.disk
        };
        Tree::create(
            disk,
            &self.directory.join(&entry.path),
            entry.file,
            options,
            &self.cache,
        )
    }

    pub(crate) fn open_tree(&self, entry: &IndexEntry) -> StorageResult<Arc<Tree>> {
        let path = self.directory.join(&entry.path);
        Tree::open(&self.disk, &path, Some(entry.file), &self.cache)
    }

    /// Opens what is left of a damaged tree.
    pub(crate) fn open_damaged_tree(&self, entry: &IndexEntry) -> StorageResult<Arc<Tree>> {
        let path = self.directory.join(&entry.path);
        Tree::open_damaged(&self.disk, &path, entry.file, &self.cache)
    }

    /// Creates empty index files and makes their names durable, unless they are temporary. On
    /// failure, removes the files created so far.
    pub(crate) fn create(&self, indexes: &[IndexEntry]) -> StorageResult<Vec<Arc<Tree>>> {
        let paths = paths_of(indexes);
        let mut trees = Vec::with_capacity(indexes.len());
        let created = self.create_all(indexes, &paths, &mut trees);
        if let Err(error) = created {
            self.remove(paths.get(..trees.len()).unwrap_or_default());
            return Err(error);
        }
        Ok(trees)
    }

    fn create_all(
        &self,
        indexes: &[IndexEntry],
        paths: &[PathBuf],
        trees: &mut Vec<Arc<Tree>>,
    ) -> StorageResult<()> {
        // Temporary files are in the data directory itself.
        let durable = indexes.iter().zip(paths);
        let durable = durable.filter(|(index, _)| !index.is_temporary());
        let durable: Vec<PathBuf> = durable.map(|(_, path)| path.clone()).collect();
        let directories = parents(&self.directory, &durable);
        for directory in &directories {
            make_directory(&self.disk, directory)?;
        }
        for index in indexes {
            trees.push(self.new_tree(index)?);
        }
        for directory in &directories {
            self.disk.sync_directory(directory)?;
        }
        Ok(())
    }

    /// Removes index files that the catalogue no longer names. A file that
    /// cannot be removed now is removed when the engine is opened next.
    pub(crate) fn remove(&self, paths: &[PathBuf]) {
        for path in paths {
            match self.disk.remove(&self.directory.join(path)) {
                Ok(()) | Err(StorageError::NotFound { .. }) => {}
                Err(error) => {
                    let text = format!("an unused file cannot be removed now: {error}");
                    self.messages.warning(&text);
                }
            }
        }
    }

    /// Moves index files that the catalogue no longer names to the directory of
    /// orphans. A file that cannot be moved now is moved when the engine is
    /// opened next.
    pub(crate) fn set_aside(&self, paths: &[PathBuf]) {
        let aside = self.directory.join(ORPHANS_DIRECTORY);
        let moved = make_directory(&self.disk, &aside).and_then(|()| {
            for path in paths {
                let Some(name) = path.file_name() else {
                    continue;
                };
                self.disk
                    .rename(&self.directory.join(path), &aside.join(name))?;
            }
            for directory in parents(&self.directory, paths) {
                self.disk.sync_directory(&directory)?;
            }
            self.disk.sync_directory(&aside)
        });
        if let Err(error) = moved {
            let text = format!("a damaged file cannot be set aside now: {error}");
            self.messages.warning(&text);
        }
    }

    /// Removes new files if appending the record that refers to them has failed with `NoSpace`: the
    /// log has revoked that record. After other errors the record may be durable, so the files
    /// remain.
    pub(crate) fn remove_unlogged(&self, indexes: &[IndexEntry], error: &StorageError) {
        if error.is_no_space() {
            self.remove(&paths_of(indexes));
        }
    }

    /// Renames files and makes their names durable. If a file cannot be renamed, its old path
    /// replaces the one in `new`.
    pub(crate) fn rename(&self, old: &[PathBuf], new: &mut [PathBuf]) -> StorageResult<()> {
        let root = &self.directory;
        let mut outcome = Ok(());
        for (old, new) in old.iter().zip(&mut *new) {
            let renamed = self.disk.rename(&root.join(old), &root.join(&*new));
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
