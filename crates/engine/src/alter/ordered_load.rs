//! Bulk build from entries that are added in key order. They are gathered in memory and written one
//! leaf at a time.

use super::sort_buffer::SortBuffer;
use crate::core::EngineCore;
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use teak_tree::PausedLoad;

/// Writes entries, added in ascending order of keys, into an index.
#[derive(Default)]
pub(super) struct OrderedLoad {
    /// Entries not yet written: at most those of one leaf.
    gathered: SortBuffer,
    last: Option<Vec<u8>>,
    load: PausedLoad,
    entries: u64,
}

impl OrderedLoad {
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds an entry.
    pub(super) fn add(
        &mut self,
        core: &EngineCore,
        index: &Index,
        key: &[u8],
        value: &[u8],
    ) -> EngineResult<()> {
        match &mut self.last {
            Some(last) if last.as_slice() >= key => {
                return Err(EngineError::InvalidArgument(
                    "an entry was not added in the order of its key".into(),
                ));
            }
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            None => self.last = Some(key.to_vec()),
        }
        let bytes = self.gathered.memory() + key.len() + value.len();
        if bytes as u64 > index.tree.options().leaf_bytes && !self.gathered.is_empty() {
            self.write(core, index)?;
        }
        if !self.gathered.push(key, value) {
            return Err(EngineError::Internal("an entry is too large".into()));
        }
        self.entries += 1;
        Ok(())
    }

    fn write(&mut self, core: &EngineCore, index: &Index) -> EngineResult<()> {
        let mut load = index.tree.bulk_load(std::mem::take(&mut self.load));
        let mut position = 0;
        while let Some((key, value)) = self.gathered.entry(position) {
            core.checked(index, load.push(key, value))?;
            position += 1;
        }
        self.gathered.clear();
        self.load = core.checked(index, load.pause())?;
        Ok(())
    }

    /// Writes the remaining entries and completes the index.
    pub(super) fn finish(mut self, core: &EngineCore, index: &Index) -> EngineResult<()> {
        self.write(core, index)?;
        let load = index.tree.bulk_load(self.load);
        core.checked(index, load.finish())?;
        Ok(())
    }
}
