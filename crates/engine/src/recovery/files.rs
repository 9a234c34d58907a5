//! Index files and where they lie, when the engine is opened.

use crate::catalogue::TableEntry;
use crate::engine::Inner;
use crate::error::EngineResult;
use crate::name::file_id_of;
use crate::options::Level;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{FileId, StorageResult};
use teak_disk::Disk;

/// Finds files at other paths than the catalogue says: a rename may be durable
/// in the catalogue and not in the directory.
pub(super) fn find_moved(inner: &Inner) -> EngineResult<()> {
    let root = inner.directory();
    let mut tables = inner.tables.lock();
    let indexes = tables.by_id.values().flat_map(|state| &state.entry.indexes);
    let known: Vec<PathBuf> = indexes.map(|index| root.join(&index.path)).collect();
    let files = index_files(&inner.disk, root, known.iter())?;
    let places: HashMap<FileId, &PathBuf> = files
        .iter()
        .filter_map(|path| Some((file_id_of(path)?, path)))
        .collect();
    let there: BTreeSet<&PathBuf> = files.iter().collect();
    for state in tables.by_id.values_mut() {
        for index in &mut state.entry.indexes {
            if !there.contains(&root.join(&index.path))
                && let Some(place) = places.get(&index.file)
                && let Ok(place) = place.strip_prefix(root)
            {
                index.path = place.to_path_buf();
            }
        }
    }
    Ok(())
}

/// Removes index files that no table has, and spill files: leftovers of a
/// crash. Their ids are not given out again, for a removal that another crash undoes must not leave
/// two files of one id.
pub(super) fn remove_orphans(inner: &Inner) -> EngineResult<()> {
    let root = inner.directory();
    let (known, files) = {
        let tables = inner.tables.lock();
        let indexes = tables.by_id.values().flat_map(|state| &state.entry.indexes);
        let known: BTreeSet<PathBuf> = indexes.clone().map(|i| root.join(&i.path)).collect();
        let files: BTreeSet<FileId> = indexes.map(|index| index.file).collect();
        (known, files)
    };
    let mut changed = BTreeSet::new();
    for path in inner.disk.list(root)? {
        if crate::alter::is_spill(&path) {
            inner.disk.remove(&path)?;
        }
    }
    for path in index_files(&inner.disk, root, known.iter())? {
        let Some(file) = file_id_of(&path) else {
            continue;
        };
        {
            let mut tables = inner.tables.lock();
            tables.next_file = tables.next_file.max(file.0.saturating_add(1));
        }
        if !known.contains(&path) && !files.contains(&file) {
            let text = format!("removing {}, which no table has", path.display());
            inner.message(Level::Note, &text);
            inner.disk.remove(&path)?;
            changed.extend(path.parent().map(Path::to_path_buf));
        }
    }
    for directory in changed {
        inner.disk.sync_directory(&directory)?;
    }
    Ok(())
}

/// Files with names of index files, in the directories of `known` paths and
/// those of the data directory.
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
    let mut files = Vec::new();
    for directory in directories {
        // Plain files of the data directory cannot be listed.
        if let Ok(found) = disk.list(&directory) {
            files.extend(found.into_iter().filter(|path| file_id_of(path).is_some()));
        }
    }
    Ok(files)
}

/// The entry with the paths at which its files lie now. The log tells of a
/// table's rows before it tells that the table was renamed later.
pub(super) fn as_found(
    disk: &Arc<dyn Disk>,
    root: &Path,
    places: &mut Option<HashMap<FileId, PathBuf>>,
    entry: &TableEntry,
) -> StorageResult<TableEntry> {
    let mut entry = entry.clone();
    for index in &mut entry.indexes {
        if disk.exists(&root.join(&index.path))? {
            continue;
        }
        let places = match places {
            Some(places) => places,
            None => {
                let known = root.join(&index.path);
                let files = index_files(disk, root, std::iter::once(&known))?;
                let named = files.into_iter().filter_map(|path| {
                    let relative = path.strip_prefix(root).ok()?.to_path_buf();
                    Some((file_id_of(&path)?, relative))
                });
                places.insert(named.collect())
            }
        };
        if let Some(place) = places.get(&index.file) {
            index.path.clone_from(place);
        }
    }
    Ok(entry)
}
