//! Limits the I/O of background jobs, so that reads of statements and syncs of the log find the
//! disk free.
//!
//! 1. A thread that runs a job enters a scope ([`IoPacer::begin`]). From then on, a
//!    [`PacedDisk`](crate::PacedDisk) counts the bytes that this thread reads and writes.
//! 2. Where the job holds no lock and no claim on a block of the page cache, it calls
//!    [`pay_for_io`]. There it waits for the bytes that it has used since the last call. The end of
//!    the scope takes the rest without waiting; it delays the next jobs.
//! 3. A job that is due does not wait while writers are slowed ([`IoPacer::note_slowed`]) or while
//!    a thread waits for background work ([`IoPacer::hurry`]): its bytes are taken, but only
//!    optional jobs wait for them. An optional job does not wait while writers of its own file are
//!    slowed, because the merge that they wait for may need the part of the tree that it works on;
//!    nor does one on the maintenance thread, because a checkpoint would wait for it.
//! 4. An optional job also waits while threads without a scope read, for a short time.
//!
//! All other threads are not limited: those of statements, of the log, and of checkpoints. The thread
//! of an OPTIMIZE TABLE enters a scope, too, of an optional job.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use teak_base::FileId;
use teak_base::token_bucket::TokenBucket;

/// A job pays when it has used so many bytes.
const PAYMENT_BYTES: u64 = 128 << 10;

/// How often a waiting job checks whether it may continue earlier.
const POLL_PERIOD: Duration = Duration::from_millis(20);

/// The longest time for which an optional job waits for other reads before it continues with the
/// next [`PAYMENT_BYTES`]. So it progresses even if there are always reads.
const YIELD_MAX: Duration = Duration::from_millis(20);

/// How often such a job checks whether the reads have ended.
const YIELD_PERIOD: Duration = Duration::from_micros(500);

/// How long jobs remain urgent after a writer was slowed.
const URGENT_AFTER_SLOWDOWN: Duration = Duration::from_secs(1);

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPurpose {
    /// Flushing memtables, and merges that are due.
    Merging,
    /// Settling old write ids.
    Settling,
    /// Compaction in idle time or after a rollback.
    IdleCompaction,
    /// Moving blocks within a file.
    Moving,
    /// Rewriting a table for a statement that has time.
    Rebuilding,
}

/// Whether writers may have to wait until a job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoUrgency {
    /// Writers are slowed if jobs of this kind are not done.
    Due,
    /// No writer waits for it.
    Optional,
    /// No writer waits for it, but its thread has other work for which writers may wait.
    OptionalOnBusyThread,
}

/// A job that reads and writes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoJob {
    /// What it is for.
    pub purpose: IoPurpose,
    /// Whether writers may have to wait for it.
    pub urgency: IoUrgency,
    /// The file.
    pub file: FileId,
}

/// The bytes that a job has read and written so far, on all its threads.
#[derive(Debug, Default)]
pub struct IoProgress {
    read: AtomicU64,
    written: AtomicU64,
}

impl IoProgress {
    /// Bytes read.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// Bytes read and written, and time waited, by jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Time that jobs waited because of the limit or for other reads, in microseconds.
    pub throttled_microseconds: u64,
    /// Bytes of flushes and merges that were due.
    pub merging_bytes: u64,
    /// Bytes of settling.
    pub settled_bytes: u64,
    /// Bytes of compaction in idle time.
    pub idle_compaction_bytes: u64,
    /// Bytes of moving blocks.
    pub moving_bytes: u64,
    /// Bytes of rewriting tables.
    pub rebuilding_bytes: u64,
}

/// Limits and counts the I/O of background jobs.
#[derive(Debug)]
pub struct IoPacer {
    since: Instant,
    bucket: Mutex<TokenBucket>,
    /// Zero: no limit.
    bytes_per_second: AtomicU64,
    /// Whether jobs never wait.
    is_disabled: AtomicBool,
    /// Reads in progress of threads without a scope.
    other_reads: AtomicUsize,
    /// Until when due jobs are urgent. Times are in microseconds since `since`.
    urgent_until: AtomicU64,
    /// The files of which all jobs are urgent, and until when.
    slowed: Mutex<Vec<(FileId, u64)>>,
    hurrying: AtomicUsize,
    throttled_microseconds: AtomicU64,
    bytes: [AtomicU64; 5],
}

struct Scope {
    pacer: Arc<IoPacer>,
    job: IoJob,
    progress: Option<Arc<IoProgress>>,
    unpaid: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

thread_local! {
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// While it exists, the I/O of its thread is that of a background job.
#[derive(Debug)]
pub struct IoScope {
    /// It belongs to the thread that has created it.
    not_send: PhantomData<*const ()>,
}

/// A background job that a thread runs, for other threads that run parts of it.
#[derive(Clone, Debug, Default)]
pub struct SharedIoScope(Option<(Arc<IoPacer>, IoJob, Option<Arc<IoProgress>>)>);

impl SharedIoScope {
    /// The job of this thread, if it runs one.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self(SCOPE.with_borrow(|scope| {
            let scope = scope.as_ref()?;
            let progress = scope.progress.clone();
            Some((Arc::clone(&scope.pacer), scope.job, progress))
        }))
    }

    /// Makes the I/O of this thread that of the job, if there is one, until the guard is dropped.
    #[must_use]
    pub fn begin(self) -> Option<IoScope> {
        let (pacer, job, progress) = self.0?;
        Some(pacer.begin_scope(job, progress))
    }
}

/// While it exists, no due job waits.
#[derive(Debug)]
pub struct IoHurry<'a>(&'a IoPacer);

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Waits as the limit requires, if the thread runs a background job. The caller holds no lock.
#[inline]
pub fn pay_for_io() {
    let payment = SCOPE.with_borrow_mut(|scope| {
        let scope = scope
            .as_mut()
            .filter(|scope| scope.unpaid >= PAYMENT_BYTES)?;
        let bytes = std::mem::take(&mut scope.unpaid);
        Some((Arc::clone(&scope.pacer), scope.job, bytes))
    });
    if let Some((pacer, job, bytes)) = payment {
        pacer.pay(job, bytes);
    }
}

impl IoPacer {
    /// A pacer with a limit; zero: no limit.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Arc<Self> {
        Arc::new(Self {
            since: Instant::now(),
            bucket: Mutex::default(),
            bytes_per_second: AtomicU64::new(bytes_per_second),
            is_disabled: AtomicBool::new(false),
            other_reads: AtomicUsize::new(0),
            urgent_until: AtomicU64::new(0),
            slowed: Mutex::default(),
            hurrying: AtomicUsize::new(0),
            throttled_microseconds: AtomicU64::new(0),
            bytes: Default::default(),
        })
    }

    /// Changes the limit; zero: no limit.
    pub fn set_limit(&self, bytes_per_second: u64) {
        self.bytes_per_second
            .store(bytes_per_second, Ordering::Relaxed);
        self.bucket.lock().clear();
    }

    /// From now on no job waits.
    pub fn disable(&self) {
        self.is_disabled.store(true, Ordering::Relaxed);
    }

    /// Called while a writer is slowed or stopped until jobs are done: those of a file, if it is
    /// known.
    pub fn note_slowed(&self, file: Option<FileId>) {
        let now = self.since.elapsed();
        let until = microseconds(now + URGENT_AFTER_SLOWDOWN);
        self.urgent_until.fetch_max(until, Ordering::Relaxed);
        if let Some(file) = file {
            let now = microseconds(now);
            let mut slowed = self.slowed.lock();
            slowed.retain(|(other, until)| *other != file && *until > now);
            slowed.push((file, until));
        }
    }

    /// Lets due jobs continue without waiting until the guard is dropped.
    #[must_use]
    pub fn hurry(&self) -> IoHurry<'_> {
        self.hurrying.fetch_add(1, Ordering::Relaxed);
        IoHurry(self)
    }

    /// Makes the I/O of this thread that of a background job, until the guard is dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>, job: IoJob) -> IoScope {
        self.begin_scope(job, None)
    }

    /// As [`IoPacer::begin`]. Also counts the bytes in `progress`.
    #[must_use]
    pub fn begin_counted(self: &Arc<Self>, job: IoJob, progress: &Arc<IoProgress>) -> IoScope {
        self.begin_scope(job, Some(Arc::clone(progress)))
    }

    fn begin_scope(self: &Arc<Self>, job: IoJob, progress: Option<Arc<IoProgress>>) -> IoScope {
        SCOPE.set(Some(Scope {
            pacer: Arc::clone(self),
            job,
            progress,
            unpaid: 0,
        }));
        IoScope {
            not_send: PhantomData,
        }
    }

    /// The counts now.
    #[must_use]
    pub fn counts(&self) -> IoCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [merging, settling, idle_compaction, moving, rebuilding] = &self.bytes;
        IoCounts {
            throttled_microseconds: load(&self.throttled_microseconds),
            merging_bytes: load(merging),
            settled_bytes: load(settling),
            idle_compaction_bytes: load(idle_compaction),
            moving_bytes: load(moving),
            rebuilding_bytes: load(rebuilding),
        }
    }

    /// Counts bytes that this thread has written. Returns whether it runs a job.
    pub(crate) fn note_bytes(&self, bytes: usize) -> bool {
        self.note(bytes, Direction::Write)
    }

    fn note(&self, bytes: usize, direction: Direction) -> bool {
        let purpose = SCOPE.with_borrow_mut(|scope| {
            let scope = scope.as_mut()?;
            scope.unpaid += bytes as u64;
            if let Some(progress) = &scope.progress {
                let count = match direction {
                    Direction::Read => &progress.read,
                    Direction::Write => &progress.written,
                };
                count.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Some(scope.job.purpose)
        });
        let [merging, settling, idle_compaction, moving, rebuilding] = &self.bytes;
        let count = match purpose {
            None => return false,
            Some(IoPurpose::Merging) => merging,
            Some(IoPurpose::Settling) => settling,
            Some(IoPurpose::IdleCompaction) => idle_compaction,
            Some(IoPurpose::Moving) => moving,
            Some(IoPurpose::Rebuilding) => rebuilding,
        };
        count.fetch_add(bytes as u64, Ordering::Relaxed);
        true
    }

    /// Counts the bytes of a read, and runs it.
    pub(crate) fn read<T>(&self, bytes: usize, read: impl FnOnce() -> T) -> T {
        if self.note(bytes, Direction::Read) {
            return read();
        }
        self.other_reads.fetch_add(1, Ordering::Relaxed);
        let outcome = read();
        self.other_reads.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    /// Whether a job need not wait now.
    fn is_free(&self, job: IoJob) -> bool {
        if self.is_disabled.load(Ordering::Relaxed) {
            return true;
        }
        let is_hurried = job.urgency != IoUrgency::Optional;
        if is_hurried && self.hurrying.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let now = microseconds(self.since.elapsed());
        if now >= self.urgent_until.load(Ordering::Relaxed) {
            return false;
        }
        is_hurried || {
            let slowed = self.slowed.lock();
            let mut slowed = slowed.iter();
            slowed.any(|(file, until)| *file == job.file && *until > now)
        }
    }

    fn pay(&self, job: IoJob, bytes: u64) {
        let since = Instant::now();
        let mut has_waited = false;
        if job.urgency != IoUrgency::Due {
            while self.other_reads.load(Ordering::Relaxed) > 0
                && since.elapsed() < YIELD_MAX
                && !self.is_free(job)
            {
                has_waited = true;
                std::thread::sleep(YIELD_PERIOD);
            }
        }
        if let Some(until) = self.take(job, bytes) {
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || self.is_free(job) || self.limit().is_none() {
                    break;
                }
                has_waited = true;
                std::thread::sleep(left.min(POLL_PERIOD));
            }
        }
        if has_waited {
            self.throttled_microseconds
                .fetch_add(microseconds(since.elapsed()), Ordering::Relaxed);
        }
    }

    fn limit(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.bytes_per_second.load(Ordering::Relaxed))
    }

    /// Takes bytes. Returns the time until which the job must wait.
    fn take(&self, job: IoJob, bytes: u64) -> Option<Instant> {
        let limit = self.limit()?;
        let is_free = self.is_free(job);
        let mut bucket = self.bucket.lock();
        let now = Instant::now();
        if is_free {
            bucket.take_unlimited(now, bytes, limit);
            return None;
        }
        Some(bucket.take(now, bytes, limit))
    }
}

impl Drop for IoScope {
    fn drop(&mut self) {
        if let Some(scope) = SCOPE.take() {
            let _ = scope.pacer.take(scope.job, scope.unpaid);
        }
    }
}

impl Drop for IoHurry<'_> {
    fn drop(&mut self) {
        self.0.hurrying.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const FILE: FileId = FileId(7);

    /// The time that a job waits that uses bytes in small parts.
    fn time_of(pacer: &Arc<IoPacer>, urgency: IoUrgency, bytes: u64) -> Duration {
        let since = Instant::now();
        let _scope = pacer.begin(IoJob {
            purpose: IoPurpose::IdleCompaction,
            urgency,
            file: FILE,
        });
        for _ in 0..bytes / 4096 {
            assert!(pacer.note_bytes(4096));
            pay_for_io();
        }
        since.elapsed()
    }

    #[test]
    fn jobs_are_limited_and_counted() {
        let pacer = IoPacer::new(4 * MIB);
        for urgency in [IoUrgency::Due, IoUrgency::Optional] {
            let time = time_of(&pacer, urgency, 2 * MIB);
            assert!(time >= Duration::from_millis(350), "{time:?}");
        }
        let counts = pacer.counts();
        assert_eq!(counts.idle_compaction_bytes, 4 * MIB);
        assert!(counts.throttled_microseconds >= 700_000);
        assert_eq!((counts.merging_bytes, counts.settled_bytes), (0, 0));
    }

    #[test]
    fn a_job_counts_its_reads_and_writes() {
        let pacer = IoPacer::new(0);
        let job = IoJob {
            purpose: IoPurpose::Merging,
            urgency: IoUrgency::Due,
            file: FILE,
        };
        let progress = Arc::new(IoProgress::default());
        {
            let _scope = pacer.begin_counted(job, &progress);
            pacer.read(100, || ());
            assert!(pacer.note_bytes(7));
        }
        {
            let _other = pacer.begin(job);
            assert!(pacer.note_bytes(1000));
        }
        assert_eq!((progress.read_bytes(), progress.written_bytes()), (100, 7));
    }

    #[test]
    fn a_job_is_shared_with_other_threads() {
        let pacer = IoPacer::new(0);
        let job = IoJob {
            purpose: IoPurpose::Rebuilding,
            urgency: IoUrgency::Optional,
            file: FILE,
        };
        assert!(SharedIoScope::of_this_thread().begin().is_none());
        let _scope = pacer.begin(job);
        let shared = SharedIoScope::of_this_thread();
        let of_thread = Arc::clone(&pacer);
        let working = std::thread::spawn(move || {
            assert!(!of_thread.note_bytes(5));
            let _scope = shared.begin();
            assert!(of_thread.note_bytes(7));
        });
        working.join().unwrap();
        assert_eq!(pacer.counts().rebuilding_bytes, 7);
    }

    #[test]
    fn threads_without_a_job_are_neither_limited_nor_counted() {
        let pacer = IoPacer::new(1);
        assert!(!pacer.note_bytes(1 << 30));
        pay_for_io();
        assert_eq!(pacer.counts(), IoCounts::default());
    }

    /// The limit of one byte per second would make a job wait for days.
    #[test]
    fn urgent_jobs_do_not_wait_but_optional_ones_do() {
        let pacer = IoPacer::new(1);
        pacer.note_slowed(None);
        time_of(&pacer, IoUrgency::Due, 2 * MIB);
        {
            let _hurry = pacer.hurry();
            pacer.urgent_until.store(0, Ordering::Relaxed);
            time_of(&pacer, IoUrgency::Due, 2 * MIB);
        }
        assert_eq!(pacer.counts().throttled_microseconds, 0);
        std::thread::scope(|scope| {
            let job = scope.spawn(|| time_of(&pacer, IoUrgency::Optional, PAYMENT_BYTES));
            std::thread::sleep(Duration::from_millis(100));
            pacer.note_slowed(Some(FileId(8)));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!job.is_finished());
            // Writers of its own file.
            pacer.note_slowed(Some(FILE));
        });
        assert!(pacer.counts().throttled_microseconds >= 100_000);
    }

    #[test]
    fn a_waiting_job_continues_when_it_becomes_urgent_or_the_limit_changes() {
        let pacer = IoPacer::new(1);
        for limit in [1, 0] {
            std::thread::scope(|scope| {
                let job = scope.spawn(|| time_of(&pacer, IoUrgency::Due, PAYMENT_BYTES));
                std::thread::sleep(Duration::from_millis(50));
                assert!(!job.is_finished());
                match limit {
                    0 => pacer.set_limit(0),
                    _ => pacer.note_slowed(None),
                }
            });
            pacer.urgent_until.store(0, Ordering::Relaxed);
        }
    }

    #[test]
    fn optional_jobs_let_other_reads_pass_but_progress() {
        let pacer = IoPacer::new(0);
        let time = pacer.read(1, || {
            time_of(&pacer, IoUrgency::Optional, 4 * PAYMENT_BYTES)
        });
        assert!(time >= 4 * YIELD_MAX, "{time:?}");
        let waited = pacer.counts().throttled_microseconds;
        pacer.read(1, || time_of(&pacer, IoUrgency::Due, 4 * PAYMENT_BYTES));
        assert_eq!(pacer.counts().throttled_microseconds, waited);
    }
}
