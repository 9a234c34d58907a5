//! The pressure of the log's size on writers, and counts of their waits.

use super::pacer::Pacer;
use parking_lot::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use teak_write_ahead_log::LogUse;

/// Writers are slowed when the log is longer than its bound divided by this number.
const SLOW_SHARE: u64 = 2;

/// Writers stop before the log has the length at which it refuses row records, because a
/// transaction should stop before it locks rows. The distance is the bound divided by this number.
const STOP_MARGIN: u64 = 64;

/// Waits of writers for a shorter log.
#[derive(Debug, Default)]
pub(crate) struct LogStalls {
    /// Measures how fast rounds of checkpoints trim the log.
    pub pacer: Pacer,
    stop: Mutex<Stop>,
    /// Number of times that writers were slowed and not stopped.
    pub slowdowns: AtomicU64,
}

/// Writers that are stopped now.
#[derive(Debug, Default)]
struct Stop {
    waiting: usize,
    since: Option<Instant>,
    total: Duration,
}

/// The part of the log that recovery no longer needs, at a moment of a round of
/// checkpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrimProgress {
    pub at: Instant,
    /// The log position from which recovery reads.
    pub position: u64,
}

impl LogStalls {
    /// Whether writers must be slowed.
    #[inline]
    pub(crate) fn is_slow(log: LogUse) -> bool {
        log.bytes > Self::slow_bytes(log)
    }

    /// The size above which writers are slowed.
    #[inline]
    pub(crate) fn slow_bytes(log: LogUse) -> u64 {
        log.bytes_max / SLOW_SHARE
    }

    /// The size at which writers stop before their next row.
    pub(crate) fn stop_bytes(log: LogUse) -> u64 {
        log.stop_bytes.saturating_sub(log.bytes_max / STOP_MARGIN)
    }

    /// The pressure on writers: zero where the slowdown begins, one at the stop.
    // Byte counts of a log are below 2^53.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn pressure(log: LogUse) -> f64 {
        let (slow, stop) = (Self::slow_bytes(log), Self::stop_bytes(log));
        let excess = log.bytes.saturating_sub(slow) as f64;
        excess / stop.saturating_sub(slow).max(1) as f64
    }

    /// Reports that the log was trimmed by checkpoints, from one moment to
    /// another. A trim of less than `bytes_min` says little about the speed of
    /// checkpoints, unless the log is long.
    pub(crate) fn report_trim(
        &self,
        from: TrimProgress,
        to: TrimProgress,
        log: LogUse,
        bytes_min: u64,
    ) {
        let bytes = to.position.saturating_sub(from.position);
        if bytes >= bytes_min || Self::is_slow(log) {
            let time = to.at.saturating_duration_since(from.at);
            self.pacer.measure(bytes, time);
        }
    }

    /// A writer stops. Returns whether it is the first one.
    pub(crate) fn begin_stop(&self, now: Instant) -> bool {
        let mut stop = self.stop.lock();
        stop.waiting += 1;
        let is_first = stop.since.is_none();
        stop.since.get_or_insert(now);
        is_first
    }

    /// A writer continues, or fails. If it was the last stopped writer, returns
    /// the time since the first one stopped.
    pub(crate) fn end_stop(&self, now: Instant) -> Option<Duration> {
        let mut stop = self.stop.lock();
        stop.waiting -= 1;
        if stop.waiting > 0 {
            return None;
        }
        let time = now.saturating_duration_since(stop.since.take()?);
        stop.total += time;
        Some(time)
    }

    /// Whether a writer is stopped now.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.lock().waiting > 0
    }

    /// The time in which at least one writer was stopped.
    pub(crate) fn stopped(&self) -> Duration {
        let stop = self.stop.lock();
        stop.total + stop.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn log(bytes: u64) -> LogUse {
        LogUse::new(bytes, 1024 * MIB, 960 * MIB)
    }

    #[test]
    fn the_pressure_grows_from_the_slowdown_to_the_stop() {
        let expected = [
            (0, 0.0),
            (512, 0.0),
            (620, 0.25),
            (728, 0.5),
            (944, 1.0),
            (1160, 1.5),
        ];
        for (bytes, pressure) in expected {
            let found = LogStalls::pressure(log(bytes * MIB));
            assert!((found - pressure).abs() < 1e-9, "at {bytes} MiB: {found}");
        }
    }

    #[test]
    fn a_log_without_a_bound_slows_no_writer() {
        let unbounded = LogUse::new(u64::MAX / 4, u64::MAX, u64::MAX);
        assert!(!LogStalls::is_slow(unbounded));
        assert!(LogStalls::pressure(unbounded) <= 0.0);
    }

    #[test]
    fn the_pace_is_the_speed_of_checkpoints() {
        let stalls = LogStalls::default();
        let start = Instant::now();
        let trim = |seconds, bytes| TrimProgress {
            at: start + Duration::from_secs(seconds),
            position: bytes,
        };
        let report = |bytes, used| {
            stalls.report_trim(trim(0, 0), trim(4, bytes), log(used), 32 * MIB);
        };
        // The time that a writer waits after 8 MiB were written.
        let wait = || {
            let now = Instant::now();
            let first = stalls.pacer.turn(now, 0, 2.0 / 3.0);
            stalls.pacer.turn(first, 8 * MIB, 2.0 / 3.0) - first
        };
        let is_near = |milliseconds| {
            let expected = Duration::from_millis(milliseconds);
            wait().abs_diff(expected) < Duration::from_millis(1)
        };
        report(160 * MIB, 700 * MIB);
        assert!(is_near(200));
        // A trim that is too small to count.
        report(MIB, 100 * MIB);
        assert!(is_near(200));
        // Checkpoints fail: half of the speed before.
        report(0, 700 * MIB);
        assert!(is_near(400));
    }

    #[test]
    fn a_stop_lasts_from_the_first_writer_to_the_last() {
        let stalls = LogStalls::default();
        let now = Instant::now();
        assert!(stalls.begin_stop(now));
        assert!(!stalls.begin_stop(now + Duration::from_secs(1)));
        assert_eq!(stalls.end_stop(now + Duration::from_secs(2)), None);
        let time = stalls.end_stop(now + Duration::from_secs(3));
        assert_eq!(time, Some(Duration::from_secs(3)));
        assert_eq!(stalls.stopped(), Duration::from_secs(3));
    }
}
