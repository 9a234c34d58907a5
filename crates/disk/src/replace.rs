//! Replacing a small file as a whole.

use crate::disk::Disk;
use std::path::Path;
use std::sync::Arc;
use teak_base::StorageResult;

/// Replaces a file; durable on return. The bytes are first written to the file `temporary` in the same directory.
/// After an error, either the old or the new file is in place.
///
/// # Errors
/// `NoSpace`, `Io`.
pub fn replace_file(
    disk: &Arc<dyn Disk>,
    temporary: &Path,
    path: &Path,
    bytes: &[u8],
) -> StorageResult<()> {
    if disk.exists(temporary)? {
        disk.remove(temporary)?;
    }
    let written = disk.create(temporary).and_then(|file| {
        file.write_all_at(bytes, 0)?;
        file.sync()
    });
    if let Err(error) = written {
        // Removes the temporary file, to free its space on a full disk. If this fails, the next call
        // removes the file.
        let _ = disk.remove(temporary);
        return Err(error);
    }
    disk.rename(temporary, path)?;
    disk.sync_directory(path.parent().unwrap_or(Path::new(".")))
}
