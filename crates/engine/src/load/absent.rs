//! Step 4 of the end of a load: the keys of unique indexes that have a live entry.
//!
//! If the tree has no data in the range of the keys, there is none. If many keys of the load lie between
//! two keys of the tree, a search of the next key of the tree decides all of them: others insert no keys
//! into the range, which is locked. Otherwise, each key is looked up. This costs a few filter checks for
//! most keys.

use super::finish::Written;
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use crate::newest_version::{NewestVersion, read_newest_version};
use crate::transaction::{EngineTransaction, TransactionContext};
use std::sync::Arc;
use std::time::Instant;
use teak_base::StorageResult;
use teak_transactions::{LockMode, RowName};
use teak_tree::{KeyCursor, LoadedEntries, NextKey, Tree};

/// Keys between two checks for an interrupt.
const CHECK_KEYS: u64 = 1024;

/// A search of the next key costs about as much as so many look-ups.
const GAP_KEYS_MIN: u64 = 16;

/// After a gap with fewer keys, keys are looked up before the next search: this number at first, and twice
/// as many after each further one.
const LOOKUPS_MIN: u64 = 16;

/// Keys that are looked up before the next search, at most.
const LOOKUPS_MAX: u64 = 4096;

/// Keys of the load that are passed one by one before the end of a gap is searched among them.
const PASSED_MAX: u64 = 256;

/// Searches of gaps in the keys of the tree.
struct Gaps {
    keys: KeyCursor,
    /// Keys to look up before the next search.
    lookups: u64,
    lookups_next: u64,
}

impl Gaps {
    fn new(tree: &Arc<Tree>) -> Self {
        Self {
            keys: tree.key_cursor(),
            lookups: 0,
            lookups_next: LOOKUPS_MIN,
        }
    }

    /// Whether a search is due, and not a look-up.
    fn is_due(&mut self) -> bool {
        let is_due = self.lookups == 0;
        self.lookups = self.lookups.saturating_sub(1);
        is_due
    }

    /// Notes that a search has passed so many keys.
    fn note(&mut self, keys: u64) {
        if keys >= GAP_KEYS_MIN {
            self.lookups_next = LOOKUPS_MIN;
        } else {
            self.lookups = self.lookups_next;
            self.lookups_next = (self.lookups_next * 2).min(LOOKUPS_MAX);
        }
    }
}

/// Passes the entries with keys before `end`. Returns their number, or at least [`PASSED_MAX`].
fn pass(entries: &mut LoadedEntries, end: &[u8]) -> StorageResult<u64> {
    let mut passed = 0;
    while entries.entry().is_some_and(|(key, _)| key < end) {
        if passed == PASSED_MAX {
            entries.seek(end)?;
        }
        entries.advance()?;
        passed += 1;
    }
    Ok(passed)
}

impl EngineTransaction {
    /// Checks the keys of one index. Waits for active transactions that have written one. A live entry
    /// is a duplicate.
    pub(super) fn check_absent(&mut self, written: &Written) -> EngineResult<()> {
        let core = Arc::clone(&self.core);
        let index = &written.index;
        let Some((first, last)) = written.load.key_range() else {
            return Ok(());
        };
        if !core.checked(index, index.tree.may_hold_keys(first, last))? {
            return Ok(());
        }
        let mut entries = written.load.read();
        core.checked(index, entries.advance())?;
        let mut gaps = Gaps::new(&index.tree);
        let mut checked = 0u64;
        while let Some((key, _)) = entries.entry() {
            if checked.is_multiple_of(CHECK_KEYS) {
                self.check_interrupt()?;
            }
            checked += 1;
            if gaps.is_due() {
                let passed = match core.checked(index, gaps.keys.search(key))? {
                    NextKey::None => return Ok(()),
                    NextKey::At(end) => pass(&mut entries, &end),
                    NextKey::NotBefore(end) => pass(&mut entries, &end),
                };
                gaps.note(core.checked(index, passed)?);
                continue;
            }
            self.check_key_absent(written, key)?;
            core.checked(index, entries.advance())?;
        }
        Ok(())
    }

    fn check_key_absent(&mut self, written: &Written, key: &[u8]) -> EngineResult<()> {
        let mut context = self.context()?;
        let row = RowName::new(&written.index.ranges, key);
        let mut is_locked = false;
        let checked = check_key_absent(&mut context, written, row, &mut is_locked);
        if is_locked {
            let transactions = &context.core.transactions;
            transactions.unlock(context.transaction, row.lock);
        }
        checked
    }
}

/// Checks one key. Locks it, to wait for a transaction that has locked the existing row and may
/// delete it.
fn check_key_absent(
    context: &mut TransactionContext<'_>,
    written: &Written,
    row: RowName<'_>,
    is_locked: &mut bool,
) -> EngineResult<()> {
    const MODE: LockMode = LockMode::Exclusive;
    let (index, key) = (&*written.index, row.key);
    let me = context.transaction.id();
    let mut deadline: Option<Instant> = None;
    loop {
        let value = Some(&mut context.duplicate.value);
        match read_newest_version(context.core, index, key, me, value)? {
            NewestVersion::Absent(Some(deleted)) if context.is_newer_than_snapshot(deleted) => {
                return context.accept_deleted_after_snapshot(index, key);
            }
            NewestVersion::Absent(_) => return Ok(()),
            NewestVersion::Live(_) if !*is_locked && is_locked_by_another(context, index, row) => {
                context.lock_unless_locked(row, MODE, is_locked, &mut deadline)?;
            }
            NewestVersion::Live(_) => {
                context.duplicate.index = written.number;
                context.duplicate.key.clear();
                context.duplicate.key.extend_from_slice(key);
                context.duplicate.is_locked = false;
                return Err(EngineError::DuplicateKey);
            }
            NewestVersion::Uncommitted(id) => {
                let timeout = context.remaining_timeout(&mut deadline);
                let transactions = &context.core.transactions;
                transactions.wait_for_write(context.transaction, id, row, timeout)?;
            }
        }
    }
}

fn is_locked_by_another(context: &TransactionContext<'_>, index: &Index, row: RowName<'_>) -> bool {
    let me = context.transaction.id();
    let locks = context.core.transactions.locks();
    locks.row_conflicts(row.lock, me, LockMode::Exclusive)
        || index.ranges.blocks_row(row.key, me, LockMode::Exclusive)
}
