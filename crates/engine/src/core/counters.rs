//! Durable counters of a table, and its hidden row ids.

use super::row_count::RowCount;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use teak_base::StorageResult;

/// Number of durable counters per table.
pub const COUNTERS: usize = 8;

/// The number of the counter that stores hidden row ids.
pub(crate) const ROW_ID_COUNTER: u8 = 255;

/// The number under which the catalogue of a closed engine stores the number of rows, plus one. Not a
/// counter that is logged.
pub(crate) const ROW_COUNT_COUNTER: u8 = 254;

/// Row ids reserved with one log record.
const ROW_IDS_AHEAD: u64 = 1 << 16;

/// The thread that leaves fewer reserved row ids than this reserves the next ones.
const ROW_IDS_LEFT_MIN: u64 = ROW_IDS_AHEAD / 2;

/// Durable counters of a table, which may be open or closed.
#[derive(Debug, Default)]
pub(crate) struct TableCounters {
    values: [AtomicU64; COUNTERS],
    /// The last logged value of each counter.
    logged: [AtomicU64; COUNTERS],
    row_ids: Mutex<RowIds>,
    /// When the table was last written, as the caller reported it. Not logged.
    pub(crate) written_at: AtomicU64,
    /// The number of rows. Not logged.
    pub(crate) rows: RowCount,
    /// Whether the table is in the list of counters to log.
    pub(crate) registered: AtomicBool,
}

/// The hidden row ids of a table. `next <= logged <= promised`.
#[derive(Debug, Default)]
struct RowIds {
    next: u64,
    /// Ids below this one are reserved in the log.
    logged: u64,
    /// Raised before the record is appended. The catalogue of a running engine contains this value:
    /// after its capture a trim of the log may remove that record.
    promised: u64,
    /// Number of resets.
    resets: u64,
}

impl TableCounters {
    pub(crate) fn restore(values: &BTreeMap<u8, u64>) -> Self {
        let counters = Self::default();
        for (counter, value) in values {
            counters.replay(*counter, *value);
        }
        counters
    }

    /// Restores a value from the log or the catalogue.
    pub(crate) fn replay(&self, counter: u8, value: u64) {
        if counter == ROW_ID_COUNTER {
            let mut ids = self.row_ids.lock();
            // Records of several threads are in any order.
            let value = value.max(ids.promised);
            *ids = RowIds {
                next: value,
                logged: value,
                promised: value,
                resets: ids.resets,
            };
        } else if let (Some(live), Some(logged)) = (
            self.values.get(usize::from(counter)),
            self.logged.get(usize::from(counter)),
        ) {
            live.store(value, Ordering::Release);
            logged.store(value, Ordering::Release);
        }
    }

    pub(crate) fn value(&self, counter: u8) -> Option<u64> {
        let value = self.values.get(usize::from(counter))?;
        Some(value.load(Ordering::Acquire))
    }

    /// Raises a counter. `Some(true)` when its value changed.
    pub(crate) fn advance(&self, counter: u8, value: u64) -> Option<bool> {
        let live = self.values.get(usize::from(counter))?;
        if live.load(Ordering::Acquire) >= value {
            return Some(false);
        }
        Some(live.fetch_max(value, Ordering::AcqRel) < value)
    }

    /// Sets a counter, unless it no longer has the value `before`: then another thread has raised
    /// it.
    pub(crate) fn replace(&self, counter: u8, before: u64, value: u64) {
        if let Some(live) = self.values.get(usize::from(counter)) {
            let _ = live.compare_exchange(before, value, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Counters whose current value is not in the log.
    pub(crate) fn unlogged(&self) -> Vec<(u8, u64)> {
        let mut unlogged = Vec::new();
        for (number, (live, logged)) in (0u8..).zip(self.values.iter().zip(&self.logged)) {
            let value = live.load(Ordering::Acquire);
            if logged.load(Ordering::Acquire) != value {
                unlogged.push((number, value));
            }
        }
        unlogged
    }

    /// Records that the log contains this value. Called by one thread at a time.
    pub(crate) fn note_logged(&self, counter: u8, value: u64) {
        if let Some(logged) = self.logged.get(usize::from(counter)) {
            logged.store(value, Ordering::Release);
        }
    }

    /// Reserves row ids and returns the first one. When more ids must be reserved in
    /// the log, calls `log` without holding the mutex. One thread does that when half of
    /// the reserved ids are used. Other threads call `log` only if they find too few ids
    /// left before that call has ended.
    pub(crate) fn reserve_row_ids(
        &self,
        count: u64,
        mut log: impl FnMut(u64) -> StorageResult<()>,
    ) -> StorageResult<u64> {
        loop {
            let mut ids = self.row_ids.lock();
            let next = ids.next.saturating_add(count);
            let is_reserved = next <= ids.logged;
            let first = ids.next;
            if is_reserved {
                ids.next = next;
                let is_low = ids.logged - next < ROW_IDS_LEFT_MIN;
                if !is_low || ids.promised > ids.logged {
                    return Ok(first);
                }
            }
            let promised = next.saturating_add(ROW_IDS_AHEAD);
            ids.promised = ids.promised.max(promised);
            let resets = ids.resets;
            drop(ids);
            let outcome = log(promised);
            if outcome.is_ok() {
                let mut ids = self.row_ids.lock();
                if ids.resets == resets {
                    ids.logged = ids.logged.max(promised);
                }
            }
            if is_reserved {
                // If `log` has failed, the thread that finds no reserved ids left calls it again.
                return Ok(first);
            }
            outcome?;
        }
    }

    /// The counters for the catalogue. With `closing`, no more ids will be allocated, so ids that
    /// were reserved and not used are released.
    pub(crate) fn snapshot(&self, closing: bool) -> BTreeMap<u8, u64> {
        let ids = self.row_ids.lock();
        let row_ids = if closing { ids.next } else { ids.promised };
        drop(ids);
        let values = (0u8..).zip(&self.values);
        values
            .map(|(number, value)| (number, value.load(Ordering::Acquire)))
            .chain([(ROW_ID_COUNTER, row_ids)])
            .filter(|(_, value)| *value != 0)
            .collect()
    }

    /// Resets all counters to zero, as TRUNCATE does.
    pub(crate) fn reset(&self) {
        for counter in self.values.iter().chain(&self.logged) {
            counter.store(0, Ordering::Release);
        }
        let mut ids = self.row_ids.lock();
        *ids = RowIds {
            resets: ids.resets + 1,
            ..RowIds::default()
        };
        drop(ids);
        self.written_at.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_never_move_back_through_advance() {
        let counters = TableCounters::default();
        assert_eq!(counters.advance(0, 5), Some(true));
        assert_eq!(counters.advance(0, 4), Some(false));
        assert_eq!(counters.value(0), Some(5));
        assert_eq!(counters.advance(8, 1), None);
        assert_eq!(counters.unlogged(), [(0, 5)]);
        counters.note_logged(0, 5);
        assert_eq!(counters.unlogged(), []);
    }

    #[test]
    fn row_ids_are_logged_before_they_are_used() {
        let counters = TableCounters::default();
        let mut logged = 0;
        let first = counters.reserve_row_ids(10, |value| {
            logged = value;
            Ok(())
        });
        assert_eq!(first.unwrap(), 0);
        assert!(logged >= 10);
        let next = counters.reserve_row_ids(5, |_| panic!("already logged"));
        assert_eq!(next.unwrap(), 10);
        let restored = TableCounters::restore(&counters.snapshot(false));
        assert_eq!(restored.reserve_row_ids(1, |_| Ok(())).unwrap(), logged);
        let reopened = TableCounters::restore(&counters.snapshot(true));
        assert_eq!(reopened.reserve_row_ids(1, |_| Ok(())).unwrap(), 15);
    }

    #[test]
    fn no_thread_waits_for_the_log_record_of_another() {
        let counters = TableCounters::default();
        counters.reserve_row_ids(1, |_| Ok(())).unwrap();
        let (others, finished) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let first = counters.reserve_row_ids(ROW_IDS_AHEAD / 2 + 1, |value| {
                // This record is not appended yet.
                scope.spawn(|| {
                    let next = counters.reserve_row_ids(7, |_| panic!("twice"));
                    others.send(next.unwrap()).unwrap();
                });
                let next = finished.recv_timeout(std::time::Duration::from_secs(60));
                assert_eq!(next.expect("waits"), ROW_IDS_AHEAD / 2 + 2);
                let restored = TableCounters::restore(&counters.snapshot(false));
                let after = restored.reserve_row_ids(1, |_| Ok(())).unwrap();
                assert!(after >= value, "{after}");
                Ok(())
            });
            assert_eq!(first.unwrap(), 1);
        });
    }

    #[test]
    fn a_failed_record_is_appended_when_the_ids_are_used_up() {
        let counters = TableCounters::default();
        counters.reserve_row_ids(1, |_| Ok(())).unwrap();
        let fail = |_| {
            let path = "log".into();
            Err(teak_base::StorageError::NoSpace { path })
        };
        let half = ROW_IDS_AHEAD / 2 + 1;
        assert_eq!(counters.reserve_row_ids(half, fail).unwrap(), 1);
        assert!(counters.reserve_row_ids(half, fail).is_err());
        let mut logged = 0;
        let next = counters.reserve_row_ids(half, |value| {
            logged = value;
            Ok(())
        });
        assert_eq!(next.unwrap(), half + 1);
        assert!(logged > 2 * half);
    }

    #[test]
    fn records_of_several_threads_are_replayed_in_any_order() {
        let counters = TableCounters::default();
        for value in [100, 300, 200] {
            counters.replay(ROW_ID_COUNTER, value);
        }
        assert_eq!(counters.reserve_row_ids(1, |_| Ok(())).unwrap(), 300);
        counters.reset();
        assert_eq!(counters.reserve_row_ids(1, |_| Ok(())).unwrap(), 0);
    }
}
