//! The pace of writers while the log is long, and counts of their waits.

use parking_lot::Mutex;
use std::time::{Duration, Instant};
use teak_base::latency::Histogram;
use teak_write_ahead_log::LogUse;

/// Writers are slowed from this share of the bound on.
const SLOW_SHARE: u64 = 2;

/// Scale of the pace, in bytes per second. Half of it is the pace half way between
/// the start of the slowdown and the stop.
const PACE_BYTES: u64 = 32 << 20;

/// The slowest pace, in bytes per second. If the log still grows, writers stop.
const PACE_BYTES_MIN: u64 = 64 << 10;

/// Bytes that accumulate while no thread writes, as a time at the pace.
const BURST: Duration = Duration::from_millis(50);

/// Microseconds of a second.
const MICROSECONDS: u64 = 1_000_000;

/// The part of the log that writers may have written by now.
#[derive(Debug)]
struct Pace {
    /// The log position that writers may reach.
    allowed: u64,
    at: Instant,
}

/// Waits of writers for a shorter log.
#[derive(Debug, Default)]
pub(crate) struct LogStalls {
    pace: Mutex<Option<Pace>>,
    stop: Mutex<Stop>,
    /// Times by which writers were slowed.
    pub slowdowns: Histogram,
    /// Times that writers were stopped.
    pub stops: Histogram,
}

/// Writers that are stopped now.
#[derive(Debug, Default)]
struct Stop {
    waiting: usize,
    since: Option<Instant>,
    total: Duration,
}

/// The bytes per second that may be appended: falls smoothly from no limit at
/// the start of the slowdown to the minimum at the stop.
fn pace(log: LogUse) -> Option<u64> {
    let slow = log.bytes_max / SLOW_SHARE;
    let excess = log.bytes.checked_sub(slow).filter(|excess| *excess > 0)?;
    let span = log.stop_bytes.saturating_sub(slow).max(1);
    let rest = span.saturating_sub(excess);
    // PACE_BYTES * (1 - x)^2 / x, where x is the used part of the span.
    let parts = u128::from(rest) * u128::from(rest) / u128::from(excess).max(1);
    let pace = u128::from(PACE_BYTES) * parts / u128::from(span);
    Some(u64::try_from(pace).unwrap_or(u64::MAX).max(PACE_BYTES_MIN))
}

fn bytes_in(time: Duration, pace: u64) -> u64 {
    let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    pace.saturating_mul(microseconds) / MICROSECONDS
}

impl LogStalls {
    /// Whether writers must be slowed.
    #[inline]
    pub(crate) fn is_slow(log: LogUse) -> bool {
        log.bytes > log.bytes_max / SLOW_SHARE
    }

    /// How long a writer has to wait now, so that all writers together keep the
    /// pace. `end` is the end of the log.
    pub(crate) fn delay(&self, log: LogUse, end: u64, now: Instant) -> Duration {
        let mut state = self.pace.lock();
        let Some(pace) = pace(log) else {
            *state = None;
            return Duration::ZERO;
        };
        let state = state.get_or_insert(Pace {
            allowed: end,
            at: now,
        });
        let passed = now.saturating_duration_since(state.at);
        let allowed = state.allowed.saturating_add(bytes_in(passed, pace));
        state.allowed = allowed.min(end.saturating_add(bytes_in(BURST, pace)));
        state.at = now;
        let missing = end.saturating_sub(state.allowed);
        Duration::from_micros(missing.saturating_mul(MICROSECONDS) / pace)
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
    fn the_pace_falls_smoothly_to_the_minimum() {
        assert_eq!(pace(log(512 * MIB)), None);
        let mut before = u64::MAX;
        for used in 513..960 {
            let now = pace(log(used * MIB)).unwrap_or(u64::MAX);
            assert!(now <= before, "at {used} MiB");
            before = now;
        }
        assert_eq!(pace(log(736 * MIB)), Some(PACE_BYTES / 2));
        assert_eq!(pace(log(960 * MIB)), Some(PACE_BYTES_MIN));
        assert_eq!(pace(log(2000 * MIB)), Some(PACE_BYTES_MIN));
    }

    #[test]
    fn a_log_without_a_bound_slows_no_writer() {
        let unbounded = LogUse::new(u64::MAX / 4, u64::MAX, u64::MAX);
        assert!(!LogStalls::is_slow(unbounded));
        assert_eq!(pace(unbounded), None);
    }

    #[test]
    fn writers_wait_until_the_pace_has_caught_up() {
        let stalls = LogStalls::default();
        let now = Instant::now();
        let used = log(736 * MIB);
        assert_eq!(stalls.delay(used, 0, now), Duration::ZERO);
        // A second at 16 MiB/s.
        let delay = stalls.delay(used, 16 * MIB, now);
        assert_eq!(delay, Duration::from_secs(1));
        let later = now + Duration::from_millis(400);
        assert_eq!(
            stalls.delay(used, 16 * MIB, later),
            Duration::from_millis(600)
        );
        let later = now + Duration::from_secs(10);
        assert_eq!(stalls.delay(used, 16 * MIB, later), Duration::ZERO);
        // Time without writes allows only a small burst.
        let delay = stalls.delay(used, 32 * MIB, later);
        assert_eq!(delay, Duration::from_secs(1) - BURST);
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
