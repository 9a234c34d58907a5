//! Histograms of times.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Number of buckets of a histogram. Bucket 0 counts times below one
/// microsecond, bucket `n` those below `2^n` microseconds that are not in an
/// earlier one, and the last one all longer times, from about 4 seconds.
pub const LATENCY_BUCKETS: usize = 24;

/// Counts times by their order of magnitude. Threads record without waiting.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; LATENCY_BUCKETS],
    total_microseconds: AtomicU64,
    longest_microseconds: AtomicU64,
}

/// The counts of a [`Histogram`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Number of times in each bucket.
    pub buckets: [u64; LATENCY_BUCKETS],
    /// Sum of all times, in microseconds.
    pub total_microseconds: u64,
    /// The longest time, in microseconds.
    pub longest_microseconds: u64,
}

fn bucket_of(microseconds: u64) -> usize {
    let bits = u64::BITS - microseconds.leading_zeros();
    usize::try_from(bits).map_or(LATENCY_BUCKETS - 1, |bits| bits.min(LATENCY_BUCKETS - 1))
}

impl Histogram {
    /// Counts one time.
    pub fn record(&self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(microseconds)) {
            bucket.fetch_add(1, Relaxed);
        }
        self.total_microseconds.fetch_add(microseconds, Relaxed);
        if self.longest_microseconds.load(Relaxed) < microseconds {
            self.longest_microseconds.fetch_max(microseconds, Relaxed);
        }
    }

    /// The counts at this moment.
    #[must_use]
    pub fn read(&self) -> Latencies {
        let mut found = Latencies {
            total_microseconds: self.total_microseconds.load(Relaxed),
            longest_microseconds: self.longest_microseconds.load(Relaxed),
            ..Latencies::default()
        };
        for (count, bucket) in found.buckets.iter_mut().zip(&self.buckets) {
            *count = bucket.load(Relaxed);
        }
        found
    }
}

impl Latencies {
    /// Number of times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The upper limit of a bucket, in microseconds; `None` for the last one.
    #[must_use]
    pub fn bucket_limit(bucket: usize) -> Option<u64> {
        (bucket + 1 < LATENCY_BUCKETS).then(|| 1 << bucket)
    }

    /// An upper limit of the time that `permille` of all times do not exceed, in
    /// microseconds; zero without any. At most twice that time.
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
