//! Update messages under a cursor.

use super::{Place, TreeCursor};
use crate::lookup;
use teak_base::StorageResult;
use teak_base::visibility::Visibility;

impl<V: Visibility> TreeCursor<V> {
    /// Ends a key that has no visible put on top: applies its visible updates,
    /// if any, to what lies under them. True when that gives a value, and the
    /// cursor stands on it.
    pub(super) fn fold(&mut self, base: Option<&[u8]>) -> StorageResult<bool> {
        if self.updates.is_empty() {
            return Ok(false);
        }
        let Some(value) = lookup::fold(&self.tree, base, &self.updates)? else {
            return Ok(false);
        };
        self.folded_value = value;
        self.place = Place::Folded;
        Ok(true)
    }
}
