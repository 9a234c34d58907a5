//! The end of a load.
//!
//! 1. Write the entries of each index as runs, in key order. So two rows of the load with the same
//!    key are found.
//! 2. Wait until no other load of the table that has come to this step is active.
//! 3. In each unique index, lock the range of the keys against insertions of other transactions, and
//!    wait for the writes that have checked for such locks before. From then on no other transaction inserts
//!    one of the keys. Other transactions still change and delete existing rows.
//! 4. Check that no unique key has a live entry (`absent`).
//! 5. Flush the memtables that have deletes: they may be deletes of the keys, and the runs of the
//!    load are below memtables.
//! 6. Install the runs of each index under a write guard, like the insertion of one row: if another
//!    transaction holds a range lock that overlaps the range of the keys, wait for it first.
//! 7. Checkpoint the files.
//!
//! After an error before step 6 nothing has changed. After a later one some indexes may have the
//! entries, and the caller rolls the statement back.

use super::{IndexLoad, RowLoad};
use crate::core::EngineCore;
use crate::core::index::Index;
use crate::core::running_jobs::RunningKind;
use crate::core::sorts::{added_twice, checked, is_report_due};
use crate::core::table::Table;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::maintenance::flusher::{FlushContext, FlushTargets};
use crate::transaction::{Duplicate, EngineTransaction};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use teak_base::bytes::key_successor;
use teak_base::{FileId, WriteId};
use teak_bulk_load::{LoadError, LoadObserver};
use teak_transactions::{
    RangeLockKind, RangeQueuePositions, RowName, TransactionHandle, WaitError,
};
use teak_tree::PausedLoad;

/// The written entries of one index.
pub(super) struct Written {
    pub(super) number: IndexNumber,
    pub(super) index: Arc<Index>,
    unique: bool,
    pub(super) load: PausedLoad,
}

impl Written {
    /// The first key, and the end of the range of the keys. `None` if there is no entry.
    fn range(&self) -> Option<(&[u8], Vec<u8>)> {
        let (first, last) = self.load.key_range()?;
        Some((first, key_successor(last)))
    }
}

/// The runs of all indexes while they are written, by the thread of the statement and by threads that are
/// idle. Each thread takes one index after the other.
struct Writing<'a> {
    core: &'a EngineCore,
    handle: &'a Arc<TransactionHandle>,
    indexes: &'a [Arc<Index>],
    loads: Vec<Mutex<Option<IndexLoad>>>,
    outcomes: Vec<Mutex<Option<Outcome>>>,
    next: AtomicUsize,
    has_failed: Arc<AtomicBool>,
    /// Entries written.
    done: AtomicU64,
    total: u64,
}

/// Why the runs of an index could not be written. After `DuplicateKey`, also the duplicate entry.
struct Failure {
    error: EngineError,
    duplicate: Option<Duplicate>,
    /// Whether an index that is not unique got a key twice. The key contains that of the row, so the row's own index has a
    /// duplicate, too, which is the error to report.
    is_repeated: bool,
}

impl Failure {
    /// Of the failures of several indexes, the first with the highest rank is reported.
    fn rank(&self) -> u8 {
        match self.error {
            // The writing may have ended because of another index.
            EngineError::Wait(WaitError::Interrupted) => 0,
            _ if self.is_repeated => 1,
            _ => 2,
        }
    }
}

type Outcome = Result<Written, Box<Failure>>;

/// Writing one index.
struct IndexWriting<'a, 'b> {
    all: &'a Writing<'b>,
    number: IndexNumber,
    unique: bool,
    duplicate: Option<Duplicate>,
    report: &'a mut dyn FnMut(u64, u64),
}

impl LoadObserver for IndexWriting<'_, '_> {
    type Error = EngineError;

    fn check(&mut self) -> EngineResult<()> {
        Ok(())
    }

    fn written(&mut self, entries: u64) {
        let all = self.all;
        let before = all.done.fetch_add(entries, Ordering::Relaxed);
        if is_report_due(before, before + entries) {
            (self.report)(before + entries, all.total);
        }
    }

    fn duplicate(&mut self, key: &[u8], value: &[u8]) -> EngineResult<()> {
        if !self.unique {
            return Err(added_twice());
        }
        self.duplicate = Some(Duplicate::found(self.number, key, value));
        Err(EngineError::DuplicateKey)
    }
}

impl<'a> Writing<'a> {
    fn new(
        core: &'a EngineCore,
        handle: &'a Arc<TransactionHandle>,
        load: &'a mut RowLoad,
    ) -> Self {
        let loads = std::mem::take(&mut load.loads);
        Self {
            core,
            handle,
            indexes: &load.indexes,
            total: loads.iter().map(|load| load.entries.entries()).sum(),
            outcomes: loads.iter().map(|_| Mutex::default()).collect(),
            loads: loads
                .into_iter()
                .map(|load| Mutex::new(Some(load)))
                .collect(),
            next: AtomicUsize::new(0),
            has_failed: Arc::default(),
            done: AtomicU64::new(0),
        }
    }

    /// Writes indexes until all are taken.
    fn run(&self, report: &mut dyn FnMut(u64, u64)) {
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let (Some(load), Some(outcome)) = (self.loads.get(at), self.outcomes.get(at)) else {
                return;
            };
            let load = load.lock().take();
            let written = load.and_then(|load| self.write(at, load, report));
            // The others continue after a repeated key, to find the duplicate.
            let continues = match &written {
                Some(Ok(_)) => true,
                Some(Err(failure)) => failure.is_repeated,
                None => false,
            };
            if !continues {
                self.has_failed.store(true, Ordering::Relaxed);
            }
            *outcome.lock() = written;
        }
    }

    fn write(
        &self,
        at: usize,
        load: IndexLoad,
        report: &mut dyn FnMut(u64, u64),
    ) -> Option<Outcome> {
        let index = self.indexes.get(at)?;
        let number = IndexNumber(u32::try_from(at).ok()?);
        let IndexLoad { unique, entries } = load;
        let mut writing = IndexWriting {
            all: self,
            number,
            unique,
            duplicate: None,
            report,
        };
        // If another index has failed, the rest is not needed.
        let (has_failed, handle) = (Arc::clone(&self.has_failed), Arc::clone(self.handle));
        let stops = move || has_failed.load(Ordering::Relaxed) || handle.is_interrupted();
        let finished = entries.finish(&index.tree, &stops, &mut writing);
        let duplicate = writing.duplicate;
        let is_repeated = !unique && matches!(finished, Err(LoadError::Caller(_)));
        let load = match finished {
            Ok(load) => Ok(load),
            Err(LoadError::Caller(error)) => Err(error),
            Err(LoadError::Failed(error)) => checked(self.core, index, Err(error)),
        };
        let index = Arc::clone(index);
        Some(match load {
            Ok(load) => Ok(Written {
                number,
                index,
                unique,
                load,
            }),
            Err(error) => Err(Box::new(Failure {
                error,
                duplicate,
                is_repeated,
            })),
        })
    }

    /// The runs of all indexes, or the error that has stopped the others.
    fn into_written(self) -> Result<Vec<Written>, Box<Failure>> {
        let mut all = Vec::with_capacity(self.outcomes.len());
        let mut failed: Option<Box<Failure>> = None;
        for outcome in self.outcomes {
            let outcome = outcome.into_inner().unwrap_or_else(|| {
                let reason = "a thread that wrote a load has ended";
                Err(Box::new(Failure {
                    error: EngineError::Internal(reason.into()),
                    duplicate: None,
                    is_repeated: false,
                }))
            });
            match outcome {
                Ok(written) => all.push(written),
                Err(failure) => failed = Some(more_important(failed, failure)),
            }
        }
        failed.map_or(Ok(all), Err)
    }
}

/// The failure to report.
fn more_important(first: Option<Box<Failure>>, other: Box<Failure>) -> Box<Failure> {
    match first {
        Some(first) if first.rank() >= other.rank() => first,
        _ => other,
    }
}

impl EngineTransaction {
    /// Adds the rows of a load to the table. Returns their number. Calls `progress` regularly with
    /// the number of entries written and their total.
    ///
    /// # Errors
    /// `DuplicateKey`, after which [`EngineTransaction::duplicate`] returns one of the entries with
    /// the key; `Conflict` under snapshot isolation, when a unique key that the snapshot sees was
    /// deleted; `TableReadOnly`, `Wait`, `Storage`. Some indexes may then have the entries: the
    /// caller must roll back to a savepoint.
    pub fn finish_load(
        &mut self,
        load: RowLoad,
        progress: &mut dyn FnMut(u64, u64),
    ) -> EngineResult<u64> {
        let rows = load.rows;
        if rows == 0 {
            return Ok(0);
        }
        let (table, write_id) = (load.table.share(), load.write_id);
        let file = load
            .indexes
            .first()
            .map_or(FileId(0), |rows| rows.entry.file);
        let running = self.core.running_jobs.begin_on(RunningKind::Load, file);
        let mut written = self.write_entries(load, &mut |done, total| {
            running.job.set_progress(done, total);
            progress(done, total);
        })?;
        self.admit_again(&table)?;
        self.begin_turn(&table.table, &written, write_id)?;
        for index in written.iter().filter(|index| index.unique) {
            self.lock_keys(index)?;
        }
        for index in written.iter().filter(|index| index.unique) {
            self.check_absent(index)?;
        }
        let core = Arc::clone(&self.core);
        flush_deletes(&core, &written)?;
        // A rollback cleans up if there are many.
        self.handle().note_rows_written(rows);
        for index in &mut written {
            self.install(index)?;
        }
        let context = FlushContext::from(&*core);
        let _hurry = context.pacer.hurry();
        for index in &written {
            context.checkpoint_index(&index.index)?;
        }
        let counts = &core.counts;
        counts.bulk_loads.fetch_add(1, Ordering::Relaxed);
        counts.bulk_load_rows.fetch_add(rows, Ordering::Relaxed);
        self.rows.inserted += rows;
        let added = i64::try_from(rows).unwrap_or(i64::MAX);
        self.note_rows(&table, &table.indexes()?, added);
        Ok(rows)
    }

    /// Step 1.
    fn write_entries(
        &mut self,
        mut load: RowLoad,
        report: &mut dyn FnMut(u64, u64),
    ) -> EngineResult<Vec<Written>> {
        let (core, handle) = (Arc::clone(&self.core), Arc::clone(self.handle()));
        let writing = Writing::new(&core, &handle, &mut load);
        std::thread::scope(|scope| {
            for _ in 1..writing.loads.len() {
                let Some(working) = core.job_threads.begin_sort_task() else {
                    break;
                };
                let builder = std::thread::Builder::new().name("teak-load".into());
                let writing = &writing;
                let started = builder.spawn_scoped(scope, move || {
                    writing.run(&mut |_, _| ());
                    drop(working);
                });
                if started.is_err() {
                    break;
                }
            }
            writing.run(report);
        });
        writing.into_written().map_err(|failure| {
            let Failure {
                error, duplicate, ..
            } = *failure;
            if let (Some(duplicate), Ok(context)) = (duplicate, self.context()) {
                *context.duplicate = duplicate;
            }
            error
        })
    }

    /// Step 2.
    fn begin_turn(
        &mut self,
        table: &Table,
        written: &[Written],
        write_id: WriteId,
    ) -> EngineResult<()> {
        let context = self.context()?;
        let mut deadline = None;
        loop {
            let other = {
                let mut loading = table.loading.lock();
                let ids = context.core.transactions.ids();
                let is_active = |id: &WriteId| {
                    let owner = ids.active_owner(*id);
                    owner.is_some_and(|owner| owner != context.transaction.id())
                };
                let other = loading.filter(is_active);
                if other.is_none() {
                    *loading = Some(write_id);
                }
                other
            };
            let (Some(other), Some(rows)) = (other, written.first()) else {
                return Ok(());
            };
            let timeout = context.remaining_timeout(&mut deadline);
            // The wait is for no row in particular.
            let row = RowName::new(&rows.index.ranges, &[]);
            let transactions = &context.core.transactions;
            transactions.wait_for_write(context.transaction, other, row, timeout)?;
        }
    }

    /// Step 3 in one index.
    fn lock_keys(&mut self, written: &Written) -> EngineResult<()> {
        let Some((first, end)) = written.range() else {
            return Ok(());
        };
        let context = self.context()?;
        let timeout = context.remaining_timeout(&mut None);
        context.core.transactions.lock_range(
            context.transaction,
            &written.index.ranges,
            RangeLockKind::Gap,
            (first, Some(&end)),
            timeout,
        )?;
        written.index.tree.wait_for_writers();
        Ok(())
    }

    /// Step 6 in one index.
    fn install(&mut self, written: &mut Written) -> EngineResult<()> {
        let Some((first, end)) = written.range() else {
            return Ok(());
        };
        let first = first.to_vec();
        let core = Arc::clone(&self.core);
        let context = self.context()?;
        let me = context.transaction.id();
        let Written { index, load, .. } = written;
        let mut queue = RangeQueuePositions::default();
        let mut deadline = None;
        loop {
            let guard = index.tree.write_guard();
            if !index.access.is_open() && !core.begin_writes(index)? {
                let reason = "an index was removed during a load";
                return Err(EngineError::Internal(reason.into()));
            }
            if let Some(key) = index.ranges.blocked_key(&first, &end, me) {
                drop(guard);
                let timeout = context.remaining_timeout(&mut deadline);
                let (transaction, ranges) = (&*context.transaction, &index.ranges);
                core.transactions.wait_for_range_lock(
                    transaction,
                    &mut queue,
                    ranges,
                    &key,
                    true,
                    timeout,
                )?;
                continue;
            }
            let required = index.tree.install_load(load);
            drop(guard);
            match core.checked(index, required)? {
                Some(node) => core.checked(index, index.tree.read_required(load, &node))?,
                None => {
                    FlushContext::from(&*core).note_change(index);
                    return Ok(());
                }
            }
        }
    }
}

/// Step 5.
fn flush_deletes(core: &EngineCore, written: &[Written]) -> EngineResult<()> {
    let context = FlushContext::from(core);
    let mut targets = FlushTargets::new(true);
    for written in written {
        if written.index.tree.holds_unflushed_deletes() {
            context.freeze(&written.index);
            targets.add(&written.index);
        }
    }
    context.flush(targets)
}

#[cfg(test)]
mod tests {
    use super::{Failure, added_twice, more_important};
    use crate::error::EngineError;
    use teak_transactions::WaitError;

    fn failure(error: EngineError, is_repeated: bool) -> Box<Failure> {
        Box::new(Failure {
            error,
            duplicate: None,
            is_repeated,
        })
    }

    #[test]
    fn a_duplicate_is_reported_instead_of_its_consequences() {
        let stopped = || failure(EngineError::Wait(WaitError::Interrupted), false);
        let repeated = || failure(added_twice(), true);
        let duplicate = || failure(EngineError::DuplicateKey, false);
        for order in [
            [stopped(), repeated(), duplicate()],
            [duplicate(), repeated(), stopped()],
            [repeated(), duplicate(), stopped()],
        ] {
            let mut reported = None;
            for failure in order {
                reported = Some(more_important(reported, failure));
            }
            let error = reported.map(|failure| failure.error);
            assert!(
                matches!(error, Some(EngineError::DuplicateKey)),
                "{error:?}"
            );
        }
        let repeated = more_important(Some(stopped()), repeated());
        assert!(repeated.is_repeated);
    }
}
