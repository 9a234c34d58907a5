//! Delays of writers while background work is behind.
//!
//! A quantity that writers increase and background work reduces implements
//! [`Bounded`]. It has a trigger, from which writers are slowed to about the
//! measured speed of the background work, and a bound, at which they stop until
//! work is done. [`delay_for`] does both.

use super::flusher::FlushContext;
use crate::core::delays::DelayCause;
use crate::core::pacer::Pacer;
use crate::error::{EngineError, EngineResult};
use std::time::{Duration, Instant};
use teak_base::FileId;
use teak_transactions::{TransactionHandle, WaitError};

/// Shorter delays are not worth a sleep.
const DELAY_MIN: Duration = Duration::from_micros(50);

/// How often a delayed writer checks for an interrupt and reads the pressure.
const POLL_PERIOD: Duration = Duration::from_millis(20);

/// How long a writer that is stopped by a full disk waits for another attempt of
/// the background work, because space may have been freed.
const RETRY_WAIT: Duration = Duration::from_millis(250);

/// A quantity that writers increase and background work reduces.
pub(crate) trait Bounded {
    /// How far the quantity is between its trigger and its bound: at zero and
    /// below no writer is delayed, from one on writers stop.
    fn pressure(&self) -> f64;

    /// The cause under which a delay is counted.
    fn cause(&self) -> DelayCause;

    /// The longest delay of a writer that is slowed and not stopped; `None`: until its turn.
    fn slowed_max(&self) -> Option<Duration> {
        None
    }

    /// Bytes written since the start that increase the quantity.
    fn written(&self) -> u64;

    /// The pace of its writers.
    fn pacer(&self) -> &Pacer;

    /// Starts the background work that reduces the quantity. Called before each
    /// wait.
    fn start_work(&self);

    /// Why a stopped writer must fail: the background work cannot reduce the
    /// quantity.
    fn failure(&self) -> Option<EngineError>;

    /// The file of the index whose merges the writer waits for.
    fn file(&self) -> Option<FileId> {
        None
    }

    /// Called when the writer stops for the first time in this delay.
    fn stops(&self) {}

    /// Called at the end of the delay.
    fn ends(&self) {}
}

/// Delays a writer as the pressure of `bounded` requires. The caller holds no
/// latch and no memtable guard.
///
/// # Errors
/// `Wait(Interrupted)`; the failure of `bounded`; `Internal` when the engine is
/// closing.
pub(crate) fn delay_for(
    context: FlushContext<'_>,
    transaction: &TransactionHandle,
    bounded: &dyn Bounded,
) -> EngineResult<()> {
    let mut pressure = bounded.pressure();
    if pressure <= 0.0 {
        return Ok(());
    }
    context.pacer.note_slowed(bounded.file());
    let since = Instant::now();
    let mut turn = None;
    if pressure < 1.0 {
        let next = bounded.pacer().turn(since, bounded.written(), pressure);
        if next <= since + DELAY_MIN {
            return Ok(());
        }
        turn = Some(match bounded.slowed_max() {
            Some(longest) => next.min(since + longest),
            None => next,
        });
    }
    let cause = bounded.cause();
    let mut stopped = None;
    let mut retried = None;
    let outcome = loop {
        if pressure >= 1.0 {
            stopped.get_or_insert_with(|| {
                bounded.stops();
                context.delays.stop(cause)
            });
            if let Some(error) = bounded.failure()
                && !is_retried(context, &error, &mut retried)
            {
                break Err(error);
            }
        } else if turn.is_none_or(|turn| turn <= Instant::now()) {
            break Ok(());
        }
        if transaction.is_interrupted() {
            break Err(WaitError::Interrupted.into());
        }
        if context.signals.is_stopping() {
            break Err(EngineError::Internal("the engine is closing".into()));
        }
        context.pacer.note_slowed(bounded.file());
        bounded.start_work();
        let mut time = POLL_PERIOD;
        if let Some(turn) = turn.filter(|_| pressure < 1.0) {
            time = time.min(turn.saturating_duration_since(Instant::now()));
        }
        context.signals.wait_for_space(time);
        pressure = bounded.pressure();
        if pressure <= 0.0 {
            break Ok(());
        }
    };
    bounded.ends();
    context.delays.add(cause, since.elapsed());
    outcome
}

/// Whether a writer should wait instead of failing with `error`: the disk was full,
/// and another attempt of the background work may succeed. The first call allows
/// this attempt; after [`RETRY_WAIT`] the writer fails.
fn is_retried(
    context: FlushContext<'_>,
    error: &EngineError,
    retried: &mut Option<Instant>,
) -> bool {
    if !matches!(error, EngineError::Storage(error) if error.is_no_space()) {
        return false;
    }
    let since = *retried.get_or_insert_with(|| {
        context.work.space_freed();
        Instant::now()
    });
    since.elapsed() < RETRY_WAIT
}
