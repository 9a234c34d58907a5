//! The background threads of an engine. Their names are listed in
//! `maintenance`.

use super::checkpoint::CheckpointContext;
use super::flusher::{FlushContext, Prefer};
use super::idle_compaction::IdleCompaction;
use super::space::SpaceThread;
use crate::core::EngineCore;
use crate::core::log_sync::LogSyncPolicy;
use crate::core::messages::Messages;
use crate::core::signals::Signals;
use crate::error::{EngineError, EngineResult};
use parking_lot::Mutex;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use teak_disk::{IoPurpose, IoUrgency};
use teak_tree::JobKind;
use teak_write_ahead_log::WriteAheadLog;

/// How often the flushers and the segment thread look for work without being woken.
const FLUSH_PERIOD: Duration = Duration::from_millis(500);

/// How often the space thread checks whether the engine is idle.
const SPACE_PERIOD: Duration = Duration::from_millis(500);

/// How often the maintenance thread checks whether a checkpoint is due.
const MAINTENANCE_PERIOD: Duration = Duration::from_millis(500);

/// Pause after a checkpoint that failed.
const FAILED_CHECKPOINT_PAUSE: Duration = Duration::from_secs(1);

/// Period after which buffered log bytes are written to the file, even without a commit; and the
/// pause after a failure of the log.
const LOG_PERIOD: Duration = Duration::from_millis(200);

/// Bytes of the log that may be written without being synced.
const UNSYNCED_BYTES_MAX: u64 = 16 << 20;

/// The running threads of one engine.
#[derive(Default)]
pub(crate) struct BackgroundThreads(Mutex<Vec<JoinHandle<()>>>);

impl BackgroundThreads {
    /// Starts the threads, unless the engine has none.
    pub(crate) fn start(&self, core: &Arc<EngineCore>) -> EngineResult<()> {
        if !core.signals.has_threads() {
            return Ok(());
        }
        let mut threads = self.0.lock();
        for number in 0..core.signals.flusher_count() {
            let core = Arc::clone(core);
            let name = format!("teak-flush-{number}");
            threads.push(spawn(name, move || flusher((&*core).into(), number))?);
        }
        let log = Arc::clone(core);
        threads.push(spawn("teak-log".into(), move || {
            log_writer(&log.log, &log.log_sync, &log.signals, &log.messages);
        })?);
        let sized = Arc::clone(core);
        threads.push(spawn("teak-space".into(), move || {
            space(&(&*sized).into())
        })?);
        let segments = Arc::clone(core);
        threads.push(spawn("teak-segment".into(), move || {
            segment_files(&segments.log, &segments.signals, &segments.messages);
        })?);
        let maintained = Arc::clone(core);
        threads.push(spawn("teak-maint".into(), move || {
            maintenance(
                &(&*maintained).into(),
                &maintained.signals,
                &maintained.messages,
            );
        })?);
        Ok(())
    }

    /// Starts one more thread.
    pub(crate) fn add(&self, name: &str, work: impl FnOnce() + Send + 'static) -> EngineResult<()> {
        self.0.lock().push(spawn(name.into(), work)?);
        Ok(())
    }

    /// Ends the threads and waits for them.
    pub(crate) fn stop(&self, core: &EngineCore) {
        core.signals.stop();
        core.log.wake();
        let threads = std::mem::take(&mut *self.0.lock());
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                core.messages.error("a background thread panicked");
            }
        }
    }
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> EngineResult<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name)
        .spawn(work)
        .map_err(|error| EngineError::Internal(format!("cannot start a thread: {error}")))
}

fn flusher(context: FlushContext<'_>, number: usize) {
    let signals = context.signals;
    let mut turn = number;
    let mut idle = IdleCompaction::new();
    while !signals.is_stopping() {
        if context.help_checkpoint() {
            continue;
        }
        // While merges are behind, every second flusher prefers runs. A single flusher does so
        // every second time.
        turn += usize::from(signals.flusher_count() == 1);
        let prefer = if turn % 2 == 1 && context.is_behind() {
            Prefer::Runs
        } else {
            Prefer::Memtables
        };
        // The index stores the error; the job is retried later.
        if let Some((index, job)) = context.next_job(prefer) {
            let _ = context.run_job(&index, job);
            continue;
        }
        if let Some((index, job)) = idle.next_job(&context) {
            let (purpose, urgency) = match job.kind() {
                JobKind::Memtable => (IoPurpose::Merging, IoUrgency::Due),
                _ => (IoPurpose::IdleCompaction, IoUrgency::Optional),
            };
            let _ = context.run_job_for(&index, job, purpose, urgency);
            continue;
        }
        signals.wait_for_work(FLUSH_PERIOD);
    }
}

fn log_writer(log: &WriteAheadLog, policy: &LogSyncPolicy, signals: &Signals, messages: &Messages) {
    let mut synced = Instant::now();
    let mut failed = false;
    while !signals.is_stopping() {
        let period = policy.period();
        let rest = if period.is_zero() {
            LOG_PERIOD
        } else {
            LOG_PERIOD.min(period)
        };
        let pending = log.wait_for_pending(rest);
        let is_due = !period.is_zero() && synced.elapsed() >= period;
        let outcome = if log.unsynced_bytes() >= UNSYNCED_BYTES_MAX {
            // Bounds the bytes that a later commit, or a change of segments, has to sync.
            log.sync(log.end())
        } else if is_due && policy.take_deferred() {
            synced = Instant::now();
            log.sync(log.end()).inspect_err(|_| policy.defer())
        } else if pending {
            log.write_pending().map(|_| ())
        } else {
            Ok(())
        };
        match outcome {
            Ok(()) if failed => {
                failed = false;
                messages.note("the log works again");
            }
            Ok(()) => {}
            Err(error) => {
                if !failed {
                    messages.error(&format!("the log failed: {error}"));
                }
                failed = true;
                std::thread::sleep(LOG_PERIOD);
            }
        }
    }
}

fn space(context: &FlushContext<'_>) {
    let mut thread = SpaceThread::new();
    while !context.signals.is_stopping() {
        let work = AssertUnwindSafe(|| thread.run(context));
        if std::panic::catch_unwind(work).is_err() {
            context.messages.error("making files smaller panicked");
        }
        context.signals.wait_for_space_work(SPACE_PERIOD);
    }
}

/// Prepares segments of the log, and removes those that are no longer needed.
fn segment_files(log: &WriteAheadLog, signals: &Signals, messages: &Messages) {
    let mut failed = false;
    while !signals.is_stopping() {
        match log.prepare_segments() {
            Ok(_) if failed => {
                failed = false;
                messages.note("files of the log can be created again");
            }
            Ok(_) => {}
            Err(error) => {
                if !failed {
                    let text = format!("a file of the log was not prepared: {error}");
                    messages.warning(&text);
                }
                failed = true;
                signals.wait_for_space(LOG_PERIOD);
                continue;
            }
        }
        log.wait_for_preparation(FLUSH_PERIOD);
    }
}

fn maintenance(context: &CheckpointContext<'_>, signals: &Signals, messages: &Messages) {
    while !signals.is_stopping() {
        signals.wait_for_maintenance(MAINTENANCE_PERIOD);
        if signals.is_stopping() {
            return;
        }
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| context.run_maintenance(false)));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                messages.warning(&format!("a checkpoint failed: {error}"));
                signals.wait_for_space(FAILED_CHECKPOINT_PAUSE);
            }
            Err(_) => messages.error("a checkpoint panicked"),
        }
    }
}
