//! The counts of all index files since the engine was opened.
//!
//! The counters of a file are registered when it is opened, and read until the file is closed. So
//! the sums neither lose nor repeat anything, whatever state the table of the file is in.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use teak_tree::{BlockFileCounters, BlockFileCounts};

/// Number of registered files up to which closed ones are not looked for when one is opened.
const FILES_MIN: usize = 64;

/// The counts of open and closed index files.
#[derive(Debug, Default)]
pub(crate) struct FileCounts(Mutex<Files>);

#[derive(Debug, Default)]
struct Files {
    open: Vec<OpenFile>,
    /// The sum of the counts of closed files.
    closed: BlockFileCounts,
    /// Number of open files after the last search for closed ones.
    found_open: usize,
}

#[derive(Debug)]
struct OpenFile {
    counters: Arc<BlockFileCounters>,
    /// Whether its syncs do nothing, and are not counted.
    is_temporary: bool,
}

impl OpenFile {
    fn read(&self) -> BlockFileCounts {
        let mut counts = self.counters.read();
        if self.is_temporary {
            counts.syncs = 0;
        }
        counts
    }

    fn is_closed(&self) -> bool {
        let is_closed = Arc::strong_count(&self.counters) == 1;
        // Makes the counts visible that a thread added before it released the file.
        fence(Ordering::Acquire);
        is_closed
    }
}

impl Files {
    /// Adds the counts of closed files to their sum.
    fn settle_closed(&mut self) {
        let closed = &mut self.closed;
        self.open.retain(|file| {
            let is_closed = file.is_closed();
            if is_closed {
                closed.add(&file.read());
            }
            !is_closed
        });
        self.found_open = self.open.len();
    }
}

impl FileCounts {
    /// Adds a file that was opened.
    pub(crate) fn register(&self, counters: &Arc<BlockFileCounters>, is_temporary: bool) {
        let mut files = self.0.lock();
        if files.open.len() >= 2 * files.found_open + FILES_MIN {
            files.settle_closed();
        }
        files.open.push(OpenFile {
            counters: Arc::clone(counters),
            is_temporary,
        });
    }

    /// The sums of all files. None of them is ever smaller than in an earlier call.
    pub(crate) fn sum(&self) -> BlockFileCounts {
        let mut files = self.0.lock();
        files.settle_closed();
        let mut sum = files.closed;
        files.open.iter().for_each(|file| sum.add(&file.read()));
        sum
    }
}
