//! A change of the root: written blocks become live, and freed ones pending or free.

use crate::address::BlockAddress;
use crate::extents::{Extent, coalesce};
use crate::shared::SharedFile;
use crate::space::{NotLive, Space};
use crate::writer::WrittenBlocks;
use std::sync::Arc;
use teak_base::{KeyVersion, StorageError};

/// The space that a publication changes.
#[derive(Debug)]
pub(crate) struct Publication {
    pub written: Vec<Extent>,
    /// The keys of these blocks.
    keys: Vec<Option<KeyVersion>>,
    /// Coalesced.
    pub freed: Vec<Extent>,
    /// The offset of a freed address that no block can have, or that overlaps another one.
    bad: Option<u64>,
}

impl Publication {
    /// # Panics
    /// When `written` belongs to another file.
    pub fn new(
        file: &Arc<SharedFile>,
        written: Vec<WrittenBlocks>,
        freed: &[BlockAddress],
    ) -> Self {
        let mut live = Vec::new();
        let not_empty = written.iter().filter(|blocks| blocks.bytes() > 0);
        let keys = not_empty.map(WrittenBlocks::key).collect();
        for blocks in written {
            assert!(
                Arc::ptr_eq(blocks.file(), file),
                "blocks are published in the file that holds them"
            );
            live.append(&mut blocks.into_extents());
        }
        let mut bad = None;
        let mut extents = Vec::with_capacity(freed.len());
        for address in freed {
            match address.extent() {
                Some(extent) => extents.push(extent),
                None => bad = Some(address.offset),
            }
        }
        let freed = coalesce(extents).unwrap_or_else(|twice| {
            bad = Some(twice.offset);
            Vec::new()
        });
        Self {
            written: live,
            keys,
            freed,
            bad,
        }
    }

    /// Calls `publish` with the space. If a freed range was not live, later
    /// checkpoints fail.
    pub fn apply(
        &self,
        file: &SharedFile,
        publish: impl FnOnce(&mut Space) -> Result<(), NotLive>,
    ) {
        let mut state = file.state();
        let outcome = publish(&mut state.space);
        state.note_published(&self.written);
        for key in &self.keys {
            state.note_key(*key);
        }
        if let Some(offset) = outcome.err().map(|error| error.offset).or(self.bad) {
            let reason = "the tree frees a block that is not live";
            state.refuse(StorageError::corrupt(file.file.path(), offset, reason));
        }
    }
}
