//! What the caller knows about byte strings.

use crate::text_cache::TextCache;

/// The caller's rules for byte strings.
pub trait TextRules {
    /// Appends the weights of a byte string of a key, of which `key` is the number. Strings with the same weights are
    /// equal.
    fn weigh(&mut self, key: usize, text: &[u8], out: &mut Vec<u8>);

    /// Whether a condition of the caller, of which `condition` is the number, is true for a byte string. The same for the
    /// same string.
    fn accepts(&mut self, condition: usize, text: &[u8]) -> bool;
}

/// The caller's rules, and for each condition of the caller which byte strings it has accepted.
pub(crate) struct Judge<'a> {
    pub(crate) rules: &'a mut dyn TextRules,
    pub(crate) accepted: &'a mut Vec<TextCache<bool>>,
}

impl Judge<'_> {
    /// Whether the caller's condition is true for a byte string.
    pub(crate) fn accepts(&mut self, condition: usize, text: &[u8]) -> bool {
        if self.accepted.len() <= condition {
            self.accepted.resize_with(condition + 1, Default::default);
        }
        let Some(known) = self.accepted.get_mut(condition) else {
            return self.rules.accepts(condition, text);
        };
        known.get(text).unwrap_or_else(|| {
            let accepts = self.rules.accepts(condition, text);
            known.insert(text, accepts);
            accepts
        })
    }
}
