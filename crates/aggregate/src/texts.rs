//! What the caller knows about byte strings.

use crate::arena::Arena;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Bytes of a cache of byte strings.
pub(crate) const CACHE_BYTES_MAX: usize = 1 << 20;

/// The caller's rules for byte strings.
pub trait TextRules {
    /// Appends the weights of a byte string of a key, of which `key` is the number. Strings with the same weights are
    /// equal.
    fn weigh(&mut self, key: usize, text: &[u8], out: &mut Vec<u8>);

    /// Whether a condition of the caller, of which `condition` is the number, is true for a byte string. The same for the
    /// same string.
    fn accepts(&mut self, condition: usize, text: &[u8]) -> bool;
}

/// The caller's rules, and which byte strings the caller's conditions have accepted.
pub(crate) struct Judge<'a> {
    pub(crate) rules: &'a mut dyn TextRules,
    pub(crate) accepted: &'a mut Vec<AcceptedTexts>,
}

/// Which byte strings a condition of the caller has accepted.
#[derive(Debug, Default)]
pub(crate) struct AcceptedTexts {
    hasher: DefaultHashBuilder,
    found: HashTable<(u32, bool)>,
    texts: Arena,
}

impl Judge<'_> {
    /// Whether the caller's condition is true for a byte string.
    pub(crate) fn accepts(&mut self, condition: usize, text: &[u8]) -> bool {
        if self.accepted.len() <= condition {
            self.accepted.resize_with(condition + 1, Default::default);
        }
        let rules = &mut self.rules;
        match self.accepted.get_mut(condition) {
            Some(known) => known.find(text, || rules.accepts(condition, text)),
            None => rules.accepts(condition, text),
        }
    }
}

impl AcceptedTexts {
    fn find(&mut self, text: &[u8], judge: impl FnOnce() -> bool) -> bool {
        let hash = self.hasher.hash_one(text);
        let texts = &self.texts;
        let found = self.found.find(hash, |(at, _)| texts.get(*at) == text);
        if let Some((_, accepts)) = found {
            return *accepts;
        }
        let accepts = judge();
        if self.texts.memory_bytes() + text.len() > CACHE_BYTES_MAX {
            self.found.clear();
            self.texts.clear();
        }
        let (texts, hasher) = (&mut self.texts, &self.hasher);
        if let Ok(at) = u32::try_from(texts.len()) {
            texts.push(text);
            let hash_of = |(at, _): &(u32, bool)| hasher.hash_one(texts.get(*at));
            self.found.insert_unique(hash, (at, accepts), hash_of);
        }
        accepts
    }
}
