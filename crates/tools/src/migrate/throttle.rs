//! How fast rows may be converted.

use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Throttle {
    RowsPerSecond(u64),
    BytesPerSecond(u64),
}

impl FromStr for Throttle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.strip_suffix("/s").unwrap_or(text);
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: Option<u64> = number.parse().ok().filter(|number| *number > 0);
        let throttle = match unit {
            "rows" => number.map(Self::RowsPerSecond),
            "MiB" => number
                .and_then(|number| number.checked_mul(1 << 20))
                .map(Self::BytesPerSecond),
            _ => None,
        };
        throttle.ok_or_else(|| "write a number of rows or MiB, as 50000rows or 20MiB".to_owned())
    }
}

impl Throttle {
    /// The statement that sets it for a connection.
    pub(super) fn statement(self) -> String {
        match self {
            Self::RowsPerSecond(rows) => {
                format!("SET SESSION teak_bulk_load_rows_per_second = {rows}")
            }
            Self::BytesPerSecond(bytes) => {
                format!("SET SESSION teak_bulk_load_bytes_per_second = {bytes}")
            }
        }
    }

    /// The time for so many rows or bytes.
    pub(super) fn seconds(self, rows: u64, bytes: u64) -> f64 {
        let (amount, per_second) = match self {
            Self::RowsPerSecond(per_second) => (rows, per_second),
            Self::BytesPerSecond(per_second) => (bytes, per_second),
        };
        amount as f64 / per_second as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_mebibytes_are_read() {
        assert_eq!("500rows".parse(), Ok(Throttle::RowsPerSecond(500)));
        assert_eq!("2MiB/s".parse(), Ok(Throttle::BytesPerSecond(2 << 20)));
        for text in [
            "",
            "5",
            "0rows",
            "-1rows",
            "5MB",
            "99999999999999999999rows",
            "99999999999999MiB",
        ] {
            assert!(text.parse::<Throttle>().is_err(), "{text}");
        }
        let seconds = Throttle::RowsPerSecond(50).seconds(1000, 0);
        assert!((seconds - 20.0).abs() < 1e-9);
    }
}
