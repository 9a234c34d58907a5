//! The share of time during which the log is being synced.

use std::time::Instant;

/// Weight of the moving averages: the approximate number of cycles averaged.
const CYCLES_AVERAGED: u64 = 32;

/// A longer idle period counts as this multiple of the average sync period, so that it does not
/// dominate the average.
const IDLE_MAX: u64 = 32;

/// Measures cycles. A cycle is a period without syncs, followed by a period with one or more
/// concurrent syncs.
#[derive(Debug, Default)]
pub(crate) struct SyncLoad {
    /// Average nanoseconds of the idle period of a cycle.
    idle: u64,
    /// Average nanoseconds of the period with syncs.
    syncing: u64,
    /// When the last cycle ended.
    ended: Option<Instant>,
    /// When the first sync of this cycle began.
    began: Option<Instant>,
}

impl SyncLoad {
    pub(crate) fn begin(&mut self, now: Instant) {
        self.began.get_or_insert(now);
    }

    pub(crate) fn end(&mut self, now: Instant) {
        let Some(began) = self.began.take() else {
            return;
        };
        let between = |from: Instant, to: Instant| {
            let time = to.saturating_duration_since(from).as_nanos();
            u64::try_from(time).unwrap_or(u64::MAX / CYCLES_AVERAGED)
        };
        let average =
            |before: u64, newest: u64| before - before / CYCLES_AVERAGED + newest / CYCLES_AVERAGED;
        self.syncing = average(self.syncing, between(began, now));
        if let Some(ended) = self.ended {
            let idle = between(ended, began).min(self.syncing.saturating_mul(IDLE_MAX));
            self.idle = average(self.idle, idle);
        }
        self.ended = Some(now);
    }

    /// Whether the log is being synced for a third of the time or more. True
    /// before the first measurement.
    pub(crate) fn is_high(&self) -> bool {
        self.idle <= self.syncing * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SYNC: Duration = Duration::from_micros(200);

    /// A load, and a clock.
    struct Log {
        load: SyncLoad,
        now: Instant,
    }

    impl Log {
        fn new() -> Self {
            Self {
                load: SyncLoad::default(),
                now: Instant::now(),
            }
        }

        fn cycles(&mut self, count: u32, apart: Duration) {
            for _ in 0..count {
                self.now += apart;
                self.load.begin(self.now);
                self.now += SYNC;
                self.load.end(self.now);
            }
        }
    }

    #[test]
    fn a_third_of_the_time_is_a_high_load() {
        let mut log = Log::new();
        assert!(log.load.is_high(), "nothing is known yet");
        for (apart, is_high) in [
            (SYNC * 9 / 4, false),
            (SYNC * 7 / 4, true),
            (Duration::ZERO, true),
            (SYNC * 9 / 4, false),
        ] {
            log.cycles(200, apart);
            assert_eq!(log.load.is_high(), is_high, "{apart:?} apart");
        }
    }

    #[test]
    fn an_hour_of_idling_counts_for_little() {
        let mut log = Log::new();
        log.cycles(100, SYNC / 4);
        log.cycles(1, Duration::from_secs(3600));
        assert!(log.load.is_high());
    }

    #[test]
    fn syncs_that_overlap_are_one_cycle() {
        let mut log = Log::new();
        for _ in 0..100 {
            log.now += SYNC * 5;
            for _ in 0..3 {
                log.load.begin(log.now);
                log.now += SYNC;
            }
            log.load.end(log.now);
        }
        assert!(log.load.is_high(), "three eighths of the time");
    }
}
