//! The values of columns as cells.

use super::text;
use super::times::{
    big_endian, date, datetime, little_endian, old_datetime, old_time, old_timestamp, time,
    timestamp,
};
use crate::cell::Cell;
use crate::definition::{Encoding, FrmColumn, Type, encoding_of};
use std::fmt::{Display, LowerExp};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of the digits of a decimal number that fill no group of nine.
const DECIMAL_BYTES: [usize; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];

/// A little-endian integer of 1 to 8 bytes.
fn integer(bytes: &[u8], is_signed: bool) -> String {
    let value = little_endian(bytes);
    let is_negative = bytes.last().is_some_and(|highest| highest & 0x80 != 0);
    if !is_signed || !is_negative {
        return value.to_string();
    }
    let width = 1i128 << (8 * bytes.len());
    (i128::from(value) - width).to_string()
}

/// A packed decimal number with `scale` digits after the point.
pub(super) fn decimal(bytes: &[u8], scale: usize) -> Option<String> {
    let mut bytes = bytes.to_vec();
    let first = bytes.first_mut()?;
    *first ^= 0x80;
    let is_negative = *first & 0x80 != 0;
    if is_negative {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let fraction_bytes = scale / 9 * 4 + DECIMAL_BYTES.get(scale % 9)?;
    let (whole, fraction) = bytes.split_at_checked(bytes.len().checked_sub(fraction_bytes)?)?;
    let (front, groups) = whole.split_at_checked(whole.len() % 4)?;
    let mut digits = big_endian(front).to_string();
    for group in groups.chunks_exact(4) {
        digits += &format!("{:09}", big_endian(group));
    }
    let digits = digits.trim_start_matches('0');
    let mut text = String::new();
    if is_negative {
        text.push('-');
    }
    text += if digits.is_empty() { "0" } else { digits };
    if scale > 0 {
        text.push('.');
        let (groups, rest) = fraction.split_at_checked(scale / 9 * 4)?;
        for group in groups.chunks_exact(4) {
            text += &format!("{:09}", big_endian(group));
        }
        let left = scale % 9;
        if left > 0 {
            text += &format!("{:0left$}", big_endian(rest));
        }
    }
    Some(text)
}

/// A number, or a text for values that no number of JSON or SQL is. `size`: the absolute value. Very large and small numbers
/// have an exponent: SQL takes numbers without one for decimals, which have few digits.
pub(super) fn float(value: impl Display + LowerExp, size: f64) -> Cell {
    if !size.is_finite() {
        Cell::Text(value.to_string())
    } else if size == 0.0 || (1e-5..1e15).contains(&size) {
        Cell::Number(value.to_string())
    } else {
        Cell::Number(format!("{value:e}"))
    }
}

/// The value of an ENUM or SET. Lists in character sets with wide characters are stored in hexadecimal digits.
fn member(values: &[Vec<u8>], number: usize, encoding: Encoding) -> Option<Cell> {
    let value = values.get(number.checked_sub(1)?)?;
    let is_wide = matches!(
        encoding,
        Encoding::Utf16Big | Encoding::Utf16Little | Encoding::Utf32
    );
    if !is_wide {
        return Some(text::cell(value, encoding));
    }
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = value.chunks(2).map(digit).collect();
    Some(text::cell(&bytes?, encoding))
}

fn set(values: &[Vec<u8>], bits: u64, encoding: Encoding) -> Option<Cell> {
    let mut texts = Vec::new();
    for number in (0..64usize).filter(|bit| bits >> bit & 1 == 1) {
        match member(values, number + 1, encoding)? {
            Cell::Text(text) => texts.push(text),
            _ => return None,
        }
    }
    Some(Cell::Text(texts.join(",")))
}

/// The text of a UUID. Those of versions 1 to 5 are stored with their parts in reverse order.
fn uuid(bytes: &[u8]) -> Option<String> {
    let stored: &[u8; 16] = bytes.try_into().ok()?;
    let is_swapped = stored[6] & 0x80 != 0 && (1..=0x80).contains(&stored[8]);
    let mut value = *stored;
    if is_swapped {
        let parts = [(12..16, 0), (10..12, 4), (8..10, 6), (6..8, 8), (0..6, 10)];
        for (from, to) in parts {
            let part = stored.get(from)?;
            value.get_mut(to..to + part.len())?.copy_from_slice(part);
        }
    }
    let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |range| digits.get(range);
    let parts = [
        part(0..8)?,
        part(8..12)?,
        part(12..16)?,
        part(16..20)?,
        part(20..32)?,
    ];
    Some(parts.join("-"))
}

/// A string, without the padding of a CHAR.
fn string(bytes: &[u8], column: &FrmColumn, is_padded: bool) -> Cell {
    let encoding = encoding_of(column.collation);
    let decoded = text::cell(bytes, encoding);
    match decoded {
        Cell::Text(text) if is_padded => Cell::Text(text.trim_end_matches(' ').to_owned()),
        decoded => decoded,
    }
}

fn known(text: Option<String>) -> Result<Cell, String> {
    text.map(Cell::Text)
        .ok_or_else(|| "a time has an unknown form".to_owned())
}

/// The cell of a value as rows store it. `high_bits`: of a BIT, those in the NULL area.
pub(super) fn cell(column: &FrmColumn, bytes: &[u8], high_bits: u64) -> Result<Cell, String> {
    if column.width.is_some_and(|width| bytes.len() > width) {
        return Err(format!("column {} has too many bytes", column.name));
    }
    let encoding = encoding_of(column.collation);
    let opaque = || Cell::Bytes(bytes.to_vec());
    Ok(match &column.kind {
        Type::Integer { is_signed } => Cell::Number(integer(bytes, *is_signed)),
        Type::Float => match bytes.try_into() {
            Ok(four) => {
                let value = f32::from_le_bytes(four);
                float(value, f64::from(value).abs())
            }
            Err(_) => return Err("a FLOAT does not have four bytes".to_owned()),
        },
        Type::Double => match bytes.try_into() {
            Ok(eight) => {
                let value = f64::from_le_bytes(eight);
                float(value, value.abs())
            }
            Err(_) => return Err("a DOUBLE does not have eight bytes".to_owned()),
        },
        Type::Decimal { scale } => match decimal(bytes, *scale) {
            Some(digits) => Cell::Number(digits),
            None => return Err("a DECIMAL has an unknown form".to_owned()),
        },
        Type::Year => match little_endian(bytes) {
            0 => Cell::Number("0".to_owned()),
            years => Cell::Number((1900 + years).to_string()),
        },
        Type::Date => Cell::Text(date(bytes)),
        Type::OldTime => Cell::Text(old_time(bytes)),
        Type::OldDatetime => Cell::Text(old_datetime(bytes)),
        Type::OldTimestamp => Cell::Text(old_timestamp(bytes)),
        Type::Time { digits } => known(time(bytes, *digits))?,
        Type::Datetime { digits } => known(datetime(bytes, *digits))?,
        Type::Timestamp { digits } => known(timestamp(bytes, *digits))?,
        Type::Enum(values) => match usize::try_from(little_endian(bytes)) {
            // The value of a failed conversion.
            Ok(0) => Cell::Text(String::new()),
            Ok(number) => {
                member(values, number, encoding).unwrap_or_else(|| Cell::Number(number.to_string()))
            }
            Err(_) => opaque(),
        },
        Type::Set(values) => {
            let bits = little_endian(bytes);
            set(values, bits, encoding).unwrap_or_else(|| Cell::Number(bits.to_string()))
        }
        Type::Bit { .. } => {
            let low = u32::try_from(8 * bytes.len()).unwrap_or(u32::MAX);
            let high = high_bits.checked_shl(low).unwrap_or(0);
            Cell::Number((high | big_endian(bytes)).to_string())
        }
        Type::Char(width) if encoding == Encoding::Binary => {
            let mut padded = bytes.to_vec();
            padded.resize(bytes.len().max(*width), 0);
            Cell::Bytes(padded)
        }
        Type::Char(_) => string(bytes, column, true),
        Type::Varchar | Type::Blob => string(bytes, column, false),
        Type::Uuid => uuid(bytes).map_or_else(opaque, Cell::Text),
        Type::Inet4 => match <[u8; 4]>::try_from(bytes) {
            Ok(address) => Cell::Text(Ipv4Addr::from(address).to_string()),
            Err(_) => opaque(),
        },
        Type::Inet6 => match <[u8; 16]>::try_from(bytes) {
            Ok(address) => Cell::Text(Ipv6Addr::from(address).to_string()),
            Err(_) => opaque(),
        },
        Type::Geometry | Type::Opaque => opaque(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_server() {
        assert_eq!(integer(&[0xfe, 0xff, 0xff], true), "-2");
        assert_eq!(integer(&[0xfe, 0xff, 0xff], false), "16777214");
        assert_eq!(integer(&u64::MAX.to_le_bytes(), true), "-1");
        assert_eq!(
            integer(&u64::MAX.to_le_bytes(), false),
            u64::MAX.to_string()
        );
        // From the server's documentation of decimal2bin: 1234567890.1234 as DECIMAL(14,4).
        let packed = [0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2];
        assert_eq!(decimal(&packed, 4).unwrap(), "1234567890.1234");
        let negative: Vec<u8> = packed.iter().map(|byte| !byte).collect();
        assert_eq!(decimal(&negative, 4).unwrap(), "-1234567890.1234");
        assert_eq!(decimal(&[0x80, 5], 2).unwrap(), "0.05");
        assert_eq!(decimal(&[], 2), None);
    }

    #[test]
    fn very_large_and_small_floats_have_an_exponent() {
        let text = |value: f64| float(value, value.abs());
        let number = |digits: &str| Cell::Number(digits.to_owned());
        assert_eq!(text(-1e300), number("-1e300"));
        assert_eq!(text(1.5e-7), number("1.5e-7"));
        assert_eq!(text(-123_456.75), number("-123456.75"));
        assert_eq!(text(0.0), number("0"));
        assert_eq!(float(0.1f32, 0.1), number("0.1"));
        assert_eq!(text(f64::INFINITY), Cell::Text("inf".to_owned()));
    }

    #[test]
    fn uuids_are_in_the_order_of_their_text() {
        // 123e4567-e89b-12d3-a456-426655440000, a UUID of version 1.
        let swapped = [
            0x42, 0x66, 0x55, 0x44, 0, 0, 0xa4, 0x56, 0x12, 0xd3, 0xe8, 0x9b, 0x12, 0x3e, 0x45,
            0x67,
        ];
        let text = "123e4567-e89b-12d3-a456-426655440000";
        assert_eq!(uuid(&swapped).unwrap(), text);
        let plain: Vec<u8> = (0..16).collect();
        assert_eq!(
            uuid(&plain).unwrap(),
            "00010203-0405-0607-0809-0a0b0c0d0e0f"
        );
    }
}
