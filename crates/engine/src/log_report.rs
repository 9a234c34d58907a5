//! The state of the log: its positions, its size and the limits of that, and what needs its oldest record.

use crate::core::log_stalls::LogStalls;
use crate::engine::Engine;
use crate::locks::IndexName;
use std::sync::atomic::Ordering;
use teak_base::{FileId, Lsn};

/// What needs the oldest record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogNeed {
    /// Nothing: all records are in index files.
    Nothing,
    /// An index, whose file does not have the record; its name, unless it was dropped just now.
    Index(Option<IndexName>),
    /// A commit that is in progress.
    Commit,
}

/// Positions are numbers of bytes since the data directory was created, sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogReport {
    /// The oldest record in the files of the log.
    pub start: Lsn,
    /// The position from which recovery would read the log now.
    pub replay_from: Lsn,
    /// The oldest record that is needed now. The log before it is trimmed after the next checkpoint.
    pub needed_from: Lsn,
    /// What needs it.
    pub needed_by: LogNeed,
    /// The position before which all records are durable.
    pub durable: Lsn,
    /// The position of the next record.
    pub end: Lsn,
    /// The files of the log.
    pub segments: u64,
    /// Their size.
    pub segments_bytes: u64,
    /// The size of files that are prepared, or trimmed and not yet reused or removed.
    pub spare_bytes: u64,
    /// The size that is compared with the limits: the maximum of `segments_bytes` and the records since the last trim.
    pub bytes: u64,
    /// The sizes at which writers are slowed, at which they stop, and the bound; `None` if the log has no bound.
    pub limits: Option<LogLimits>,
}

/// See [`LogReport::limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// The size above which writers are slowed.
    pub slow_bytes: u64,
    /// The size at which writers stop.
    pub stop_bytes: u64,
    /// The bound.
    pub bytes_max: u64,
}

impl Engine {
    /// The state of the log. Blocks neither writers nor commits; the values may be of slightly different times.
    #[must_use]
    pub fn log_report(&self) -> LogReport {
        let core = &self.core;
        let log = &core.log;
        let (needed_from, needed_by) = self.oldest_need();
        let (durable, end) = (log.durable(), log.end());
        let (statistics, used) = (log.statistics(), log.log_use());
        LogReport {
            start: log.start(),
            replay_from: Lsn(core.replay_from.load(Ordering::Acquire)),
            needed_from: needed_from.unwrap_or(end).min(end),
            needed_by,
            durable,
            end,
            segments: statistics.segments,
            segments_bytes: statistics.segments_bytes,
            spare_bytes: statistics.spare_bytes,
            bytes: used.bytes,
            limits: (used.bytes_max < u64::MAX).then(|| LogLimits {
                slow_bytes: LogStalls::slow_bytes(used),
                stop_bytes: LogStalls::stop_bytes(used),
                bytes_max: used.bytes_max,
            }),
        }
    }

    /// The oldest record that an index or a commit in progress needs.
    fn oldest_need(&self) -> (Option<Lsn>, LogNeed) {
        let core = &self.core;
        let floor = core.transactions.commit_floor();
        let mut oldest: Option<(Lsn, Option<FileId>)> = floor.map(|floor| (floor, None));
        for index in core.written.live() {
            if index.is_log_retained() || index.is_temporary() {
                continue;
            }
            if let Some(from) = index.tree.oldest_undurable_lsn()
                && oldest.is_none_or(|(before, _)| from < before)
            {
                oldest = Some((from, Some(index.entry.file)));
            }
        }
        match oldest {
            None => (None, LogNeed::Nothing),
            Some((from, None)) => (Some(from), LogNeed::Commit),
            Some((from, Some(file))) => {
                let name = self.index_names().get(file).cloned();
                (Some(from), LogNeed::Index(name))
            }
        }
    }
}
