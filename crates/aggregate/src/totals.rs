//! The aggregates of groups.

use crate::batch::{Batch, Columns};
use crate::expression::{Expression, Results, gather};
use hashbrown::HashMap;
use num_bigint::BigInt;
use teak_columns::{VectorValues, float_of};

/// What is computed for each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The number of rows.
    CountRows,
    /// The number of rows in which a column is not NULL.
    Count(usize),
    /// The sum of an expression over the rows in which it is not NULL, and the number of these rows.
    Sum(Expression),
    /// The minimum of a column.
    Min(usize),
    /// The maximum of a column.
    Max(usize),
    /// The sum of a column of floats, which are added in the order of the rows.
    SumFloats(usize),
    /// The minimum of a column of floats, without NaN: the first one, if -0.0 and 0.0 are both the minimum.
    MinFloat(usize),
    /// The maximum of a column of floats, without NaN: the first one, if -0.0 and 0.0 are both the maximum.
    MaxFloat(usize),
}

/// The result of an aggregate for a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Total {
    /// Of `CountRows` and `Count`.
    Count(u64),
    /// Of `Sum`.
    Sum {
        /// The sum.
        sum: BigInt,
        /// The number of rows with a result.
        count: u64,
    },
    /// Of `Min` and `Max`; `None` if the column is NULL in all rows.
    Extreme(Option<i64>),
    /// Of `SumFloats`, `MinFloat` and `MaxFloat`; `None` if the column is NULL in all rows.
    Float(Option<f64>),
}

/// The selected rows of a batch, and the group of each.
pub(crate) struct Selected<'a> {
    pub(crate) rows: &'a [u32],
    /// As many as `rows`; empty if all rows are of group 0.
    pub(crate) groups: &'a [u32],
}

/// The totals of one aggregate for all groups.
#[derive(Debug)]
pub(crate) struct Totals {
    aggregate: Aggregate,
    /// The number of rows that count for the aggregate.
    counts: Vec<u64>,
    /// Of the results that fit 64 bits. As many as `counts` for `Sum`.
    sums: Vec<i128>,
    /// Of the other results; few groups have any.
    big: HashMap<u32, BigInt>,
    /// As many as `counts` for `Min` and `Max`.
    extremes: Vec<i64>,
    /// As many as `counts` for `SumFloats`, `MinFloat` and `MaxFloat`.
    floats: Vec<f64>,
}

impl Totals {
    pub(crate) fn new(aggregate: Aggregate) -> Self {
        Self {
            aggregate,
            counts: Vec::new(),
            sums: Vec::new(),
            big: HashMap::new(),
            extremes: Vec::new(),
            floats: Vec::new(),
        }
    }

    /// The columns of the aggregate.
    pub(crate) fn columns(&self) -> &[usize] {
        match &self.aggregate {
            Aggregate::CountRows => &[],
            Aggregate::Count(column)
            | Aggregate::Min(column)
            | Aggregate::Max(column)
            | Aggregate::SumFloats(column)
            | Aggregate::MinFloat(column)
            | Aggregate::MaxFloat(column) => std::slice::from_ref(column),
            Aggregate::Sum(expression) => expression.columns(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.counts.clear();
        self.sums.clear();
        self.big.clear();
        self.extremes.clear();
        self.floats.clear();
    }

    /// Adds groups up to this number.
    pub(crate) fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        match self.aggregate {
            Aggregate::CountRows | Aggregate::Count(_) => {}
            Aggregate::Sum(_) => self.sums.resize(groups, 0),
            Aggregate::Min(_) => self.extremes.resize(groups, i64::MAX),
            Aggregate::Max(_) => self.extremes.resize(groups, i64::MIN),
            // The only number that does not change what is added to it.
            Aggregate::SumFloats(_) => self.floats.resize(groups, -0.0),
            Aggregate::MinFloat(_) => self.floats.resize(groups, f64::INFINITY),
            Aggregate::MaxFloat(_) => self.floats.resize(groups, f64::NEG_INFINITY),
        }
    }

    /// Retains the groups with these numbers, which ascend, and renumbers them.
    pub(crate) fn retain(&mut self, kept: &[u32]) {
        fn pick<T: Copy>(kept: &[u32], values: &mut Vec<T>) {
            let picked = kept
                .iter()
                .filter_map(|number| values.get(*number as usize));
            *values = picked.copied().collect();
        }
        pick(kept, &mut self.counts);
        pick(kept, &mut self.sums);
        pick(kept, &mut self.extremes);
        pick(kept, &mut self.floats);
        let numbered = (0u32..).zip(kept);
        let big = numbered.filter_map(|(new, old)| Some((new, self.big.remove(old)?)));
        self.big = big.collect();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
            + self.sums.capacity() * size_of::<i128>()
            + self.extremes.capacity() * size_of::<i64>()
            + self.floats.capacity() * size_of::<f64>()
            + self.big.capacity() * 128
    }

    /// Adds rows to the totals of their groups.
    pub(crate) fn add<C: Columns>(
        &mut self,
        batch: &mut Batch<'_, C>,
        selected: &Selected<'_>,
    ) -> Result<(), C::Error> {
        let columns = self.columns().to_vec();
        let mut is_null = Vec::new();
        for column in &columns {
            let nulls = batch.vector(*column)?.nulls();
            if !nulls.is_empty() {
                is_null.resize(selected.rows.len(), false);
                for (is_null, row) in is_null.iter_mut().zip(selected.rows) {
                    *is_null |= nulls.get(*row as usize).copied().unwrap_or(false);
                }
            }
        }
        if is_null.contains(&true) {
            let pick = |numbers: &[u32]| -> Vec<u32> {
                let present = numbers
                    .iter()
                    .zip(&is_null)
                    .filter(|(_, is_null)| !**is_null);
                present.map(|(number, _)| *number).collect()
            };
            let (rows, groups) = (pick(selected.rows), pick(selected.groups));
            return self.add_present(
                batch,
                &Selected {
                    rows: &rows,
                    groups: &groups,
                },
            );
        }
        self.add_present(batch, selected)
    }

    /// Adds rows in which no column of the aggregate is NULL.
    fn add_present<C: Columns>(
        &mut self,
        batch: &mut Batch<'_, C>,
        selected: &Selected<'_>,
    ) -> Result<(), C::Error> {
        let Selected { rows, groups } = *selected;
        if rows.is_empty() {
            return Ok(());
        }
        let one_group = groups.is_empty();
        match (one_group, self.counts.first_mut()) {
            (true, Some(count)) => *count += rows.len() as u64,
            _ => add_each(&mut self.counts, groups, std::iter::repeat(1)),
        }
        match &self.aggregate {
            Aggregate::CountRows | Aggregate::Count(_) => {}
            Aggregate::Sum(expression) => match expression.evaluate(batch, rows)? {
                Results::Numbers(numbers) => {
                    let numbers = numbers.iter().map(|number| i128::from(*number));
                    match (one_group, self.sums.first_mut()) {
                        (true, Some(sum)) => *sum += numbers.sum::<i128>(),
                        _ => add_each(&mut self.sums, groups, numbers),
                    }
                }
                Results::Big(numbers) => {
                    for (place, number) in numbers.into_iter().enumerate() {
                        let group = groups.get(place).copied().unwrap_or(0);
                        *self.big.entry(group).or_default() += number;
                    }
                }
            },
            Aggregate::Min(column) => {
                let numbers = gather(batch, *column, rows)?;
                fold_each(&mut self.extremes, groups, &numbers, i64::min);
            }
            Aggregate::Max(column) => {
                let numbers = gather(batch, *column, rows)?;
                fold_each(&mut self.extremes, groups, &numbers, i64::max);
            }
            Aggregate::SumFloats(column) => {
                let floats = floats_of(batch, *column, rows)?;
                fold_each(&mut self.floats, groups, &floats, |sum, float| sum + float);
            }
            Aggregate::MinFloat(column) => {
                let floats = floats_of(batch, *column, rows)?;
                let lower = |min: f64, float: f64| if float < min { float } else { min };
                fold_each(&mut self.floats, groups, &floats, lower);
            }
            Aggregate::MaxFloat(column) => {
                let floats = floats_of(batch, *column, rows)?;
                let higher = |max: f64, float: f64| if float > max { float } else { max };
                fold_each(&mut self.floats, groups, &floats, higher);
            }
        }
        Ok(())
    }

    /// The number of rows of a group that count.
    pub(crate) fn count(&self, group: u32) -> Option<u64> {
        self.counts.get(group as usize).copied()
    }

    /// The total of a group; `None` if there is no such group.
    pub(crate) fn total(&self, group: u32) -> Option<Total> {
        let place = group as usize;
        let count = *self.counts.get(place)?;
        Some(match self.aggregate {
            Aggregate::CountRows | Aggregate::Count(_) => Total::Count(count),
            Aggregate::Sum(_) => {
                let mut sum = BigInt::from(*self.sums.get(place)?);
                if let Some(big) = self.big.get(&group) {
                    sum += big;
                }
                Total::Sum { sum, count }
            }
            Aggregate::Min(_) | Aggregate::Max(_) => {
                let extreme = *self.extremes.get(place)?;
                Total::Extreme((count > 0).then_some(extreme))
            }
            Aggregate::SumFloats(_) | Aggregate::MinFloat(_) | Aggregate::MaxFloat(_) => {
                let float = *self.floats.get(place)?;
                Total::Float((count > 0).then_some(float))
            }
        })
    }
}

/// Combines values with the totals of their groups, in their order.
fn fold_each<T: Copy>(totals: &mut [T], groups: &[u32], values: &[T], combine: impl Fn(T, T) -> T) {
    if let (true, Some(total)) = (groups.is_empty(), totals.first_mut()) {
        *total = values.iter().copied().fold(*total, combine);
        return;
    }
    for (value, group) in values.iter().zip(groups) {
        if let Some(total) = totals.get_mut(*group as usize) {
            *total = combine(*total, *value);
        }
    }
}

/// The values of a column of floats.
fn floats_of<C: Columns>(
    batch: &mut Batch<'_, C>,
    column: usize,
    rows: &[u32],
) -> Result<Vec<f64>, C::Error> {
    let VectorValues::Texts(texts) = batch.vector(column)?.values() else {
        return Ok(vec![0.0; rows.len()]);
    };
    let float = |row: &u32| float_of(texts.get(*row as usize)).unwrap_or(0.0);
    Ok(rows.iter().map(float).collect())
}

fn add_each<T: std::ops::AddAssign>(
    totals: &mut [T],
    groups: &[u32],
    numbers: impl Iterator<Item = T>,
) {
    for (group, number) in groups.iter().zip(numbers) {
        if let Some(total) = totals.get_mut(*group as usize) {
            *total += number;
        }
    }
}
