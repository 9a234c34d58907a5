//! Dates and times of MariaDB as text.

/// Added to times and datetimes that are stored with an offset, so that they order like their bytes.
const TIME_OFFSET: i64 = 1 << 23;
const DATETIME_OFFSET: u64 = 1 << 39;
const SECONDS_PER_DAY: u64 = 86_400;

/// A big-endian number.
pub(super) fn big_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// A little-endian number.
pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The fraction of a second in bytes of two digits each.
fn fraction(bytes: &[u8], digits: usize) -> String {
    if digits == 0 {
        return String::new();
    }
    let stored = bytes.len() * 2;
    let text = format!("{:0stored$}", big_endian(bytes));
    format!(".{}", text.get(..digits).unwrap_or(&text))
}

fn date_text(year: u64, month: u64, day: u64) -> String {
    format!("{year:04}-{month:02}-{day:02}")
}

/// DATE: day in the lowest five bits, then the month in four.
pub(super) fn date(bytes: &[u8]) -> String {
    let packed = little_endian(bytes);
    match bytes.len() {
        // An old type: decimal digits.
        4 => date_text(packed / 10_000, packed / 100 % 100, packed % 100),
        _ => date_text(packed >> 9, packed >> 5 & 15, packed & 31),
    }
}

/// DATETIME of five bytes, and a fraction.
pub(super) fn datetime(bytes: &[u8], digits: usize) -> Option<String> {
    let (whole, rest) = bytes.split_at_checked(5)?;
    let packed = big_endian(whole).checked_sub(DATETIME_OFFSET)?;
    let (days, time) = (packed >> 17, packed & 0x1ffff);
    let (month, day) = (days >> 5, days & 31);
    Some(format!(
        "{} {:02}:{:02}:{:02}{}",
        date_text(month / 13, month % 13, day),
        time >> 12,
        time >> 6 & 63,
        time & 63,
        fraction(rest, digits)
    ))
}

/// TIMESTAMP of four bytes, and a fraction. In UTC.
pub(super) fn timestamp(bytes: &[u8], digits: usize) -> Option<String> {
    let (whole, rest) = bytes.split_at_checked(4)?;
    Some(from_epoch(big_endian(whole), &fraction(rest, digits)))
}

pub(super) fn old_timestamp(bytes: &[u8]) -> String {
    from_epoch(little_endian(bytes), "")
}

fn from_epoch(seconds: u64, fraction: &str) -> String {
    if seconds == 0 {
        return format!("0000-00-00 00:00:00{fraction}");
    }
    let (days, time) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    // Howard Hinnant's algorithm: days are counted from the first of March of the year 0, in eras of 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{} {:02}:{:02}:{:02}{fraction}",
        date_text(year, month, day),
        time / 3600,
        time / 60 % 60,
        time % 60
    )
}

/// TIME of three bytes, and a fraction. A negative time is the two's complement of the whole number.
pub(super) fn time(bytes: &[u8], digits: usize) -> Option<String> {
    let fraction_bytes = bytes.len().checked_sub(3).filter(|bytes| *bytes <= 3)?;
    let bits = 8 * fraction_bytes;
    let packed = i64::try_from(big_endian(bytes)).ok()? - (TIME_OFFSET << bits);
    let absolute = packed.unsigned_abs();
    let whole = absolute >> bits;
    let rest = absolute & ((1 << bits) - 1);
    let rest = rest.to_be_bytes();
    let rest = rest.get(rest.len() - fraction_bytes..)?;
    let sign = if packed < 0 { "-" } else { "" };
    Some(format!(
        "{sign}{:02}:{:02}:{:02}{}",
        whole >> 12 & 0x3ff,
        whole >> 6 & 63,
        whole & 63,
        fraction(rest, digits)
    ))
}

/// TIME of an old type: decimal digits.
pub(super) fn old_time(bytes: &[u8]) -> String {
    let packed = little_endian(bytes);
    let is_negative = packed >= 1 << 23;
    let digits = if is_negative {
        (1 << 24) - packed
    } else {
        packed
    };
    let sign = if is_negative { "-" } else { "" };
    format!(
        "{sign}{:02}:{:02}:{:02}",
        digits / 10_000,
        digits / 100 % 100,
        digits % 100
    )
}

pub(super) fn old_datetime(bytes: &[u8]) -> String {
    let packed = little_endian(bytes);
    let (date, time) = (packed / 1_000_000, packed % 1_000_000);
    format!(
        "{} {:02}:{:02}:{:02}",
        date_text(date / 10_000, date / 100 % 100, date % 100),
        time / 10_000,
        time / 100 % 100,
        time % 100
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_those_of_the_server() {
        // '2024-05-17', as in the example of the format.
        assert_eq!(date(&[0xb1, 0xd0, 0x0f]), "2024-05-17");
        assert_eq!(date(&20_240_517u32.to_le_bytes()), "2024-05-17");
        // '2024-05-17 13:45:06.789'
        let packed = (((2024 * 13 + 5) << 5 | 17) << 17 | 13 << 12 | 45 << 6 | 6) + (1u64 << 39);
        let mut bytes = packed.to_be_bytes()[3..].to_vec();
        bytes.extend_from_slice(&7890u16.to_be_bytes());
        assert_eq!(datetime(&bytes, 3).unwrap(), "2024-05-17 13:45:06.789");
        assert_eq!(datetime(&bytes[..5], 0).unwrap(), "2024-05-17 13:45:06");
        assert_eq!(datetime(&bytes[..4], 0), None);
        let seconds = 1_715_953_506u32.to_be_bytes();
        assert_eq!(timestamp(&seconds, 0).unwrap(), "2024-05-17 13:45:06");
        assert_eq!(timestamp(&[0; 4], 0).unwrap(), "0000-00-00 00:00:00");
        let leap = 951_782_400u32.to_be_bytes();
        assert_eq!(timestamp(&leap, 0).unwrap(), "2000-02-29 00:00:00");
        assert_eq!(
            old_datetime(&20_240_517_134_506u64.to_le_bytes()),
            "2024-05-17 13:45:06"
        );
    }

    #[test]
    fn times_may_be_negative() {
        let whole = |hours: u32, minutes: u32| hours << 12 | minutes << 6;
        let plus = (0x80_0000 + whole(100, 5)).to_be_bytes();
        assert_eq!(time(&plus[1..], 0).unwrap(), "100:05:00");
        let minus = (0x80_0000 - whole(1, 2)).to_be_bytes();
        assert_eq!(time(&minus[1..], 0).unwrap(), "-01:02:00");
        // '-00:00:00.50'
        let half = ((0x80_0000u32 << 8) - 50).to_be_bytes();
        assert_eq!(time(&half, 2).unwrap(), "-00:00:00.50");
        assert_eq!(old_time(&[0x7f, 0xff, 0xff]), "-00:01:29");
    }
}
