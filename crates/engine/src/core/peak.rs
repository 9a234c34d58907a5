//! The maximum of a quantity lately.

use std::time::{Duration, Instant};

/// After each of these periods, a maximum has decreased by `DECREASE`.
const PERIOD: Duration = Duration::from_millis(500);

/// The part by which a maximum decreases: after a minute little is left of it.
const DECREASE: u64 = 32;

/// Number of periods after which nothing is left of a maximum.
const PERIODS_MAX: u128 = 512;

/// The maximum of a quantity, which decreases slowly while the quantity is smaller.
#[derive(Debug)]
pub(crate) struct Peak {
    value: u64,
    since: Instant,
}

impl Peak {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            value: 0,
            since: now,
        }
    }

    /// Adds a measurement. Returns the maximum.
    pub(crate) fn note(&mut self, value: u64, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.since);
        let periods = elapsed.as_millis() / PERIOD.as_millis();
        if periods > 0 {
            self.since = now;
            for _ in 0..periods.min(PERIODS_MAX) {
                self.value -= self.value.div_ceil(DECREASE);
            }
        }
        self.value = self.value.max(value);
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_decreases_slowly() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut peak = Peak::new(start);
        assert_eq!(peak.note(1000, after(1)), 1000);
        assert_eq!(peak.note(900, after(1)), 1000);
        let later = peak.note(0, after(2));
        assert!((900..1000).contains(&later), "{later}");
        assert_eq!(peak.note(2000, after(3)), 2000);
        assert!(peak.note(5, after(60)) < 100);
        assert_eq!(peak.note(3, after(1000)), 3);
    }
}
