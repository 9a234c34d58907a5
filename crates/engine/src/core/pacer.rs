//! The pace of the writers of one quantity that background work reduces.
//!
//! The caller measures the quantity: how many bytes were *written* since the
//! start, how many of them are *outstanding*, and the *pressure*: zero up to the
//! trigger of the slowdown, one at the stop.
//!
//! 1. The caller reports written and outstanding bytes from time to time. Bytes
//!    that were written and are no longer outstanding are *retired*, so the
//!    reports of the last seconds give the rate at which background work retires
//!    bytes. If little was written, little was retired, so the rate is at least a
//!    fraction of the speed of single jobs.
//! 2. A writer under pressure requests a *turn*: the time at which it may
//!    continue. Turns are so far apart that all writers together write at that
//!    rate, times two at the trigger and times a half at the stop, so that the
//!    pressure settles between zero and one. All bytes that any thread has written since
//!    the last turn delay the next turn, so the number of writers does not matter.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time over which the rate is measured.
const WINDOW: Duration = Duration::from_secs(8);

/// Reports at shorter intervals are dropped.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The lowest rate of the turns, in bytes per second. A long job retires nothing
/// until its end, so the measured rate may be zero.
const RATE_MIN: f64 = 1024.0 * 1024.0;

/// The rate is at least the speed of the jobs divided by this number: a thread also does other work.
const JOB_SHARE: f64 = 4.0;

/// Jobs of so many bytes determine the measured speed of jobs. Small jobs hardly change it, because
/// most of their time does not depend on the number of bytes.
const JOB_BYTES: f64 = 8.0 * 1024.0 * 1024.0;

/// The rate before the first measurement, in bytes per second.
const RATE_UNKNOWN: f64 = 32.0 * RATE_MIN;

/// Writers that were slower than the rate may catch up by this time.
const BURST: Duration = Duration::from_millis(20);

/// If the last turn is further in the past, the bytes written since then delay no turn.
const FORGET_AFTER: Duration = Duration::from_millis(500);

/// The longest time between two turns.
const TURN_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct State {
    /// Times and retired bytes, ascending.
    reports: VecDeque<(Instant, u64)>,
    /// Bytes written until the last turn was given.
    charged: u64,
    /// The last turn, and the time at which it was given.
    turn: Option<(Instant, Instant)>,
    /// The rate reported with [`Pacer::measure`], in bytes per second.
    measured: Option<f64>,
    /// The speed of the last large jobs, in bytes per second.
    job_rate: f64,
}

/// Measures how fast bytes are retired, and gives the writers their turns.
#[derive(Debug, Default)]
pub(crate) struct Pacer(Mutex<State>);

// Rates and times are approximate.
#[allow(clippy::cast_precision_loss)]
fn as_float(bytes: u64) -> f64 {
    bytes as f64
}

impl State {
    /// Bytes retired per second.
    fn rate(&self) -> f64 {
        let (Some((first, before)), Some((last, after))) =
            (self.reports.front(), self.reports.back())
        else {
            return self.measured.unwrap_or(RATE_UNKNOWN);
        };
        let time = last.saturating_duration_since(*first);
        if time < REPORT_INTERVAL {
            return RATE_UNKNOWN;
        }
        as_float(after.saturating_sub(*before)) / time.as_secs_f64()
    }
}

impl Pacer {
    /// Reports the bytes written since the start, and those outstanding.
    pub(crate) fn report(&self, now: Instant, written: u64, outstanding: u64) {
        let mut state = self.0.lock();
        if let Some((last, _)) = state.reports.back()
            && now.saturating_duration_since(*last) < REPORT_INTERVAL
        {
            return;
        }
        state
            .reports
            .push_back((now, written.saturating_sub(outstanding)));
        while let Some((first, _)) = state.reports.front()
            && now.saturating_duration_since(*first) > WINDOW
            && state.reports.len() > 2
        {
            state.reports.pop_front();
        }
    }

    /// Reports that one piece of work took `time` and retired `retired` bytes. For
    /// work that runs rarely: the time between two pieces of work says nothing about
    /// its speed. The new rate is the average of this measurement and the rate before.
    pub(crate) fn measure(&self, retired: u64, time: Duration) {
        if time.is_zero() {
            return;
        }
        let rate = as_float(retired) / time.as_secs_f64();
        let mut state = self.0.lock();
        let before = state.measured.unwrap_or(rate);
        state.measured = Some(f64::midpoint(rate, before));
    }

    /// Reports that a job took `time` and retired `retired` bytes.
    pub(crate) fn note_job(&self, retired: u64, time: Duration) {
        if time.is_zero() {
            return;
        }
        let bytes = as_float(retired);
        let weight = bytes / (bytes + JOB_BYTES);
        let mut state = self.0.lock();
        state.job_rate += (bytes / time.as_secs_f64() - state.job_rate) * weight;
    }

    /// The time until which a writer must wait under a pressure between zero and
    /// one. `written` are the bytes written since the start.
    pub(crate) fn turn(&self, now: Instant, written: u64, pressure: f64) -> Instant {
        let mut state = self.0.lock();
        let rate = state.rate().max(state.job_rate / JOB_SHARE);
        let rate = (rate * (2.0 - 1.5 * pressure.clamp(0.0, 1.0))).max(RATE_MIN);
        let last = state
            .turn
            .filter(|(turn, given)| now.saturating_duration_since(*turn.max(given)) < FORGET_AFTER);
        let turn = match last {
            Some((turn, _)) => {
                let bytes = written.saturating_sub(state.charged);
                let time = Duration::from_secs_f64(as_float(bytes) / rate).min(TURN_MAX);
                let earliest = now.checked_sub(BURST).unwrap_or(now);
                turn.max(earliest) + time
            }
            None => now,
        };
        state.charged = written;
        state.turn = Some((turn, now));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A pacer that has seen `rate` bytes retired per second for five seconds.
    fn measured(rate: u64) -> (Pacer, Instant) {
        let pacer = Pacer::default();
        let start = Instant::now();
        for second in 0..=5 {
            let now = start + Duration::from_secs(second);
            pacer.report(now, 100 * MIB + second * rate, 100 * MIB);
        }
        (pacer, start + Duration::from_secs(5))
    }

    /// Bytes that `writers` write in ten seconds, each `batch` at every turn.
    fn written_by(pacer: &Pacer, start: Instant, writers: usize, batch: u64, pressure: f64) -> u64 {
        let end = start + Duration::from_secs(10);
        let mut turns = vec![start; writers];
        let mut written = 0;
        loop {
            let next = turns.iter_mut().min().unwrap();
            let now = *next;
            if now > end {
                return written;
            }
            written += batch;
            *next = pacer.turn(now, written, pressure);
        }
    }

    #[test]
    fn the_number_of_writers_does_not_change_the_rate() {
        for writers in [1, 16, 256] {
            let (pacer, now) = measured(20 * MIB);
            let written = written_by(&pacer, now, writers, 16 << 10, 2.0 / 3.0);
            let slack = writers as u64 * (16 << 10) + 4 * MIB;
            assert!(written <= 200 * MIB + slack, "{writers}: {written}");
            assert!(written >= 200 * MIB - slack, "{writers}: {written}");
        }
    }

    #[test]
    fn more_pressure_lowers_the_rate() {
        let written = |pressure| {
            let (pacer, now) = measured(20 * MIB);
            written_by(&pacer, now, 4, 16 << 10, pressure)
        };
        let (low, high) = (written(0.05), written(0.95));
        assert!(low > 350 * MIB, "{low}");
        assert!(high < 130 * MIB, "{high}");
    }

    #[test]
    fn nothing_retired_still_leaves_the_lowest_rate() {
        let (pacer, now) = measured(0);
        let written = written_by(&pacer, now, 8, 4 << 10, 0.5);
        assert!((9 * MIB..12 * MIB).contains(&written), "{written}");
    }

    #[test]
    fn a_light_load_does_not_lower_the_rate_far_below_the_speed_of_large_jobs() {
        let (pacer, now) = measured(MIB / 2);
        let large = Duration::from_millis(250);
        for _ in 0..20 {
            pacer.note_job(10 * MIB, large);
            // Jobs of a few rows are slow, and many.
            (0..100).for_each(|_| pacer.note_job(1 << 10, Duration::from_millis(2)));
        }
        let written = written_by(&pacer, now, 8, 4 << 10, 2.0 / 3.0);
        assert!((90 * MIB..110 * MIB).contains(&written), "{written}");
        // Large jobs that have become slow.
        for _ in 0..20 {
            pacer.note_job(10 * MIB, 100 * large);
        }
        let later = now + Duration::from_secs(60);
        let written = written_by(&pacer, later, 8, 4 << 10, 2.0 / 3.0);
        assert!((9 * MIB..15 * MIB).contains(&written), "{written}");
    }

    #[test]
    fn bytes_written_without_pressure_are_not_charged() {
        let (pacer, now) = measured(20 * MIB);
        let first = pacer.turn(now, 1000 * MIB, 0.1);
        assert_eq!(first, now);
        let later = now + Duration::from_secs(60);
        assert_eq!(pacer.turn(later, 5000 * MIB, 0.1), later);
        assert!(pacer.turn(later, 5001 * MIB, 0.1) > later);
    }
}
