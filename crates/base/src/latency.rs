//! Histograms of durations.

use crate::stripes::{Stripe, Striped};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Number of buckets of a histogram. Bucket 0 counts durations below one microsecond, bucket `n`
/// those from `2^(n-1)` to below `2^n` microseconds, and the last bucket all durations from about 4
/// seconds on.
pub const LATENCY_BUCKETS: usize = 24;

/// Counts durations by their order of magnitude. Threads record without waiting.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; LATENCY_BUCKETS],
    total_microseconds: AtomicU64,
    longest_microseconds: AtomicU64,
    /// When the longest duration ended, in microseconds since 1970.
    longest_at: AtomicU64,
}

/// A [`Histogram`] for each stripe, for durations that many threads record often.
#[derive(Debug, Default)]
pub struct StripedHistogram(Striped<Histogram>);

/// A copy of a [`Histogram`]. Not a consistent snapshot while threads record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Number of durations in each bucket.
    pub buckets: [u64; LATENCY_BUCKETS],
    /// Sum of all durations, in microseconds.
    pub total_microseconds: u64,
    /// The longest duration, in microseconds.
    pub longest_microseconds: u64,
    /// When the longest duration ended, in microseconds since 1970; zero if none was recorded.
    pub longest_at: u64,
}

fn bucket_of(microseconds: u64) -> usize {
    let bits = u64::BITS - microseconds.leading_zeros();
    usize::try_from(bits).map_or(LATENCY_BUCKETS - 1, |bits| bits.min(LATENCY_BUCKETS - 1))
}

fn microseconds_of(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn now_microseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, microseconds_of)
}

impl Histogram {
    /// Counts the duration from `since` to now.
    pub fn record_since(&self, since: Instant) {
        self.record(since.elapsed());
    }

    /// Counts one duration, which ended now.
    pub fn record(&self, time: Duration) {
        let microseconds = microseconds_of(time);
        if let Some(bucket) = self.buckets.get(bucket_of(microseconds)) {
            bucket.fetch_add(1, Relaxed);
        }
        self.total_microseconds.fetch_add(microseconds, Relaxed);
        // Reads the clock only for a new maximum.
        if self.longest_microseconds.load(Relaxed) < microseconds
            && self.longest_microseconds.fetch_max(microseconds, Relaxed) < microseconds
        {
            self.longest_at.store(now_microseconds(), Relaxed);
        }
    }

    /// The counts at this moment.
    #[must_use]
    pub fn read(&self) -> Latencies {
        let mut found = Latencies {
            total_microseconds: self.total_microseconds.load(Relaxed),
            longest_microseconds: self.longest_microseconds.load(Relaxed),
            longest_at: self.longest_at.load(Relaxed),
            ..Latencies::default()
        };
        for (count, bucket) in found.buckets.iter_mut().zip(&self.buckets) {
            *count = bucket.load(Relaxed);
        }
        found
    }
}

impl StripedHistogram {
    /// Counts one duration, which ended now.
    pub fn record(&self, time: Duration) {
        self.0.get(Stripe::current()).record(time);
    }

    /// The counts of all parts at this moment.
    #[must_use]
    pub fn read(&self) -> Latencies {
        let parts = self.0.iter().map(Histogram::read);
        parts.reduce(Latencies::and).unwrap_or_default()
    }
}

impl Latencies {
    /// The combined counts of both histograms.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let longest = match self.longest_microseconds >= other.longest_microseconds {
            true => self,
            false => other,
        };
        let mut sum = longest;
        sum.total_microseconds = self.total_microseconds + other.total_microseconds;
        for (count, (a, b)) in sum
            .buckets
            .iter_mut()
            .zip(self.buckets.iter().zip(&other.buckets))
        {
            *count = a + b;
        }
        sum
    }

    /// How long ago the longest duration ended. Meaningless if none was recorded.
    #[must_use]
    pub fn longest_age(&self) -> Duration {
        Duration::from_micros(now_microseconds().saturating_sub(self.longest_at))
    }

    /// Number of recorded durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The upper limit of a bucket, in microseconds; `None` for the last one.
    #[must_use]
    pub fn bucket_limit(bucket: usize) -> Option<u64> {
        (bucket + 1 < LATENCY_BUCKETS).then(|| 1 << bucket)
    }

    /// An upper limit, in microseconds, of the duration that `permille` thousandths of all
    /// durations do not exceed; zero if none was recorded. At most twice that duration, unless it
    /// is in the first or last bucket.
    #[must_use]
    pub fn quantile_microseconds(&self, permille: u64) -> u64 {
        let wanted = (self.count() * permille).div_ceil(1000);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let limit = Self::bucket_limit(bucket).unwrap_or(u64::MAX);
                return limit.min(self.longest_microseconds);
            }
        }
        self.longest_microseconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_by_their_order_of_magnitude() {
        let histogram = Histogram::default();
        for microseconds in [0, 1, 2, 3, 4, 1000, 1023, 1024] {
            histogram.record(Duration::from_micros(microseconds));
        }
        histogram.record(Duration::from_secs(3600));
        let found = histogram.read();
        assert_eq!(found.buckets.get(..4), Some(&[1, 1, 2, 1][..]));
        assert_eq!(found.buckets.get(10..12), Some(&[2, 1][..]));
        assert_eq!(found.buckets.last(), Some(&1));
        assert_eq!(found.count(), 9);
        assert_eq!(found.longest_microseconds, 3_600_000_000);
        assert_eq!(Latencies::bucket_limit(10), Some(1024));
        assert_eq!(Latencies::bucket_limit(LATENCY_BUCKETS - 1), None);
    }

    #[test]
    fn the_longest_time_is_kept_with_its_end() {
        let histogram = Histogram::default();
        assert_eq!(histogram.read().longest_at, 0);
        let before = now_microseconds();
        histogram.record(Duration::from_millis(5));
        let first = histogram.read().longest_at;
        assert!(first >= before && first <= now_microseconds());
        std::thread::sleep(Duration::from_millis(1));
        histogram.record(Duration::from_millis(4));
        assert_eq!(histogram.read().longest_at, first);
        histogram.record(Duration::from_millis(6));
        assert!(histogram.read().longest_at > first);
    }

    #[test]
    fn times_of_all_threads_are_in_one_histogram() {
        let histogram = StripedHistogram::default();
        std::thread::scope(|scope| {
            for thread in 1..=40 {
                let histogram = &histogram;
                scope.spawn(move || histogram.record(Duration::from_micros(thread)));
            }
        });
        let found = histogram.read();
        assert_eq!(found.count(), 40);
        assert_eq!(found.total_microseconds, 820);
        assert_eq!(found.longest_microseconds, 40);
        assert_eq!(found.buckets.get(..7), Some(&[0, 1, 2, 4, 8, 16, 9][..]));
    }

    #[test]
    fn a_quantile_is_the_limit_of_its_bucket() {
        let histogram = Histogram::default();
        assert_eq!(histogram.read().quantile_microseconds(500), 0);
        for _ in 0..99 {
            histogram.record(Duration::from_micros(100));
        }
        histogram.record(Duration::from_micros(5000));
        let found = histogram.read();
        assert_eq!(found.quantile_microseconds(500), 128);
        assert_eq!(found.quantile_microseconds(990), 128);
        assert_eq!(found.quantile_microseconds(999), 5000);
    }
}
