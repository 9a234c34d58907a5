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
    let directories = index_directories(disk, root, known)?;
    let files = directories.iter();
    Ok(files
        .flat_map(|directory| index_files_in(disk, directory))
        .collect())
}

/// Files in a directory whose names have the form of index files. Returns no files if the directory
/// cannot be listed, because it may be a plain file.
fn index_files_in(disk: &Arc<dyn Disk>, directory: &Path) -> Vec<PathBuf> {
    let mut files = disk.list(directory).unwrap_or_default();
    files.retain(|path| file_id_of(path).is_some());
    files
}

/// The files that searches have found, for later searches.
#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    by_id: HashMap<FileId, PathBuf>,
    searched: BTreeSet<PathBuf>,
}

impl FoundFiles {
    /// The path of a file relative to the data directory, if it is in one of the
    /// [`index_directories`] of the `known` path. Lists only directories that were not listed
    /// before.
    fn find(
        &mut self,
        disk: &Arc<dyn Disk>,
        root: &Path,
        known: &PathBuf,
        file: FileId,
    ) -> StorageResult<Option<&PathBuf>> {
        let is_listed = |directory: Option<&Path>| {
            directory.is_none_or(|directory| self.searched.contains(directory))
        };
        if !is_listed(Some(root)) || !is_listed(known.parent()) {
            for directory in index_directories(disk, root, std::iter::once(known))? {
                if self.searched.contains(&directory) {
                    continue;
                }
                for path in index_files_in(disk, &directory) {
                    if let (Some(file), Ok(path)) = (file_id_of(&path), path.strip_prefix(root)) {
                        self.by_id.insert(file, path.to_path_buf());
                    }
                }
                self.searched.insert(directory);
            }
        }
        Ok(self.by_id.get(&file))
    }
}

/// The entry with the paths at which its files are now: a table may have been
/// renamed since the catalogue was written, or while its files were missing.
pub(crate) fn with_found_paths(
    disk: &Arc<dyn Disk>,
    root: &Path,
    found: &mut FoundFiles,
    entry: &TableEntry,
) -> StorageResult<TableEntry> {
    let mut entry = entry.clone();
    for index in &mut entry.indexes {
        let known = root.join(&index.path);
        if !disk.exists(&known)?
            && let Some(path) = found.find(disk, root, &known, index.file)?
        {
            index.path.clone_from(path);
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;
    use crate::catalogue::IndexEntry;
    use crate::definition::IndexDefinition;
    use std::collections::BTreeMap;
    use teak_disk::MemoryDisk;

    const ROOT: &str = "/data";

    fn table(path: &str, file: u64) -> TableEntry {
        let definition = IndexDefinition::of_rows();
        TableEntry {
            id: file,
            name: "name".into(),
            metadata: Vec::new(),
            indexes: vec![IndexEntry::new(FileId(file), path.into(), definition)],
            retained: None,
            counters: BTreeMap::new(),
            written_at: 0,
        }
    }

    #[test]
    fn each_directory_of_a_moved_file_is_searched() {
        let memory = MemoryDisk::new();
        let moved = [
            "a/b/new-00000001.teak",
            "a/c/new-00000002.teak",
            "d/new-00000003.teak",
        ];
        for path in moved {
            let path = Path::new(ROOT).join(path);
            memory.create_directories(path.parent().unwrap()).unwrap();
            memory.create(&path).unwrap();
        }
        let disk: Arc<dyn Disk> = Arc::new(memory);
        let mut found = FoundFiles::default();
        let known = [
            "a/b/old-00000001.teak",
            "a/c/old-00000002.teak",
            "e/old-00000003.teak",
        ];
        for (file, (known, moved)) in (1u64..).zip(known.into_iter().zip(moved)) {
            let entry = table(known, file);
            let entry = with_found_paths(&disk, ROOT.as_ref(), &mut found, &entry).unwrap();
            assert_eq!(entry.indexes[0].path, Path::new(moved));
        }
    }
}
