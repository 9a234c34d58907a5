//! Bulk build from entries that are added in key order. They are gathered in memory and written one
//! leaf at a time.

use super::entries::{EntryReader, malformed, put_entry};
use crate::core::EngineCore;
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use teak_tree::PausedLoad;

/// Writes entries, added in ascending order of keys, into an index.
#[derive(Default)]
pub(super) struct OrderedLoad {
    /// Entries not yet written: at most those of one leaf.
    gathered: Vec<u8>,
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
        let bytes = self.gathered.len() + key.len() + value.len();
        if bytes as u64 > index.tree.options().leaf_bytes && !self.gathered.is_empty() {
            self.write(core, index)?;
        }
        put_entry(&mut self.gathered, key, value);
        self.entries += 1;
        Ok(())
    }

    fn write(&mut self, core: &EngineCore, index: &Index) -> EngineResult<()> {
        let mut load = index.tree.bulk_load(std::mem::take(&mut self.load));
        let mut gathered = EntryReader::new(std::mem::take(&mut self.gathered));
        while gathered.advance().map_err(malformed)? {
            if let Some((key, value)) = gathered.entry() {
                core.checked(index, load.push(key, value))?;
            }
        }
        self.gathered = gathered.into_empty();
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
