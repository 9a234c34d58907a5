//! Decodes primary keys: `docs/design/format.md`, "A key's columns".

use crate::definition::{FrmColumn, KeyPart, KeyText, Type, key_text_of};

/// How a key contains a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Big-endian, the sign bit inverted.
    Integer { width: usize, is_signed: bool },
    /// As in the record.
    Raw(usize),
    /// A number whose exact bytes cannot be computed.
    Float(usize),
    /// `has_high`: the first byte contains the bits that do not fill a byte.
    Bit { width: usize, has_high: bool },
    /// By weights that are the bytes of the string, or of a known length.
    Text { text: KeyText, pads: bool },
    /// By weights that only the server knows.
    Unknown,
}

/// A column of the key.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) column: usize,
    /// Whether rows do not contain the column, because the key gives it back.
    pub(super) is_decodable: bool,
    form: Form,
    inverted: u8,
}

/// A value of a key: its bytes as a row would store them, and the high bits of a BIT.
pub(super) struct KeyValue {
    pub(super) bytes: Vec<u8>,
    pub(super) high_bits: u64,
}

impl From<Vec<u8>> for KeyValue {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            high_bits: 0,
        }
    }
}

fn form_of(column: &FrmColumn, part: &KeyPart) -> (Form, bool) {
    let width = column.width.unwrap_or(0);
    let integer = |is_signed| (Form::Integer { width, is_signed }, true);
    let is_prefix = part.bytes != column.key_bytes;
    match &column.kind {
        Type::Integer { is_signed } => integer(*is_signed),
        Type::OldTime => integer(true),
        Type::Year | Type::Date | Type::Enum(_) | Type::Set(_) => integer(false),
        Type::OldDatetime | Type::OldTimestamp => integer(false),
        Type::Float | Type::Double => (Form::Float(width), false),
        Type::Bit { places } => {
            let has_high = !places.is_empty();
            let width = width + usize::from(has_high);
            (Form::Bit { width, has_high }, true)
        }
        Type::Char(_) => {
            let binary = key_text_of(column.collation).filter(|text| text.is_binary);
            let is_raw = binary.is_some_and(|text| !text.pads && !text.is_utf8)
                && column.collation == BINARY;
            if is_raw {
                return (Form::Raw(part.bytes), !is_prefix);
            }
            match key_text_of(column.collation) {
                // All values have the same width, so they are padded.
                Some(text) if text.is_binary || !is_prefix => {
                    let pads = true;
                    (Form::Text { text, pads }, text.is_binary && !is_prefix)
                }
                _ => (Form::Unknown, false),
            }
        }
        Type::Varchar | Type::Blob | Type::Geometry => match key_text_of(column.collation) {
            Some(text) => {
                let is_whole = column.kind == Type::Varchar && !is_prefix;
                let pads = text.pads;
                (
                    Form::Text { text, pads },
                    is_whole && text.is_binary && !pads,
                )
            }
            None => (Form::Unknown, false),
        },
        Type::Opaque => (Form::Unknown, false),
        _ => (Form::Raw(width), true),
    }
}

/// The number of the collation of BINARY and VARBINARY.
const BINARY: u16 = 63;

/// The parts of a primary key.
pub(super) fn parts_of(columns: &[FrmColumn], parts: &[KeyPart]) -> Option<Vec<Part>> {
    let describe = |part: &KeyPart| {
        let (form, is_decodable) = form_of(columns.get(part.column)?, part);
        Some(Part {
            column: part.column,
            is_decodable,
            form,
            inverted: if part.is_descending { 0xff } else { 0 },
        })
    };
    parts.iter().map(describe).collect()
}

/// A key that is read from the front.
struct Reader<'a> {
    key: &'a [u8],
    inverted: u8,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.key.split_first()?;
        self.key = rest;
        Some(first ^ self.inverted)
    }

    fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let (front, rest) = self.key.split_at_checked(count)?;
        self.key = rest;
        Some(front.iter().map(|byte| byte ^ self.inverted).collect())
    }

    /// Reads a weight and appends the bytes that it stands for.
    fn weight(&mut self, is_utf8: bool, out: &mut Vec<u8>) -> Option<u8> {
        let first = self.byte()?;
        if !is_utf8 || first < 0x80 {
            out.push(first);
            return Some(first);
        }
        if first == 0xff {
            out.push(self.byte()?);
            return Some(first);
        }
        out.push(first);
        let more = match first {
            0xc0..=0xdf => 1,
            0xe0..=0xef => 2,
            _ => 3,
        };
        out.extend(self.bytes(more)?);
        Some(first)
    }

    fn text(&mut self, text: KeyText, pads: bool) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            let weight = self.weight(text.is_utf8, &mut out)?;
            match (pads, weight) {
                (true, b' ') => {
                    out.pop();
                    let code = self.byte()?;
                    let long =
                        |bytes: Vec<u8>| u32::from_be_bytes(bytes.try_into().unwrap_or([0; 4]));
                    let spaces = match code {
                        0 | 255 => return None,
                        1..=126 => u32::from(code),
                        127 => long(self.bytes(4)?),
                        128 => return Some(out),
                        129 => !long(self.bytes(4)?),
                        130..=254 => u32::from(255 - code),
                    };
                    // A damaged key must not allocate without limit.
                    let spaces = usize::try_from(spaces)
                        .ok()
                        .filter(|spaces| *spaces <= 1 << 16)?;
                    out.resize(out.len() + spaces, b' ');
                }
                (false, 0) => match self.byte()? {
                    0 => {
                        out.pop();
                        return Some(out);
                    }
                    0xff => {}
                    _ => return None,
                },
                _ => {}
            }
        }
    }
}

impl Form {
    /// Bytes in a key, if all values have the same number.
    fn width(self) -> Option<usize> {
        match self {
            Self::Integer { width, .. } | Self::Raw(width) | Self::Float(width) => Some(width),
            Self::Bit { width, .. } => Some(width),
            Self::Text { .. } | Self::Unknown => None,
        }
    }

    fn read(self, reader: &mut Reader<'_>) -> Option<KeyValue> {
        match self {
            Self::Integer { width, is_signed } => {
                let mut bytes = reader.bytes(width)?;
                if let Some(highest) = bytes.first_mut().filter(|_| is_signed) {
                    *highest ^= 0x80;
                }
                bytes.reverse();
                Some(bytes.into())
            }
            Self::Raw(width) | Self::Float(width) => reader.bytes(width).map(KeyValue::from),
            Self::Bit { width, has_high } => {
                let high_bits = if has_high {
                    u64::from(reader.byte()?)
                } else {
                    0
                };
                Some(KeyValue {
                    bytes: reader.bytes(width - usize::from(has_high))?,
                    high_bits,
                })
            }
            Self::Text { text, pads } => reader.text(text, pads).map(KeyValue::from),
            Self::Unknown => None,
        }
    }
}

/// The values of the decodable columns of a key, by part.
///
/// # Errors
/// Why they cannot be read.
pub(super) fn decode(parts: &[Part], key: &[u8]) -> Result<Vec<Option<KeyValue>>, String> {
    let malformed = || "the key does not match the definition of the table".to_owned();
    let mut reader = Reader { key, inverted: 0 };
    let mut values = Vec::with_capacity(parts.len());
    for (number, part) in parts.iter().enumerate() {
        reader.inverted = part.inverted;
        if part.form == Form::Unknown {
            // The parts after it can be found from the end if they have a fixed width.
            let rest = parts.get(number + 1..).unwrap_or_default();
            if rest.iter().all(|part| !part.is_decodable) {
                values.resize_with(parts.len(), || None);
                return Ok(values);
            }
            let widths: Option<usize> = rest.iter().map(|part| part.form.width()).sum();
            let from = widths.and_then(|widths| reader.key.len().checked_sub(widths));
            let from =
                from.ok_or("the key has a column in a collation that only the server can decode")?;
            reader.key = reader.key.get(from..).unwrap_or_default();
            values.push(None);
            continue;
        }
        let value = part.form.read(&mut reader).ok_or_else(malformed)?;
        values.push(part.is_decodable.then_some(value));
    }
    match reader.key.is_empty() {
        true => Ok(values),
        false => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], is_utf8: bool, pads: bool, inverted: u8) -> Option<Vec<u8>> {
        let key: Vec<u8> = bytes.iter().map(|byte| byte ^ inverted).collect();
        let mut reader = Reader {
            key: &key,
            inverted,
        };
        let text = KeyText {
            is_binary: true,
            pads,
            is_utf8,
        };
        let found = reader.text(text, pads)?;
        reader.key.is_empty().then_some(found)
    }

    #[test]
    fn strings_in_keys_are_decoded() {
        for inverted in [0, 0xff] {
            // "a", two spaces and a greater weight, "b", one space and a lower weight, "\t".
            let padded = b"a \xfdb \x01\t \x80";
            assert_eq!(text(padded, false, true, inverted).unwrap(), b"a  b \t");
            let long = b"a \x7f\0\0\0\x80\x01 \x80";
            let found = text(long, false, true, inverted).unwrap();
            assert_eq!(found.len(), 130);
            let escaped = b"a\0\xffb\0\0";
            assert_eq!(text(escaped, false, false, inverted).unwrap(), b"a\0b");
            let utf8 = "ü€ \u{80}";
            assert!(text(utf8.as_bytes(), true, true, inverted).is_none());
            let utf8 = ["ü€".as_bytes(), b"\xff\x80 \x80"].concat();
            let found = text(&utf8, true, true, inverted).unwrap();
            assert_eq!(found, ["ü€".as_bytes(), b"\x80"].concat());
            assert!(text(b"abc", false, true, inverted).is_none());
        }
    }

    #[test]
    fn parts_after_an_unknown_one_are_found_from_the_end() {
        let part = |form, is_decodable| Part {
            column: 0,
            is_decodable,
            form,
            inverted: 0,
        };
        let integer = Form::Integer {
            width: 4,
            is_signed: true,
        };
        let parts = [part(Form::Unknown, false), part(integer, true)];
        let values = decode(&parts, b"weights\x7f\xff\xff\xfe").unwrap();
        assert!(values[0].is_none());
        assert_eq!(values[1].as_ref().unwrap().bytes, (-2i32).to_le_bytes());
        assert!(decode(&parts, b"\x7f").is_err());
        assert!(decode(&parts[1..], b"\x7f\xff\xff\xfe\0").is_err());
        assert_eq!(decode(&parts[..1], b"weights").unwrap().len(), 1);
    }
}
