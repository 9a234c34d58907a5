//! Finding index files by the file ids in their names.

use crate::catalogue::TableEntry;
use crate::name::{ORPHANS_DIRECTORY, file_id_of};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{FileId, StorageResult};
use teak_disk::Disk;

/// The directories that may contain index files: those of the `known` paths, the
/// data directory, and its entries except that of orphans. Entries may be plain
/// files.
pub(crate) fn index_directories<'a>(
    disk: &Arc<dyn Disk>,
    root: &Path,
    known: impl Iterator<Item = &'a PathBuf>,
) -> StorageResult<BTreeSet<PathBuf>> {
    let mut directories: BTreeSet<PathBuf> = known
        .filter_map(|path| path.parent().map(Path::to_path_buf))
        .collect();
    directories.insert(root.to_path_buf());
    directories.extend(disk.list(root)?);
    directories.remove(&root.join(ORPHANS_DIRECTORY));
    Ok(directories)
}

/// Files whose names have the form of index files, in the [`index_directories`].
pub(crate) fn index_files<'a>(
    disk: &Arc<dyn Disk>,
    root: &Path,
    known: impl Iterator<Item = &'a PathBuf>,
) -> StorageResult<Vec<PathBuf>> {
    let mut files = Vec::new();
    for directory in index_directories(disk, root, known)? {
        // Ignores errors, because the entry may be a plain file.
        if let Ok(found) = disk.list(&directory) {
            files.extend(found.into_iter().filter(|path| file_id_of(path).is_some()));
        }
    }
    Ok(files)
}

/// The entry with the paths at which its files are now: a table may have been
/// renamed since the catalogue was written, or while its files were missing.
/// `paths` stores the result of the first search, for later calls.
pub(crate) fn with_found_paths(
    disk: &Arc<dyn Disk>,
    root: &Path,
    paths: &mut Option<HashMap<FileId, PathBuf>>,
    entry: &TableEntry,
) -> StorageResult<TableEntry> {
    let mut entry = entry.clone();
    for index in &mut entry.indexes {
        if disk.exists(&root.join(&index.path))? {
            continue;
        }
        let paths = match paths {
            Some(paths) => paths,
            None => {
                let known = root.join(&index.path);
                let files = index_files(disk, root, std::iter::once(&known))?;
                let named = files.into_iter().filter_map(|path| {
                    let relative = path.strip_prefix(root).ok()?.to_path_buf();
                    Some((file_id_of(&path)?, relative))
                });
                paths.insert(named.collect())
            }
        };
        if let Some(path) = paths.get(&index.file) {
            index.path.clone_from(path);
        }
    }
    Ok(entry)
}
