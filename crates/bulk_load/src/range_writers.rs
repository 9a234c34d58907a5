//! The last merge of a sort, divided by ranges of keys: several threads, one of them that of the caller,
//! merge and write one range after the other. Only the thread of the caller calls the observer.

use crate::cancel::{CHECK_ENTRIES, CancelOnDrop, Cancelled, Interrupted};
use crate::duplicates::Duplicates;
use crate::error::{BulkLoadError, BulkLoadResult, LoadError};
use crate::key_range::boundaries;
use crate::merge::Merge;
use crate::observer::LoadObserver;
use crate::progress::SortCounts;
use crate::sequences::{Sequence, SortedSequences};
use crate::workers::{Background, Worker, Workers};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use teak_tree::{PausedLoad, Tree};

/// Maximum number of ranges.
const RANGES_MAX: usize = 64;

/// Maximum number of threads that write ranges, with that of the caller.
const WRITERS_MAX: usize = 16;

/// The entries of a range, written.
struct WrittenRange {
    number: usize,
    load: PausedLoad,
    /// Entries that were merged.
    merged: u64,
}

/// What all threads share.
struct Ranges {
    tree: Arc<Tree>,
    sequences: Vec<Sequence>,
    boundaries: Vec<Vec<u8>>,
    /// Without entries.
    like: PausedLoad,
    bytes: u64,
    next: AtomicUsize,
    /// Entries written by workers that the observer does not know yet.
    written: AtomicU64,
    duplicates: Duplicates,
    counts: Arc<SortCounts>,
    cancelled: Cancelled,
    /// Whether a worker has failed.
    has_failed: AtomicBool,
}

/// Counts for the thread of the caller what a worker writes.
struct WorkerObserver<'a> {
    ranges: &'a Ranges,
    written: u64,
}

impl WorkerObserver<'_> {
    fn pass_on(&mut self) {
        let written = std::mem::take(&mut self.written);
        self.ranges.written.fetch_add(written, Ordering::Relaxed);
    }
}

impl LoadObserver for WorkerObserver<'_> {
    type Error = BulkLoadError;

    #[inline]
    fn check(&mut self) -> BulkLoadResult<()> {
        Ok(())
    }

    #[inline]
    fn written(&mut self, entries: u64) {
        self.written += entries;
        if self.written >= CHECK_ENTRIES {
            self.pass_on();
        }
    }

    fn duplicate(&mut self, key: &[u8], value: &[u8]) -> BulkLoadResult<()> {
        let Ranges {
            duplicates,
            cancelled,
            ..
        } = self.ranges;
        duplicates.add(key, value, cancelled)
    }
}

impl Ranges {
    fn count(&self) -> usize {
        self.boundaries.len() + 1
    }

    /// The number of a range that no thread has taken.
    fn take(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.count()).then_some(number)
    }

    fn write<O: LoadObserver>(
        &self,
        number: usize,
        stops: &dyn Fn() -> bool,
        observer: &mut O,
    ) -> Result<WrittenRange, LoadError<O::Error>> {
        let before = number.checked_sub(1);
        let start = before.and_then(|before| self.boundaries.get(before));
        let end = self.boundaries.get(number);
        let (start, end) = (start.map(Vec::as_slice), end.map(Vec::as_slice));
        let sources = self.sequences.iter();
        let sources = sources.map(|sequence| sequence.source(start));
        let sources = sources.collect::<BulkLoadResult<Vec<_>>>()?;
        let mut merge = Merge::of_range(sources, start, end, stops)?;
        let mut load = self.tree.bulk_load(self.like.without_entries());
        load.expect_bytes(self.bytes, true);
        let mut last = LastKey::default();
        let merged = merge.pass(stops, &mut |key,
                                              value|
         -> Result<bool, LoadError<O::Error>> {
            observer.check().map_err(LoadError::Caller)?;
            if last.replace(key) {
                load.push(key, value).map_err(BulkLoadError::Index)?;
                observer.written(1);
            } else {
                let accepted = observer.duplicate(key, value);
                accepted.map_err(LoadError::Caller)?;
            }
            Ok(true)
        })?;
        self.counts.merged.fetch_add(merged, Ordering::Relaxed);
        let load = load.pause().map_err(BulkLoadError::Index)?;
        Ok(WrittenRange {
            number,
            load,
            merged,
        })
    }

    /// The work of a worker.
    fn write_all(&self) -> BulkLoadResult<Vec<WrittenRange>> {
        let mut all = Vec::new();
        let mut observer = WorkerObserver {
            ranges: self,
            written: 0,
        };
        while let Some(number) = self.take() {
            let stops = || self.cancelled.is_set() || self.has_failed.load(Ordering::Relaxed);
            let written = self.write(number, &stops, &mut observer);
            all.push(written.map_err(|error| {
                self.has_failed.store(true, Ordering::Relaxed);
                match error {
                    LoadError::Failed(error) | LoadError::Caller(error) => error,
                }
            })?);
        }
        observer.pass_on();
        Ok(all)
    }
}

/// The last key of a range.
#[derive(Default)]
pub(crate) struct LastKey(Option<Vec<u8>>);

impl LastKey {
    pub(crate) fn new(last: Option<Vec<u8>>) -> Self {
        Self(last)
    }

    /// Replaces the key. False: it is the same one.
    #[inline]
    pub(crate) fn replace(&mut self, key: &[u8]) -> bool {
        if self.0.as_deref() == Some(key) {
            return false;
        }
        let last = self.0.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        true
    }
}

/// The thread of the caller, and the workers.
struct Writers<'a, O> {
    // The first field: it stops the workers, for which the next one waits.
    _cancel: CancelOnDrop,
    running: Vec<Background<BulkLoadResult<Vec<WrittenRange>>>>,
    ranges: Arc<Ranges>,
    workers: Arc<dyn Workers>,
    workers_max: usize,
    observer: &'a mut O,
    checks: u64,
}

impl<O: LoadObserver> Writers<'_, O> {
    fn start(&mut self, worker: Worker) {
        let ranges = Arc::clone(&self.ranges);
        let write = move || ranges.write_all();
        self.running.push(Background::start(worker, write));
    }

    /// Claims workers for the ranges that are left.
    fn claim(&mut self) {
        let ranges = &self.ranges;
        let left = ranges
            .count()
            .saturating_sub(ranges.next.load(Ordering::Relaxed));
        // The caller takes one itself.
        let more = left.saturating_sub(1);
        for _ in 0..more {
            if self.running.len() >= self.workers_max {
                break;
            }
            let Some(worker) = self.workers.claim() else {
                break;
            };
            self.start(worker);
        }
    }

    /// Passes on to the observer what workers have done.
    fn report(&mut self) -> Result<(), O::Error> {
        for (key, value) in self.ranges.duplicates.take() {
            self.observer.duplicate(&key, &value)?;
        }
        match self.ranges.written.swap(0, Ordering::Relaxed) {
            0 => {}
            written => self.observer.written(written),
        }
        Ok(())
    }

    /// Takes the results of workers that have ended. Of several errors, returns one that is not the
    /// consequence of another.
    fn take_ended(&mut self, done: &mut Vec<WrittenRange>) -> BulkLoadResult<()> {
        let mut failed = None;
        let mut position = 0;
        while let Some(running) = self.running.get_mut(position) {
            if !running.has_ended() {
                position += 1;
                continue;
            }
            let ended = self.running.swap_remove(position);
            match ended.wait(&|| false).and_then(|written| written) {
                Ok(written) => done.extend(written),
                Err(BulkLoadError::Interrupted) => {
                    self.ranges.has_failed.store(true, Ordering::Relaxed);
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl<O: LoadObserver> LoadObserver for Writers<'_, O> {
    type Error = O::Error;

    #[inline]
    fn check(&mut self) -> Result<(), O::Error> {
        self.checks += 1;
        if self.checks.is_multiple_of(CHECK_ENTRIES) {
            self.report()?;
        }
        self.observer.check()
    }

    #[inline]
    fn written(&mut self, entries: u64) {
        self.observer.written(entries);
    }

    fn duplicate(&mut self, key: &[u8], value: &[u8]) -> Result<(), O::Error> {
        self.observer.duplicate(key, value)
    }
}

/// Divides the merge of a load of about `bytes` if there are enough of them and an idle worker.
pub(crate) fn divided(
    sorted: &SortedSequences,
    tree: &Tree,
    load: &PausedLoad,
    bytes: u64,
) -> Option<(Vec<Vec<u8>>, Worker)> {
    let leaves = bytes / tree.options().leaf_bytes.max(1);
    let leaves = usize::try_from(leaves).unwrap_or(usize::MAX);
    let count = leaves.min(load.divisions_max()).min(RANGES_MAX);
    if count < 2 || sorted.concurrent_max() < 2 {
        return None;
    }
    let boundaries = boundaries(sorted.samples(), count);
    if boundaries.is_empty() {
        return None;
    }
    Some((boundaries, sorted.tasks.workers.claim()?))
}

/// Merges and writes the entries, of which there must be `entries`, after those of the load.
pub(crate) fn write_ranges<O: LoadObserver>(
    sorted: SortedSequences,
    (boundaries, worker): (Vec<Vec<u8>>, Worker),
    (tree, mut load): (&Arc<Tree>, PausedLoad),
    (bytes, entries): (u64, u64),
    interrupted: &Interrupted,
    observer: &mut O,
) -> Result<PausedLoad, LoadError<O::Error>> {
    let workers_max = sorted.concurrent_max().min(WRITERS_MAX) - 1;
    let SortedSequences {
        sequences,
        tasks,
        memory,
        ..
    } = sorted;
    let ranges = Arc::new(Ranges {
        tree: Arc::clone(tree),
        sequences,
        boundaries,
        like: load.without_entries(),
        bytes,
        next: AtomicUsize::new(0),
        written: AtomicU64::new(0),
        duplicates: Duplicates::default(),
        counts: Arc::clone(&tasks.counts),
        cancelled: tasks.cancel.flag(),
        has_failed: AtomicBool::new(false),
    });
    let mut writers = Writers {
        _cancel: tasks.cancel,
        running: Vec::new(),
        ranges: Arc::clone(&ranges),
        workers: tasks.workers,
        workers_max,
        observer,
        checks: 0,
    };
    writers.start(worker);
    let mut done = Vec::with_capacity(ranges.count());
    writers.claim();
    while let Some(number) = ranges.take() {
        let stops = || interrupted() || ranges.has_failed.load(Ordering::Relaxed);
        let written = ranges.write(number, &stops, &mut writers);
        if ranges.has_failed.load(Ordering::Relaxed) {
            // The error of the worker follows.
            break;
        }
        done.push(written?);
        writers.take_ended(&mut done)?;
        writers.claim();
    }
    while let Some(running) = writers.running.first_mut() {
        running.wait_briefly(interrupted)?;
        writers.report().map_err(LoadError::Caller)?;
        writers.observer.check().map_err(LoadError::Caller)?;
        writers.take_ended(&mut done)?;
    }
    writers.report().map_err(LoadError::Caller)?;
    if ranges.has_failed.load(Ordering::Relaxed) {
        return Err(BulkLoadError::Interrupted.into());
    }
    done.sort_unstable_by_key(|range| range.number);
    let merged: u64 = done.iter().map(|range| range.merged).sum();
    if done.len() != ranges.count() || merged != entries {
        return Err(BulkLoadError::Internal("a range of sorted entries is missing").into());
    }
    for range in done {
        load.append(range.load);
    }
    drop(writers);
    drop(ranges);
    drop(memory);
    Ok(load)
}
