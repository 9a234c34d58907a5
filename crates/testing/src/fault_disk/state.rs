//! The state of a fault disk.

use crate::fault_disk::content::Content;
use crate::fault_disk::errors::not_found;
use crate::fault_disk::names::{ContentId, Names};
use crate::fault_disk::plan::Plan;
use crate::random::Random;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use teak_base::StorageResult;
use teak_disk::LockTable;

#[derive(Debug)]
pub(super) struct State {
    pub(super) contents: BTreeMap<ContentId, Content>,
    pub(super) names: Names,
    pub(super) plan: Plan,
    pub(super) random: Random,
    pub(super) next_id: ContentId,
    /// The locks of paths. The disk after a power loss has none.
    pub(super) locks: Arc<LockTable>,
}

impl State {
    /// Removes contents that have no handle and no name, and cannot get one by a power loss.
    pub(super) fn forget_unreachable(&mut self, id: ContentId) {
        let open = self.contents.get(&id).is_some_and(|c| c.handles > 0);
        if !open && !self.names.refers_to(id) {
            self.contents.remove(&id);
        }
    }

    /// The contents of an open file.
    pub(super) fn content(&mut self, id: ContentId, path: &Path) -> StorageResult<&mut Content> {
        self.contents.get_mut(&id).ok_or_else(|| not_found(path))
    }

    /// The maximum length that a file can have now, in bytes.
    pub(super) fn length_max(&self, id: ContentId) -> u64 {
        let Some(capacity) = self.plan.capacity_bytes else {
            return u64::MAX;
        };
        let own = self.contents.get(&id).map_or(0, Content::used_bytes);
        own + capacity.saturating_sub(self.used_bytes())
    }

    /// The space of all files, reserved space included.
    pub(super) fn used_bytes(&self) -> u64 {
        // Contents that only a power loss can restore take no space.
        let named = self.names.named();
        let exists =
            |(id, content): &(&ContentId, &Content)| content.handles > 0 || named.contains(*id);
        let contents = self.contents.iter().filter(exists);
        contents.map(|(_, content)| content.used_bytes()).sum()
    }
}
