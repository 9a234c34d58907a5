//! The next segment, once it is prepared, and the files of trimmed segments.

use crate::segment::NewSegment;
use crate::segments::SegmentEntry;
use std::collections::VecDeque;

/// The next segment, and the files of trimmed ones.
#[derive(Debug)]
pub(crate) struct SegmentPool {
    /// The next segment, once it is prepared.
    pub(crate) ready: Option<NewSegment>,
    /// Whether the leader has taken the prepared segment. It may give the segment back.
    pub(crate) is_taken: bool,
    /// The number of the segment after the current one.
    pub(crate) next_number: u64,
    /// Files of trimmed segments, oldest first.
    pub(crate) trimmed: VecDeque<SegmentEntry>,
    /// Prepared segments that were begun since `add_trimmed` last received a file.
    pub(crate) begun: u64,
    /// Number of trimmed files to keep for reuse: the number of prepared segments that were begun
    /// between two trims, but at most the limit of `add_trimmed`. When fewer segments are begun, it
    /// decreases by an eighth with each trim.
    spares: u64,
    /// Set to end the wait in `wait_for_preparation`.
    pub(crate) is_woken: bool,
}

pub(crate) enum Task {
    Prepare {
        number: u64,
        recycled: Option<SegmentEntry>,
    },
    Remove(SegmentEntry),
}

impl SegmentPool {
    pub(crate) fn new(next_number: u64) -> Self {
        Self {
            ready: None,
            is_taken: false,
            next_number,
            trimmed: VecDeque::new(),
            begun: 0,
            spares: 0,
            is_woken: false,
        }
    }

    /// Adds the files of trimmed segments. In all, at most `files_max` are kept for reuse.
    pub(crate) fn add_trimmed(&mut self, trimmed: Vec<SegmentEntry>, files_max: u64) {
        if trimmed.is_empty() {
            return;
        }
        let decayed = self.spares - self.spares.div_ceil(8);
        self.spares = decayed.max(self.begun).min(files_max);
        self.begun = 0;
        self.trimmed.extend(trimmed);
    }

    /// The next task of `prepare_segments`; `None` if there is nothing to do. `is_wanted`: whether
    /// the next segment is needed soon. A file of more than `recycled_bytes_max` is not reused.
    pub(crate) fn next_task(&mut self, is_wanted: bool, recycled_bytes_max: u64) -> Option<Task> {
        if is_wanted && self.ready.is_none() && !self.is_taken {
            let fits = |file: &SegmentEntry| file.bytes <= recycled_bytes_max;
            let newest = self.trimmed.iter().rposition(fits);
            return Some(Task::Prepare {
                number: self.next_number,
                recycled: newest.and_then(|index| self.trimmed.remove(index)),
            });
        }
        let excess = self.trimmed.len() as u64 > self.spares;
        let removed = excess.then(|| self.trimmed.pop_front());
        removed.flatten().map(Task::Remove)
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        let ready = self.ready.as_ref().map_or(0, |ready| ready.reserved);
        ready + self.trimmed.iter().map(|file| file.bytes).sum::<u64>()
    }
}
