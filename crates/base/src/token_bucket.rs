//! A token bucket, which limits bytes to a rate.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Unused time of which the rate may be caught up.
const BURST: Duration = Duration::from_millis(100);

/// The longest time for which bytes that were not limited delay later ones.
const DEBT_MAX: Duration = Duration::from_secs(1);

/// A token bucket. It has no clock: the caller passes the time.
#[derive(Debug, Default)]
pub struct TokenBucket {
    /// The time at which all bytes so far are paid for.
    paid_at: Option<Instant>,
}

fn cost(bytes: u64, bytes_per_second: NonZeroU64) -> Duration {
    let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second.get());
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

impl TokenBucket {
    /// Takes bytes and returns the time until which the caller must wait. It is at or before `now`
    /// if there is no need to wait.
    pub fn take(&mut self, now: Instant, bytes: u64, bytes_per_second: NonZeroU64) -> Instant {
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let start = self.paid_at.map_or(earliest, |paid| paid.max(earliest));
        let paid = start.checked_add(cost(bytes, bytes_per_second));
        *self.paid_at.insert(paid.unwrap_or(start))
    }

    /// Takes bytes of a caller that does not wait. Such bytes delay other callers by at most about
    /// one second.
    pub fn take_unlimited(&mut self, now: Instant, bytes: u64, bytes_per_second: NonZeroU64) {
        let before = self.paid_at;
        let after = self.take(now, bytes, bytes_per_second);
        let latest = now + DEBT_MAX;
        let latest = before.map_or(latest, |before| before.max(latest));
        self.paid_at = Some(after.min(latest));
    }

    /// Forgets the bytes so far. Called when the rate has changed.
    pub fn clear(&mut self) {
        self.paid_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;
    const RATE: NonZeroU64 = NonZeroU64::new(1024 * KIB).unwrap();

    /// The time for which callers wait that take `count` times 64 KiB one after the other.
    fn waits(bucket: &mut TokenBucket, start: Instant, count: u32) -> Duration {
        let mut now = start;
        for _ in 0..count {
            now = now.max(bucket.take(now, 64 * KIB, RATE));
        }
        now - start
    }

    #[test]
    fn bytes_are_limited_to_the_rate() {
        let mut bucket = TokenBucket::default();
        let start = Instant::now();
        // 8 MiB at 1 MiB per second.
        let time = waits(&mut bucket, start, 128);
        assert_eq!(time, Duration::from_secs(8) - BURST);
    }

    #[test]
    fn unused_time_allows_only_a_short_burst() {
        let mut bucket = TokenBucket::default();
        let start = Instant::now();
        waits(&mut bucket, start, 16);
        let later = start + Duration::from_secs(3600);
        let time = waits(&mut bucket, later, 16);
        assert_eq!(time, Duration::from_secs(1) - BURST);
    }

    #[test]
    fn concurrent_callers_share_the_rate() {
        let mut bucket = TokenBucket::default();
        let now = Instant::now();
        let ends: Vec<Instant> = (0..16).map(|_| bucket.take(now, 64 * KIB, RATE)).collect();
        assert!(ends.is_sorted());
        assert_eq!(
            ends.last().copied(),
            Some(now + Duration::from_secs(1) - BURST)
        );
    }

    #[test]
    fn unlimited_bytes_delay_others_by_at_most_a_second() {
        let mut bucket = TokenBucket::default();
        let now = Instant::now();
        for _ in 0..100 {
            bucket.take_unlimited(now, 1024 * KIB, RATE);
        }
        let end = bucket.take(now, 512 * KIB, RATE);
        assert_eq!(end, now + DEBT_MAX + Duration::from_millis(500));
        // They do not shorten the wait that other callers have caused.
        bucket.take_unlimited(now, 1024 * KIB, RATE);
        assert_eq!(bucket.take(now, 0, RATE), end);
        bucket.clear();
        assert!(bucket.take(now, 0, RATE) <= now);
    }
}
