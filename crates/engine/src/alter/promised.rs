//! Whether a table holds entries of prepared transactions that no handle owns.
//!
//! Such a transaction holds no lock of the caller's, and what it wrote would be
//! missing in new indexes when it commits. A replica has them all the time,
//! between the XA PREPARE and the XA COMMIT that it applies; tables that they
//! did not write must not be refused. So the range of write ids decides first,
//! and where it leaves a doubt, the entries themselves.

use crate::core::index::Index;
use crate::error::EngineResult;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use teak_base::{Visibility, WriteId};

/// Sees nothing but these writes, and notes when it meets one.
struct Search<'a> {
    writes: BTreeSet<WriteId>,
    found: AtomicBool,
    interrupted: &'a (dyn Fn() -> bool + Send),
}

impl Visibility for Search<'_> {
    fn is_visible(&self, id: WriteId) -> bool {
        let found = self.writes.contains(&id);
        if found {
            self.found.store(true, Ordering::Relaxed);
        }
        found
    }

    fn is_interrupted(&self) -> bool {
        (self.interrupted)()
    }
}

/// Whether an index holds an entry of one of `writes`. Reads the index up to
/// the first.
pub(super) fn holds(
    index: &Index,
    writes: Vec<WriteId>,
    interrupted: &(dyn Fn() -> bool + Send),
) -> EngineResult<bool> {
    if writes.is_empty() {
        return Ok(false);
    }
    let search = Search {
        writes: writes.into_iter().collect(),
        found: AtomicBool::new(false),
        interrupted,
    };
    let mut cursor = index.tree.cursor(&search);
    let mut there = cursor.seek_first()?;
    while there && !search.found.load(Ordering::Relaxed) {
        there = cursor.next()?;
    }
    Ok(search.found.load(Ordering::Relaxed))
}
