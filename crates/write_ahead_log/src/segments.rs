//! The list of the segment files of an open log.

use std::collections::VecDeque;

/// The segment files, oldest first. There is always at least one.
#[derive(Debug)]
pub(crate) struct SegmentList {
    segments: VecDeque<SegmentEntry>,
    bytes: u64,
    /// Trimmed segments that a hold retains, oldest first. They are not part of the log's size.
    held: VecDeque<SegmentEntry>,
    hold: Option<Hold>,
    /// The number of the last hold.
    last_hold: u64,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    number: u64,
    /// The position at which it ends.
    until: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentEntry {
    pub(crate) number: u64,
    /// Log position of the first batch.
    pub(crate) first_lsn: u64,
    pub(crate) bytes: u64,
    /// Whether the header was written before the position of the first batch was known.
    pub(crate) was_prepared: bool,
}

/// Number and total size of the segment files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SegmentTotals {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl SegmentList {
    /// A list of the segments before the current one. The current one must be added next.
    pub(crate) fn new(older: Vec<SegmentEntry>) -> Self {
        Self {
            bytes: older.iter().map(|segment| segment.bytes).sum(),
            segments: older.into(),
            held: VecDeque::new(),
            hold: None,
            last_hold: 0,
        }
    }

    /// Begins to retain all segments of the log. Returns the number of the hold; `None` if there is another one.
    pub(crate) fn begin_hold(&mut self) -> Option<u64> {
        if self.hold.is_some() {
            return None;
        }
        self.last_hold += 1;
        let (number, until) = (self.last_hold, u64::MAX);
        self.hold = Some(Hold { number, until });
        Some(number)
    }

    /// Limits the hold to the segments with records before `until`.
    pub(crate) fn limit_hold(&mut self, until: u64) {
        if let Some(hold) = &mut self.hold {
            hold.until = until;
        }
    }

    /// Ends a hold, unless it has ended. Returns the trimmed segments that it has retained.
    pub(crate) fn end_hold(&mut self, number: u64) -> Vec<SegmentEntry> {
        if self.hold.is_none_or(|hold| hold.number != number) {
            return Vec::new();
        }
        self.hold = None;
        self.held.drain(..).collect()
    }

    /// Bytes of the trimmed segments that a hold retains.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.iter().map(|segment| segment.bytes).sum()
    }

    /// Adds a new segment; it becomes the current one.
    pub(crate) fn push(&mut self, segment: SegmentEntry) {
        self.bytes += segment.bytes;
        self.segments.push_back(segment);
    }

    /// Sets the length of the current segment.
    pub(crate) fn set_current_bytes(&mut self, bytes: u64) {
        if let Some(current) = self.segments.back_mut() {
            self.bytes = self.bytes - current.bytes + bytes;
            current.bytes = bytes;
        }
    }

    /// Takes the segments that hold no record at or after `before`, except the current one. The
    /// predecessor of a prepared segment remains until a batch of that segment is durable: until
    /// then, only the predecessor shows at which position the log continues.
    pub(crate) fn take_before(&mut self, before: u64, durable: u64) -> Vec<SegmentEntry> {
        let mut taken = Vec::new();
        while let Some(next) = self.segments.get(1) {
            if next.first_lsn > before || (next.was_prepared && durable <= next.first_lsn) {
                break;
            }
            if let Some(oldest) = self.segments.pop_front() {
                self.bytes -= oldest.bytes;
                match self.hold {
                    Some(hold) if oldest.first_lsn < hold.until => self.held.push_back(oldest),
                    _ => taken.push(oldest),
                }
            }
        }
        taken
    }

    /// The segments with records from `from` up to `until`, including those that a hold retains.
    pub(crate) fn between(&self, from: u64, until: u64) -> Vec<SegmentEntry> {
        let all = || self.held.iter().chain(&self.segments);
        let next = all().skip(1).map(|next| next.first_lsn);
        let ends = next.chain([u64::MAX]);
        let listed = all().zip(ends);
        let is_read =
            |(segment, end): &(&SegmentEntry, u64)| segment.first_lsn < until && *end > from;
        listed
            .filter(is_read)
            .map(|(segment, _)| *segment)
            .collect()
    }

    /// The position of the first batch.
    pub(crate) fn first_lsn(&self) -> u64 {
        self.segments.front().map_or(0, |oldest| oldest.first_lsn)
    }

    /// The length of the current segment.
    pub(crate) fn current_bytes(&self) -> u64 {
        self.segments.back().map_or(0, |current| current.bytes)
    }

    pub(crate) fn totals(&self) -> SegmentTotals {
        SegmentTotals {
            count: self.segments.len() as u64,
            bytes: self.bytes,
        }
    }
}
