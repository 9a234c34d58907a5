//! The description of what teak_aggregate_open() computes.

use crate::boundary::{Failure, array};
use crate::table::{column_of, teak_column};
use ::teak_engine::ReadColumn;
use ::teak_engine::aggregate::{Aggregate, Comparison, Condition, Expression, Key, Query, Step};

/// Conditions of the caller.
const CALLER_CONDITIONS_MAX: u32 = 16;

/// The kind of a condition.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_condition_kind {
    /// All of the `operands` conditions before this one that are not operands yet.
    TEAK_CONDITION_ALL = 0,
    /// At least one of them.
    TEAK_CONDITION_ANY = 1,
    /// The number of the column is at least `min` and at most `max`.
    TEAK_CONDITION_WITHIN = 2,
    /// The number of the column is less than `min` or more than `max`.
    TEAK_CONDITION_OUTSIDE = 3,
    /// The number of the column is one of `numbers`.
    TEAK_CONDITION_IN = 4,
    /// The number of the column is none of `numbers`.
    TEAK_CONDITION_NOT_IN = 5,
    /// The column is NULL.
    TEAK_CONDITION_IS_NULL = 6,
    /// The column is not NULL.
    TEAK_CONDITION_IS_NOT_NULL = 7,
    /// The column has byte strings, and `accepts` of the calls returns true for it.
    TEAK_CONDITION_ACCEPTED = 8,
    /// The number of the column is less than that of `other`. Both are of the same kind of column: for example integers, or
    /// decimals with as many digits after the point.
    TEAK_CONDITION_LESS = 9,
    /// It is less or equal.
    TEAK_CONDITION_LESS_OR_EQUAL = 10,
    /// It is equal.
    TEAK_CONDITION_EQUAL = 11,
    /// It is not equal.
    TEAK_CONDITION_NOT_EQUAL = 12,
}

/// The number of a `teak_condition_kind`, as C passes it.
pub type teak_condition_kind_number = u32;

/// A condition of a row. If a column is NULL, its number matches no condition.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_condition {
    /// What must be true.
    pub kind: teak_condition_kind_number,
    /// The place of the column among the columns of the query.
    pub column: u32,
    /// Of TEAK_CONDITION_ALL and TEAK_CONDITION_ANY: how many conditions. Of TEAK_CONDITION_ACCEPTED: the number of the
    /// caller's condition, at most 15.
    pub operands: u32,
    /// The minimum.
    pub min: i64,
    /// The maximum.
    pub max: i64,
    /// Numbers in ascending order.
    pub numbers: *const i64,
    /// How many.
    pub number_count: usize,
    /// The place of the other column.
    pub other: u32,
}

/// The kind of a step.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_step_kind {
    /// The number of `column`.
    TEAK_STEP_COLUMN = 0,
    /// `number`.
    TEAK_STEP_NUMBER = 1,
    /// The sum of the two numbers before.
    TEAK_STEP_ADD = 2,
    /// The first of the two numbers before less the second one.
    TEAK_STEP_SUBTRACT = 3,
    /// The product of the two numbers before.
    TEAK_STEP_MULTIPLY = 4,
    /// The number before with the other sign.
    TEAK_STEP_NEGATE = 5,
}

/// The number of a `teak_step_kind`, as C passes it.
pub type teak_step_kind_number = u32;

/// A step of an expression in postfix order. No step overflows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_step {
    /// What the step does.
    pub kind: teak_step_kind_number,
    /// The place of the column among the columns of the query.
    pub column: u32,
    /// A number.
    pub number: i64,
}

/// The kind of an aggregate.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_aggregate_kind {
    /// The number of rows.
    TEAK_AGGREGATE_COUNT_ROWS = 0,
    /// The number of rows in which `column` is not NULL.
    TEAK_AGGREGATE_COUNT = 1,
    /// The sum of an expression over the rows in which none of its columns is NULL.
    TEAK_AGGREGATE_SUM = 2,
    /// The minimum of `column`.
    TEAK_AGGREGATE_MIN = 3,
    /// The maximum of `column`.
    TEAK_AGGREGATE_MAX = 4,
    /// The sum of `column`, of kind TEAK_COLUMN_FLOAT, over the rows in which it is not NULL, in the order of the index.
    TEAK_AGGREGATE_SUM_FLOATS = 5,
    /// The minimum of `column`, of kind TEAK_COLUMN_FLOAT, without NaN. -0.0 and 0.0 are equal: of equal ones the first. If all
    /// values are NaN, an infinity.
    TEAK_AGGREGATE_MIN_FLOAT = 6,
    /// The maximum of `column`, as TEAK_AGGREGATE_MIN_FLOAT.
    TEAK_AGGREGATE_MAX_FLOAT = 7,
}

/// The number of a `teak_aggregate_kind`, as C passes it.
pub type teak_aggregate_kind_number = u32;

/// An aggregate.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_aggregate_item {
    /// What is computed.
    pub kind: teak_aggregate_kind_number,
    /// The place of the column among the columns of the query.
    pub column: u32,
    /// The expression.
    pub steps: *const teak_step,
    /// The number of its steps.
    pub step_count: usize,
}

/// A column by which rows are grouped.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_group_key {
    /// The place of the column among the columns of the query.
    pub column: u32,
    /// Whether its byte strings are compared by their weights.
    pub is_weighed: bool,
}

/// A column that a query reads.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_read_column {
    /// Whether it is a column of the index's keys.
    pub is_in_key: bool,
    /// Its number: among those of keys, or counted as the bits of teak_columns_new(), but not the first one.
    pub number: usize,
    /// Of a column of keys, which must be of kind TEAK_COLUMN_UNSIGNED_BIG: the column of values of the same width
    /// whose numbers it has. The keys contain them big-endian, and signed ones with the inverted sign.
    pub value: teak_column,
}

/// What is computed from rows.
#[repr(C)]
pub struct teak_aggregate_query {
    /// The columns that are read, each once.
    pub columns: *const teak_read_column,
    /// Their number.
    pub column_count: usize,
    /// The condition of the rows, in postfix order: operands precede the condition that they belong to.
    pub conditions: *const teak_condition,
    /// The number of conditions; 0: all rows count.
    pub condition_count: usize,
    /// The columns by which rows are grouped.
    pub keys: *const teak_group_key,
    /// Their number; 0: all rows are one group, even if there are no rows.
    pub key_count: usize,
    /// What is computed for each group.
    pub items: *const teak_aggregate_item,
    /// Their number.
    pub item_count: usize,
    /// Bytes of groups in memory. If they take more, the rows are read several times.
    pub memory_max: usize,
}

fn condition_of(
    condition: &teak_condition,
    stack: &mut Vec<Condition>,
) -> Result<Condition, Failure> {
    let column = condition.column as usize;
    let (min, max) = (condition.min, condition.max);
    let compare = |comparison| Condition::Compare {
        left: column,
        right: condition.other as usize,
        comparison,
    };
    let numbers = || {
        // SAFETY: the contract of `boundary`.
        let numbers = unsafe { array(condition.numbers, condition.number_count, "numbers") }?;
        match numbers.is_sorted() {
            true => Ok(numbers.to_vec()),
            false => Err(Failure::invalid("numbers do not ascend")),
        }
    };
    let mut operands = || {
        let from = stack.len().checked_sub(condition.operands as usize);
        let from = from.ok_or_else(|| Failure::invalid("a condition lacks operands"))?;
        Ok::<_, Failure>(stack.split_off(from))
    };
    Ok(match condition.kind {
        0 => Condition::All(operands()?),
        1 => Condition::Any(operands()?),
        2 => Condition::Within { column, min, max },
        3 => Condition::Outside { column, min, max },
        4 => Condition::In {
            column,
            numbers: numbers()?,
        },
        5 => Condition::NotIn {
            column,
            numbers: numbers()?,
        },
        6 => Condition::IsNull { column },
        7 => Condition::IsNotNull { column },
        8 if condition.operands < CALLER_CONDITIONS_MAX => Condition::Accepted {
            column,
            condition: condition.operands as usize,
        },
        8 => return Err(Failure::invalid("the number of a condition is too large")),
        9 => compare(Comparison::Less),
        10 => compare(Comparison::LessOrEqual),
        11 => compare(Comparison::Equal),
        12 => compare(Comparison::NotEqual),
        _ => return Err(Failure::invalid("kind is not a teak_condition_kind")),
    })
}

/// The condition of rows; `None` if there are no conditions.
///
/// # Safety
/// The contract of `boundary`.
pub(super) unsafe fn conditions_of(
    conditions: *const teak_condition,
    count: usize,
) -> Result<Option<Condition>, Failure> {
    // SAFETY: the caller guarantees it.
    let conditions = unsafe { array(conditions, count, "conditions")? };
    let mut stack = Vec::new();
    for condition in conditions {
        let condition = condition_of(condition, &mut stack)?;
        stack.push(condition);
    }
    let condition = stack.pop();
    match stack.is_empty() {
        true => Ok(condition),
        false => Err(Failure::invalid("a condition is no operand")),
    }
}

fn expression_of(steps: &[teak_step]) -> Result<Expression, Failure> {
    let mut converted = Vec::with_capacity(steps.len());
    for step in steps {
        converted.push(match step.kind {
            0 => Step::Column(step.column as usize),
            1 => Step::Constant(step.number),
            2 => Step::Add,
            3 => Step::Subtract,
            4 => Step::Multiply,
            5 => Step::Negate,
            _ => return Err(Failure::invalid("kind is not a teak_step_kind")),
        });
    }
    let expression = Expression::new(converted);
    expression.ok_or_else(|| Failure::invalid("the steps do not leave one number"))
}

fn aggregate_of(item: &teak_aggregate_item) -> Result<Aggregate, Failure> {
    let column = item.column as usize;
    Ok(match item.kind {
        0 => Aggregate::CountRows,
        1 => Aggregate::Count(column),
        2 => {
            // SAFETY: the contract of `boundary`.
            let steps = unsafe { array(item.steps, item.step_count, "steps") }?;
            Aggregate::Sum(expression_of(steps)?)
        }
        3 => Aggregate::Min(column),
        4 => Aggregate::Max(column),
        5 => Aggregate::SumFloats(column),
        6 => Aggregate::MinFloat(column),
        7 => Aggregate::MaxFloat(column),
        _ => return Err(Failure::invalid("kind is not a teak_aggregate_kind")),
    })
}

/// The columns that are read.
///
/// # Safety
/// The contract of `boundary`.
pub(super) unsafe fn columns_of(
    columns: *const teak_read_column,
    count: usize,
) -> Result<Vec<ReadColumn>, Failure> {
    // SAFETY: the caller guarantees it.
    let columns = unsafe { array(columns, count, "columns")? };
    let column = |column: &teak_read_column| {
        let number = column.number;
        if !column.is_in_key {
            return Ok(ReadColumn::Value(number));
        }
        let value = column_of(&column.value);
        let value = value.ok_or_else(|| Failure::invalid("value is not a column"))?;
        Ok(ReadColumn::Key { number, value })
    };
    columns.iter().map(column).collect()
}

/// The query of the engine.
pub(super) fn query_of(query: &teak_aggregate_query) -> Result<Query, Failure> {
    // SAFETY: the contract of `boundary`, for all of these.
    let (condition, keys, items) = unsafe {
        (
            conditions_of(query.conditions, query.condition_count)?,
            array(query.keys, query.key_count, "keys")?,
            array(query.items, query.item_count, "items")?,
        )
    };
    let key = |key: &teak_group_key| Key {
        column: key.column as usize,
        is_weighed: key.is_weighed,
    };
    Ok(Query {
        columns: query.column_count,
        condition,
        keys: keys.iter().map(key).collect(),
        aggregates: items.iter().map(aggregate_of).collect::<Result<_, _>>()?,
    })
}
