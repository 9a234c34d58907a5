//! What happened between two samples, per second.

use super::sample::{Sample, TableUse};

/// The causes of delays of writers, as the status variables `Teak_delays_*` name them.
pub(super) const CAUSES: [&str; 5] = ["memory", "debt", "runs", "log", "aborted"];

/// The upper limits of the histograms `Teak_*_microseconds_below_N`.
const LIMITS: [u64; 9] = [
    64, 256, 1024, 4096, 16384, 65536, 262_144, 1_048_576, 4_194_304,
];

/// A table in an interval; the rates are per second.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableRates {
    pub name: String,
    pub read: f64,
    pub written: f64,
    /// Entries that were added, less those that were removed.
    pub entries: f64,
    pub now: TableUse,
}

/// The times of commits or statements in an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub average: f64,
    /// At most so many microseconds, for 99 %; `None`: more than the largest limit.
    pub p99: Option<u64>,
}

pub(super) struct Rates<'a> {
    before: &'a Sample,
    after: &'a Sample,
    pub seconds: f64,
    /// Those with the most reads and writes first.
    pub tables: Vec<TableRates>,
}

/// The growth of a counter. A smaller value is that of a counter that began again.
fn growth(before: u64, after: u64) -> u64 {
    after.checked_sub(before).unwrap_or(after)
}

fn table_rates(name: &str, before: TableUse, now: TableUse, seconds: f64) -> TableRates {
    TableRates {
        name: name.to_owned(),
        read: growth(before.bytes_read, now.bytes_read) as f64 / seconds,
        written: growth(before.bytes_written, now.bytes_written) as f64 / seconds,
        entries: (now.entries as f64 - before.entries as f64) / seconds,
        now,
    }
}

impl TableRates {
    /// How much the table is used: its reads and writes, and what waits in memory.
    fn heat(&self) -> (f64, u64) {
        (self.read + self.written, self.now.memtable_bytes)
    }
}

impl<'a> Rates<'a> {
    pub(super) fn between(before: &'a Sample, after: &'a Sample) -> Self {
        let seconds = after
            .at
            .duration_since(before.at)
            .as_secs_f64()
            .max(f64::MIN_POSITIVE);
        let mut tables: Vec<TableRates> = after
            .tables
            .iter()
            .map(|(name, now)| {
                // A table that is new has done all of its work in the interval.
                let before = before.tables.get(name).copied().unwrap_or_default();
                table_rates(name, before, *now, seconds)
            })
            .collect();
        tables.sort_by(|left, right| {
            let (left, right) = (left.heat(), right.heat());
            right.0.total_cmp(&left.0).then(right.1.cmp(&left.1))
        });
        Self {
            before,
            after,
            seconds,
            tables,
        }
    }

    fn growth(&self, name: &str) -> u64 {
        growth(self.before.status(name), self.after.status(name))
    }

    /// The growth of a status variable per second.
    pub(super) fn of(&self, name: &str) -> f64 {
        self.growth(name) as f64 / self.seconds
    }

    /// The part of the look-ups of pages that found them in the cache, in percent; `None` without look-ups.
    pub(super) fn cache_hit_percent(&self) -> Option<f64> {
        let hits = self.growth("cache_hits") as f64;
        let all = hits + self.growth("cache_misses") as f64;
        (all > 0.0).then(|| hits * 100.0 / all)
    }

    /// `histogram`: `commit` or `statement`. `None` if there was none of them.
    pub(super) fn latency(&self, histogram: &str) -> Option<Latency> {
        let growth = |suffix: &str| self.growth(&format!("{histogram}_microseconds_{suffix}"));
        let count = growth("count");
        if count == 0 {
            return None;
        }
        let is_limit = |limit: &&u64| growth(&format!("below_{limit}")) * 100 >= count * 99;
        Some(Latency {
            average: growth("sum") as f64 / count as f64,
            p99: LIMITS.iter().find(is_limit).copied(),
        })
    }

    /// Milliseconds per second that writers were delayed, the sum of all of them.
    pub(super) fn delayed_milliseconds(&self, cause: &str) -> f64 {
        self.of(&format!("delays_{cause}_microseconds")) / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    fn sample(at: Instant, status: &[(&str, u64)], tables: &[(&str, u64, u64)]) -> Sample {
        let table = |&(name, bytes, entries): &(&str, u64, u64)| {
            let table = TableUse {
                bytes_read: bytes,
                bytes_written: bytes,
                entries,
                ..TableUse::default()
            };
            (name.to_owned(), table)
        };
        Sample {
            at,
            time: String::new(),
            uptime_seconds: 1,
            status: status
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            tables: tables.iter().map(table).collect::<BTreeMap<_, _>>(),
            jobs: Vec::new(),
        }
    }

    fn is(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-6
    }

    #[test]
    fn rates_are_growth_per_second() {
        let begun = Instant::now();
        let before = sample(
            begun,
            &[
                ("rows_inserted", 100),
                ("cache_hits", 10),
                ("cache_misses", 5),
            ],
            &[],
        );
        let after = [
            ("rows_inserted", 350),
            ("cache_hits", 40),
            ("cache_misses", 15),
            ("delays_log_microseconds", 5000),
        ];
        let after = sample(begun + Duration::from_millis(2500), &after, &[]);
        let rates = Rates::between(&before, &after);
        assert!(is(rates.of("rows_inserted"), 100.0));
        assert!(is(rates.cache_hit_percent().unwrap(), 75.0));
        assert!(is(rates.delayed_milliseconds("log"), 2.0));
        assert!(is(rates.of("unknown"), 0.0));
        let idle = Rates::between(&after, &after);
        assert_eq!(idle.cache_hit_percent(), None);
        assert!(is(idle.of("rows_inserted"), 0.0));
    }

    #[test]
    fn counters_that_begin_again_do_not_become_negative() {
        let begun = Instant::now();
        let before = sample(begun, &[("rows_inserted", 1000)], &[("d.t", 1000, 50)]);
        let after = sample(
            begun + Duration::from_secs(2),
            &[("rows_inserted", 10)],
            &[("d.t", 8, 30)],
        );
        let rates = Rates::between(&before, &after);
        assert!(is(rates.of("rows_inserted"), 5.0));
        assert!(is(rates.tables[0].read, 4.0));
        assert!(is(rates.tables[0].entries, -10.0));
    }

    #[test]
    fn the_hottest_tables_are_first() {
        let begun = Instant::now();
        let before = sample(
            begun,
            &[],
            &[("d.cold", 9000, 1), ("d.warm", 0, 1), ("d.gone", 1, 1)],
        );
        let after = [("d.cold", 9000, 1), ("d.new", 500, 1), ("d.warm", 100, 1)];
        let after = sample(begun + Duration::from_secs(1), &[], &after);
        let rates = Rates::between(&before, &after);
        let names: Vec<&str> = rates
            .tables
            .iter()
            .map(|table| table.name.as_str())
            .collect();
        assert_eq!(names, ["d.new", "d.warm", "d.cold"]);
    }

    #[test]
    fn latencies_are_those_of_the_interval() {
        let begun = Instant::now();
        let commit = |count, below_64, below_256, sum| {
            [
                ("commit_microseconds_count", count),
                ("commit_microseconds_below_64", below_64),
                ("commit_microseconds_below_256", below_256),
                ("commit_microseconds_below_1024", count),
                ("commit_microseconds_sum", sum),
            ]
        };
        let before = sample(begun, &commit(1000, 0, 0, 900_000), &[]);
        let after = sample(
            begun + Duration::from_secs(1),
            &commit(1100, 98, 99, 905_000),
            &[],
        );
        let latency = Rates::between(&before, &after).latency("commit").unwrap();
        assert!(is(latency.average, 50.0));
        assert_eq!(latency.p99, Some(256));
        assert_eq!(Rates::between(&after, &after).latency("commit"), None);
        let slow = sample(
            begun + Duration::from_secs(1),
            &[("commit_microseconds_count", 1001)],
            &[],
        );
        let latency = Rates::between(&before, &slow).latency("commit").unwrap();
        assert_eq!(latency.p99, None);
    }
}
