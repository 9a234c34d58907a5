//! Conditions of rows.
//!
//! A comparison with NULL is not true, as in SQL; there is no negation, so false and unknown need not be distinguished.

use crate::batch::{Batch, Columns};
use crate::texts::Judge;
use teak_columns::{Vector, VectorValues, Zone, float_of, number_of_float};

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The first is less.
    Less,
    /// The first is less, or they are equal.
    LessOrEqual,
    /// They are equal.
    Equal,
    /// They are not equal.
    NotEqual,
}

impl Comparison {
    fn is_true(self, left: i64, right: i64) -> bool {
        match self {
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
        }
    }

    /// Whether numbers of these zones may compare so.
    fn may_be_true(self, left: Zone, right: Zone) -> bool {
        match self {
            Self::Less => left.min < right.max,
            Self::LessOrEqual => left.min <= right.max,
            Self::Equal => left.min <= right.max && right.min <= left.max,
            Self::NotEqual => left.min != right.max || right.min != left.max,
        }
    }
}

/// A condition of a row. Columns are those of the caller's batches, and have numbers, or floats whose numbers are those of
/// [`number_of_float`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All of these.
    All(Vec<Condition>),
    /// At least one of these.
    Any(Vec<Condition>),
    /// The number is at least `min` and at most `max`.
    Within {
        /// The column.
        column: usize,
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
    },
    /// The number is less than `min` or more than `max`.
    Outside {
        /// The column.
        column: usize,
        /// The smallest number that does not match.
        min: i64,
        /// The largest number that does not match.
        max: i64,
    },
    /// The number is one of these, which ascend.
    In {
        /// The column.
        column: usize,
        /// The numbers.
        numbers: Vec<i64>,
    },
    /// The number is not NULL, and none of these, which ascend.
    NotIn {
        /// The column.
        column: usize,
        /// The numbers.
        numbers: Vec<i64>,
    },
    /// The numbers of two columns compare so. The columns have numbers of the same kind.
    Compare {
        /// The first column.
        left: usize,
        /// The second column.
        right: usize,
        /// How they compare.
        comparison: Comparison,
    },
    /// A condition of the caller is true for the byte string.
    Accepted {
        /// The column, which has byte strings.
        column: usize,
        /// The number of the condition.
        condition: usize,
    },
    /// The column is NULL. It may have byte strings.
    IsNull {
        /// The column.
        column: usize,
    },
    /// The column is not NULL. It may have byte strings.
    IsNotNull {
        /// The column.
        column: usize,
    },
}

/// Clears the rows of the mask whose number does not match.
fn keep(mask: &mut [bool], vector: &Vector, matches: impl Fn(i64) -> bool) {
    match vector.values() {
        VectorValues::Numbers(numbers) => {
            for (is_kept, number) in mask.iter_mut().zip(numbers) {
                *is_kept &= matches(*number);
            }
        }
        VectorValues::Texts(floats) => {
            for (row, is_kept) in mask.iter_mut().enumerate() {
                let number = float_of(floats.get(row)).map(number_of_float);
                *is_kept &= number.is_some_and(&matches);
            }
        }
    }
    for (is_kept, is_null) in mask.iter_mut().zip(vector.nulls()) {
        *is_kept &= !is_null;
    }
}

fn numbers_of(vector: &Vector) -> &[i64] {
    match vector.values() {
        VectorValues::Numbers(numbers) => numbers,
        VectorValues::Texts(_) => &[],
    }
}

/// Clears the rows of the mask whose numbers do not match.
fn keep_pairs(
    mask: &mut [bool],
    left: &Vector,
    right: &Vector,
    matches: impl Fn(i64, i64) -> bool,
) {
    let mut pairs = numbers_of(left).iter().zip(numbers_of(right));
    for (row, is_kept) in mask.iter_mut().enumerate() {
        let pair = pairs.next();
        *is_kept &= pair.is_some_and(|(left, right)| matches(*left, *right))
            && !left.is_null(row)
            && !right.is_null(row);
    }
}

/// Whether a zone may have a number of a kind. `may_have`: decides for a zone that has numbers.
fn has_number(zone: Option<Zone>, may_have: impl Fn(Zone) -> bool) -> bool {
    zone.is_none_or(|zone| zone.has_values && may_have(zone))
}

impl Condition {
    /// Clears the rows of the mask that do not match the condition.
    pub(crate) fn narrow<C: Columns>(
        &self,
        batch: &mut Batch<'_, C>,
        mask: &mut [bool],
        judge: &mut Judge<'_>,
    ) -> Result<(), C::Error> {
        match self {
            Self::All(conditions) => {
                for condition in conditions {
                    if !mask.contains(&true) {
                        return Ok(());
                    }
                    condition.narrow(batch, mask, judge)?;
                }
            }
            Self::Any(conditions) => {
                let mut found = vec![false; mask.len()];
                for condition in conditions {
                    let mut one = mask.to_vec();
                    condition.narrow(batch, &mut one, judge)?;
                    for (is_found, matches) in found.iter_mut().zip(one) {
                        *is_found |= matches;
                    }
                }
                mask.copy_from_slice(&found);
            }
            Self::Within { column, min, max } => {
                let (min, max) = (*min, *max);
                keep(mask, batch.vector(*column)?, |n| (n >= min) & (n <= max));
            }
            Self::Outside { column, min, max } => {
                let (min, max) = (*min, *max);
                keep(mask, batch.vector(*column)?, |n| (n < min) | (n > max));
            }
            Self::In { column, numbers } => {
                keep(mask, batch.vector(*column)?, |n| {
                    numbers.binary_search(&n).is_ok()
                });
            }
            Self::NotIn { column, numbers } => {
                keep(mask, batch.vector(*column)?, |n| {
                    numbers.binary_search(&n).is_err()
                });
            }
            Self::Compare {
                left,
                right,
                comparison,
            } => {
                batch.vector(*left)?;
                batch.vector(*right)?;
                let (Some(left), Some(right)) = (batch.loaded(*left), batch.loaded(*right)) else {
                    mask.fill(false);
                    return Ok(());
                };
                keep_pairs(mask, left, right, |left, right| {
                    comparison.is_true(left, right)
                });
            }
            Self::Accepted { column, condition } => {
                let vector = batch.vector(*column)?;
                let VectorValues::Texts(texts) = vector.values() else {
                    mask.fill(false);
                    return Ok(());
                };
                for (row, is_kept) in mask.iter_mut().enumerate() {
                    *is_kept = *is_kept
                        && !vector.is_null(row)
                        && judge.accepts(*condition, texts.get(row));
                }
            }
            Self::IsNull { column } => match batch.vector(*column)?.nulls() {
                [] => mask.fill(false),
                nulls => {
                    for (is_kept, is_null) in mask.iter_mut().zip(nulls) {
                        *is_kept &= is_null;
                    }
                }
            },
            Self::IsNotNull { column } => {
                let nulls = batch.vector(*column)?.nulls();
                for (is_kept, is_null) in mask.iter_mut().zip(nulls) {
                    *is_kept &= !is_null;
                }
            }
        }
        Ok(())
    }

    /// Whether a row of these zones may match. `zone`: what is known of a column; `None`: nothing.
    #[must_use]
    pub fn may_match(&self, zone: &dyn Fn(usize) -> Option<Zone>) -> bool {
        match self {
            Self::All(conditions) => conditions.iter().all(|of| of.may_match(zone)),
            Self::Any(conditions) => conditions.iter().any(|of| of.may_match(zone)),
            Self::Within { column, min, max } => {
                has_number(zone(*column), |zone| zone.min <= *max && zone.max >= *min)
            }
            Self::Outside { column, min, max } => {
                has_number(zone(*column), |zone| zone.min < *min || zone.max > *max)
            }
            Self::In { column, numbers } => has_number(zone(*column), |zone| {
                let first = numbers.partition_point(|number| *number < zone.min);
                numbers.get(first).is_some_and(|number| *number <= zone.max)
            }),
            Self::NotIn { column, numbers } => has_number(zone(*column), |zone| {
                zone.min != zone.max || numbers.binary_search(&zone.min).is_err()
            }),
            Self::Compare {
                left,
                right,
                comparison,
            } => match (zone(*left), zone(*right)) {
                (Some(left), Some(right)) => {
                    left.has_values && right.has_values && comparison.may_be_true(left, right)
                }
                (of_left, of_right) => of_left.or(of_right).is_none_or(|zone| zone.has_values),
            },
            Self::Accepted { column, .. } | Self::IsNotNull { column } => {
                zone(*column).is_none_or(|zone| zone.has_values)
            }
            Self::IsNull { column } => zone(*column).is_none_or(|zone| zone.has_nulls),
        }
    }

    /// The columns whose numbers are compared.
    #[must_use]
    pub fn numbers(&self) -> Vec<usize> {
        match self {
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().flat_map(Self::numbers).collect()
            }
            Self::Within { column, .. }
            | Self::Outside { column, .. }
            | Self::In { column, .. }
            | Self::NotIn { column, .. } => vec![*column],
            Self::Compare { left, right, .. } => vec![*left, *right],
            Self::Accepted { .. } | Self::IsNull { .. } | Self::IsNotNull { .. } => Vec::new(),
        }
    }

    /// The columns that are compared with another column.
    #[must_use]
    pub fn compared(&self) -> Vec<usize> {
        match self {
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().flat_map(Self::compared).collect()
            }
            Self::Compare { left, right, .. } => vec![*left, *right],
            _ => Vec::new(),
        }
    }

    /// The columns of which byte strings are compared.
    #[must_use]
    pub fn texts(&self) -> Vec<usize> {
        match self {
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().flat_map(Self::texts).collect()
            }
            Self::Accepted { column, .. } => vec![*column],
            _ => Vec::new(),
        }
    }

    /// Whether all columns are among the first `count`.
    pub(crate) fn is_valid(&self, count: usize) -> bool {
        match self {
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().all(|condition| condition.is_valid(count))
            }
            Self::Compare { left, right, .. } => (*left).max(*right) < count,
            Self::Within { column, .. }
            | Self::Outside { column, .. }
            | Self::In { column, .. }
            | Self::NotIn { column, .. }
            | Self::Accepted { column, .. }
            | Self::IsNull { column }
            | Self::IsNotNull { column } => *column < count,
        }
    }
}
