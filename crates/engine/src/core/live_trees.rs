//! All trees that readers may use: those of open tables, and those of dropped or replaced indexes
//! that are still referred to.

use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use teak_base::{WriteId, WriteIdRange};
use teak_tree::LiveVersions;

/// The list is searched for trees that do not exist any more when it has doubled.
const LIST_MIN: usize = 64;

/// The versions of all trees.
#[derive(Default)]
pub(crate) struct LiveTrees(Mutex<List>);

#[derive(Default)]
struct List {
    trees: Vec<Weak<LiveVersions>>,
    /// The length at which trees that do not exist any more are removed.
    pruned_at: usize,
}

impl LiveTrees {
    pub(crate) fn register(&self, tree: &Arc<LiveVersions>) {
        let mut list = self.0.lock();
        if list.trees.len() >= list.pruned_at {
            list.trees.retain(|tree| tree.strong_count() > 0);
            list.pruned_at = (2 * list.trees.len()).max(LIST_MIN);
        }
        list.trees.push(Arc::downgrade(tree));
    }

    /// Ranges of write ids that contain every aborted write of which a reader may find entries.
    pub(crate) fn write_ids(&self) -> Vec<WriteIdRange> {
        let trees: Vec<_> = {
            let list = self.0.lock();
            list.trees.iter().filter_map(Weak::upgrade).collect()
        };
        let ids = trees.iter().flat_map(|tree| tree.write_ids());
        ids.map(|(first, last): (WriteId, WriteId)| WriteIdRange {
            first,
            count: last.0.saturating_sub(first.0) + 1,
        })
        .collect()
    }
}
