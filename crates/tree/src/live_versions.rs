//! The versions of a tree that are in use, so that aborted write ids are forgotten only when no
//! reader can find entries with these ids.
//!
//! A version is added before readers can load it. So if a version that this list contained is not
//! in use any more, no reader has it or can get it.

use crate::version::{MemtableSlot, TreeVersion};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use teak_base::WriteId;

/// The versions of a tree that readers may use: the current one, and older ones that readers have
/// loaded.
#[derive(Debug, Default)]
pub struct LiveVersions {
    versions: Mutex<Vec<LiveVersion>>,
}

#[derive(Debug)]
struct LiveVersion {
    version: Weak<TreeVersion>,
    /// The range of ids that its runs may contain although their writes are aborted.
    runs: Option<(WriteId, WriteId)>,
    memtables: Vec<Weak<MemtableSlot>>,
}

impl LiveVersion {
    fn is_used(&self) -> bool {
        self.version.strong_count() > 0
    }

    /// Its memtables exist as long as it does.
    fn write_ids(&self) -> impl Iterator<Item = (WriteId, WriteId)> {
        let memtables = self.memtables.iter().filter_map(Weak::upgrade);
        let ids = memtables.filter_map(|slot| slot.memtable.write_id_range());
        ids.chain(self.runs)
    }
}

impl LiveVersions {
    /// Adds a version, before it is published, and removes those that are not used any more.
    pub(crate) fn add(&self, version: &Arc<TreeVersion>) {
        let summary = &version.root.summary;
        let newest = summary.write_ids.map(|(_, newest)| newest);
        let added = LiveVersion {
            version: Arc::downgrade(version),
            runs: summary.oldest_unpurged.zip(newest),
            memtables: version.memtables().map(Arc::downgrade).collect(),
        };
        let mut versions = self.versions.lock();
        versions.retain(LiveVersion::is_used);
        versions.push(added);
    }

    /// Ranges of write ids, both ends included, that contain every aborted write of which a version
    /// has entries.
    #[must_use]
    pub fn write_ids(&self) -> Vec<(WriteId, WriteId)> {
        let versions = self.versions.lock();
        let used = versions.iter().filter(|version| version.is_used());
        used.flat_map(LiveVersion::write_ids).collect()
    }
}
