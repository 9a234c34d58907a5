//! The list of background jobs: those that run, and those that wait.

use crate::core::checkpoint_progress::RunningRound;
use crate::core::running_jobs::{RunningJob, RunningKind};
use crate::core::work_kind::WorkKind;
use crate::engine::Engine;
use crate::locks::{IndexName, IndexNames};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use teak_base::FileId;
use teak_disk::IoPurpose;
use teak_tree::JobKind;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundKind {
    /// Writes a memtable as runs.
    Flush,
    /// Merges runs, or moves them down.
    Compaction,
    /// Moves blocks within a file.
    Relocation,
    /// Makes an index file durable.
    Checkpoint,
    /// A round of checkpoints, which trims the log.
    CheckpointRound,
    /// Builds indexes for an alteration.
    IndexBuild,
    /// Writes the rows of a bulk load.
    BulkLoad,
}

/// A job that runs.
#[derive(Clone, Copy, Debug)]
pub struct RunningState {
    /// When it began.
    pub started: SystemTime,
    /// The time since then.
    pub elapsed: Duration,
    /// Bytes read and written so far; `None` if they are not counted.
    pub io_bytes: Option<(u64, u64)>,
    /// Entries, or indexes of a round, that are done, and their total; `None` if they are not known.
    pub progress: Option<(u64, u64)>,
}

/// A job that waits.
#[derive(Clone, Copy, Debug)]
pub struct WaitingState {
    /// Bytes that wait to be flushed or merged, those of running jobs included; `None` if they are not known.
    pub bytes: Option<u64>,
    /// The time until a failed job is tried again.
    pub retry_in: Option<Duration>,
}

/// A background job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackgroundJob {
    /// What it does.
    pub kind: BackgroundKind,
    /// Its form or purpose; see the documentation of the table of jobs.
    pub detail: String,
    /// Its index, or the first of its indexes; `None` for a round of checkpoints, and if the index was closed or dropped.
    pub index: Option<IndexName>,
    /// How far it is, if it runs.
    pub running: Option<RunningState>,
    /// What it waits for, if it does not run.
    pub waiting: Option<WaitingState>,
}

/// The kind of a job on a tree, and the name of its form.
fn kind_of(job: JobKind) -> (BackgroundKind, &'static str) {
    match job {
        JobKind::Memtable => (BackgroundKind::Flush, "memtable"),
        JobKind::Child => (BackgroundKind::Compaction, "inner child"),
        JobKind::Leaf => (BackgroundKind::Compaction, "leaf"),
        JobKind::Consolidate => (BackgroundKind::Compaction, "upper runs"),
        JobKind::Mark => (BackgroundKind::Compaction, "mark settled"),
        JobKind::Relocate => (BackgroundKind::Relocation, "runs"),
        _ => (BackgroundKind::Compaction, ""),
    }
}

fn purpose_text(purpose: IoPurpose) -> &'static str {
    match purpose {
        IoPurpose::Settling => ", settling",
        IoPurpose::IdleCompaction => ", idle",
        IoPurpose::Merging | IoPurpose::Moving | IoPurpose::Rebuilding => "",
    }
}

fn running(job: &RunningJob, names: &IndexNames) -> BackgroundJob {
    let (kind, detail) = match job.kind {
        RunningKind::Tree(of, purpose) => {
            let (kind, form) = kind_of(of);
            (kind, format!("{form}{}", purpose_text(purpose)))
        }
        RunningKind::CheckpointCapture => (BackgroundKind::Checkpoint, "write nodes".into()),
        RunningKind::CheckpointCommit => (BackgroundKind::Checkpoint, "sync".into()),
        RunningKind::Build => (BackgroundKind::IndexBuild, String::new()),
        RunningKind::Load => (BackgroundKind::BulkLoad, String::new()),
    };
    let is_counted = matches!(job.kind, RunningKind::Tree(..));
    let total = job.total.load(Ordering::Relaxed);
    let done = job.done.load(Ordering::Relaxed);
    BackgroundJob {
        kind,
        detail,
        index: names.get(job.file).cloned(),
        running: Some(RunningState {
            started: job.started,
            elapsed: job.since.elapsed(),
            io_bytes: is_counted.then(|| (job.io.read_bytes(), job.io.written_bytes())),
            progress: (total > 0).then_some((done, total)),
        }),
        waiting: None,
    }
}

fn running_round(round: &RunningRound) -> BackgroundJob {
    BackgroundJob {
        kind: BackgroundKind::CheckpointRound,
        detail: round.waiting.to_string(),
        index: None,
        running: Some(RunningState {
            started: round.started,
            elapsed: round.since.elapsed(),
            io_bytes: None,
            progress: Some((round.done as u64, round.indexes as u64)),
        }),
        waiting: None,
    }
}

fn waiting(
    kind: BackgroundKind,
    detail: &str,
    file: FileId,
    names: &IndexNames,
    state: WaitingState,
) -> BackgroundJob {
    BackgroundJob {
        kind,
        detail: detail.to_owned(),
        index: names.get(file).cloned(),
        running: None,
        waiting: Some(state),
    }
}

impl Engine {
    /// The background jobs that run, the oldest first, and then those that wait, in the order in which they will be run.
    #[must_use]
    pub fn background_jobs(&self) -> Vec<BackgroundJob> {
        let core = &self.core;
        let names = self.index_names();
        let mut jobs: Vec<BackgroundJob> = Vec::new();
        jobs.extend(core.checkpoints.running().as_ref().map(running_round));
        jobs.extend(
            core.running_jobs
                .list()
                .iter()
                .map(|job| running(job, &names)),
        );
        jobs.sort_by_key(|job| std::cmp::Reverse(job.running.map(|state| state.elapsed)));
        let now = Instant::now();
        for work in core.work.waiting() {
            let kind = match work.kind {
                WorkKind::Memtables => BackgroundKind::Flush,
                WorkKind::Runs => BackgroundKind::Compaction,
            };
            let (retry_at, bytes) = (work.retry_at, Some(work.bytes));
            let detail = if retry_at.is_some() { "failed" } else { "" };
            let retry_in = retry_at.map(|at| at.saturating_duration_since(now));
            let state = WaitingState { bytes, retry_in };
            jobs.push(waiting(kind, detail, work.file, &names, state));
        }
        for (file, is_commit) in core.checkpoint_queue.waiting() {
            let detail = if is_commit { "sync" } else { "write nodes" };
            let state = WaitingState {
                bytes: None,
                retry_in: None,
            };
            jobs.push(waiting(
                BackgroundKind::Checkpoint,
                detail,
                file,
                &names,
                state,
            ));
        }
        for index in core.work.marked() {
            let state = WaitingState {
                bytes: None,
                retry_in: None,
            };
            let detail = "after a rollback";
            jobs.push(waiting(
                BackgroundKind::Compaction,
                detail,
                index.entry.file,
                &names,
                state,
            ));
        }
        jobs
    }
}
