//! The keys of a .frm file, and which of them is the primary key.

use super::frm_bytes::{take_lists, usize_at};
use teak_base::bytes::{Malformed, Take};

const NOT_UNIQUE: u16 = 1;
const COLUMN_NUMBER: u16 = 16383;
const DESCENDING: u8 = 128;
const LONG_HASH: u8 = 5;
const PRIMARY: &[u8] = b"PRIMARY";

/// A part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPart {
    /// The position of the column in the table.
    pub(crate) column: usize,
    /// Bytes of the column that the part contains.
    pub(crate) bytes: usize,
    pub(crate) is_descending: bool,
}

struct Key {
    is_unique: bool,
    is_hashed: bool,
    parts: Vec<KeyPart>,
}

/// The keys, in the order of the file.
pub(super) struct Keys {
    keys: Vec<Key>,
    has_primary: bool,
    /// The number of keys that are enforced by a hash in a hidden column.
    pub(super) hashed: usize,
}

impl Keys {
    pub(super) fn read(image: &[u8]) -> Result<Self, Malformed> {
        let start = image.get(usize_at(image, 6)?..).ok_or(Malformed)?;
        let mut take = Take::new(start);
        let first = take.u8()?;
        let second = take.u8()?;
        let count = match first & 0x80 {
            0 => usize::from(first),
            _ => usize::from(second) << 7 | usize::from(first & 0x7f),
        };
        take.take(4)?;
        let mut keys = Vec::new();
        for _ in 0..count {
            keys.push(take_key(&mut take)?);
        }
        let names = take.rest();
        let end = names.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
        let names = names.get(..=end).ok_or(Malformed)?;
        let names = match count {
            0 => Vec::new(),
            _ => take_lists(names, 1)?.into_iter().next().unwrap_or_default(),
        };
        let is_primary = |name: &Vec<u8>| name.eq_ignore_ascii_case(PRIMARY);
        Ok(Self {
            hashed: keys.iter().filter(|key| key.is_hashed).count(),
            has_primary: names.first().is_some_and(is_primary),
            keys,
        })
    }

    /// The parts of the primary key: of the key with this name, or of the first unique key whose parts are `whole`.
    pub(super) fn primary(&self, whole: &dyn Fn(&KeyPart) -> bool) -> Option<Vec<KeyPart>> {
        if self.has_primary {
            return self.keys.first().map(|key| key.parts.clone());
        }
        let mut unique = self
            .keys
            .iter()
            .filter(|key| key.is_unique && !key.is_hashed);
        let key = unique.find(|key| key.parts.iter().all(whole))?;
        Some(key.parts.clone())
    }
}

fn take_key(take: &mut Take<'_>) -> Result<Key, Malformed> {
    let flags = take.u16()?;
    take.u16()?;
    let count = take.u8()?;
    let algorithm = take.u8()?;
    take.u16()?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let number = take.u16()? & COLUMN_NUMBER;
        take.u16()?;
        let part_flags = take.u8()?;
        take.u16()?;
        parts.push(KeyPart {
            column: usize::from(number.checked_sub(1).ok_or(Malformed)?),
            bytes: take.u16()?.into(),
            is_descending: part_flags & DESCENDING != 0,
        });
    }
    Ok(Key {
        // The bit is stored inverted.
        is_unique: flags & NOT_UNIQUE == 0,
        is_hashed: algorithm == LONG_HASH,
        parts,
    })
}
