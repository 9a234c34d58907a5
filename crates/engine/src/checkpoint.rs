//! Checkpoints: making index files hold what the log holds, writing the
//! catalogue, trimming the log, and forgetting what nobody needs.
//!
//! The order, which recovery relies on:
//! 1. Note the log's end, and from where running commits may stand.
//! 2. Checkpoint the changed trees: what they hold is durable, and before that
//!    the log up to it.
//! 3. Capture the catalogue: the undecided and aborted ids, and the position
//!    from which each index still needs the log; none of it later than 1.
//! 4. Sync the log, so that ids the catalogue counts as committed are.
//! 5. Write the catalogue. 6. Trim the log.

use crate::background;
use crate::budget;
use crate::catalogue::{Catalogue, TableEntry, write_catalogue};
use crate::engine::Inner;
use crate::error::EngineResult;
use crate::options::Level;
use crate::table::{Counters, Index};
use crate::tables::Slot;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use teak_base::{Lsn, StorageError, WriteId};
use teak_transactions::TransactionId;

/// What the housekeeper remembers between rounds.
#[derive(Debug)]
pub(crate) struct HouseState {
    last_checkpoint: Instant,
    /// Log position at the last checkpoint.
    last_end: Lsn,
    /// Aborted ids below may be forgotten once no transaction is older.
    forget: Option<(WriteId, TransactionId)>,
}

/// The housekeeper's memory, behind the checkpoint lock.
pub(crate) type House = Mutex<HouseState>;

pub(crate) fn new_house() -> House {
    Mutex::new(HouseState {
        last_checkpoint: Instant::now(),
        last_end: Lsn(0),
        forget: None,
    })
}

/// Flushes and checkpoints everything.
pub(crate) fn checkpoint_all(inner: &Inner, closing: bool) -> EngineResult<()> {
    let mut house = inner.house.lock();
    inner.log_counters()?;
    for index in inner.written_indexes() {
        if !index.is_gone() {
            budget::freeze(inner, &index);
        }
    }
    background::flush_frozen(inner)?;
    save(inner, &mut house, closing)
}

/// One round of the housekeeper. Checkpoints when it is time, or when the log
/// since the last one has grown.
pub(crate) fn keep_house(inner: &Inner, forced: bool) -> EngineResult<()> {
    let mut house = inner.house.lock();
    inner.transactions.prune();
    let unflushed = if inner.background.has_opened_many() {
        inner.background.forget_opened();
        close_idle_tables(inner)
    } else {
        0
    };
    let end = inner.log.end();
    let replayed = end
        .0
        .saturating_sub(inner.replay_from.load(Ordering::Acquire));
    let time = house.last_checkpoint.elapsed() >= inner.options.checkpoint_period;
    let changed = || {
        let written = inner.written.read();
        end != house.last_end || written.iter().any(|index| index.tree.needs_checkpoint())
    };
    let grown = end.0.saturating_sub(house.last_end.0) > inner.options.log_bytes_max / 16;
    let long = replayed > inner.options.log_bytes_max / 2;
    let crowd = unflushed > inner.options.open_tables_kept / 4;
    if !(forced || time && changed() || long && grown || crowd) {
        return Ok(());
    }
    if crowd {
        freeze_idle_tables(inner, unflushed);
    }
    // Memtables that hold the log back are flushed, oldest first.
    let keep = Lsn(end.0.saturating_sub(inner.options.log_bytes_max / 4));
    for index in inner.written_indexes() {
        let old = index
            .tree
            .oldest_unflushed_lsn()
            .is_some_and(|oldest| oldest < keep);
        if old && !index.is_gone() {
            budget::freeze(inner, &index);
        }
    }
    background::flush_frozen(inner)?;
    save(inner, &mut house, false)?;
    close_idle_tables(inner);
    Ok(())
}

/// The tables that are open, without their entries.
fn open_slots(inner: &Inner) -> Vec<(u64, Slot)> {
    let slots: Vec<(u64, Slot)> = {
        let tables = inner.tables.lock();
        let states = tables.by_id.iter();
        states
            .map(|(id, state)| (*id, Arc::clone(&state.slot)))
            .collect()
    };
    let is_open = |(_, slot): &(u64, Slot)| slot.lock().is_some();
    slots.into_iter().filter(is_open).collect()
}

/// Closes tables that nobody has open, when there are many. Returns how many
/// of those that are too many have memory that must be flushed first.
fn close_idle_tables(inner: &Inner) -> usize {
    let slots = open_slots(inner);
    let mut excess = slots.len().saturating_sub(inner.options.open_tables_kept);
    let mut unflushed = 0;
    for (id, slot) in slots {
        if excess == 0 {
            break;
        }
        if !has_no_handle(&slot) {
            continue;
        }
        excess -= 1;
        if !close_if_idle(inner, id, &slot) {
            unflushed += 1;
        }
    }
    unflushed
}

fn has_no_handle(slot: &Slot) -> bool {
    let table = slot.lock();
    let handles = table.as_ref().map(|table| &table.handles);
    handles.is_some_and(|handles| handles.load(Ordering::Acquire) == 0)
}

/// Freezes the memtables of tables that nobody has open, so that they can be
/// closed after the next checkpoint: open trees take memory that no budget
/// counts.
fn freeze_idle_tables(inner: &Inner, mut tables: usize) {
    for (_, slot) in open_slots(inner) {
        if tables == 0 {
            return;
        }
        if !has_no_handle(&slot) {
            continue;
        }
        let Some(table) = slot.lock().clone() else {
            continue;
        };
        for index in table.indexes.load().iter() {
            if index.tree.oldest_unflushed_lsn().is_some() {
                budget::freeze(inner, index);
            }
        }
        tables -= 1;
    }
}

/// Closes a table that has no handle and whose files hold everything.
fn close_if_idle(inner: &Inner, id: u64, slot: &Slot) -> bool {
    let mut open = slot.lock();
    let Some(table) = &*open else {
        return false;
    };
    let indexes = table.indexes.load_full();
    let idle = table.handles.load(Ordering::Acquire) == 0
        && !table.damaged.load(Ordering::Acquire)
        && indexes.iter().all(|index| {
            // A transaction that has locked anything in it holds its ranges.
            Arc::strong_count(&index.ranges) == 1
                && index.log_needed_from(|| inner.log.end()).is_none()
        });
    if !idle {
        return false;
    }
    // Whoever still holds an index (a job, a cursor that outlived its table)
    // would read beside a second tree on the same file.
    let mut written = inner.written.write();
    let listed = |index: &Arc<Index>| usize::from(index.listed.load(Ordering::Acquire));
    let held = |index: &Arc<Index>| Arc::strong_count(index) > 1 + listed(index);
    if indexes.iter().any(held) {
        return false;
    }
    written.retain(|listed| !indexes.iter().any(|index| Arc::ptr_eq(index, listed)));
    drop(written);
    let oldest: Vec<WriteId> = indexes
        .iter()
        .map(|index| index.oldest_write_id(|| inner.log.end()))
        .collect();
    for index in indexes.iter() {
        inner.counts.add_closed(index);
    }
    *open = None;
    drop(open);
    if let Some(state) = inner.tables.lock().by_id.get_mut(&id) {
        for (index, oldest) in state.entry.indexes.iter_mut().zip(oldest) {
            index.oldest_write_id = oldest;
        }
    }
    true
}

/// Checkpoints the changed trees, writes the catalogue, trims the log.
fn save(inner: &Inner, house: &mut HouseState, closing: bool) -> EngineResult<()> {
    inner.transactions.prune();
    let forget = forgettable(inner);
    let end = inner.log.end();
    let mut failed = None;
    for index in inner.written_indexes() {
        if let Err(error) = checkpoint_index(inner, &index) {
            let path = index.entry.path.display();
            inner.message(
                Level::Error,
                &format!("checkpointing {path} failed: {error}"),
            );
            failed.get_or_insert(error);
        }
    }
    if failed.is_none() {
        forget_aborted(inner, house, forget);
    }
    write_catalogue_since(inner, end, closing)?;
    house.last_checkpoint = Instant::now();
    house.last_end = inner.log.end();
    inner.counts.checkpoints.fetch_add(1, Ordering::Relaxed);
    match failed {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

pub(crate) fn checkpoint_index(inner: &Inner, index: &Arc<Index>) -> EngineResult<()> {
    if index.is_gone() || !index.tree.needs_checkpoint() {
        return Ok(());
    }
    let ids = inner.transactions.ids();
    // Read before: what the file will hold is settled by then, or no older.
    let settled = ids.settled_below();
    let oldest = index
        .tree
        .write_id_range()
        .map_or(settled, |(oldest, _)| oldest.min(settled));
    // Not only up to the entries' position: merges settle what is committed,
    // and its commit record may stand behind.
    let durable = index.tree.checkpoint(&|_| inner.log.sync(inner.log.end()));
    if durable.as_ref().is_err_and(StorageError::is_no_space) {
        index.tree.give_back_tail();
    }
    inner.checked(index, durable)?;
    index.durable_oldest.store(oldest.0, Ordering::Release);
    Ok(())
}

/// Captures and writes the catalogue as it is now, outside a checkpoint.
/// The caller holds the lock on table changes.
pub(crate) fn write_catalogue_now(inner: &Inner) -> EngineResult<()> {
    let end = inner.log.end();
    let catalogue = capture(inner, end, false);
    inner.log.sync(inner.log.end())?;
    write_catalogue(&inner.disk, inner.directory(), &catalogue)?;
    Ok(())
}

fn write_catalogue_since(inner: &Inner, end: Lsn, closing: bool) -> EngineResult<()> {
    let changes = inner.table_changes.lock();
    let catalogue = capture(inner, end, closing);
    inner.log.sync(inner.log.end())?;
    write_catalogue(&inner.disk, inner.directory(), &catalogue)?;
    drop(changes);
    inner
        .replay_from
        .store(catalogue.replay_from.0, Ordering::Release);
    if let Err(error) = inner.log.trim(catalogue.replay_from) {
        // Old segments stay until the next checkpoint.
        let text = format!("the log was not trimmed: {error}");
        inner.message(Level::Warning, &text);
    }
    Ok(())
}

/// The catalogue of this moment. `end` is an end of the log read earlier. The
/// caller holds the lock on table changes. The order of the reads matters; see
/// the top of the file.
fn capture(inner: &Inner, end: Lsn, closing: bool) -> Catalogue {
    let transactions = &inner.transactions;
    let mut replay_from = transactions
        .commit_floor()
        .map_or(end, |floor| floor.min(end));
    for index in inner.written_indexes() {
        if !index.is_gone()
            && let Some(needed) = index.log_needed_from(|| inner.log.end())
        {
            replay_from = replay_from.min(needed);
        }
    }
    let tables_lsn = inner.log.end();
    let next_write_id = transactions.ids().next();
    let active = transactions.ids().active_below(next_write_id);
    let aborted = transactions.ids().aborted_below(next_write_id);
    let prepared = inner.prepared.entries();
    let (next_table, next_file) = {
        let tables = inner.tables.lock();
        (
            tables.next_table,
            tables.next_file.max(tables.reserved_files),
        )
    };
    let entries = table_slots(inner)
        .into_iter()
        .map(|(mut entry, counters, slot)| {
            entry.counters = counters.snapshot(closing);
            if let Some(table) = &*slot.lock() {
                let open = table.indexes.load();
                for (index, open) in entry.indexes.iter_mut().zip(open.iter()) {
                    index.oldest_write_id = open.oldest_write_id(|| inner.log.end());
                }
            }
            (entry.id, entry)
        });
    Catalogue {
        instance: inner.instance,
        // Never back: the log before is gone, and what an index says to need
        // of it was only a careful guess.
        replay_from: replay_from.max(Lsn(inner.replay_from.load(Ordering::Acquire))),
        tables_lsn,
        next_table,
        next_file,
        next_write_id,
        active,
        aborted,
        prepared,
        tables: entries.collect(),
    }
}

/// All tables. Their slots are locked by the caller one by one, without the
/// lock on the tables.
fn table_slots(inner: &Inner) -> Vec<(TableEntry, Arc<Counters>, Slot)> {
    let tables = inner.tables.lock();
    let states = tables.by_id.values();
    states
        .map(|state| {
            let counters = Arc::clone(&state.counters);
            (state.entry.clone(), counters, Arc::clone(&state.slot))
        })
        .collect()
}

/// Below which id nothing is held by any index, and nothing can be written.
/// Read before the trees are checkpointed.
fn forgettable(inner: &Inner) -> WriteId {
    let mut oldest = inner.transactions.ids().settled_below();
    for (entry, _, slot) in table_slots(inner) {
        match &*slot.lock() {
            Some(table) => {
                for index in table.indexes.load().iter() {
                    if let Some((least, _)) = index.tree.write_id_range() {
                        oldest = oldest.min(least);
                    }
                }
            }
            None => {
                for index in &entry.indexes {
                    if !index.oldest_write_id.is_settled() {
                        oldest = oldest.min(index.oldest_write_id);
                    }
                }
            }
        }
    }
    oldest
}

/// Forgets aborted ids that no file holds, in two rounds: a reader of an old
/// version of a tree may still meet them, so every transaction that ran when
/// the files let go of them must have ended.
fn forget_aborted(inner: &Inner, house: &mut HouseState, oldest: WriteId) {
    let transactions = &inner.transactions;
    if let Some((below, running)) = house.forget {
        if transactions.oldest_running() < running {
            return;
        }
        transactions.ids().forget_aborted(below);
        house.forget = None;
    }
    if transactions.ids().aborted_settled() > 0 {
        house.forget = Some((oldest, transactions.next_transaction()));
    }
}
