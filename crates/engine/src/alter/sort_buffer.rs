//! A sort buffer: entries in memory that are sorted together.

use teak_base::bytes::{Put, Take};

/// Location of one entry in the buffer.
#[derive(Clone, Copy)]
struct Item {
    /// The prefix of the key, which decides most comparisons without a look at the key.
    prefix: Prefix,
    offset: u32,
}

/// The bytes of entries, and the order of the entries.
#[derive(Default)]
pub(crate) struct SortBuffer {
    /// The key and the value of each entry, each after its length.
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
    /// An empty buffer with memory for the entries of `other`, and for a sixteenth more: growing a
    /// buffer of some MiB copies it several times.
    pub(crate) fn as_large_as(other: &Self) -> Self {
        let with_slack = |length: usize| length + length / 16;
        Self {
            bytes: Vec::with_capacity(with_slack(other.bytes.len())),
            items: Vec::with_capacity(with_slack(other.items.len())),
        }
    }

    /// Memory that the entries use, in bytes, without unused capacity.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<Item>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Removes all entries. Keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    /// Adds an entry. `false` when its offset does not fit in 32 bits.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Ok(offset) = u32::try_from(self.bytes.len()) else {
            return false;
        };
        self.bytes.put_bytes(key);
        self.bytes.put_bytes(value);
        self.items.push(Item {
            prefix: prefix_of(key),
            offset,
        });
        true
    }

    pub(crate) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.items.sort_unstable_by(|one, other| {
            let by_prefix = one.prefix.cmp(&other.prefix);
            by_prefix.then_with(|| entry_at(bytes, one).0.cmp(entry_at(bytes, other).0))
        });
    }

    /// The entry at a position: in insertion order before `sort`, in key order
    /// after it.
    pub(crate) fn entry(&self, position: usize) -> Option<(&[u8], &[u8])> {
        let item = self.items.get(position)?;
        Some(entry_at(&self.bytes, item))
    }
}

/// The key and the value of an entry.
fn entry_at<'a>(bytes: &'a [u8], item: &Item) -> (&'a [u8], &'a [u8]) {
    let mut take = Take::new(bytes.get(item.offset as usize..).unwrap_or_default());
    let mut field = || take.bytes().unwrap_or_default();
    (field(), field())
}
