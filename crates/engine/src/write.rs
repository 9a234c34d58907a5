//! Writing one row.
//!
//! 1. Latch the rows of the primary key and of unique keys, by hash, in stripe
//!    order.
//! 2. Look at the newest version of each that must be free or one's own. A
//!    foreign undecided version, or a foreign lock: release the latches, wait,
//!    start over. A live unique key: a duplicate, and nothing has happened.
//! 3. Take the write guards of all indexes, in ascending order of file id, and
//!    look whether another transaction has read where a key comes, or keeps the
//!    row as it is: then let go of everything, wait, start over.
//! 4. Append one log record for the row.
//! 5. Insert into the memtables.
//!
//! Steps 3 to 5 cannot fail but for the log, before anything is inserted.
//! Entries of indexes that are not unique carry the primary key: nobody else
//! writes them, so they need neither latch nor look.

use crate::core::EngineCore;
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::admission::admit;
use crate::newest_version::{NewestVersion, find_newest_version};
use crate::table_handle::{TableHandle, no_such_index};
use crate::transaction::{EngineTransaction, Parts};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{FileId, Operation, StorageError, WriteId};
use teak_transactions::{LockId, LockMode, RangeQueuePositions, RowName, TransactionId};
use teak_tree::WriteGuard;
use teak_write_ahead_log::{Record, WriteOperation};

/// One index's entry of a row to insert or delete.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The index.
    pub index: u32,
    /// Whether a live entry of the same key is a duplicate.
    pub unique: bool,
    /// The key.
    pub key: &'a [u8],
    /// The value; not looked at when deleting.
    pub value: &'a [u8],
}

/// One index's part of a row's update.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The index.
    pub index: u32,
    /// Whether a live entry of the new key is a duplicate.
    pub unique: bool,
    /// The entry that goes, if there is one.
    pub old_key: Option<&'a [u8]>,
    /// The entry that comes, if there is one.
    pub new_key: Option<&'a [u8]>,
    /// Its value.
    pub new_value: &'a [u8],
}

/// What must hold of a key before the row is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// No live entry.
    Free,
    /// The row is there and may be written by this transaction.
    Mine,
}

#[derive(Clone, Copy)]
struct Check<'a> {
    need: Need,
    index: u32,
    key: &'a [u8],
    lock: LockId,
}

impl Check<'_> {
    fn name<'a>(&'a self, index: &'a Index) -> RowName<'a> {
        RowName {
            lock: self.lock,
            index: &index.ranges,
            key: self.key,
        }
    }
}

/// One operation on one index; `place` is its position in the table.
#[derive(Clone, Copy)]
struct Step<'a> {
    place: usize,
    operation: Operation,
    /// Whether the key is new to the index.
    comes: bool,
    key: &'a [u8],
    value: &'a [u8],
}

type Checks<'a> = SmallVec<[Check<'a>; 4]>;
type Steps<'a> = SmallVec<[Step<'a>; 8]>;

/// What stands in the way of a row.
enum Obstacle {
    Writer(WriteId, usize),
    Lock(usize),
}

/// Bytes that an entry takes besides key and value, roughly.
const ENTRY_BYTES: usize = 48;

/// Longest framing of one operation in a log record, generously.
const LOG_ROW_BYTES_MAX: usize = 40 << 20;

impl EngineTransaction {
    /// Inserts one row, or nothing of it.
    ///
    /// # Errors
    /// `DuplicateKey`, after which [`EngineTransaction::duplicate`] tells which;
    /// `Wait`, `Storage`, `InvalidArgument`.
    pub fn insert(&mut self, table: &TableHandle, entries: &[Entry<'_>]) -> EngineResult<()> {
        let indexes = table.table.indexes.load();
        let mut checks = Checks::new();
        let mut steps = Steps::new();
        for entry in entries {
            let file = file_of(&indexes, entry.index)?;
            if entry.unique {
                checks.push(check(Need::Free, entry.index, file, entry.key));
            }
            steps.push(step(entry.index, Operation::Put, entry.key, entry.value));
        }
        self.write_row(&indexes, &checks, &mut steps)?;
        self.rows.inserted += 1;
        Ok(())
    }

    /// Deletes one row, given all its entries.
    ///
    /// # Errors
    /// `NotFound` when the row is gone; `Conflict` when it changed after the
    /// snapshot and is not locked; `Wait`, `Storage`, `InvalidArgument`.
    pub fn delete(&mut self, table: &TableHandle, entries: &[Entry<'_>]) -> EngineResult<()> {
        let indexes = table.table.indexes.load();
        let mut checks = Checks::new();
        let mut steps = Steps::new();
        for entry in entries {
            let file = file_of(&indexes, entry.index)?;
            if entry.index == 0 {
                checks.push(check(Need::Mine, entry.index, file, entry.key));
            }
            steps.push(step(entry.index, Operation::Delete, entry.key, &[]));
        }
        self.write_row(&indexes, &checks, &mut steps)?;
        self.rows.deleted += 1;
        Ok(())
    }

    /// Updates one row, given the entries that change.
    ///
    /// # Errors
    /// Those of [`EngineTransaction::insert`] and [`EngineTransaction::delete`].
    pub fn update(&mut self, table: &TableHandle, changes: &[Change<'_>]) -> EngineResult<()> {
        let indexes = table.table.indexes.load();
        let mut checks = Checks::new();
        let mut steps = Steps::new();
        for change in changes {
            let file = file_of(&indexes, change.index)?;
            let same = change.old_key == change.new_key;
            if let Some(old) = change.old_key {
                if change.index == 0 {
                    checks.push(check(Need::Mine, change.index, file, old));
                }
                if !same {
                    steps.push(step(change.index, Operation::Delete, old, &[]));
                }
            }
            if let Some(new) = change.new_key {
                if change.unique && !same {
                    checks.push(check(Need::Free, change.index, file, new));
                }
                let mut step = step(change.index, Operation::Put, new, change.new_value);
                step.comes = !same;
                steps.push(step);
            }
        }
        self.write_row(&indexes, &checks, &mut steps)?;
        self.rows.updated += 1;
        Ok(())
    }

    fn write_row(
        &mut self,
        indexes: &[Arc<Index>],
        checks: &[Check<'_>],
        steps: &mut [Step<'_>],
    ) -> EngineResult<()> {
        self.check_interrupt()?;
        self.check_open()?;
        let bytes = check_sizes(steps)?;
        if self.inner.budget.must_report(self.unreported_bytes) {
            self.report_bytes()?;
        }
        self.unreported_bytes += bytes;
        // Guards of a table's trees are taken in this order by everybody.
        if !steps.is_sorted_by_key(|step| step.place) {
            steps.sort_by_key(|step| step.place);
        }
        self.parts()?.write_row(indexes, checks, steps)
    }

    #[cold]
    fn report_bytes(&mut self) -> EngineResult<()> {
        self.unreported_bytes = 0;
        self.flush_rows();
        admit((&*self.inner).into(), self.handle())
    }
}

impl Parts<'_> {
    fn write_row(
        &mut self,
        indexes: &[Arc<Index>],
        checks: &[Check<'_>],
        steps: &[Step<'_>],
    ) -> EngineResult<()> {
        let inner = self.inner;
        let write_id = inner.transactions.write_id(self.core);
        // Locks taken to wait in line, given up when the row is not written.
        let mut queued: SmallVec<[LockId; 2]> = SmallVec::new();
        let mut deadline = None;
        // Places among those whom ranges stop, kept until the row is written or not.
        let mut queue_positions = RangeQueuePositions::default();
        let outcome = loop {
            let latches = match checks {
                [] => None,
                [one] => Some(inner.transactions.latches().one(one.lock)),
                several => {
                    let locks = several.iter().map(|check| check.lock);
                    Some(inner.transactions.latches().several(locks))
                }
            };
            let mut owned = false;
            match self.obstacle(indexes, checks, &queued, &mut owned) {
                Ok(None) => match apply(inner, indexes, steps, write_id, self.core.id(), owned) {
                    Ok(Applied::Done) => break Ok(()),
                    Ok(Applied::Stopped(place)) => {
                        drop(latches);
                        if let Err(error) = self.wait_for_range(
                            indexes,
                            steps,
                            place,
                            &mut queue_positions,
                            &mut deadline,
                        ) {
                            break Err(error);
                        }
                    }
                    Err(error) => break Err(error),
                },
                Ok(Some(obstacle)) => {
                    drop(latches);
                    if let Err(error) =
                        self.pass(indexes, checks, &obstacle, &mut queued, &mut deadline)
                    {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        match outcome {
            Ok(()) => {
                self.core.handle().note_row_written();
                // The newest versions say now whose the rows are.
                if self.core.locks_held() > 0 {
                    for check in checks {
                        inner.transactions.unlock_written(self.core, check.lock);
                    }
                }
            }
            Err(_) => {
                for lock in queued {
                    inner.transactions.unlock(self.core, lock);
                }
            }
        }
        outcome
    }

    /// Waits until whoever looked at the step's surroundings has ended.
    fn wait_for_range(
        &mut self,
        indexes: &[Arc<Index>],
        steps: &[Step<'_>],
        place: usize,
        queue_positions: &mut RangeQueuePositions,
        deadline: &mut Option<Instant>,
    ) -> EngineResult<()> {
        let Some(step) = steps.get(place) else {
            return Err(EngineError::Internal("no such step".into()));
        };
        let Some(index) = indexes.get(step.place) else {
            return Err(EngineError::Internal("no such index".into()));
        };
        let timeout = self.remaining(deadline);
        let transactions = &self.inner.transactions;
        let ranges = &index.ranges;
        transactions.wait_for_range_lock(
            self.core,
            queue_positions,
            ranges,
            step.key,
            step.comes,
            timeout,
        )?;
        Ok(())
    }

    /// Looks at the newest versions, under the latches. `owned`: the row is the
    /// transaction's own, by a lock from before or by its newest version. Then
    /// nobody has read it since, for whoever reads it waits.
    fn obstacle(
        &mut self,
        indexes: &[Arc<Index>],
        checks: &[Check<'_>],
        queued: &[LockId],
        owned: &mut bool,
    ) -> EngineResult<Option<Obstacle>> {
        let me = self.core.id();
        for (place, check) in checks.iter().enumerate() {
            let exclusive = LockMode::Exclusive;
            if check.need == Need::Mine && self.core.holds_unwritten(check.lock, exclusive) {
                // Nobody can have written it since it was locked.
                *owned = !queued.contains(&check.lock);
                continue;
            }
            let index = index_at(indexes, check.index)?;
            let row = check.name(index);
            // Keys of other indexes are locked by who waits in line for them.
            let locks = self.inner.transactions.locks();
            if locks.row_conflicts(check.lock, me, exclusive) {
                return Ok(Some(Obstacle::Lock(place)));
            }
            let locked = self.core.holds(row, exclusive);
            let found =
                find_newest_version(self.inner, index, check.key, me, &mut self.duplicate.value)?;
            let mine = match found {
                NewestVersion::Live(id) | NewestVersion::Absent(Some(id)) => {
                    self.inner.transactions.ids().active_owner(id) == Some(me)
                }
                NewestVersion::Uncommitted(_) | NewestVersion::Absent(None) => false,
            };
            // What was one's own before another got a range there stays so.
            if !locked && !mine && index.ranges.blocks_row(check.key, me, exclusive) {
                return Ok(Some(Obstacle::Lock(place)));
            }
            match found {
                NewestVersion::Uncommitted(id) => return Ok(Some(Obstacle::Writer(id, place))),
                NewestVersion::Live(id) if check.need == Need::Mine => {
                    *owned = mine || self.core.covers(&row, exclusive);
                    if self.is_after_snapshot(id) {
                        if !locked {
                            return Err(self.conflict());
                        }
                        self.take_past_snapshot()?;
                    }
                }
                NewestVersion::Live(_) => {
                    self.duplicate.index = check.index;
                    self.duplicate.key.clear();
                    self.duplicate.key.extend_from_slice(check.key);
                    return Err(EngineError::DuplicateKey);
                }
                NewestVersion::Absent(_) if check.need == Need::Mine => {
                    return Err(EngineError::NotFound);
                }
                // The snapshot sees what is gone.
                NewestVersion::Absent(Some(id)) if self.is_after_snapshot(id) => {
                    self.take_past_snapshot()?;
                }
                NewestVersion::Absent(_) => {}
            }
        }
        Ok(None)
    }

    /// Waits for what stands in the way. The key is locked first, so that
    /// writers of one are served in turn.
    fn pass(
        &mut self,
        indexes: &[Arc<Index>],
        checks: &[Check<'_>],
        obstacle: &Obstacle,
        queued: &mut SmallVec<[LockId; 2]>,
        deadline: &mut Option<Instant>,
    ) -> EngineResult<()> {
        let transactions = &self.inner.transactions;
        let (Obstacle::Lock(place) | Obstacle::Writer(_, place)) = *obstacle;
        let Some(check) = checks.get(place) else {
            return Err(EngineError::Internal("no such check".into()));
        };
        let row = check.name(index_at(indexes, check.index)?);
        if !queued.contains(&check.lock) {
            let timeout = self.remaining(deadline);
            transactions.lock(self.core, row, LockMode::Exclusive, timeout)?;
            queued.push(check.lock);
        }
        if let Obstacle::Writer(id, _) = *obstacle {
            let timeout = self.remaining(deadline);
            transactions.wait_for_write(self.core, id, row, timeout)?;
        }
        Ok(())
    }
}

pub(crate) fn index_at(indexes: &[Arc<Index>], index: u32) -> EngineResult<&Arc<Index>> {
    usize::try_from(index)
        .ok()
        .and_then(|place| indexes.get(place))
        .ok_or_else(|| no_such_index(index))
}

fn file_of(indexes: &[Arc<Index>], index: u32) -> EngineResult<FileId> {
    Ok(index_at(indexes, index)?.entry.file)
}

fn check(need: Need, index: u32, file: FileId, key: &[u8]) -> Check<'_> {
    Check {
        need,
        index,
        key,
        lock: LockId::new(file, key),
    }
}

fn step<'a>(index: u32, operation: Operation, key: &'a [u8], value: &'a [u8]) -> Step<'a> {
    Step {
        place: usize::try_from(index).unwrap_or(usize::MAX),
        operation,
        comes: operation == Operation::Put,
        key,
        value,
    }
}

/// Refuses what the formats cannot hold; returns the row's bytes in memtables.
fn check_sizes(steps: &[Step<'_>]) -> EngineResult<u64> {
    let mut bytes = 0usize;
    for step in steps {
        if step.key.len() > KEY_BYTES_MAX {
            return Err(too_large("key", step.key.len(), KEY_BYTES_MAX));
        }
        if step.value.len() > VALUE_BYTES_MAX {
            return Err(too_large("value", step.value.len(), VALUE_BYTES_MAX));
        }
        bytes += step.key.len() + step.value.len() + ENTRY_BYTES;
    }
    if bytes > LOG_ROW_BYTES_MAX {
        return Err(too_large("row", bytes, LOG_ROW_BYTES_MAX));
    }
    Ok(bytes as u64)
}

fn too_large(what: &'static str, bytes: usize, limit: usize) -> EngineError {
    EngineError::Storage(StorageError::TooLarge {
        what,
        bytes: bytes as u64,
        limit: limit as u64,
    })
}

/// What became of a row whose checks had passed.
enum Applied {
    Done,
    /// A range that another transaction has looked at keeps from this step.
    Stopped(usize),
}

/// Guards, log record, memtable insertions. Ranges are looked for under the
/// guards, which a reader that marks one waits for.
fn apply(
    inner: &EngineCore,
    indexes: &[Arc<Index>],
    steps: &[Step<'_>],
    write_id: WriteId,
    me: TransactionId,
    owned: bool,
) -> EngineResult<Applied> {
    // One guard per index, though an index may have two steps.
    let mut guards: SmallVec<[(usize, WriteGuard<'_>); 8]> = SmallVec::new();
    let mut operations: SmallVec<[WriteOperation<'_>; 8]> = SmallVec::new();
    for (number, step) in steps.iter().enumerate() {
        let Some(index) = indexes.get(step.place) else {
            return Err(EngineError::Internal("no such index".into()));
        };
        if guards.last().is_none_or(|(place, _)| *place != step.place) {
            inner.written.register(index);
            guards.push((step.place, index.tree.write_guard()));
        }
        // What stands in another index is locked by its row.
        let may_meet_range = step.comes || (step.place == 0 && !owned);
        if may_meet_range && index.ranges.blocks(step.key, step.comes, me) {
            return Ok(Applied::Stopped(number));
        }
        operations.push(WriteOperation {
            file: index.entry.file,
            operation: step.operation,
            key: step.key,
            value: step.value,
        });
    }
    let lsn = inner.log.append(&Record::Write {
        write_id,
        operations: operations.as_slice().into(),
    })?;
    for (_, guard) in &guards {
        guard.set_lsn(lsn);
    }
    let mut held = guards.iter();
    let mut current = held.next();
    for step in steps {
        while let Some((place, _)) = current
            && *place != step.place
        {
            current = held.next();
        }
        if let Some((_, guard)) = current {
            guard.insert(write_id, step.operation, step.key, step.value);
        }
    }
    Ok(Applied::Done)
}
