//! The disk of an engine whose files are in the file system.

use crate::core::messages::Messages;
use crate::name::EXTENSION;
use crate::options::EngineOptions;
use std::sync::Arc;
use teak_disk::{DirectDisk, Disk, RealDisk};

/// How index files are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileIo {
    /// Through the cache of the operating system.
    #[default]
    Buffered,
    /// Past the cache of the operating system (`O_DIRECT`), if the file system allows it.
    Direct,
}

/// The file system, as the disk of an engine with these options. If it does not allow direct I/O, a
/// message reports it, and the files are buffered. The log is always buffered.
#[must_use]
pub fn file_system(options: &EngineOptions, io: FileIo) -> Arc<dyn Disk> {
    if io == FileIo::Buffered {
        return Arc::new(RealDisk);
    }
    match DirectDisk::new(&options.directory, EXTENSION) {
        Ok(disk) => Arc::new(disk),
        Err(error) => {
            let text = format!("index files are not opened for direct I/O: {error}");
            Messages::new(options.messages.clone()).warning(&text);
            Arc::new(RealDisk)
        }
    }
}
