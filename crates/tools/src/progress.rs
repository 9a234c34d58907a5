//! Progress bars on standard error.

use crate::sizes::grouped;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use teak_base::ByteSize;

/// How often the progress is shown.
const PERIOD: Duration = Duration::from_millis(200);

const BAR_CHARACTERS: u64 = 24;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Rows,
}

/// Shows how much of some work is done, if standard error is a terminal. The bar is removed at the end.
pub(crate) struct Progress {
    name: String,
    unit: Unit,
    total: u64,
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    /// `total`: of the whole work, as far as it is known; zero if it is not.
    pub(crate) fn new(name: impl Into<String>, unit: Unit, total: u64) -> Self {
        Self {
            name: name.into(),
            unit,
            total,
            begun: Instant::now(),
            shown: None,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// So much is done.
    pub(crate) fn at(&mut self, done: u64) {
        if self.is_terminal && self.shown.is_none_or(|shown| shown.elapsed() > PERIOD) {
            let line = self.line(done, self.begun.elapsed());
            // The work matters, not its display.
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
            self.shown = Some(Instant::now());
        }
    }

    fn amount(&self, number: u64) -> String {
        match self.unit {
            Unit::Bytes => ByteSize(number).to_string(),
            Unit::Rows => grouped(number),
        }
    }

    fn line(&self, done: u64, elapsed: Duration) -> String {
        let rate = u64::try_from(u128::from(done) * 1000 / elapsed.as_millis().max(1));
        let rate = self.amount(rate.unwrap_or(u64::MAX));
        let unit = if self.unit == Unit::Rows { " rows" } else { "" };
        if self.total == 0 {
            return format!("{}{unit}  {rate}/s  {}", self.amount(done), self.name);
        }
        // An estimated total may be too low.
        let done = done.min(self.total);
        let full = done * BAR_CHARACTERS / self.total;
        let bar: String = (0..BAR_CHARACTERS)
            .map(|place| if place < full { '█' } else { '░' })
            .collect();
        let left = u128::from(self.total - done) * elapsed.as_secs().max(1) as u128
            / u128::from(done.max(1));
        format!(
            "{bar} {:3} %  {} of {}{unit}  {rate}/s  {}:{:02} left  {}",
            u128::from(done) * 100 / u128::from(self.total),
            self.amount(done),
            self.amount(self.total),
            left / 60,
            left % 60,
            self.name
        )
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_part_the_rate_and_the_time_left() {
        let progress = Progress::new("t", Unit::Rows, 4000);
        let line = progress.line(1000, Duration::from_secs(10));
        let expected = "██████░░░░░░░░░░░░░░░░░░  25 %  1,000 of 4,000 rows  100/s  0:30 left  t";
        assert_eq!(line, expected);
        let unknown = Progress::new("t", Unit::Bytes, 0);
        let line = unknown.line(2048, Duration::from_secs(1));
        assert!(line.starts_with("2.0 KiB  2.0 KiB/s"), "{line}");
        // More than the estimate.
        assert!(progress.line(9000, Duration::ZERO).contains("100 %"));
    }
}
