//! Sizes as text.

use std::fmt;

/// A number of bytes, shown with a readable unit. Digits after the first decimal are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (unit, shift) in UNITS {
            if self.0 >> shift > 0 {
                let whole = self.0 >> shift;
                let tenth = ((self.0 >> (shift - 10)) & 1023) * 10 / 1024;
                return write!(f, "{whole}.{tenth} {unit}");
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (17, "17 bytes"),
            (1023, "1023 bytes"),
            (1536, "1.5 KiB"),
            (5 << 40, "5.0 TiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }
}
