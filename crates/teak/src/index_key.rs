//! How the entries of secondary indexes are encoded.
//!
//! A unique index stores the index key as it is; the value is the primary key.
//! Other indexes store `escape(index key) 00 00 primary key` and no value;
//! `escape` replaces `00` by `00 ff`. So entries have the order of the index
//! keys, and no two rows have the same entry.

use teak_base::bytes::prefix_successor;

fn escape(key: &[u8], to: &mut Vec<u8>) {
    for byte in key {
        to.push(*byte);
        if *byte == 0 {
            to.push(0xff);
        }
    }
}

fn escaped(key: &[u8], end: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 8);
    escape(key, &mut bytes);
    bytes.extend_from_slice(end);
    bytes
}

/// The key of a row's entry.
pub(crate) fn entry_key(unique: bool, index_key: Vec<u8>, primary: &[u8]) -> Vec<u8> {
    if unique {
        return index_key;
    }
    let mut bytes = escaped(&index_key, &[0, 0]);
    bytes.extend_from_slice(primary);
    bytes
}

/// The index key and the primary key of an entry; `None` when it is malformed.
pub(crate) fn split(unique: bool, key: Vec<u8>, value: Vec<u8>) -> Option<(Vec<u8>, Vec<u8>)> {
    if unique {
        return Some((key, value));
    }
    let mut index_key = Vec::with_capacity(key.len());
    let mut bytes = key.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == 0 && bytes.next()? == 0 {
            return Some((index_key, bytes.collect()));
        }
        index_key.push(byte);
    }
    None
}

/// The lower bound (inclusive) of the entries with this index key.
pub(crate) fn at(unique: bool, index_key: &[u8]) -> Vec<u8> {
    if unique {
        index_key.to_vec()
    } else {
        escaped(index_key, &[0, 0])
    }
}

/// The upper bound (exclusive) of the entries with this index key.
pub(crate) fn after(unique: bool, index_key: &[u8]) -> Vec<u8> {
    if unique {
        teak_base::bytes::key_successor(index_key)
    } else {
        escaped(index_key, &[0, 1])
    }
}

/// The bounds of the entries whose index key begins with a prefix; an upper bound of `None` means
/// the end of the index.
pub(crate) fn prefix(unique: bool, prefix: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let lower = if unique {
        prefix.to_vec()
    } else {
        escaped(prefix, &[])
    };
    let upper = prefix_successor(&lower);
    (lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"\0\x01", b"a", b"a\0", b"a\0b", b"ab"];

    #[test]
    fn entries_have_the_order_of_index_keys_then_primary_keys() {
        let mut entries = Vec::new();
        for key in KEYS {
            for primary in KEYS {
                entries.push(entry_key(false, key.to_vec(), primary));
            }
        }
        assert!(entries.is_sorted_by(|a, b| a < b), "{entries:?}");
    }

    #[test]
    fn entries_split_into_their_keys() {
        for key in KEYS {
            for primary in KEYS {
                let entry = entry_key(false, key.to_vec(), primary);
                let found = split(false, entry, Vec::new());
                assert_eq!(found, Some((key.to_vec(), primary.to_vec())));
            }
        }
        assert_eq!(split(false, b"ab".to_vec(), Vec::new()), None);
        assert_eq!(split(false, b"ab\0".to_vec(), Vec::new()), None);
    }

    #[test]
    fn bounds_enclose_exactly_the_entries_meant() {
        for key in KEYS {
            let entry = entry_key(false, key.to_vec(), b"primary");
            for bound in KEYS {
                assert_eq!(entry >= at(false, bound), key >= bound);
                assert_eq!(entry >= after(false, bound), key > bound);
                let (lower, upper) = prefix(false, bound);
                let within = entry >= lower && upper.is_none_or(|upper| entry < upper);
                assert_eq!(within, key.starts_with(bound), "{key:?} {bound:?}");
            }
        }
    }
}
