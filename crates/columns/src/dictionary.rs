//! The distinct values of a column, if they are few.
//!
//! Hashes are masked to the size of the table.
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

/// Maximum number of distinct values: a number in the dictionary has one byte.
pub(crate) const ENTRIES_MAX: usize = 256;

const SLOTS: usize = 1024;

/// A hash table of values and their numbers.
pub(crate) struct Dictionary {
    /// The value and its number, plus one; 0: empty.
    slots: Box<[(u64, u32); SLOTS]>,
    values: Vec<u64>,
}

impl Dictionary {
    /// The dictionary of these values. `None` if there are too many distinct ones.
    pub(crate) fn of(values: &[u64]) -> Option<Self> {
        let mut dictionary = Self {
            slots: Box::new([(0, 0); SLOTS]),
            values: Vec::new(),
        };
        let mut last = None;
        for value in values {
            if last == Some(value) {
                continue;
            }
            last = Some(value);
            let slot = dictionary.slot_of(*value);
            if dictionary.slots[slot].1 == 0 {
                if dictionary.values.len() == ENTRIES_MAX {
                    return None;
                }
                dictionary.values.push(*value);
                dictionary.slots[slot] = (*value, dictionary.values.len() as u32);
            }
        }
        dictionary.sort();
        Some(dictionary)
    }

    /// The slot with the value, or an empty one. The table is never full.
    fn slot_of(&self, value: u64) -> usize {
        let hash = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        let mut slot = hash as usize;
        while self.slots[slot].1 != 0 && self.slots[slot].0 != value {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }

    /// Numbers the values in ascending order.
    fn sort(&mut self) {
        self.values.sort_unstable();
        for number in 0..self.values.len() {
            let slot = self.slot_of(self.values[number]);
            self.slots[slot].1 = number as u32 + 1;
        }
    }

    /// The distinct values, ascending.
    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }

    /// The number of a value that the dictionary has.
    pub(crate) fn number_of(&self, value: u64) -> u64 {
        u64::from(self.slots[self.slot_of(value)].1.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_in_ascending_order() {
        let values: Vec<u64> = (0..5000).map(|n| (n * 37 % 251) << 40).collect();
        let dictionary = Dictionary::of(&values).unwrap();
        assert_eq!(dictionary.values().len(), 251);
        assert!(dictionary.values().is_sorted());
        for value in values {
            let number = dictionary.number_of(value) as usize;
            assert_eq!(dictionary.values()[number], value);
        }
        let many: Vec<u64> = (0..257).collect();
        assert!(Dictionary::of(&many).is_none());
        assert_eq!(Dictionary::of(&many[..256]).unwrap().values().len(), 256);
    }
}
