//! Entries that come in order of their keys: written a leaf at a time, while they
//! come.

use super::segment::Segment;
use crate::core::EngineCore;
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use teak_tree::PausedLoad;

/// Takes entries in ascending order of keys.
#[derive(Default)]
pub(super) struct InOrder {
    /// What is to be written next.
    gathered: Segment,
    last: Option<Vec<u8>>,
    load: PausedLoad,
    entries: u64,
}

impl InOrder {
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds an entry.
    pub(super) fn add(
        &mut self,
        inner: &EngineCore,
        index: &Index,
        key: &[u8],
        value: &[u8],
    ) -> EngineResult<()> {
        match &mut self.last {
            Some(last) if last.as_slice() >= key => {
                return Err(EngineError::InvalidArgument(
                    "an entry comes out of the order that was promised".into(),
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
            self.write(inner, index)?;
        }
        if !self.gathered.push(key, value) {
            return Err(EngineError::Internal("an entry is too large".into()));
        }
        self.entries += 1;
        Ok(())
    }

    fn write(&mut self, inner: &EngineCore, index: &Index) -> EngineResult<()> {
        let mut load = index.tree.bulk_load(std::mem::take(&mut self.load));
        let mut place = 0;
        while let Some((key, value)) = self.gathered.entry(place) {
            inner.checked(index, load.push(key, value))?;
            place += 1;
        }
        self.gathered.clear();
        self.load = inner.checked(index, load.pause())?;
        Ok(())
    }

    /// Puts everything in its place.
    pub(super) fn finish(mut self, inner: &EngineCore, index: &Index) -> EngineResult<()> {
        self.write(inner, index)?;
        let load = index.tree.bulk_load(self.load);
        inner.checked(index, load.finish())?;
        Ok(())
    }
}
