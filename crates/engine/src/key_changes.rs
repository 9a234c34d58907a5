//! Finds index files whose blocks are encrypted with another key than new ones, or with an older version of it, and writes them
//! again, one after the other. The catalogue has the key of each file, so files that need no work are not opened.

use crate::catalogue::IndexEntry;
use crate::core::EngineCore;
use crate::core::opening::slot_of;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::flusher::FlushContext;
use crate::maintenance::space::Pace;
use crate::table_handle::open_lazily;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::{Cipher, StorageError};

/// Time between two searches.
const PERIOD: Duration = Duration::from_secs(2);

/// Time after which a table is tried again that has failed; doubled by each further failure, up to the maximum.
const RETRY_PERIOD: Duration = Duration::from_secs(10);
const RETRY_PERIOD_MAX: Duration = Duration::from_secs(600);

/// Tables that have failed: when they are tried again, and how long the wait was.
type Failed = HashMap<String, (Instant, Duration)>;

/// What the thread `teak-keys` does.
pub(crate) fn run(core: &Arc<EngineCore>) {
    let mut failed = Failed::new();
    while !core.signals.is_stopping() {
        for name in tables_to_change(core) {
            let waits = |(until, _): &(Instant, Duration)| Instant::now() < *until;
            if !core.signals.is_stopping() && !failed.get(&name).is_some_and(waits) {
                let outcome = change_unless_dropped(core, &name);
                note(core, &mut failed, name, outcome);
            }
        }
        core.signals.wait_for_keys(PERIOD);
    }
}

fn note(core: &EngineCore, failed: &mut Failed, name: String, outcome: EngineResult<()>) {
    let Err(error) = outcome else {
        failed.remove(&name);
        return;
    };
    // Only the first of consecutive failures of a table is reported.
    let wait = match failed.get(&name) {
        Some((_, wait)) => (*wait * 2).min(RETRY_PERIOD_MAX),
        None => {
            let text = format!("the encryption key of table {name} was not changed: {error}");
            core.messages.warning(&text);
            RETRY_PERIOD
        }
    };
    failed.insert(name, (Instant::now() + wait, wait));
}

/// Writes the files of all tables again, as far as that is needed.
///
/// # Errors
/// The first error, after all tables were tried.
pub(crate) fn change_all(core: &Arc<EngineCore>) -> EngineResult<()> {
    let mut first = Ok(());
    for name in tables_to_change(core) {
        let outcome = change_unless_dropped(core, &name);
        first = first.and(outcome);
    }
    first
}

fn change_unless_dropped(core: &Arc<EngineCore>, name: &str) -> EngineResult<()> {
    match change(core, name) {
        Err(EngineError::NoSuchTable { .. }) => Ok(()),
        outcome => outcome,
    }
}

fn tables_to_change(core: &EngineCore) -> Vec<String> {
    let Some(cipher) = &core.files.log_encryption.cipher else {
        return Vec::new();
    };
    let tables = core.tables.lock();
    let all = tables.durable();
    let all: Vec<_> = all.map(|(id, state)| (*id, state.entry.clone())).collect();
    drop(tables);
    // Not under the lock, because a key management may ask a server.
    let due = all.into_iter().filter(|(id, entry)| {
        let open = slot_of(&core.tables, *id);
        let open = open.and_then(|slot| slot.lock().as_ref()?.open_indexes());
        match open {
            Some(indexes) => indexes.iter().any(|index| index.tree.needs_key_change()),
            // Closing the files has updated the entry.
            None => {
                let mut indexes = entry.indexes.iter();
                indexes.any(|index| needs_change(cipher.as_ref(), index))
                    && !core.retained.is_unavailable(entry)
            }
        }
    });
    due.map(|(_, entry)| entry.name.clone()).collect()
}

/// Whether a closed file has blocks with another key.
fn needs_change(cipher: &dyn Cipher, index: &IndexEntry) -> bool {
    let wanted = index.encryption_key.map(|key| cipher.newest(key));
    match wanted.transpose() {
        Ok(wanted) => !index.encryption.is_current(wanted),
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
