//! Index files that are opened without the engine, for reading only.

use crate::keys;
use crate::progress::{Progress, Unit};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{FileId, StorageResult};
use teak_block_file::BlockFile;
use teak_disk::{Disk, ReadOnlyDisk};
use teak_tree::{PageCache, Tree};

/// The end of the names of index files.
const EXTENSION: &str = "teak";

/// Memory for blocks.
const CACHE_BYTES: u64 = 16 << 20;

/// The index files among the paths, and in the directories among them and below, sorted within each directory.
pub(crate) fn find(paths: &[PathBuf]) -> StorageResult<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            add_directory(path, &mut found)?;
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

fn add_directory(directory: &Path, found: &mut Vec<PathBuf>) -> StorageResult<()> {
    let mut paths = ReadOnlyDisk.list(directory)?;
    paths.sort();
    for path in paths {
        let is_index = path.extension().is_some_and(|end| end == EXTENSION);
        if path.is_dir() && !path.is_symlink() {
            add_directory(&path, found)?;
        } else if is_index {
            found.push(path);
        }
    }
    Ok(())
}

fn cache() -> Arc<PageCache> {
    let cache = PageCache::new(CACHE_BYTES);
    Arc::new(cache.with_cipher(keys::encryption().cipher))
}

/// Verifies the checksums of an encrypted index file whose key is not known. Returns the number of blocks and their bytes.
pub(crate) fn verify_checksums(path: &Path) -> StorageResult<(u64, u64)> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
    let (file, _) = BlockFile::open(&disk, path, None)?;
    let total = file.statistics().live_bytes;
    let mut progress = Progress::new(path.display().to_string(), Unit::Bytes, total);
    let mut bytes = 0;
    let blocks = file.pin_checkpoint()?.verify(&mut |more| {
        bytes += more;
        progress.at(bytes);
    })?;
    Ok((blocks, bytes))
}

/// Opens an index file as of its last checkpoint.
pub(crate) fn open_tree(path: &Path) -> StorageResult<Arc<Tree>> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
    Tree::open(&disk, path, None, &cache())
}

/// As [`open_tree`], to read what is left of a damaged file. `generation`: of a checkpoint that was durable.
pub(crate) fn open_damaged(path: &Path, id: FileId, generation: u64) -> StorageResult<Arc<Tree>> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
    let cache = cache();
    match Tree::open_damaged(&disk, path, id, generation, &cache) {
        Err(error) if error.is_corrupt() => {
            eprintln!("teak: {error}; only intact pages are read");
            Tree::open_without_superblock(&disk, path, id, &cache)
        }
        opened => opened,
    }
}

/// Opens an index file to be read wholly.
pub(crate) fn open(path: &Path) -> StorageResult<(Arc<Tree>, Progress)> {
    let tree = open_tree(path)?;
    let total = tree.statistics().stored_bytes;
    let progress = Progress::new(path.display().to_string(), Unit::Bytes, total);
    Ok((tree, progress))
}
