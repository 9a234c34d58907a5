//! The parts of keys that are in filters.

use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::hash_key;

/// The part of each key that is in the filters of a run, and with which the run can be ruled out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterKeys {
    /// None: there are no filters.
    #[default]
    None,
    /// The whole key, for look-ups of one key.
    Whole,
    /// The key without a suffix, for look-ups of all keys that are equal except for the suffix.
    WithoutSuffix(KeySuffix),
}

/// The suffix of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySuffix {
    /// This number of bytes.
    Fixed(u16),
    /// The last two bytes are the length of the suffix before them, big-endian.
    Counted,
}

/// Bytes of the length after a suffix.
const COUNT_BYTES: usize = 2;

impl FilterKeys {
    /// The part of a key that is in filters. A key that is shorter than its suffix has an empty
    /// part.
    #[inline]
    #[must_use]
    pub fn part<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        let suffix_bytes = match self {
            Self::None | Self::Whole => return key,
            Self::WithoutSuffix(KeySuffix::Fixed(bytes)) => usize::from(*bytes),
            Self::WithoutSuffix(KeySuffix::Counted) => match key.last_chunk::<COUNT_BYTES>() {
                Some(count) => COUNT_BYTES + usize::from(u16::from_be_bytes(*count)),
                None => COUNT_BYTES,
            },
        };
        let end = key.len().saturating_sub(suffix_bytes);
        key.get(..end).unwrap_or_default()
    }

    /// The hash by which filters have the key.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        hash_key(self.part(key))
    }

    /// Appends the encoded form: a number, and the length of a fixed suffix.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.number());
        out.put_u16(self.suffix_bytes());
    }

    /// The number on disk.
    #[must_use]
    pub fn number(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::Whole => 1,
            Self::WithoutSuffix(KeySuffix::Fixed(_)) => 2,
            Self::WithoutSuffix(KeySuffix::Counted) => 3,
        }
    }

    /// The length of a fixed suffix; otherwise 0.
    #[must_use]
    pub fn suffix_bytes(&self) -> u16 {
        match self {
            Self::WithoutSuffix(KeySuffix::Fixed(bytes)) => *bytes,
            _ => 0,
        }
    }

    /// The value with this number and length of a fixed suffix.
    #[must_use]
    pub fn from_numbers(number: u8, suffix_bytes: u16) -> Option<Self> {
        Some(match (number, suffix_bytes) {
            (0, 0) => Self::None,
            (1, 0) => Self::Whole,
            (2, bytes) => Self::WithoutSuffix(KeySuffix::Fixed(bytes)),
            (3, 0) => Self::WithoutSuffix(KeySuffix::Counted),
            _ => return None,
        })
    }

    /// Decodes the encoded form.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let (number, suffix_bytes) = (take.u8()?, take.u16()?);
        Self::from_numbers(number, suffix_bytes).ok_or(Malformed)
    }
}

/// A prefix of keys, for a look-up of all keys that start with it and are equal except for their
/// suffix.
#[derive(Clone, Debug)]
pub(crate) struct KeyPrefix {
    bytes: Vec<u8>,
    hash: u64,
    keys: FilterKeys,
}

impl KeyPrefix {
    /// `keys`: the part of keys that the prefix is.
    pub(crate) fn new(bytes: &[u8], keys: FilterKeys) -> Self {
        let (bytes, hash) = (bytes.to_vec(), hash_key(bytes));
        Self { bytes, hash, keys }
    }

    /// Replaces the prefix by [`KeyPrefix::new`]. Reuses its memory.
    pub(crate) fn set(&mut self, bytes: &[u8], keys: FilterKeys) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.hash = hash_key(bytes);
        self.keys = keys;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The hash by which filters with these parts of keys have the prefix; `None` if they do not
    /// have it.
    pub(crate) fn hash_for(&self, keys: FilterKeys) -> Option<u64> {
        let is_part = matches!(keys, FilterKeys::WithoutSuffix(_)) && keys == self.keys;
        is_part.then_some(self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_key_ends_before_its_suffix() {
        let fixed = FilterKeys::WithoutSuffix(KeySuffix::Fixed(3));
        assert_eq!(fixed.part(b"abcde"), b"ab");
        assert_eq!(fixed.part(b"abc"), b"");
        assert_eq!(fixed.part(b"a"), b"");
        let counted = FilterKeys::WithoutSuffix(KeySuffix::Counted);
        assert_eq!(counted.part(b"abcde\0\x03"), b"ab");
        assert_eq!(counted.part(b"abcde\0\0"), b"abcde");
        assert_eq!(counted.part(b"abcde\x01\0"), b"");
        assert_eq!(counted.part(b"a"), b"");
        assert_eq!(FilterKeys::Whole.part(b"abc"), b"abc");
    }

    #[test]
    fn numbers_round_trip() {
        for keys in [
            FilterKeys::None,
            FilterKeys::Whole,
            FilterKeys::WithoutSuffix(KeySuffix::Fixed(0)),
            FilterKeys::WithoutSuffix(KeySuffix::Fixed(8)),
            FilterKeys::WithoutSuffix(KeySuffix::Counted),
        ] {
            let mut bytes = Vec::new();
            keys.encode(&mut bytes);
            assert_eq!(FilterKeys::decode(&mut Take::new(&bytes)), Ok(keys));
        }
        assert_eq!(FilterKeys::from_numbers(4, 0), None);
        assert_eq!(FilterKeys::from_numbers(1, 8), None);
    }
}
