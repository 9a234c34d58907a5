//! Keeps index files close to the size of their live bytes.
//!
//! The thread `teak-space` works towards two goals (see `teak_tree::SpaceGoal`):
//! - Busy: after a job that left the file of its index too large, this index is
//!   checkpointed, and if that does not suffice, blocks at the end of its file
//!   are moved to holes, at a limited rate.
//! - Idle: after a time without writes, and when trees are merged, the files of
//!   all written indexes are made smaller, one after the other. Closing the
//!   engine does the same, up to a limit of moved bytes.
//!
//! A checkpoint of a single index needs neither a catalogue nor a trimmed log:
//! recovery accepts files that are newer than the catalogue.
//!
//! A file that cannot be made smaller, because a reader needs its old blocks or
//! because its holes are too small, is tried again after [`RECHECK_PERIOD`], or
//! when the next idle time begins.

use super::flusher::FlushContext;
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::{FileId, Lsn};
use teak_disk::{IoPurpose, IoUrgency};
use teak_tree::{SpaceAction, SpaceGoal};

/// Time without writes after which the idle goal applies.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// Time after which the files of an idle engine are checked again: a reader that
/// needed old blocks may have ended.
const RECHECK_PERIOD: Duration = Duration::from_secs(10);

/// Maximum bytes per second that are moved while the engine is busy.
const BUSY_BYTES_PER_SECOND: u64 = 64 << 20;

/// Maximum bytes per second that are moved while the engine is idle.
const IDLE_BYTES_PER_SECOND: u64 = 256 << 20;

/// Maximum bytes that are moved while the engine closes.
const CLOSE_BYTES_MAX: u64 = 4 << 30;

/// A move that makes a file smaller by less is not tried.
const GAIN_BYTES_MIN: u64 = 64 << 10;

/// Indexes that are examined at a time while the engine is idle.
const EXAMINED_MAX: usize = 256;

/// Bytes moved after which a checkpoint truncates the file.
const ROUND_BYTES_MAX: u64 = 256 << 20;

/// Limits moving to a rate, or to a total.
pub(crate) struct Pace {
    /// `None`: no limit.
    bytes_per_second: Option<u64>,
    since: Instant,
    bytes: u64,
    bytes_max: u64,
}

impl Pace {
    /// The rate while the engine is busy.
    pub(crate) fn busy() -> Self {
        Self::at_rate(BUSY_BYTES_PER_SECOND)
    }

    fn at_rate(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: Some(bytes_per_second),
            ..Self::up_to(u64::MAX)
        }
    }

    fn up_to(bytes_max: u64) -> Self {
        Self {
            bytes_per_second: None,
            since: Instant::now(),
            bytes: 0,
            bytes_max,
        }
    }

    /// The limit while the engine closes.
    pub(crate) fn closing() -> Self {
        Self::up_to(CLOSE_BYTES_MAX)
    }

    #[cfg(feature = "testing")]
    pub(crate) fn unlimited() -> Self {
        Self::up_to(u64::MAX)
    }

    fn is_used_up(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// Counts moved bytes, and sleeps when they exceed the rate.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        let Some(rate) = self.bytes_per_second else {
            return;
        };
        let due = Duration::from_millis(self.bytes.saturating_mul(1000) / rate);
        let elapsed = self.since.elapsed();
        if due > elapsed {
            std::thread::sleep((due - elapsed).min(Duration::from_secs(1)));
        } else {
            // Unused time does not allow a higher rate later.
            self.since = Instant::now();
            self.bytes = 0;
        }
    }
}

/// The outcome of [`FlushContext::reclaim_space`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The goal is reached.
    Reached,
    /// No step makes the file smaller now.
    Stuck,
    /// The work was interrupted, or has moved the maximum number of bytes.
    Interrupted,
}

/// What a step has moved.
enum Moved {
    /// Runs, and perhaps nodes.
    Runs,
    /// Only nodes, which the next checkpoint writes to other places.
    Nodes,
    Nothing,
}

impl FlushContext<'_> {
    /// Makes the file of an index smaller until the goal is reached or no step helps.
    /// `may_continue` is called between two steps; if it returns false, the work ends.
    ///
    /// # Errors
    /// Those of checkpoints and of moving. The failed step leaves the tree unchanged.
    pub(super) fn reclaim_space(
        &self,
        index: &Arc<Index>,
        goal: SpaceGoal,
        pace: &mut Pace,
        may_continue: &dyn Fn() -> bool,
    ) -> EngineResult<Outcome> {
        loop {
            if index.is_dropped() || pace.is_used_up() || !may_continue() {
                return Ok(Outcome::Interrupted);
            }
            let before = index.tree.file_statistics();
            let moved = match index.tree.space_action(goal) {
                SpaceAction::Nothing => return Ok(Outcome::Reached),
                SpaceAction::Checkpoint => false,
                SpaceAction::Move { limit } => {
                    match self.relocate_to(index, limit, pace, may_continue)? {
                        Moved::Runs => true,
                        Moved::Nodes => false,
                        Moved::Nothing => return Ok(Outcome::Stuck),
                    }
                }
            };
            self.checkpoint_index(index)?;
            let after = index.tree.file_statistics();
            let helped = after.file_bytes < before.file_bytes
                || after.pending_free_bytes < before.pending_free_bytes;
            if !moved && !helped {
                return Ok(Outcome::Stuck);
            }
        }
    }

    /// Moves runs and nodes from after `limit`. If nothing can be moved before it,
    /// because the holes are too small, tries limits that are closer to the end
    /// of the file.
    fn relocate_to(
        &self,
        index: &Arc<Index>,
        mut limit: u64,
        pace: &mut Pace,
        may_continue: &dyn Fn() -> bool,
    ) -> EngineResult<Moved> {
        let end = index.tree.file_bytes();
        while end.saturating_sub(limit) >= GAIN_BYTES_MIN {
            let runs = self.relocate(index, limit, pace, may_continue)?;
            let nodes = index.tree.relocate_nodes(limit);
            let nodes = nodes.inspect_err(|error| self.messages.report_damage(index, error))?;
            match (runs, nodes) {
                (true, _) => return Ok(Moved::Runs),
                (false, true) => return Ok(Moved::Nodes),
                (false, false) => limit += (end - limit) / 2,
            }
        }
        Ok(Moved::Nothing)
    }

    /// Moves runs from after `limit` to holes before it. Returns whether any was
    /// moved.
    fn relocate(
        &self,
        index: &Arc<Index>,
        limit: u64,
        pace: &mut Pace,
        may_continue: &dyn Fn() -> bool,
    ) -> EngineResult<bool> {
        let mut round = 0;
        let mut progress = false;
        while round < ROUND_BYTES_MAX && may_continue() && !pace.is_used_up() {
            // The failure is not recorded as one of flushing, because writers do not wait for
            // moves.
            let job = index.tree.next_relocation(limit);
            let done = job.and_then(|job| {
                let run = |job| {
                    self.run_unrecorded_job(index, job, IoPurpose::Moving, IoUrgency::Optional)
                };
                job.map(run).transpose()
            });
            let report = match done {
                Ok(Some(report)) => report,
                Ok(None) => break,
                Err(error) => {
                    if error.is_no_space() {
                        index.tree.truncate_free_tail();
                    }
                    self.messages.report_damage(index, &error);
                    return Err(error.into());
                }
            };
            if report.runs_moved + report.runs_written == 0 {
                break;
            }
            progress = true;
            round += report.bytes_relocated + report.stored_bytes_written;
            pace.add(report.bytes_relocated + report.stored_bytes_written);
        }
        Ok(progress)
    }

    /// Makes the files of all written indexes as small as in idle time. Returns
    /// the first error, after all were tried.
    ///
    /// # Errors
    /// Those of [`FlushContext::reclaim_space`].
    pub(crate) fn reclaim_all(&self, pace: &mut Pace) -> EngineResult<()> {
        let mut outcome = Ok(());
        for index in self.written.live() {
            let reclaimed = self.reclaim_space(&index, SpaceGoal::Idle, pace, &|| true);
            if let Err(error) = &reclaimed {
                self.report_reclaim(&index, error);
            }
            outcome = outcome.and(reclaimed.map(|_| ()));
        }
        outcome
    }

    fn report_reclaim(&self, index: &Index, error: &EngineError) {
        let path = index.entry.path.display();
        let text = format!("making {path} smaller failed: {error}");
        self.messages.warning(&text);
    }

    /// Called after a job. If the file of its index is too large, wakes the thread `teak-space`.
    pub(super) fn check_space(&self, index: &Index) {
        if !self.signals.has_threads() {
            return;
        }
        self.changed.add(index.entry.file);
        if index.tree.space_action(SpaceGoal::Busy) != SpaceAction::Nothing
            && self.too_large.add(index.entry.file)
        {
            self.signals.wake_space();
        }
    }
}

#[cfg(feature = "testing")]
impl FlushContext<'_> {
    /// Moves blocks of every index to holes in the first part of its file, without
    /// a checkpoint. `thousandths` is the size of this part.
    pub(crate) fn relocate_all(&self, thousandths: u64) -> EngineResult<()> {
        for index in self.written.live() {
            let limit = index.tree.file_bytes() * thousandths / 1000;
            self.relocate(&index, limit, &mut Pace::unlimited(), &|| true)?;
            index.tree.relocate_nodes(limit)?;
        }
        Ok(())
    }
}

/// A pass over all written indexes while the engine is idle.
#[derive(Default)]
struct Sweep {
    /// The file that was examined last.
    last: Option<FileId>,
    /// Whether a file needs another pass, because idle compaction had work in its index, or the work on it
    /// was interrupted, failed, or could not be tried.
    has_work: bool,
}

/// The state of the thread `teak-space`.
pub(super) struct SpaceThread {
    log_end: Lsn,
    since: Instant,
    /// The time at which every file had reached the idle goal or could not be made
    /// smaller; `None` if that has not been so since the last write.
    finished: Option<Instant>,
    /// The log's end at the beginning of the last idle time.
    idle_at: Lsn,
    sweep: Sweep,
    /// When the work on these files last did not help or failed.
    stuck: HashMap<FileId, Instant>,
    busy: Pace,
    idle: Pace,
}

impl SpaceThread {
    pub(super) fn new() -> Self {
        Self {
            log_end: Lsn(0),
            since: Instant::now(),
            finished: None,
            idle_at: Lsn(0),
            sweep: Sweep::default(),
            stuck: HashMap::new(),
            busy: Pace::busy(),
            idle: Pace::at_rate(IDLE_BYTES_PER_SECOND),
        }
    }

    /// Does the work that is due now.
    pub(super) fn run(&mut self, context: &FlushContext<'_>) {
        for file in context.too_large.take() {
            if let Some(index) = context.written.by_file(file) {
                let may_continue = || !context.signals.is_stopping();
                self.reclaim(context, &index, SpaceGoal::Busy, &may_continue);
            }
        }
        let end = context.log.end();
        if end != self.log_end {
            self.log_end = end;
            self.since = Instant::now();
            self.finished = None;
        }
        let is_idle = self.since.elapsed() >= IDLE_AFTER;
        for file in context.changed.take() {
            // Idle compaction begins at the same time as the pass. It has written to a file that
            // had reached the goal, or could not be made smaller before.
            if is_idle {
                self.stuck.remove(&file);
                self.sweep.has_work = true;
            }
            self.finished = None;
        }
        let rested = |at: Instant| at.elapsed() >= RECHECK_PERIOD;
        if is_idle && self.finished.is_none_or(rested) {
            self.run_idle(context);
        }
    }

    /// Continues the pass over all written indexes.
    fn run_idle(&mut self, context: &FlushContext<'_>) {
        let end = self.log_end;
        if self.idle_at != end {
            self.idle_at = end;
            self.stuck.clear();
            self.sweep = Sweep::default();
        }
        for _ in 0..EXAMINED_MAX {
            let Some(index) = context.written.after(self.sweep.last) else {
                if !std::mem::take(&mut self.sweep).has_work {
                    self.finished = Some(Instant::now());
                }
                self.stuck.retain(|_, at| at.elapsed() < RECHECK_PERIOD);
                return;
            };
            self.sweep.last = Some(index.entry.file);
            if index.is_dropped() {
                continue;
            }
            // Merges free most of the space, so an index is skipped until idle compaction has merged it
            // as far as that is worth it, or stops because it has written too much.
            let is_merged =
                index.tree.is_merged_for_idle_time() || !index.tree.affords_optional_jobs();
            let may_continue = || !context.signals.is_stopping() && context.log.end() == end;
            let is_done =
                is_merged && self.reclaim(context, &index, SpaceGoal::Idle, &may_continue);
            self.sweep.has_work |= !is_done;
        }
    }

    /// Makes one file smaller. Returns false when the work was interrupted, failed, or
    /// may not be tried now.
    fn reclaim(
        &mut self,
        context: &FlushContext<'_>,
        index: &Arc<Index>,
        goal: SpaceGoal,
        may_continue: &dyn Fn() -> bool,
    ) -> bool {
        let file = index.entry.file;
        let is_stuck = |at: &Instant| at.elapsed() < RECHECK_PERIOD;
        if self.stuck.get(&file).is_some_and(is_stuck)
            && index.tree.space_action(goal) != SpaceAction::Checkpoint
        {
            return true;
        }
        if !index.may_try(Instant::now()) {
            return false;
        }
        let pace = match goal {
            SpaceGoal::Busy => &mut self.busy,
            SpaceGoal::Idle => &mut self.idle,
        };
        match context.reclaim_space(index, goal, pace, may_continue) {
            Ok(Outcome::Reached) => true,
            Ok(Outcome::Stuck) => {
                self.stuck.insert(file, Instant::now());
                true
            }
            Ok(Outcome::Interrupted) => false,
            Err(error) => {
                context.report_reclaim(index, &error);
                self.stuck.insert(file, Instant::now());
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{IndexDefinition, TableDefinition};
    use crate::engine::Engine;
    use crate::options::EngineOptions;
    use crate::{IndexNumber, Isolation, RowEntry, TableHandle};
    use teak_base::checksum::hash_key;
    use teak_disk::MemoryDisk;

    /// An engine with written tables.
    fn with_tables(count: usize) -> Engine {
        let mut options = EngineOptions::new("/data");
        options.background_threads = 0;
        // Enough memory for all trees.
        options.cache_bytes = 64 << 20;
        options.open_tables_kept = usize::MAX;
        options.tree = teak_tree::TreeOptions::tiny();
        let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
        for number in 0..count {
            let definition = TableDefinition {
                name: format!("./db/t{number}"),
                indexes: vec![IndexDefinition::of_rows()],
                metadata: Vec::new(),
            };
            engine.create_table(&definition).unwrap();
            let table = engine.open_table(&definition.name).unwrap();
            engine.core.written.register(&table.indexes().unwrap()[0]);
        }
        engine
    }

    #[test]
    fn a_poll_examines_few_of_many_files() {
        let engine = with_tables(EXAMINED_MAX * 2 + 10);
        let context = FlushContext::from(&*engine.core);
        let mut thread = SpaceThread::new();
        thread.log_end = engine.core.log.end();
        let files: Vec<FileId> = context.written.live().map(|one| one.entry.file).collect();
        for poll in 1..=2 {
            thread.run_idle(&context);
            assert_eq!(thread.sweep.last, Some(files[poll * EXAMINED_MAX - 1]));
            assert!(thread.finished.is_none());
        }
        thread.run_idle(&context);
        assert!(thread.finished.is_some());
        assert_eq!(thread.sweep.last, None);
    }

    /// Writes a row of each of these numbers, and flushes them.
    fn write(engine: &Engine, table: &TableHandle, numbers: impl Iterator<Item = u64>) {
        let mut transaction = engine.begin(Isolation::RepeatableRead);
        for number in numbers {
            // A value that does not compress.
            let words = (0..12).map(|word| hash_key(&(number * 12 + word).to_be_bytes()));
            let value: Vec<u8> = words.flat_map(u64::to_be_bytes).collect();
            let entry = RowEntry {
                index: IndexNumber(0),
                unique: false,
                key: &number.to_be_bytes(),
                value: &value,
            };
            transaction.insert(table, &[entry]).unwrap();
        }
        transaction.commit().unwrap();
        let context = FlushContext::from(&*engine.core);
        context.freeze(&table.indexes().unwrap()[0]);
        engine.run_background_until_idle().unwrap();
    }

    /// Idle compaction ends when it has written too much. The file must become small anyway.
    #[test]
    fn a_tree_that_is_not_compacted_further_gets_a_small_file() {
        const ROWS: u64 = 8000;
        let engine = with_tables(1);
        let table = engine.open_table("./db/t0").unwrap();
        let index = Arc::clone(&table.indexes().unwrap()[0]);
        let exhaust = || {
            let is_over = || {
                write(&engine, &table, (0..ROWS).step_by(97));
                let horizon = FlushContext::from(&*engine.core).transactions.horizon();
                while index.tree.affords_optional_jobs()
                    && let Some(job) = index.tree.next_idle_job(&horizon).unwrap()
                {
                    job.run(&horizon).unwrap();
                }
                !index.tree.affords_optional_jobs() && !index.tree.is_fully_merged()
            };
            assert!((0..1000).any(|_| is_over()));
        };
        write(&engine, &table, 0..ROWS);
        exhaust();
        let mut transaction = engine.begin(Isolation::RepeatableRead);
        for number in (0..ROWS / 2).filter(|number| number % 97 > 0) {
            let entry = RowEntry {
                index: IndexNumber(0),
                unique: false,
                key: &number.to_be_bytes(),
                value: &[],
            };
            transaction.delete(&table, &[entry]).unwrap();
        }
        transaction.commit().unwrap();
        exhaust();
        let action = || index.tree.space_action(SpaceGoal::Idle);
        assert_ne!(action(), SpaceAction::Nothing);
        let context = FlushContext::from(&*engine.core);
        let mut thread = SpaceThread::new();
        thread.log_end = context.log.end();
        thread.since = Instant::now().checked_sub(IDLE_AFTER).unwrap();
        thread.run(&context);
        assert_eq!(action(), SpaceAction::Nothing);
        assert!(!index.tree.is_fully_merged());
    }

    #[test]
    fn a_job_in_idle_time_leads_to_another_pass() {
        let engine = with_tables(3);
        let context = FlushContext::from(&*engine.core);
        let file = context.written.after(None).unwrap().entry.file;
        let mut thread = SpaceThread::new();
        thread.log_end = engine.core.log.end();
        thread.idle_at = thread.log_end;
        thread.since = Instant::now().checked_sub(IDLE_AFTER).unwrap();
        thread.run(&context);
        let finished = thread.finished.unwrap();
        thread.run(&context);
        assert_eq!(thread.finished, Some(finished));
        thread.stuck.insert(file, finished);
        context.changed.add(file);
        thread.run(&context);
        assert!(thread.stuck.is_empty());
        // This pass began when there was work.
        assert_eq!(thread.finished, None);
        thread.run(&context);
        assert!(thread.finished.unwrap() > finished);
    }

    #[test]
    fn files_that_are_too_large_are_found_without_a_pass() {
        let engine = with_tables(3);
        let context = FlushContext::from(&*engine.core);
        let file = context.written.after(None).unwrap().entry.file;
        assert!(context.too_large.add(file));
        assert!(!context.too_large.add(file));
        // A file whose table was closed.
        context.too_large.add(FileId(1 << 40));
        let mut thread = SpaceThread::new();
        thread.run(&context);
        assert!(context.too_large.take().is_empty());
    }
}
