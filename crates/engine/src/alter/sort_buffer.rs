//! A sort buffer: entries in memory that are sorted together.

use super::entries::{put_entry, take_entry};
use teak_base::bytes::{Malformed, Take};

/// Location of one entry in the buffer.
#[derive(Clone, Copy)]
struct Item {
    /// The prefix of the key, which decides most comparisons without a look at the key.
    prefix: Prefix,
    offset: u32,
}

/// The bytes of entries, and the order of the entries.
#[derive(Default)]
pub(super) struct SortBuffer {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

/// The first 16 bytes of a key, with zeros after a shorter key. Keys with different prefixes are in
/// the order of their prefixes. Entries of secondary keys on integers mostly have shorter keys.
pub(super) type Prefix = [u64; 2];

pub(super) fn prefix_of(key: &[u8]) -> Prefix {
    let part = |from: usize| {
        let bytes = key.get(from..).unwrap_or_default();
        if let Some(first) = bytes.first_chunk() {
            return u64::from_be_bytes(*first);
        }
        let mut padded = [0; 8];
        for (to, from) in padded.iter_mut().zip(bytes) {
            *to = *from;
        }
        u64::from_be_bytes(padded)
    };
    [part(0), part(8)]
}

impl SortBuffer {
    /// Memory that the entries use, in bytes, without unused capacity.
    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<Item>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds an entry. `false` when its offset does not fit in 32 bits.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Ok(offset) = u32::try_from(self.bytes.len()) else {
            return false;
        };
        put_entry(&mut self.bytes, key, value);
        self.items.push(Item {
            prefix: prefix_of(key),
            offset,
        });
        true
    }

    /// Removes all entries and returns them in the order of their keys. A merge of several buffers
    /// then reads each from its start to its end, and not at random places in memory. The buffer
    /// keeps its memory.
    pub(super) fn take_sorted(&mut self) -> Result<Vec<u8>, Malformed> {
        let bytes = &self.bytes;
        self.items.sort_unstable_by(|one, other| {
            let by_prefix = one.prefix.cmp(&other.prefix);
            by_prefix.then_with(|| key_at(bytes, one).cmp(key_at(bytes, other)))
        });
        let mut sorted = Vec::with_capacity(bytes.len());
        for item in &self.items {
            let start = bytes.get(item.offset as usize..).unwrap_or_default();
            let mut take = Take::new(start);
            take_entry(&mut take)?;
            let length = start.len() - take.rest().len();
            sorted.extend_from_slice(start.get(..length).unwrap_or_default());
        }
        self.bytes.clear();
        self.items.clear();
        Ok(sorted)
    }
}

fn key_at<'a>(bytes: &'a [u8], item: &Item) -> &'a [u8] {
    let start = bytes.get(item.offset as usize..).unwrap_or_default();
    Take::new(start).bytes().unwrap_or_default()
}
