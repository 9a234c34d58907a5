//! Reads the .frm file of a table: names, types and places of columns, and the primary key.
//!
//! The layout is that of MariaDB 10.11 (`TABLE_SHARE::init_from_binary_frm_image` in the server): a header of 64 bytes, a
//! section of typed extras, keys, default values, the *form* with its counts, and after it 17 bytes for each column, the
//! names, the values of ENUM and SET, comments, and the expressions of generated columns.

use super::frm_bytes::{take_at, take_lists, u16_at, u32_at, usize_at};
use super::frm_keys::{KeyPart, Keys};
use teak_base::bytes::{Malformed, Take};

const HEADER_BYTES: usize = 64;
const FORM_BYTES: usize = 288;
const COLUMN_BYTES: usize = 17;
/// The version of the format that all servers since 10.2 write, and the one before.
const VERSIONS: std::ops::RangeInclusive<u8> = 10..=11;

/// Bytes before the expressions.
const EXPRESSIONS_HEADER_BYTES: usize = 16;

const PACK_RECORD: u16 = 1;
const IS_DECIMAL: u16 = 1;
const BIT_AS_CHAR: u16 = 4096;
const MAYBE_NULL: u16 = 32768;
const GENERATED_VIRTUAL: u8 = 0;
const GENERATED_STORED: u8 = 1;
const TYPE_INFO: u8 = 130;

/// Types of columns, as far as their values are stored in different ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Integer {
        is_signed: bool,
    },
    Float,
    Double,
    Decimal {
        scale: usize,
    },
    Year,
    Date,
    /// The format of `mysql56_temporal_format=OFF`, without a fraction.
    OldTime,
    OldDatetime,
    OldTimestamp,
    Time {
        digits: usize,
    },
    Datetime {
        digits: usize,
    },
    Timestamp {
        digits: usize,
    },
    Enum(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    /// `places`: the bits of the NULL area that contain the highest bits, the lowest of these first.
    Bit {
        places: std::ops::Range<usize>,
    },
    /// CHAR and BINARY, of so many bytes.
    Char(usize),
    Varchar,
    /// TEXT and BLOB.
    Blob,
    Geometry,
    Uuid,
    Inet4,
    Inet6,
    /// A compressed column, or an old format: shown as it is stored.
    Opaque,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct FrmColumn {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) collation: u16,
    /// Where the server's record contains it.
    pub(crate) offset: usize,
    /// Bytes in the record; `None` if rows store it with its length.
    pub(crate) width: Option<usize>,
    /// The bit of the NULL area; `None` for NOT NULL.
    pub(crate) null_bit: Option<usize>,
    /// Whether rows contain it. Virtual columns are computed.
    pub(crate) is_stored: bool,
    /// Whether it is computed from other columns.
    pub(crate) is_generated: bool,
    /// The maximum bytes of a key of the whole column.
    pub(crate) key_bytes: usize,
}

/// The definition of a table.
#[derive(Clone, Debug)]
pub(crate) struct Frm {
    pub(crate) columns: Vec<FrmColumn>,
    /// The parts of the primary key; `None` if it is hidden.
    pub(crate) primary: Option<Vec<KeyPart>>,
}

/// The places of the sections after the form.
struct Form<'a> {
    columns: &'a [u8],
    names: Vec<Vec<u8>>,
    values: Vec<Vec<Vec<u8>>>,
    expressions: &'a [u8],
}

impl<'a> Form<'a> {
    fn read(image: &'a [u8]) -> Result<Self, Malformed> {
        let extra = usize_at(image, 4)?;
        let place = u32_at(image, HEADER_BYTES + extra)?;
        let form = image.get(place..).ok_or(Malformed)?;
        let count = usize_at(form, 258)?;
        let screens = usize_at(form, 260)?;
        let names_bytes = usize_at(form, 268)?;
        let (lists, lists_bytes) = (usize_at(form, 270)?, usize_at(form, 274)?);
        let (comments, expressions) = (usize_at(form, 284)?, usize_at(form, 286)?);
        let mut take = take_at(form, FORM_BYTES + screens)?;
        let columns = take.take(count * COLUMN_BYTES)?;
        let names = take_lists(take.take(names_bytes)?, 1)?;
        let values = take_lists(take.take(lists_bytes)?, lists)?;
        take.take(comments)?;
        let names = names.into_iter().next().unwrap_or_default();
        if names.len() != count {
            return Err(Malformed);
        }
        Ok(Self {
            columns,
            names,
            values,
            expressions: take.take(expressions)?,
        })
    }

    /// How columns are computed, by number: whether the result is stored.
    fn generated(&self) -> Result<Vec<(usize, bool)>, Malformed> {
        let mut generated = Vec::new();
        let mut take = Take::new(self.expressions);
        if !take.is_empty() {
            take.take(EXPRESSIONS_HEADER_BYTES)?;
        }
        while !take.is_empty() {
            let kind = take.u8()?;
            let column = usize::from(take.u16()?);
            let expression = usize::from(take.u16()?);
            let name = usize::from(take.u8()?);
            take.take(expression + name)?;
            if matches!(kind, GENERATED_VIRTUAL | GENERATED_STORED) {
                generated.push((column, kind == GENERATED_STORED));
            }
        }
        Ok(generated)
    }
}

/// The names of types that plugins of the server provide, by number of the column.
fn type_names(image: &[u8], columns: usize) -> Result<Vec<String>, Malformed> {
    let mut names = vec![String::new(); columns];
    let mut take = take_at(image, HEADER_BYTES)?;
    let mut extra = Take::new(take.take(usize_at(image, 4)?)?);
    if extra.rest().first() == Some(&b'/') {
        return Ok(names);
    }
    let length = |take: &mut Take<'_>| match take.u8()? {
        0 => take.u16().map(usize::from),
        short => Ok(usize::from(short)),
    };
    while extra.rest().len() > 2 {
        let kind = extra.u8()?;
        let bytes = length(&mut extra)?;
        let mut section = Take::new(extra.take(bytes)?);
        if kind != TYPE_INFO {
            continue;
        }
        while !section.is_empty() {
            let column = usize::try_from(server_length(&mut section)?).map_err(|_| Malformed)?;
            let bytes = usize::try_from(server_length(&mut section)?).map_err(|_| Malformed)?;
            let name = String::from_utf8_lossy(section.take(bytes)?).to_lowercase();
            *names.get_mut(column).ok_or(Malformed)? = name;
        }
    }
    Ok(names)
}

/// A number in the encoding of the server's protocol.
fn server_length(take: &mut Take<'_>) -> Result<u64, Malformed> {
    Ok(match take.u8()? {
        252 => take.u16()?.into(),
        253 => u64::from(take.u16()?) | u64::from(take.u8()?) << 16,
        254 => take.u64()?,
        251 | 255 => return Err(Malformed),
        short => short.into(),
    })
}

/// The 17 bytes of a column.
struct Packed {
    length: usize,
    offset: usize,
    flags: u16,
    list: usize,
    code: u8,
    collation: u16,
}

impl Packed {
    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let byte = |place: usize| bytes.get(place).copied().ok_or(Malformed);
        let offset = usize_at(bytes, 5)? | usize::from(byte(7)?) << 16;
        Ok(Self {
            length: usize_at(bytes, 3)?,
            // Counted from one.
            offset: offset.checked_sub(1).ok_or(Malformed)?,
            flags: u16_at(bytes, 8)?,
            list: usize::from(byte(12)?),
            code: byte(13)?,
            collation: u16::from(byte(14)?) | u16::from(byte(11)?) << 8,
        })
    }

    fn decimals(&self) -> usize {
        usize::from(self.flags >> 8 & 63)
    }

    /// Digits of a fraction after a time whose text has so many characters without it.
    fn fraction(&self, whole: usize) -> usize {
        self.length.saturating_sub(whole + 1).min(6)
    }

    fn is_bit(&self) -> bool {
        self.code == 16 && self.flags & BIT_AS_CHAR == 0
    }

    /// The type, and the bytes in the record; `None` if rows store the length. `bits`: the first bit of the NULL area
    /// that a BIT column may use.
    fn kind(
        &self,
        name: &str,
        lists: &[Vec<Vec<u8>>],
        bits: usize,
    ) -> Option<(Type, Option<usize>)> {
        let is_signed = self.flags & IS_DECIMAL != 0;
        let integer = |bytes| (Type::Integer { is_signed }, Some(bytes));
        let list = || lists.get(self.list.checked_sub(1)?).cloned();
        Some(match self.code {
            1 => integer(1),
            2 => integer(2),
            9 => integer(3),
            3 => integer(4),
            8 => integer(8),
            4 => (Type::Float, Some(4)),
            5 => (Type::Double, Some(8)),
            246 => self.decimal(is_signed),
            13 => (Type::Year, Some(1)),
            10 => (Type::Date, Some(4)),
            14 => (Type::Date, Some(3)),
            11 => self.old_time(Type::OldTime, 10, 3, [3, 4, 4, 5, 5, 5, 6]),
            12 => self.old_time(Type::OldDatetime, 19, 8, [5, 6, 6, 7, 7, 7, 8]),
            7 => self.old_time(Type::OldTimestamp, 19, 4, [4, 5, 5, 6, 6, 7, 7]),
            17 => {
                let digits = self.fraction(19);
                (Type::Timestamp { digits }, Some(4 + digits.div_ceil(2)))
            }
            18 => {
                let digits = self.fraction(19);
                (Type::Datetime { digits }, Some(5 + digits.div_ceil(2)))
            }
            19 => {
                let digits = self.fraction(10);
                (Type::Time { digits }, Some(3 + digits.div_ceil(2)))
            }
            247 => {
                let values = list()?;
                let bytes = if values.len() < 256 { 1 } else { 2 };
                (Type::Enum(values), Some(bytes))
            }
            248 => {
                let values = list()?;
                let bytes = values.len().div_ceil(8);
                (Type::Set(values), Some(if bytes > 4 { 8 } else { bytes }))
            }
            16 => {
                let places = match self.is_bit() {
                    true => bits..bits + self.length % 8,
                    false => 0..0,
                };
                let bytes = if self.is_bit() {
                    self.length / 8
                } else {
                    self.length.div_ceil(8)
                };
                (Type::Bit { places }, Some(bytes))
            }
            253 | 254 => match name {
                "uuid" => (Type::Uuid, Some(16)),
                "inet6" => (Type::Inet6, Some(16)),
                "inet4" => (Type::Inet4, Some(4)),
                "" => (
                    Type::Char(self.length),
                    (self.length <= 8).then_some(self.length),
                ),
                _ => return None,
            },
            15 => (Type::Varchar, None),
            249..=252 => (Type::Blob, None),
            255 => (Type::Geometry, None),
            140 | 141 => (Type::Opaque, None),
            _ => return None,
        })
    }

    fn decimal(&self, is_signed: bool) -> (Type, Option<usize>) {
        let scale = self.decimals();
        let marks = usize::from(scale > 0) + usize::from(is_signed && self.length > 0);
        let digits = self.length.saturating_sub(marks).max(scale);
        let bytes = |digits: usize| digits / 9 * 4 + (digits % 9).div_ceil(2);
        let width = bytes(digits - scale) + bytes(scale);
        (Type::Decimal { scale }, Some(width))
    }

    fn old_time(
        &self,
        kind: Type,
        characters: usize,
        bytes: usize,
        with_fraction: [usize; 7],
    ) -> (Type, Option<usize>) {
        match self.fraction(characters) {
            0 => (kind, Some(bytes)),
            digits => (Type::Opaque, with_fraction.get(digits).copied()),
        }
    }

    fn key_bytes(&self, width: Option<usize>) -> usize {
        match self.code {
            15 | 249..=252 | 253..=255 => self.length,
            16 => self.length.div_ceil(8),
            _ => width.unwrap_or(0),
        }
    }
}

/// Whether a part of a unique key permits that the key is the primary key: a whole column that is never NULL.
fn is_whole(columns: &[FrmColumn], part: &KeyPart) -> bool {
    let column = columns.get(part.column);
    column.is_some_and(|column| {
        let is_blob = column.kind == Type::Blob;
        column.null_bit.is_none() && (is_blob || column.key_bytes == part.bytes)
    })
}

impl Frm {
    /// Decodes the bytes of a .frm file.
    ///
    /// # Errors
    /// What is not known about it, or malformed.
    pub(crate) fn decode(image: &[u8]) -> Result<Self, String> {
        let version = image.get(2).copied().unwrap_or(0);
        if !image.starts_with(&[0xfe, 1]) || !VERSIONS.contains(&version) {
            return Err(format!("the .frm file has the unknown version {version}"));
        }
        let malformed = |_| "the .frm file is malformed".to_owned();
        let form = Form::read(image).map_err(malformed)?;
        let keys = Keys::read(image).map_err(malformed)?;
        let names = type_names(image, form.names.len()).map_err(malformed)?;
        let generated = form.generated().map_err(malformed)?;
        let options = u16_at(image, 30).map_err(malformed)?;
        let mut null_bit = usize::from(options & PACK_RECORD == 0);
        let mut columns = Vec::new();
        // The hashes of long unique keys are the last columns.
        let hashes_from = form.names.len().saturating_sub(keys.hashed);
        let packed = form.columns.chunks_exact(COLUMN_BYTES);
        for (number, ((packed, name), plugin)) in packed.zip(&form.names).zip(&names).enumerate() {
            let packed = Packed::read(packed).map_err(malformed)?;
            let name = String::from_utf8_lossy(name).into_owned();
            let is_nullable = packed.flags & MAYBE_NULL != 0;
            let own_bit = is_nullable.then_some(null_bit);
            null_bit += usize::from(is_nullable);
            let kind = packed.kind(plugin, &form.values, null_bit);
            let (kind, width) =
                kind.ok_or_else(|| format!("column {name} has the unknown type {}", packed.code))?;
            if let Type::Bit { places } = &kind {
                null_bit += places.len();
            }
            let computed = generated.iter().find(|(column, _)| *column == number);
            let is_hash = number >= hashes_from;
            columns.push(FrmColumn {
                key_bytes: packed.key_bytes(width),
                name,
                kind,
                collation: packed.collation,
                offset: packed.offset,
                width,
                null_bit: own_bit,
                is_stored: !is_hash && computed.is_none_or(|(_, is_stored)| *is_stored),
                is_generated: is_hash || computed.is_some(),
            });
        }
        let primary = keys.primary(&|part| is_whole(&columns, part));
        Ok(Self { columns, primary })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TYPES: &[u8] = include_bytes!("../../tests/fixtures/types.frm");

    #[test]
    fn columns_and_keys_of_a_table_are_read() {
        let frm = Frm::decode(TYPES).unwrap();
        let column = |name: &str| {
            let found = frm.columns.iter().find(|column| column.name == name);
            found.unwrap()
        };
        let id = column("id");
        assert_eq!(id.kind, Type::Integer { is_signed: false });
        assert_eq!((id.width, id.null_bit), (Some(8), None));
        assert_eq!(column("n2").kind, Type::Decimal { scale: 10 });
        assert_eq!(column("n2").width, Some(14));
        assert_eq!(column("ti3").kind, Type::Time { digits: 3 });
        assert!(matches!(&column("s").kind, Type::Set(values) if values.len() == 9));
        assert_eq!(column("s").width, Some(2));
        // Tables of Teak store whole bytes.
        assert_eq!(column("b10").kind, Type::Bit { places: 0..0 });
        assert_eq!(column("b10").width, Some(2));
        assert_eq!(
            (&column("u").kind, &column("i6").kind),
            (&Type::Uuid, &Type::Inet6)
        );
        assert!(column("vi").is_generated && !column("vi").is_stored);
        assert!(column("st").is_generated && column("st").is_stored);
        // The hash of the long unique key.
        assert!(frm.columns.last().is_some_and(|column| !column.is_stored));
        let primary = frm.primary.unwrap();
        assert_eq!((primary.len(), primary[0].column), (1, 0));
    }

    proptest! {
        #[test]
        fn damaged_files_are_errors_or_definitions(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut image = TYPES.to_vec();
            for (place, byte) in changes {
                let place = place.index(image.len());
                image[place] = byte;
            }
            let _ = Frm::decode(&image);
            image.truncate(cut.index(TYPES.len()));
            let _ = Frm::decode(&image);
        }
    }
}
