//! The pace of checkpoints that are not urgent.

use std::time::{Duration, Instant};

/// Maximum of the unused credit.
const CREDIT_MAX: Duration = Duration::from_secs(2);

/// Limits the number of checkpoints per second.
#[derive(Debug)]
pub(crate) struct FilePace {
    at: Instant,
    /// Time that has passed and that no written file has used up.
    credit: Duration,
    /// Time that must pass, because more files were written than allowed.
    debt: Duration,
}

impl FilePace {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            at: now,
            credit: Duration::ZERO,
            debt: Duration::ZERO,
        }
    }

    /// The number of files that may be written now.
    pub(crate) fn allowed(&mut self, now: Instant, files_per_second: u32) -> usize {
        let passed = now.saturating_duration_since(self.at);
        self.at = now;
        let paid = passed.min(self.debt);
        self.debt -= paid;
        self.credit = (self.credit + (passed - paid)).min(CREDIT_MAX);
        let files = self.credit.as_millis() * u128::from(files_per_second) / 1000;
        usize::try_from(files).unwrap_or(0)
    }

    /// Counts written files.
    pub(crate) fn spend(&mut self, files: usize, files_per_second: u32) {
        let files = u32::try_from(files).unwrap_or(u32::MAX);
        let cost = Duration::from_secs(1) / files_per_second * files;
        let paid = cost.min(self.credit);
        self.credit -= paid;
        self.debt += cost - paid;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES_PER_SECOND: u32 = 16;

    /// Files that are written in `seconds`, if each poll writes `extra` more than
    /// it is allowed.
    fn written(pace: &mut FilePace, start: Instant, seconds: u64, extra: usize) -> usize {
        let mut files = 0;
        for poll in 1..=seconds * 2 {
            let now = start + Duration::from_millis(500) * u32::try_from(poll).unwrap();
            let allowed = pace.allowed(now, FILES_PER_SECOND);
            if allowed > 0 {
                pace.spend(allowed + extra, FILES_PER_SECOND);
                files += allowed + extra;
            }
        }
        files
    }

    #[test]
    fn the_number_of_syncs_is_limited_however_many_tables_wait() {
        for extra in [0, 2, 100] {
            let start = Instant::now();
            let mut pace = FilePace::new(start);
            let files = written(&mut pace, start, 60, extra);
            let expected = 60 * 16;
            let max = expected + extra;
            assert!(
                (expected * 3 / 4..=max).contains(&files),
                "{extra}: {files}"
            );
        }
    }

    #[test]
    fn time_without_work_allows_a_small_burst() {
        let start = Instant::now();
        let mut pace = FilePace::new(start);
        let now = start + Duration::from_secs(3600);
        let burst = 2 * 16;
        assert_eq!(pace.allowed(now, FILES_PER_SECOND), burst);
        pace.spend(burst, FILES_PER_SECOND);
        assert_eq!(pace.allowed(now, FILES_PER_SECOND), 0);
    }
}
