//! Finding and removing index files when the engine is opened.

use crate::catalogue::TableEntry;
use crate::core::files::{IndexFiles, ORPHANS_DIRECTORY};
use crate::core::tables::Tables;
use crate::error::EngineResult;
use crate::name::{file_id_of, is_leftover};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{FileId, StorageResult};
use teak_disk::Disk;

/// Finds files that are not at the path in the catalogue: after a crash, a rename may be durable in
/// the catalogue and not in the directory.
pub(super) fn find_moved(files: &IndexFiles, tables: &mut Tables) -> EngineResult<()> {
    let root = &files.directory;
    let indexes = tables.by_id.values().flat_map(|state| &state.entry.indexes);
    let known: Vec<PathBuf> = indexes.map(|index| root.join(&index.path)).collect();
    let found = index_files(&files.disk, root, known.iter())?;
    let by_id: HashMap<FileId, &PathBuf> = found
        .iter()
        .filter_map(|path| Some((file_id_of(path)?, path)))
        .collect();
    let existing: BTreeSet<&PathBuf> = found.iter().collect();
    for state in tables.by_id.values_mut() {
        for index in &mut state.entry.indexes {
            if !existing.contains(&root.join(&index.path))
                && let Some(path) = by_id.get(&index.file)
                && let Ok(path) = path.strip_prefix(root)
            {
                index.path = path.to_path_buf();
            }
        }
    }
    Ok(())
}

/// Removes index files that belong to no table, spill files, and files of temporary tables; a crash
/// can leave all of them. The ids of the first are not allocated again: another crash may undo the
/// removal, and file ids must be unique.
pub(super) fn remove_orphans(files: &IndexFiles, tables: &Mutex<Tables>) -> EngineResult<()> {
    let (disk, root) = (&files.disk, &files.directory);
    let (known, ids) = {
        let tables = tables.lock();
        let indexes = tables.by_id.values().flat_map(|state| &state.entry.indexes);
        let known: BTreeSet<PathBuf> = indexes.clone().map(|i| root.join(&i.path)).collect();
        let ids: BTreeSet<FileId> = indexes.map(|index| index.file).collect();
        (known, ids)
    };
    for path in disk.list(root)? {
        if is_leftover(&path) {
            disk.remove(&path)?;
        }
    }
    let mut changed = BTreeSet::new();
    for path in index_files(disk, root, known.iter())? {
        let Some(file) = file_id_of(&path) else {
            continue;
        };
        {
            let mut tables = tables.lock();
            tables.next_file = tables.next_file.max(file.0.saturating_add(1));
        }
        if !known.contains(&path) && !ids.contains(&file) {
            let path_text = path.display();
            let text = format!("removing {path_text}, which belongs to no table");
            files.messages.note(&text);
            disk.remove(&path)?;
            changed.extend(path.parent().map(Path::to_path_buf));
        }
    }
    for directory in changed {
        disk.sync_directory(&directory)?;
    }
    Ok(())
}

/// Files whose names have the form of index files, in the directories of the
/// `known` paths and in those of the data directory.
fn index_files<'a>(
    disk: &Arc<dyn Disk>,
    root: &Path,
    known: impl Iterator<Item = &'a PathBuf>,
) -> StorageResult<Vec<PathBuf>> {
    let mut directories: BTreeSet<PathBuf> = known
        .filter_map(|path| path.parent().map(Path::to_path_buf))
        .collect();
    directories.insert(root.to_path_buf());
    directories.extend(disk.list(root)?);
    directories.remove(&root.join(ORPHANS_DIRECTORY));
    let mut files = Vec::new();
    for directory in directories {
        // Ignores errors: an entry of the data directory may be a plain file.
        if let Ok(found) = disk.list(&directory) {
            files.extend(found.into_iter().filter(|path| file_id_of(path).is_some()));
        }
    }
    Ok(files)
}

/// The entry with the paths at which its files are now: a later log record may rename the table.
pub(super) fn with_found_paths(
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
