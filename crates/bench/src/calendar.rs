//! Dates and times, as days and seconds after 1992-01-01.

/// Year, month and day of the day `days` after 1992-01-01 (Howard Hinnant's `civil_from_days`).
#[must_use]
pub fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 8035 + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 {
        month_shifted + 3
    } else {
        month_shifted - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The star schema's date key, like 19940517.
#[must_use]
pub fn date_key(days: u64) -> u64 {
    let (year, month, day) = date(days);
    year * 10_000 + month * 100 + day
}

/// The day of a time, like `1994-05-17`.
#[must_use]
pub fn day(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The time `seconds` after 1992-01-01, like `1994-05-17 08:30:00`.
#[must_use]
pub fn timestamp(seconds: u64) -> String {
    let second = seconds % 86_400;
    format!(
        "{} {:02}:{:02}:{:02}",
        day(seconds),
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), (1992, 1, 1));
        assert_eq!(date(59), (1992, 2, 29));
        assert_eq!(date(366), (1993, 1, 1));
        assert_eq!(date_key(2405), 19_980_802);
        assert_eq!(timestamp(86_400 + 3_661), "1992-01-02 01:01:01");
        assert_eq!(day(12_419 * 86_400), "2026-01-01");
    }
}
