//! Finds index files whose blocks are encrypted with another key than new ones, or with an older version of it, and writes them
//! again, one after the other. The catalogue has the key of each file, so files that need no work are not opened.

use crate::catalogue::IndexEntry;
use crate::core::EngineCore;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::flusher::FlushContext;
use crate::maintenance::space::Pace;
use crate::table_handle::open_lazily;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use teak_base::cipher::is_current;
use teak_base::{Cipher, StorageError};

/// Time between two searches.
const PERIOD: Duration = Duration::from_secs(2);

/// What the thread `teak-keys` does.
pub(crate) fn run(core: &Arc<EngineCore>) {
    let mut failed = HashSet::new();
    while !core.signals.is_stopping() {
        change_all(core, &mut |name, outcome| match outcome {
            Ok(()) => {
                failed.remove(name);
            }
            // Only the first of consecutive failures of a table is reported.
            Err(error) if failed.insert(name.to_owned()) => {
                let text = format!("the encryption key of table {name} was not changed: {error}");
                core.messages.warning(&text);
            }
            Err(_) => {}
        });
        core.signals.wait_for_keys(PERIOD);
    }
}

/// Writes the files of all tables again, as far as that is needed. Passes each name and the outcome to `report`.
pub(crate) fn change_all(core: &Arc<EngineCore>, report: &mut dyn FnMut(&str, EngineResult<()>)) {
    for name in tables_to_change(core) {
        if core.signals.is_stopping() {
            return;
        }
        let outcome = match change(core, &name) {
            Err(EngineError::NoSuchTable { .. }) => Ok(()),
            outcome => outcome,
        };
        report(&name, outcome);
    }
}

fn tables_to_change(core: &EngineCore) -> Vec<String> {
    let Some(cipher) = &core.files.log_encryption.cipher else {
        return Vec::new();
    };
    let tables = core.tables.lock();
    let candidates = tables.durable().filter(|(_, state)| {
        let indexes = state.entry.indexes.iter();
        let mut encrypted =
            indexes.filter(|index| (index.encryption_key, index.encrypted_with) != (None, None));
        encrypted.next().is_some()
    });
    let candidates: Vec<_> = candidates.map(|(_, state)| state.entry.clone()).collect();
    drop(tables);
    // Not under the lock, because a key management may ask a server.
    let due = candidates.into_iter().filter(|entry| {
        let mut indexes = entry.indexes.iter();
        indexes.any(|index| needs_change(cipher.as_ref(), index))
    });
    due.map(|entry| entry.name.clone()).collect()
}

/// Whether the file may have blocks with another key. While it is open, the tree knows this exactly.
fn needs_change(cipher: &dyn Cipher, index: &IndexEntry) -> bool {
    let wanted = index.encryption_key.map(|key| cipher.newest(key));
    match wanted.transpose() {
        Ok(wanted) => !is_current(index.encrypted_with, wanted),
        Err(_) => false,
    }
}

fn change(core: &Arc<EngineCore>, name: &str) -> EngineResult<()> {
    let handle = open_lazily(core, name)?;
    handle.open_files_unless(&|| core.signals.is_stopping())?;
    // As long as this reference exists, the files remain open.
    let Some(indexes) = handle.table.share_indexes() else {
        return Ok(());
    };
    let mut pace = Pace::busy();
    let may_continue = || !core.signals.is_stopping();
    for index in indexes.iter() {
        let context = FlushContext::from(&**core);
        let outcome = context.change_key(index, &mut pace, &may_continue);
        if let Err(EngineError::Storage(error @ StorageError::Corrupt { .. })) = &outcome {
            core.messages.report_damage(index, error);
        }
        outcome?;
    }
    Ok(())
}
