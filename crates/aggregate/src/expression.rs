//! Exact arithmetic with the columns of rows.

use crate::batch::{Batch, Columns};
use num_bigint::BigInt;
use teak_columns::VectorValues;

/// A step of an expression. It takes its operands from a stack, the last one first, and leaves its result there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The number of a column.
    Column(usize),
    /// A number.
    Constant(i64),
    /// The sum of two numbers.
    Add,
    /// A number less the one after it.
    Subtract,
    /// The product of two numbers.
    Multiply,
    /// A number with the other sign.
    Negate,
}

/// An expression over numbers: NULL if one of its columns is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    steps: Vec<Step>,
    /// Each column once.
    columns: Vec<usize>,
}

/// The results of an expression for the selected rows of a batch.
pub(crate) enum Results {
    Numbers(Vec<i64>),
    /// Those that may not fit 64 bits.
    Big(Vec<BigInt>),
}

/// An inclusive range that contains the results of a step.
#[derive(Clone, Copy)]
struct Interval {
    min: i128,
    max: i128,
}

impl Interval {
    fn of(a: i128, b: i128) -> Self {
        Self {
            min: a.min(b),
            max: a.max(b),
        }
    }

    /// `None` if results may not fit 64 bits. Then nothing overflows here: the operands fit.
    fn if_small(self) -> Option<Self> {
        let fits = |number: i128| i64::try_from(number).is_ok();
        (fits(self.min) && fits(self.max)).then_some(self)
    }

    fn multiply(self, other: Self) -> Self {
        let products = [
            self.min * other.min,
            self.min * other.max,
            self.max * other.min,
            self.max * other.max,
        ];
        let start = Self::of(products[0], products[0]);
        products.iter().fold(start, |range, product| Self {
            min: range.min.min(*product),
            max: range.max.max(*product),
        })
    }
}

impl Expression {
    /// `None` unless the steps leave exactly one number.
    #[must_use]
    pub fn new(steps: Vec<Step>) -> Option<Self> {
        let (mut depth, mut columns) = (0usize, Vec::new());
        for step in &steps {
            let operands = match step {
                Step::Column(column) => {
                    columns.push(*column);
                    0
                }
                Step::Constant(_) => 0,
                Step::Negate => 1,
                Step::Add | Step::Subtract | Step::Multiply => 2,
            };
            depth = depth.checked_sub(operands)? + 1;
        }
        columns.sort_unstable();
        columns.dedup();
        (depth == 1).then_some(Self { steps, columns })
    }

    /// The columns, each once.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether the expression is the number of a column.
    #[must_use]
    pub fn is_column(&self) -> bool {
        matches!(self.steps.as_slice(), [Step::Column(_)])
    }

    /// Evaluates the expression for rows in which none of its columns is NULL.
    pub(crate) fn evaluate<C: Columns>(
        &self,
        batch: &mut Batch<'_, C>,
        rows: &[u32],
    ) -> Result<Results, C::Error> {
        let mut stack: Vec<Vec<i64>> = Vec::new();
        let mut ranges: Vec<Interval> = Vec::new();
        for step in &self.steps {
            let range = match step {
                Step::Column(column) => {
                    let numbers = gather(batch, *column, rows)?;
                    let range = range_of(&numbers);
                    stack.push(numbers);
                    Some(range)
                }
                Step::Constant(number) => {
                    stack.push(vec![*number; rows.len()]);
                    Some(Interval::of(i128::from(*number), i128::from(*number)))
                }
                Step::Negate => ranges.pop().and_then(|range| {
                    let range = Interval::of(-range.min, -range.max).if_small()?;
                    for number in stack.last_mut()? {
                        *number = number.wrapping_neg();
                    }
                    Some(range)
                }),
                Step::Add | Step::Subtract | Step::Multiply => {
                    apply(*step, &mut stack, &mut ranges)
                }
            };
            match range {
                Some(range) => ranges.push(range),
                None => return self.evaluate_big(batch, rows).map(Results::Big),
            }
        }
        Ok(Results::Numbers(stack.pop().unwrap_or_default()))
    }

    fn evaluate_big<C: Columns>(
        &self,
        batch: &mut Batch<'_, C>,
        rows: &[u32],
    ) -> Result<Vec<BigInt>, C::Error> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            columns.push(gather(batch, *column, rows)?);
        }
        let mut results = Vec::with_capacity(rows.len());
        for row in 0..rows.len() {
            let number_of = |column: usize| {
                let place = self.columns.binary_search(&column).ok();
                let numbers = place.and_then(|place| columns.get(place));
                numbers.and_then(|numbers| numbers.get(row)).copied()
            };
            results.push(self.evaluate_row(number_of).unwrap_or_default());
        }
        Ok(results)
    }

    /// Never `None`: `new` has checked the operands.
    fn evaluate_row(&self, number_of: impl Fn(usize) -> Option<i64>) -> Option<BigInt> {
        let mut stack: Vec<BigInt> = Vec::new();
        for step in &self.steps {
            let result = match step {
                Step::Column(column) => BigInt::from(number_of(*column)?),
                Step::Constant(number) => BigInt::from(*number),
                Step::Negate => -stack.pop()?,
                Step::Add | Step::Subtract | Step::Multiply => {
                    let (second, first) = (stack.pop()?, stack.pop()?);
                    match step {
                        Step::Add => first + second,
                        Step::Subtract => first - second,
                        _ => first * second,
                    }
                }
            };
            stack.push(result);
        }
        stack.pop()
    }
}

/// Applies a step with two operands. `None` if results may not fit 64 bits.
fn apply(step: Step, stack: &mut Vec<Vec<i64>>, ranges: &mut Vec<Interval>) -> Option<Interval> {
    let (second, first) = (ranges.pop()?, ranges.pop()?);
    let range = match step {
        Step::Add => Interval {
            min: first.min + second.min,
            max: first.max + second.max,
        },
        Step::Subtract => Interval {
            min: first.min - second.max,
            max: first.max - second.min,
        },
        _ => first.multiply(second),
    };
    let range = range.if_small()?;
    let operands = stack.pop()?;
    let numbers = stack.last_mut()?.iter_mut().zip(operands);
    match step {
        Step::Add => numbers.for_each(|(number, other)| *number = number.wrapping_add(other)),
        Step::Subtract => numbers.for_each(|(number, other)| *number = number.wrapping_sub(other)),
        _ => numbers.for_each(|(number, other)| *number = number.wrapping_mul(other)),
    }
    Some(range)
}

fn range_of(numbers: &[i64]) -> Interval {
    let min = numbers.iter().copied().min().unwrap_or(0);
    let max = numbers.iter().copied().max().unwrap_or(0);
    Interval::of(i128::from(min), i128::from(max))
}

/// The numbers of some rows of a column.
pub(crate) fn gather<C: Columns>(
    batch: &mut Batch<'_, C>,
    column: usize,
    rows: &[u32],
) -> Result<Vec<i64>, C::Error> {
    let VectorValues::Numbers(numbers) = batch.vector(column)?.values() else {
        return Ok(vec![0; rows.len()]);
    };
    if rows.len() == numbers.len() {
        return Ok(numbers.clone());
    }
    let number = |row: &u32| numbers.get(*row as usize).copied().unwrap_or(0);
    Ok(rows.iter().map(number).collect())
}
