//! Whether a tree has data in a key range.

use crate::node::{EndOfData, KeyRange, Node};
use crate::tree::Tree;
use crate::{VersionCursor, key_search::key_order};
use teak_base::StorageResult;
use teak_base::bytes::key_successor;

impl Tree {
    /// Whether there may be versions of keys from `first` to `last`, both included. Reads neither
    /// runs nor nodes: `true` if that would be necessary.
    ///
    /// # Errors
    /// Errors of memtables.
    pub fn may_hold_keys(&self, first: &[u8], last: &[u8]) -> StorageResult<bool> {
        let version = self.load_version();
        for slot in version.memtables() {
            let mut cursor = slot.memtable.cursor();
            cursor.seek(first)?;
            if cursor.valid() && key_order(cursor.key(), last).is_le() {
                return Ok(true);
            }
        }
        let wanted = KeyRange::new(first, Some(&key_successor(last)));
        Ok(has_runs(&version.root, &KeyRange::all(), &wanted))
    }
}

fn has_runs(node: &Node, range: &KeyRange, wanted: &KeyRange) -> bool {
    let children = node.children_with_ranges(range);
    let mut children = children.filter(|(_, range)| range.overlaps(wanted));
    children.any(|(child, range)| {
        let mut runs = child.runs.iter();
        if runs.any(|run| run.range().overlaps(wanted)) {
            return true;
        }
        let Some(link) = &child.below else {
            return false;
        };
        match &link.totals().end {
            EndOfData::Empty => false,
            EndOfData::Before(end) if **end <= *wanted.lower => false,
            EndOfData::Before(_) | EndOfData::Unbounded => {
                let below = link.loaded();
                below.is_none_or(|below| has_runs(&below, &range, wanted))
            }
        }
    })
}
