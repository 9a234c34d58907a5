//! Rows and their index entries. There are four kinds of indexes. Kind 0
//! contains the rows by primary key. Kind 1 is unique, and its values are
//! primary keys. The keys of kind 2 are a group number, the primary key and its
//! length. The keys of kind 3 are the inverted unique column, a group number and the
//! primary key.

use teak_base::bytes::{Put, Take};
use teak_engine::{
    Codec, Column, ColumnKind, FilterKeys, IndexDefinition, KeyId, KeySuffix, OptionalColumn,
    PageColumns, ValueTail,
};
use teak_model::{Key, TableId, Value};
use teak_testing::Random;

/// Bytes of the three numbers at the front of a row.
const NUMBERS_BYTES: u32 = 24;

/// The lowest bit of a row's group, which is the third number. Rows without it contain their primary key
/// once more, after the numbers.
const GROUP_BIT: u32 = 16 * 8;

/// The indexes of a table, and the shape of its rows.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// The kind of each index; the first is 0.
    pub(crate) kinds: Vec<u8>,
    /// Number of different primary keys.
    pub(crate) keys: u64,
    pub(crate) key_style: u64,
    pub(crate) payload_bytes_max: u64,
    pub(crate) codec: Codec,
    /// Number of leading bytes of values that the engine may store as byte planes.
    pub(crate) value_fixed_bytes: u32,
    pub(crate) encryption_key: Option<KeyId>,
}

/// A row's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) primary: u64,
    pub(crate) unique: u64,
    pub(crate) group: u64,
    pub(crate) payload: Vec<u8>,
}

/// The entry of a row in one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedEntry {
    pub(crate) index: u32,
    pub(crate) unique: bool,
    pub(crate) key: Key,
    pub(crate) value: Value,
}

impl Shape {
    /// The definition of an index of a kind.
    pub(crate) fn index(&self, kind: u8) -> IndexDefinition {
        IndexDefinition {
            label: format!("i{kind}"),
            codec: self.codec,
            page_bytes: 0,
            encryption_key: self.encryption_key,
            filter_keys: self.filter_keys(kind),
            value_fixed_bytes: self.value_fixed_bytes,
            columns: self.columns(),
        }
    }

    /// Columns of 8 bytes of different kinds, whatever the bytes mean.
    fn columns(&self) -> PageColumns {
        let kinds = [
            ColumnKind::UnsignedLittle,
            ColumnKind::Float,
            ColumnKind::UnsignedBig,
            ColumnKind::Bytes,
        ];
        let columns = kinds.into_iter().take(self.value_fixed_bytes as usize / 8);
        let columns = columns.filter_map(|kind| Column::new(kind, 8));
        let mut tail = ValueTail::default();
        if self.value_fixed_bytes == NUMBERS_BYTES
            && let Some(column) = Column::new(ColumnKind::UnsignedLittle, 8)
        {
            let null_bit = GROUP_BIT;
            tail.optional.push(OptionalColumn { column, null_bit });
            tail.variable.push(None);
        }
        PageColumns::with_tail(Vec::new(), columns.collect(), tail)
    }

    /// The parts of keys that are in the filters of an index of a kind: those before the primary
    /// key in kind 2, and in kind 3 if primary keys have a fixed length.
    pub(crate) fn filter_keys(&self, kind: u8) -> FilterKeys {
        match kind {
            0 | 1 => FilterKeys::Whole,
            2 => FilterKeys::WithoutSuffix(KeySuffix::Counted),
            _ if self.key_style == 0 => FilterKeys::WithoutSuffix(KeySuffix::Fixed(8)),
            _ => FilterKeys::None,
        }
    }

    /// The metadata of a table: its id and the kinds of its indexes.
    pub(crate) fn metadata(&self, table: TableId) -> Vec<u8> {
        let mut metadata = table.0.to_le_bytes().to_vec();
        metadata.extend_from_slice(&self.kinds);
        metadata
    }

    pub(crate) fn draw_key(&self, random: &mut Random) -> u64 {
        random.below(self.keys)
    }

    pub(crate) fn draw_row(&self, random: &mut Random) -> Row {
        Row {
            primary: self.draw_key(random),
            // The range causes some duplicates, but most rows can be inserted.
            unique: random.below(self.keys * 4),
            group: random.below(4),
            payload: self.draw_payload(random),
        }
    }

    pub(crate) fn draw_payload(&self, random: &mut Random) -> Vec<u8> {
        let bytes = random.below(self.payload_bytes_max + 1);
        let compressible = random.one_in(2);
        let mut payload = Vec::new();
        for _ in 0..bytes.div_ceil(8) {
            let word = if compressible {
                random.below(3)
            } else {
                random.next_u64()
            };
            payload.extend_from_slice(&word.to_le_bytes());
        }
        payload
    }

    /// Bytes of a key, in one of several styles.
    pub(crate) fn key(&self, number: u64) -> Key {
        match self.key_style {
            0 => number.to_be_bytes().to_vec(),
            1 => format!("{number}").into_bytes(),
            2 => {
                let filler = usize::try_from(number % 7).unwrap_or(0);
                let mut key = vec![b'k'; 40];
                key.extend_from_slice(&number.to_be_bytes());
                key.resize(48 + filler, 0xff);
                key
            }
            _ => {
                // Scattered, with zero bytes and common prefixes.
                let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mut key = vec![0; usize::try_from(mixed % 3).unwrap_or(0)];
                key.extend_from_slice(&mixed.to_be_bytes());
                key
            }
        }
    }

    pub(crate) fn entries(&self, row: &Row) -> Vec<OwnedEntry> {
        let kinds = (0u32..).zip(&self.kinds);
        kinds
            .map(|(index, kind)| self.entry(row, index, *kind))
            .collect()
    }

    /// The entry of a row in an index of a kind.
    pub(crate) fn entry(&self, row: &Row, index: u32, kind: u8) -> OwnedEntry {
        let primary = self.key(row.primary);
        let byte = |number: u64| u8::try_from(number % 256).unwrap_or(0);
        let (key, value) = match kind {
            0 => {
                let mut value = Vec::with_capacity(40 + row.payload.len());
                for number in [row.primary, row.unique, row.group] {
                    value.extend_from_slice(&number.to_le_bytes());
                }
                if row.group & 1 == 0 {
                    value.extend_from_slice(&row.primary.to_le_bytes());
                }
                value.put_bytes(&row.payload);
                (primary, value)
            }
            1 => (self.key(row.unique), primary),
            2 => {
                let count = u16::try_from(primary.len()).unwrap_or(u16::MAX);
                let front = [b'g', byte(row.group)];
                let key = [front.as_slice(), &primary, &count.to_be_bytes()].concat();
                (key, Vec::new())
            }
            _ => {
                let front = [b'r', 255 - byte(row.unique), byte(row.group)];
                ([front.as_slice(), &primary].concat(), Vec::new())
            }
        };
        OwnedEntry {
            index,
            unique: kind < 2,
            key,
            value,
        }
    }
}

impl Row {
    /// Decodes a value of index 0; `None` for bytes that are not a row.
    pub(crate) fn decode(value: &[u8]) -> Option<Row> {
        let (primary, rest) = value.split_first_chunk::<8>()?;
        let (unique, rest) = rest.split_first_chunk()?;
        let (group, mut rest) = rest.split_first_chunk()?;
        let group = u64::from_le_bytes(*group);
        if group & 1 == 0 {
            rest = rest.strip_prefix(primary)?;
        }
        let mut take = Take::new(rest);
        let payload = take.bytes().ok()?.to_vec();
        take.is_empty().then_some(Row {
            primary: u64::from_le_bytes(*primary),
            unique: u64::from_le_bytes(*unique),
            group,
            payload,
        })
    }
}
