//! Strings of the server's character sets as UTF-8.

use crate::cell::Cell;
use crate::definition::Encoding;

/// What the bytes 128 to 159 of latin1, which is cp1252 in MariaDB, mean.
const CP1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

fn latin1(byte: u8) -> char {
    let place = usize::from(byte).checked_sub(128);
    let special = place.and_then(|place| CP1252.get(place));
    special.copied().unwrap_or(char::from(byte))
}

fn utf16(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Option<String> {
    let units = bytes.chunks(2).map(|pair| pair.try_into().ok().map(&unit));
    let units: Option<Vec<u16>> = units.collect();
    String::from_utf16(&units?).ok()
}

fn utf32(bytes: &[u8]) -> Option<String> {
    let code = |four: &[u8]| char::from_u32(u32::from_be_bytes(four.try_into().ok()?));
    bytes.chunks(4).map(code).collect()
}

/// The text of a string; `None` if it is not known or not valid.
pub(super) fn decode(bytes: &[u8], encoding: Encoding) -> Option<String> {
    match encoding {
        Encoding::Binary => None,
        Encoding::Utf8 => std::str::from_utf8(bytes).ok().map(str::to_owned),
        Encoding::Latin1 => Some(bytes.iter().copied().map(latin1).collect()),
        Encoding::Utf16Big => utf16(bytes, u16::from_be_bytes),
        Encoding::Utf16Little => utf16(bytes, u16::from_le_bytes),
        Encoding::Utf32 => utf32(bytes),
        Encoding::Other if bytes.is_ascii() => decode(bytes, Encoding::Utf8),
        Encoding::Other => None,
    }
}

/// A string as a cell: bytes if its text is not known.
pub(super) fn cell(bytes: &[u8], encoding: Encoding) -> Cell {
    match decode(bytes, encoding) {
        Some(text) => Cell::Text(text),
        None => Cell::Bytes(bytes.to_vec()),
    }
}

/// A string of unknown type as a cell: text if it is readable.
pub(super) fn guess(bytes: &[u8]) -> Cell {
    let is_readable = |text: &&str| {
        !text
            .chars()
            .any(|char| char.is_control() && !char.is_whitespace())
    };
    match std::str::from_utf8(bytes).ok().filter(is_readable) {
        Some(text) => Cell::Text(text.to_owned()),
        None => Cell::Bytes(bytes.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_become_utf8() {
        let text = |bytes: &[u8], encoding| decode(bytes, encoding);
        assert_eq!(text(b"\xe4\x80", Encoding::Latin1).as_deref(), Some("ä€"));
        assert_eq!(text(b"\xc3\xa4", Encoding::Utf8).as_deref(), Some("ä"));
        assert_eq!(text(b"\xc3", Encoding::Utf8), None);
        assert_eq!(
            text(b"\0A\0\xe4", Encoding::Utf16Big).as_deref(),
            Some("Aä")
        );
        assert_eq!(text(b"A\0", Encoding::Utf16Little).as_deref(), Some("A"));
        assert_eq!(text(b"A", Encoding::Utf16Big), None);
        assert_eq!(text(b"\0\0\0A", Encoding::Utf32).as_deref(), Some("A"));
        assert_eq!(text(b"\xff", Encoding::Other), None);
        assert_eq!(guess(b"a\tb"), Cell::Text("a\tb".into()));
        assert_eq!(guess(b"a\x01"), Cell::Bytes(b"a\x01".to_vec()));
    }
}
