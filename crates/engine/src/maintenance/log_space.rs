//! The size of the log, as writers see it.
//!
//! From half of the log's bound on, writers are slowed before the first row of
//! their transaction in a table, and each time they have written a certain number
//! of bytes. At the stop they wait there; a writer that is already past this
//! point waits when the log refuses its next record. In both cases the writer holds
//! no latch and no guard. `delay_for` does all of this.

use super::checkpoint::CheckpointContext;
use super::delay::{Bounded, delay_for};
use super::flusher::FlushContext;
use crate::core::EngineCore;
use crate::core::delays::DelayCause;
use crate::core::log_stalls::LogStalls;
use crate::core::pacer::Pacer;
use crate::error::{EngineError, EngineResult};
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use teak_base::{StorageResult, WriteId};
use teak_transactions::TransactionHandle;
use teak_write_ahead_log::{LogReservation, LogSpace, Record};

/// Longest time that a writer is stopped.
const STOP_MAX: Duration = Duration::from_secs(60);

/// [`Bounded`] for the size of the log, for the delay of one writer.
pub(super) struct LogBound<'a, 'r> {
    context: FlushContext<'a>,
    /// A record that the log has refused: the writer waits until the log has
    /// space for the record.
    refused: Option<&'r Record<'r>>,
    /// The space for this record, or the error that ends the wait.
    space: RefCell<Option<StorageResult<LogReservation<'a>>>>,
    stopped_at: Cell<Option<Instant>>,
}

impl<'a, 'r> LogBound<'a, 'r> {
    pub(super) fn new(context: FlushContext<'a>) -> Self {
        Self {
            context,
            refused: None,
            space: RefCell::default(),
            stopped_at: Cell::new(None),
        }
    }

    fn refusing(context: FlushContext<'a>, record: &'r Record<'r>) -> Self {
        Self {
            refused: Some(record),
            ..Self::new(context)
        }
    }

    fn log_full(&self) -> EngineError {
        let bytes_max = self.context.log.log_use().bytes_max;
        EngineError::LogFull { bytes_max }
    }

    fn begin_stop(&self) {
        let now = Instant::now();
        self.stopped_at.set(Some(now));
        if self.context.log_stalls.begin_stop(now) {
            let log = self.context.log.log_use();
            self.context.messages.warning(&format!(
                "the log has reached its bound ({} of {} bytes): writers wait for a checkpoint",
                log.bytes, log.bytes_max
            ));
        }
    }

    fn end_stop(&self) {
        if let Some(time) = self.context.log_stalls.end_stop(Instant::now()) {
            let milliseconds = time.as_millis();
            self.context.messages.warning(&format!(
                "writers continue, they waited {milliseconds} ms for a checkpoint to trim the log"
            ));
        }
    }
}

impl Bounded for LogBound<'_, '_> {
    fn pressure(&self) -> f64 {
        let Some(record) = self.refused else {
            return LogStalls::pressure(self.context.log.log_use());
        };
        let space = match self.context.log.reserve(record) {
            Ok(LogSpace::BoundReached) => return 1.0,
            Ok(LogSpace::Reserved(space)) => Ok(space),
            Err(error) => Err(error),
        };
        *self.space.borrow_mut() = Some(space);
        0.0
    }

    fn cause(&self) -> DelayCause {
        DelayCause::Log
    }

    fn written(&self) -> u64 {
        self.context.log.end().0
    }

    fn pacer(&self) -> &Pacer {
        &self.context.log_stalls.pacer
    }

    fn start_work(&self) {
        self.context.signals.wake_maintenance();
    }

    fn failure(&self) -> Option<EngineError> {
        let stopped_at = self.stopped_at.get()?;
        (stopped_at.elapsed() >= STOP_MAX).then(|| self.log_full())
    }

    fn stops(&self) {
        self.begin_stop();
    }

    fn ends(&self) {
        match self.stopped_at.take() {
            Some(_) => self.end_stop(),
            None => {
                let slowdowns = &self.context.log_stalls.slowdowns;
                slowdowns.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Whether a writer is to be slowed before it writes a row.
#[inline]
pub(super) fn is_slow(context: FlushContext<'_>) -> bool {
    LogStalls::is_slow(context.log.log_use())
}

/// Reserves log space for a row; waits while the log has reached its bound. The
/// caller holds no latch and no guard.
///
/// # Errors
/// Those of the log; `Wait(Interrupted)`; `LogFull` after [`STOP_MAX`];
/// `Internal` when the engine is closing. Without threads, those of the
/// checkpoint.
#[inline]
pub(crate) fn reserve_row<'c>(
    core: &'c EngineCore,
    transaction: &TransactionHandle,
    record: &Record<'_>,
) -> EngineResult<LogReservation<'c>> {
    match core.log.reserve(record)? {
        LogSpace::Reserved(space) => Ok(space),
        LogSpace::BoundReached => wait_for_trim(core, transaction, record),
    }
}

/// Reserves space for the log record of a write. A write of a temporary table has none: only the
/// ids that such writes may have taken are logged, from time to time.
///
/// # Errors
/// As [`reserve_row`]; those of the log.
pub(crate) fn reserve_write<'c>(
    core: &'c EngineCore,
    transaction: &TransactionHandle,
    is_logged: bool,
    record: &Record<'_>,
) -> EngineResult<Option<LogReservation<'c>>> {
    if is_logged {
        return reserve_row(core, transaction, record).map(Some);
    }
    let next = core.transactions.ids().next();
    let last = WriteId(next.0.saturating_sub(1));
    core.unlogged_ids.note(&core.log, last)?;
    Ok(None)
}

#[cold]
fn wait_for_trim<'c>(
    core: &'c EngineCore,
    transaction: &TransactionHandle,
    record: &Record<'_>,
) -> EngineResult<LogReservation<'c>> {
    let context = FlushContext::from(core);
    let bound = LogBound::refusing(context, record);
    if core.signals.has_threads() {
        delay_for(context, transaction, &bound)?;
    } else {
        let since = Instant::now();
        let _stopped = core.delays.stop(DelayCause::Log);
        bound.begin_stop();
        let outcome = CheckpointContext::from(core).run_maintenance(true);
        bound.end_stop();
        core.delays.add(DelayCause::Log, since.elapsed());
        if bound.pressure() > 0.0 {
            // The failure of an index matters only if the log is still full.
            outcome?;
        }
    }
    match bound.space.take() {
        Some(space) => Ok(space?),
        None => Err(bound.log_full()),
    }
}
