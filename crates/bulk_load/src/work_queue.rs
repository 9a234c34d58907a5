//! A queue of items that are processed one after the other, by a worker while the caller produces the
//! next ones.

use crate::cancel::Interrupted;
use crate::error::{BulkLoadError, BulkLoadResult};
use crate::workers::{Background, POLL_PERIOD, Workers};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Number of items that wait while another one is processed, at most.
const WAITING_MAX: usize = 1;

/// What is done with the items.
pub trait Processor: Send + 'static {
    /// An item.
    type Item: Send + 'static;
    /// The error of an item. No other item is processed after it.
    type Error: From<BulkLoadError> + Send + 'static;

    /// Processes an item. Dropping the queue waits until it returns.
    ///
    /// # Errors
    /// Any.
    fn process(&mut self, item: Self::Item) -> Result<(), Self::Error>;
}

/// The items that wait for a worker.
struct Waiting<T> {
    items: VecDeque<T>,
    /// Whether no more items will be added.
    is_closed: bool,
    /// Whether the worker takes no more items.
    has_ended: bool,
}

struct Items<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
}

/// What came of an item.
enum Pushed<T> {
    Accepted,
    /// The worker has ended.
    Returned(T),
    /// There are enough items.
    Full(T),
}

impl<T> Items<T> {
    fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                items: VecDeque::new(),
                is_closed: false,
                has_ended: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Adds an item. If there are enough, waits for a short time.
    fn push(&self, item: T) -> Pushed<T> {
        let mut waiting = self.waiting.lock();
        if !waiting.has_ended && waiting.items.len() >= WAITING_MAX {
            self.changed.wait_for(&mut waiting, POLL_PERIOD);
        }
        if waiting.has_ended {
            return Pushed::Returned(item);
        }
        if waiting.items.len() >= WAITING_MAX {
            return Pushed::Full(item);
        }
        waiting.items.push_back(item);
        self.changed.notify_all();
        Pushed::Accepted
    }

    /// Takes an item. `None`, after which there will be no others: none was added for a while.
    fn take(&self) -> Option<T> {
        let mut waiting = self.waiting.lock();
        if waiting.items.is_empty() && !waiting.is_closed {
            self.changed.wait_for(&mut waiting, POLL_PERIOD);
        }
        let item = waiting.items.pop_front();
        waiting.has_ended = item.is_none();
        self.changed.notify_all();
        item
    }

    fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Removes all items. Further ones are returned.
    fn end(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        waiting.has_ended = true;
        let items = std::mem::take(&mut waiting.items);
        self.changed.notify_all();
        drop(waiting);
        drop(items);
    }
}

/// Ends the queue if it is dropped.
struct EndOnDrop<T>(Arc<Items<T>>);

impl<T> Drop for EndOnDrop<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A worker that has the processor.
struct Running<P: Processor> {
    // The first field: it ends the worker, for which the last one waits.
    items: EndOnDrop<P::Item>,
    worker: Background<Result<Box<P>, P::Error>>,
}

/// Passes items to a processor, on a worker if one is idle, otherwise on the thread of the caller. A
/// worker to which no item is passed for 10 ms ends; the next item claims another one. Dropping the
/// queue waits for the item that is processed, and drops the others.
pub struct WorkQueue<P: Processor> {
    workers: Arc<dyn Workers>,
    running: Option<Running<P>>,
    /// `None` while a worker has it, and after an error.
    processor: Option<Box<P>>,
}

impl<P: Processor> fmt::Debug for WorkQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}

impl<P: Processor> WorkQueue<P> {
    /// A queue without items.
    #[must_use]
    pub fn new(processor: P, workers: Arc<dyn Workers>) -> Self {
        Self {
            workers,
            running: None,
            processor: Some(Box::new(processor)),
        }
    }

    /// Passes an item. Waits while another item waits.
    ///
    /// # Errors
    /// The error of this or of an earlier item, after which the queue can only be dropped;
    /// `Interrupted`, `Internal`.
    pub fn pass(&mut self, mut item: P::Item, interrupted: &Interrupted) -> Result<(), P::Error> {
        loop {
            let Some(running) = &self.running else {
                if !self.start()? {
                    let processed = self.processor()?.process(item);
                    if processed.is_err() {
                        self.processor = None;
                    }
                    return processed;
                }
                continue;
            };
            item = match running.items.0.push(item) {
                Pushed::Accepted => return Ok(()),
                Pushed::Returned(item) => {
                    self.end_worker(interrupted)?;
                    item
                }
                Pushed::Full(_) if interrupted() => return Err(BulkLoadError::Interrupted.into()),
                Pushed::Full(item) => item,
            };
        }
    }

    /// Waits until all items are processed.
    ///
    /// # Errors
    /// As [`WorkQueue::pass`].
    pub fn wait(&mut self, interrupted: &Interrupted) -> Result<(), P::Error> {
        if let Some(running) = &self.running {
            running.items.0.close();
        }
        self.end_worker(interrupted)
    }

    /// Waits until all items are processed, and returns the processor.
    ///
    /// # Errors
    /// As [`WorkQueue::pass`].
    pub fn finish(mut self, interrupted: &Interrupted) -> Result<Box<P>, P::Error> {
        self.wait(interrupted)?;
        self.processor()?;
        self.processor.ok_or_else(|| failed_before().into())
    }

    fn processor(&mut self) -> BulkLoadResult<&mut P> {
        self.processor.as_deref_mut().ok_or_else(failed_before)
    }

    /// Gives the processor to a worker, if one is idle.
    fn start(&mut self) -> BulkLoadResult<bool> {
        self.processor()?;
        let Some(worker) = self.workers.claim() else {
            return Ok(false);
        };
        let mut processor = self.processor.take().ok_or_else(failed_before)?;
        let items = Arc::new(Items::new());
        // Also after a panic.
        let ends = EndOnDrop(Arc::clone(&items));
        self.running = Some(Running {
            items: EndOnDrop(items),
            worker: Background::start(worker, move || {
                while let Some(item) = ends.0.take() {
                    processor.process(item)?;
                }
                drop(ends);
                Ok(processor)
            }),
        });
        Ok(true)
    }

    /// Waits for the end of the worker, which gets no more items, and takes the processor.
    fn end_worker(&mut self, interrupted: &Interrupted) -> Result<(), P::Error> {
        if let Some(running) = &mut self.running {
            while !running.worker.wait_briefly(interrupted)? {}
            let ended = running.worker.take_early();
            self.running = None;
            let panicked = BulkLoadError::Internal("a thread that processed items panicked");
            self.processor = Some(ended.ok_or(panicked)??);
        }
        Ok(())
    }
}

fn failed_before() -> BulkLoadError {
    BulkLoadError::Internal("an earlier item could not be processed")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::workers::{NoWorkers, Task, Worker};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    /// Creates a thread for each task, if there are few.
    #[derive(Default)]
    struct Threads {
        claimed: AtomicUsize,
        claimed_max: usize,
    }

    impl Threads {
        fn new(claimed_max: usize) -> Arc<Self> {
            Arc::new(Self {
                claimed_max,
                ..Self::default()
            })
        }
    }

    impl Workers for Threads {
        fn claim(&self) -> Option<Worker> {
            let before = self.claimed.fetch_add(1, Ordering::Relaxed);
            let create = |task: Task| drop(thread::spawn(move || task()()));
            (before < self.claimed_max).then(|| Box::new(create) as Worker)
        }
    }

    /// Keeps the numbers; fails, panics or waits for some.
    #[derive(Default)]
    struct Keep {
        numbers: Vec<u32>,
        proceeds: Arc<AtomicBool>,
    }

    const FAILS: u32 = 1000;
    const PANICS: u32 = 1001;
    const WAITS: u32 = 1002;

    impl Processor for Keep {
        type Item = u32;
        type Error = BulkLoadError;

        fn process(&mut self, item: u32) -> BulkLoadResult<()> {
            match item {
                FAILS => return Err(BulkLoadError::NotInOrder),
                PANICS => panic!("as the test demands"),
                WAITS => {
                    while !self.proceeds.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                }
                _ => {}
            }
            self.numbers.push(item);
            Ok(())
        }
    }

    const NEVER: &Interrupted = &|| false;

    #[test]
    fn items_are_processed_in_order_with_and_without_workers() {
        let all: [Arc<dyn Workers>; 3] = [Arc::new(NoWorkers), Threads::new(1), Threads::new(100)];
        for workers in all {
            let mut queue = WorkQueue::new(Keep::default(), workers);
            for n in 0..500 {
                if n % 200 == 100 {
                    // The worker ends.
                    thread::sleep(4 * POLL_PERIOD);
                }
                queue.pass(n, NEVER).unwrap();
            }
            let numbers = queue.finish(NEVER).unwrap().numbers;
            assert_eq!(numbers, (0..500).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_worker_without_items_ends_and_another_is_claimed() {
        let workers = Threads::new(100);
        let mut queue = WorkQueue::new(Keep::default(), Arc::clone(&workers) as _);
        for n in 0..3 {
            queue.pass(n, NEVER).unwrap();
            let items = Arc::clone(&queue.running.as_ref().unwrap().items.0);
            while !items.waiting.lock().has_ended {
                thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(queue.finish(NEVER).unwrap().numbers, [0, 1, 2]);
        assert_eq!(workers.claimed.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn errors_and_panics_are_reported_later() {
        for (bad, threads) in [(FAILS, 0), (FAILS, 100), (PANICS, 100)] {
            let mut queue = WorkQueue::new(Keep::default(), Threads::new(threads));
            let mut failed = None;
            for n in [1, bad, 2, 3, 4] {
                if let Err(error) = queue.pass(n, NEVER) {
                    failed = Some(error);
                    break;
                }
            }
            let is_right = |error| match bad {
                FAILS => matches!(error, BulkLoadError::NotInOrder),
                _ => matches!(error, BulkLoadError::Internal(_)),
            };
            assert!(failed.is_some_and(is_right));
            assert!(queue.pass(5, NEVER).is_err());
            assert!(queue.finish(NEVER).is_err());
            // The last item.
            let mut queue = WorkQueue::new(Keep::default(), Threads::new(threads));
            let passed = queue.pass(bad, NEVER);
            assert!(
                passed
                    .and_then(|()| queue.finish(NEVER))
                    .is_err_and(is_right)
            );
        }
    }

    #[test]
    fn waiting_is_bounded_and_can_be_interrupted() {
        let keep = Keep::default();
        let proceeds = Arc::clone(&keep.proceeds);
        let mut queue = WorkQueue::new(keep, Threads::new(1));
        queue.pass(WAITS, NEVER).unwrap();
        let mut accepted = 1;
        let stopped = loop {
            match queue.pass(accepted, &|| true) {
                Ok(()) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(stopped, BulkLoadError::Interrupted));
        assert!(accepted as usize <= 1 + WAITING_MAX);
        let items = Arc::clone(&queue.running.as_ref().unwrap().items.0);
        let releasing = thread::spawn(move || {
            while !items.waiting.lock().has_ended {
                thread::yield_now();
            }
            proceeds.store(true, Ordering::Relaxed);
        });
        drop(queue);
        releasing.join().unwrap();
    }
}
