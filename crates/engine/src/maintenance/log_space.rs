//! Admission of writers by the size of the log.
//!
//! 1. From half of the log's bound on, a writer sleeps before the first row of
//!    its transaction, and each time it has written a certain number of bytes.
//!    All writers together keep a pace, which falls as the log grows.
//! 2. At the stop, the log refuses row records. The writer waits, without
//!    latches or guards, until a checkpoint has trimmed the log. It fails when
//!    it is interrupted or the time is over.

use super::checkpoint::CheckpointContext;
use crate::core::EngineCore;
use crate::core::delays::DelayCause;
use crate::core::log_stalls::LogStalls;
use crate::error::{EngineError, EngineResult};
use std::time::{Duration, Instant};
use teak_transactions::{TransactionHandle, WaitError};
use teak_write_ahead_log::{LogReservation, LogSpace, Record};

/// Longest time of one slowdown.
const DELAY_MAX: Duration = Duration::from_millis(200);

/// How often a stopped or slowed writer checks for an interrupt.
const POLL_PERIOD: Duration = Duration::from_millis(20);

/// Longest time that a writer is stopped.
const STOP_MAX: Duration = Duration::from_secs(60);

fn check(core: &EngineCore, transaction: &TransactionHandle) -> EngineResult<()> {
    if transaction.is_interrupted() {
        return Err(WaitError::Interrupted.into());
    }
    if core.signals.is_stopping() {
        return Err(EngineError::Internal("the engine is closing".into()));
    }
    Ok(())
}

/// Slows a writer down while the log is long.
///
/// # Errors
/// `Wait(Interrupted)`; `Internal` when the engine is closing.
#[cold]
pub(crate) fn slow_down(core: &EngineCore, transaction: &TransactionHandle) -> EngineResult<()> {
    if !core.signals.has_threads() {
        return Ok(());
    }
    let since = Instant::now();
    let mut slept = false;
    loop {
        let now = Instant::now();
        let delay = core
            .log_stalls
            .delay(core.log.log_use(), core.log.end().0, now);
        let left = DELAY_MAX.saturating_sub(now.saturating_duration_since(since));
        if delay.is_zero() || left.is_zero() {
            break;
        }
        if !slept {
            core.signals.wake_maintenance();
            slept = true;
        }
        std::thread::sleep(delay.min(left).min(POLL_PERIOD));
        check(core, transaction)?;
    }
    if slept {
        let time = since.elapsed();
        core.log_stalls.slowdowns.record(time);
        core.delays.add(DelayCause::Log, time);
    }
    Ok(())
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

#[cold]
fn wait_for_trim<'c>(
    core: &'c EngineCore,
    transaction: &TransactionHandle,
    record: &Record<'_>,
) -> EngineResult<LogReservation<'c>> {
    let since = Instant::now();
    let _stopped = core.delays.stop(DelayCause::Log);
    if core.log_stalls.begin_stop(since) {
        let log = core.log.log_use();
        core.messages.warning(&format!(
            "the log has reached its bound ({} of {} bytes): writers wait for a checkpoint",
            log.bytes, log.bytes_max
        ));
    }
    let outcome = reserve_after_trim(core, transaction, record, since + STOP_MAX);
    let time = since.elapsed();
    core.log_stalls.stops.record(time);
    core.delays.add(DelayCause::Log, time);
    if let Some(time) = core.log_stalls.end_stop(Instant::now()) {
        let milliseconds = time.as_millis();
        core.messages.warning(&format!(
            "writers continue, they waited {milliseconds} ms for a checkpoint to trim the log"
        ));
    }
    outcome
}

fn reserve_after_trim<'c>(
    core: &'c EngineCore,
    transaction: &TransactionHandle,
    record: &Record<'_>,
    deadline: Instant,
) -> EngineResult<LogReservation<'c>> {
    let has_threads = core.signals.has_threads();
    loop {
        let mut outcome = Ok(());
        if has_threads {
            core.signals.wake_maintenance();
            core.signals.wait_for_space(POLL_PERIOD);
        } else {
            outcome = CheckpointContext::from(core).run_maintenance(true);
        }
        check(core, transaction)?;
        if let LogSpace::Reserved(space) = core.log.reserve(record)? {
            return Ok(space);
        }
        // An index that fails matters only if the log is still full.
        outcome?;
        if !has_threads || Instant::now() >= deadline {
            let bytes_max = core.log.log_use().bytes_max;
            return Err(EngineError::LogFull { bytes_max });
        }
    }
}

/// Whether a writer is to be slowed before it writes a row.
#[inline]
pub(crate) fn is_slow(core: &EngineCore) -> bool {
    LogStalls::is_slow(core.log.log_use())
}
