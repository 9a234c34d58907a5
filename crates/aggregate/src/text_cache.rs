//! What was found for byte strings.

use crate::arena::Arena;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Bytes of a cache from which it forgets everything.
const BYTES_MAX: usize = 1 << 20;

/// Maximum length of a string. Longer ones are rarely equal.
const TEXT_BYTES_MAX: usize = 4096;

/// What was found for byte strings. Its memory is bounded.
#[derive(Debug, Default)]
pub(crate) struct TextCache<V> {
    hasher: DefaultHashBuilder,
    /// The number of a string, and what was found for it.
    found: HashTable<(u32, V)>,
    texts: Arena,
}

impl<V: Copy> TextCache<V> {
    pub(crate) fn get(&self, text: &[u8]) -> Option<V> {
        let is_same = |(number, _): &(u32, V)| self.texts.get(*number) == text;
        let found = self.found.find(self.hasher.hash_one(text), is_same);
        found.map(|(_, value)| *value)
    }

    /// Adds a string that is not in the cache, if it is not long.
    pub(crate) fn insert(&mut self, text: &[u8], value: V) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        if self.memory_bytes() + text.len() > BYTES_MAX {
            self.clear();
        }
        let (hasher, texts) = (&self.hasher, &mut self.texts);
        if let Ok(number) = u32::try_from(texts.len()) {
            texts.push(text);
            let hash_of = |(number, _): &(u32, V)| hasher.hash_one(texts.get(*number));
            let hash = hasher.hash_one(text);
            self.found.insert_unique(hash, (number, value), hash_of);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.found = HashTable::new();
        self.texts = Arena::default();
    }

    fn memory_bytes(&self) -> usize {
        self.texts.memory_bytes() + self.found.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_until_the_cache_is_full() {
        let mut cache = TextCache::default();
        let text = |number: u32| format!("{number}").repeat(number as usize % 9).into_bytes();
        let mut known = std::collections::BTreeMap::new();
        for number in 0..200_000u32 {
            let text = text(number);
            match cache.get(&text) {
                Some(found) => assert_eq!(known.get(&text), Some(&found)),
                None => {
                    cache.insert(&text, number);
                    assert_eq!(cache.get(&text), Some(number));
                    known.insert(text, number);
                }
            }
            // Growing doubles the memory of a table.
            assert!(cache.memory_bytes() <= 2 * BYTES_MAX);
        }
        assert_eq!(cache.get(b"never inserted"), None);
        for (length, found) in [(TEXT_BYTES_MAX, Some(1)), (TEXT_BYTES_MAX + 1, None)] {
            let text = vec![7; length];
            cache.insert(&text, 1);
            assert_eq!(cache.get(&text), found);
        }
    }
}
