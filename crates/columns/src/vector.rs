//! Values of one column of several rows, in the form in which calculations read them.

use crate::Texts;

/// Values of one column of several rows: numbers or byte strings, any of which may be NULL.
#[derive(Debug)]
pub struct Vector {
    values: VectorValues,
    /// For each row whether it is NULL; empty if none is.
    nulls: Vec<bool>,
}

/// The values of a vector; those of NULL are 0 or empty.
#[derive(Debug)]
pub enum VectorValues {
    /// Numbers, with the order of the values.
    Numbers(Vec<i64>),
    /// Byte strings.
    Texts(Texts),
}

impl Vector {
    /// A vector without rows. `has_numbers`: of numbers instead of byte strings.
    #[must_use]
    pub fn new(has_numbers: bool) -> Self {
        Self {
            values: match has_numbers {
                true => VectorValues::Numbers(Vec::new()),
                false => VectorValues::Texts(Texts::default()),
            },
            nulls: Vec::new(),
        }
    }

    /// A vector of values of which `nulls` are NULL; empty: none.
    pub(crate) fn of(values: VectorValues, nulls: Vec<bool>) -> Self {
        Self { values, nulls }
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match &self.values {
            VectorValues::Numbers(numbers) => numbers.len(),
            VectorValues::Texts(texts) => texts.len(),
        }
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> &VectorValues {
        &self.values
    }

    /// For each row whether it is NULL; empty if none is.
    #[must_use]
    pub fn nulls(&self) -> &[bool] {
        &self.nulls
    }

    /// Whether a row is NULL.
    #[inline]
    #[must_use]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.get(row).copied().unwrap_or(false)
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.nulls.clear();
        match &mut self.values {
            VectorValues::Numbers(numbers) => numbers.clear(),
            VectorValues::Texts(texts) => texts.clear(),
        }
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        self.nulls.resize(self.rows(), false);
        self.nulls.push(true);
        match &mut self.values {
            VectorValues::Numbers(numbers) => numbers.push(0),
            VectorValues::Texts(texts) => texts.push(&[]),
        }
    }

    /// Appends a number. Returns `false` if the vector has byte strings.
    #[inline]
    #[must_use]
    pub fn push_number(&mut self, number: i64) -> bool {
        let VectorValues::Numbers(numbers) = &mut self.values else {
            return false;
        };
        numbers.push(number);
        self.note_value();
        true
    }

    /// Appends a byte string. Returns `false` if the vector has numbers.
    #[inline]
    #[must_use]
    pub fn push_text(&mut self, text: &[u8]) -> bool {
        let VectorValues::Texts(texts) = &mut self.values else {
            return false;
        };
        texts.push(text);
        self.note_value();
        true
    }

    #[inline]
    fn note_value(&mut self) {
        if !self.nulls.is_empty() {
            self.nulls.push(false);
        }
    }

    /// Makes a vector of the values that are not NULL one of all rows. `nulls`: for each row whether it is NULL.
    /// Returns `None` unless there is a value for each other row.
    #[must_use]
    pub fn spread(self, nulls: Vec<bool>) -> Option<Self> {
        let present = nulls.iter().filter(|is_null| !**is_null).count();
        if present != self.rows() || !self.nulls.is_empty() {
            return None;
        }
        if present == nulls.len() {
            return Some(self);
        }
        let values = match self.values {
            VectorValues::Numbers(numbers) => {
                let mut given = numbers.into_iter();
                let next = |is_null: &bool| match is_null {
                    true => 0,
                    false => given.next().unwrap_or(0),
                };
                VectorValues::Numbers(nulls.iter().map(next).collect())
            }
            VectorValues::Texts(mut texts) => {
                texts.spread(&nulls);
                VectorValues::Texts(texts)
            }
        };
        Some(Self::of(values, nulls))
    }

    /// A vector of numbers none of which is NULL.
    #[must_use]
    pub fn of_numbers(numbers: Vec<i64>) -> Self {
        Self::of(VectorValues::Numbers(numbers), Vec::new())
    }

    /// A vector of byte strings none of which is NULL.
    #[must_use]
    pub fn of_texts(texts: Texts) -> Self {
        Self::of(VectorValues::Texts(texts), Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rows of a vector: `None` for NULL.
    fn rows_of(vector: &Vector) -> Vec<Option<Vec<u8>>> {
        let bytes = |row: usize| match vector.values() {
            VectorValues::Numbers(numbers) => numbers[row].to_le_bytes().to_vec(),
            VectorValues::Texts(texts) => texts.get(row).to_vec(),
        };
        let row = |row| (!vector.is_null(row)).then(|| bytes(row));
        (0..vector.rows()).map(row).collect()
    }

    proptest! {
        #[test]
        fn pushed_and_spread_values_are_the_same(rows: Vec<Option<i64>>, has_numbers: bool) {
            let bytes = |number: &i64| match has_numbers {
                true => number.to_le_bytes().to_vec(),
                false => number.to_string().into_bytes(),
            };
            let (mut pushed, mut dense) = (Vector::new(has_numbers), Vector::new(has_numbers));
            prop_assert!(!pushed.push_number(1) || has_numbers);
            prop_assert!(!pushed.push_text(b"a") || !has_numbers);
            pushed.clear();
            for row in &rows {
                let Some(number) = row else {
                    pushed.push_null();
                    continue;
                };
                for vector in [&mut pushed, &mut dense] {
                    let is_pushed = match has_numbers {
                        true => vector.push_number(*number),
                        false => vector.push_text(&bytes(number)),
                    };
                    prop_assert!(is_pushed);
                }
            }
            let expected: Vec<_> = rows.iter().map(|row| row.as_ref().map(bytes)).collect();
            prop_assert_eq!(rows_of(&pushed), expected.clone());
            let nulls: Vec<bool> = rows.iter().map(Option::is_none).collect();
            let spread = dense.spread(nulls).unwrap();
            prop_assert_eq!(rows_of(&spread), expected);
            prop_assert!(spread.nulls().is_empty() == rows.iter().all(Option::is_some));
        }
    }

    #[test]
    fn a_vector_is_not_spread_to_another_number_of_values() {
        assert!(Vector::of_numbers(vec![1, 2]).spread(vec![false]).is_none());
        assert!(Vector::of_numbers(vec![1]).spread(vec![true]).is_none());
    }
}
