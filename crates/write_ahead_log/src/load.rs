//! How much of the time the log is being synced.

use std::time::Instant;

/// How many turns the averages of times go back, about.
const TURNS_AVERAGED: u64 = 32;

/// A time without syncs counts as so many times the syncing between, at most:
/// what was before an hour of rest tells more than the rest.
const REST_MAX: u64 = 32;

/// A *turn* is a time without syncs and the time with one or more behind it.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Nanoseconds of a turn without and with syncs, on the average of the last
    /// ones.
    resting: u64,
    syncing: u64,
    /// When the last turn ended.
    ended: Option<Instant>,
    /// When the first sync of this turn began.
    began: Option<Instant>,
}

impl Load {
    pub(crate) fn begin(&mut self, now: Instant) {
        self.began.get_or_insert(now);
    }

    pub(crate) fn end(&mut self, now: Instant) {
        let Some(began) = self.began.take() else {
            return;
        };
        let between = |from: Instant, to: Instant| {
            let time = to.saturating_duration_since(from).as_nanos();
            u64::try_from(time).unwrap_or(u64::MAX / TURNS_AVERAGED)
        };
        let average =
            |before: u64, newest: u64| before - before / TURNS_AVERAGED + newest / TURNS_AVERAGED;
        self.syncing = average(self.syncing, between(began, now));
        if let Some(ended) = self.ended {
            let rest = between(ended, began).min(self.syncing.saturating_mul(REST_MAX));
            self.resting = average(self.resting, rest);
        }
        self.ended = Some(now);
    }

    /// Whether the log is being synced for a third of the time or more. So it is
    /// as long as nothing else is known.
    pub(crate) fn is_high(&self) -> bool {
        self.resting <= self.syncing * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SYNC: Duration = Duration::from_micros(200);

    /// A load, and a clock.
    struct Log {
        load: Load,
        now: Instant,
    }

    impl Log {
        fn new() -> Self {
            Self {
                load: Load::default(),
                now: Instant::now(),
            }
        }

        fn turns(&mut self, count: u32, apart: Duration) {
            for _ in 0..count {
                self.now += apart;
                self.load.begin(self.now);
                self.now += SYNC;
                self.load.end(self.now);
            }
        }
    }

    #[test]
    fn a_third_of_the_time_is_much() {
        let mut log = Log::new();
        assert!(log.load.is_high(), "nothing is known yet");
        for (apart, is_high) in [
            (SYNC * 9 / 4, false),
            (SYNC * 7 / 4, true),
            (Duration::ZERO, true),
            (SYNC * 9 / 4, false),
        ] {
            log.turns(200, apart);
            assert_eq!(log.load.is_high(), is_high, "{apart:?} apart");
        }
    }

    #[test]
    fn an_hour_of_rest_counts_for_little() {
        let mut log = Log::new();
        log.turns(100, SYNC / 4);
        log.turns(1, Duration::from_secs(3600));
        assert!(log.load.is_high());
    }

    #[test]
    fn syncs_that_overlap_are_one_turn() {
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
