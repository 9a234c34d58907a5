//! The claim of a job on a child.

use crate::install_state::InstallState;
use crate::node::ChildId;
use crate::tree::Tree;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exclusive right to consume or replace runs of a child, or to flush memtables. Dropping it
/// releases it.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) tree: Arc<Tree>,
    id: ChildId,
    held: AtomicBool,
}

impl Claim {
    pub(super) fn take(tree: &Arc<Tree>, install: &mut InstallState, id: ChildId) -> Self {
        let new = install.claimed.insert(id);
        assert!(new, "a child is claimed once");
        Self {
            tree: Arc::clone(tree),
            id,
            held: AtomicBool::new(true),
        }
    }

    pub(super) fn id(&self) -> ChildId {
        self.id
    }

    pub(super) fn release(&self, install: &mut InstallState) {
        self.held.store(false, Ordering::Relaxed);
        install.claimed.remove(&self.id);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.held.load(Ordering::Relaxed) {
            self.tree.install.lock().claimed.remove(&self.id);
        }
    }
}
