//! A sort buffer: entries in memory that are sorted together.

/// Location of one entry in the buffer.
#[derive(Clone, Copy)]
struct Item {
    /// The first eight bytes of the key, which decide most comparisons.
    prefix: u64,
    offset: u32,
    key_bytes: u32,
    value_bytes: u32,
}

/// The bytes of entries, and the order of the entries.
#[derive(Default)]
pub(crate) struct SortBuffer {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

fn prefix_of(key: &[u8]) -> u64 {
    let mut prefix = [0; 8];
    for (to, from) in prefix.iter_mut().zip(key) {
        *to = *from;
    }
    u64::from_be_bytes(prefix)
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

    /// Frees memory that no entry uses.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.items.shrink_to_fit();
    }

    /// Removes all entries. Keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    /// Adds an entry. `false` when its offset or a length does not fit in 32 bits.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        let (Ok(offset), Ok(key_bytes), Ok(value_bytes)) = (
            u32::try_from(self.bytes.len()),
            u32::try_from(key.len()),
            u32::try_from(value.len()),
        ) else {
            return false;
        };
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.items.push(Item {
            prefix: prefix_of(key),
            offset,
            key_bytes,
            value_bytes,
        });
        true
    }

    pub(crate) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.items.sort_unstable_by(|one, other| {
            let by_prefix = one.prefix.cmp(&other.prefix);
            by_prefix.then_with(|| key_of(bytes, one).cmp(key_of(bytes, other)))
        });
    }

    /// The entry at a position: in insertion order before `sort`, in key order
    /// after it.
    pub(crate) fn entry(&self, position: usize) -> Option<(&[u8], &[u8])> {
        let item = self.items.get(position)?;
        let start = item.offset as usize + item.key_bytes as usize;
        let value = self.bytes.get(start..start + item.value_bytes as usize)?;
        Some((key_of(&self.bytes, item), value))
    }
}

fn key_of<'a>(bytes: &'a [u8], item: &Item) -> &'a [u8] {
    let start = item.offset as usize;
    bytes
        .get(start..start + item.key_bytes as usize)
        .unwrap_or_default()
}
