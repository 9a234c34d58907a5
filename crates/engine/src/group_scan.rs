//! Aggregates of the rows of tables, computed by column where pages allow it.

use crate::cursor::{ColumnBatch, ColumnScan, OpenedPage, Row, suits_columns};
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::table_handle::TableHandle;
use crate::transaction::EngineTransaction;
use num_bigint::BigInt;
use teak_aggregate::{
    Aggregate, Aggregator, Columns, Expression, KeyValue, Query, TextRules, Total,
};
use teak_base::StorageError;
use teak_columns::{Kind, Vector};
use teak_tree::{Column, ColumnChoice, ReadColumn};

/// Rows of pages that are read by row, which are added together.
const ROWS_MAX: usize = 4096;

/// What the caller does for a scan.
pub trait GroupScanCaller: TextRules {
    /// Converts a value that does not have the form that the columns describe, because it was written before the
    /// columns were changed. `table`: its number among those of the scan. `None` if the value is malformed.
    fn convert(&mut self, table: usize, key: &[u8], value: &[u8]) -> Option<&[u8]>;
}

/// A table whose rows are read, for example a partition.
#[derive(Clone, Copy)]
pub struct GroupedTable<'a> {
    /// The table.
    pub table: &'a TableHandle,
    /// As for [`TableHandle::projection`].
    pub beginning: &'a [u8],
}

/// Aggregates of the rows that a transaction's view sees.
pub struct GroupScan {
    /// For each table; read one after the other.
    scans: Vec<ColumnScan>,
    /// The columns of the first table, which are of the same types as those of the others.
    choice: ColumnChoice,
    aggregator: Aggregator,
    query: Query,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No rows of this pass have been read.
    Begin,
    /// The next group of this pass.
    Group(u32),
    End,
}

impl EngineTransaction {
    /// Prepares to compute aggregates of the rows of the same index of some tables, which have the same columns.
    /// `columns`: those that the query counts. `memory_max`: of groups, in bytes; if they take more, the rows are read
    /// several times.
    ///
    /// # Errors
    /// As [`EngineTransaction::cursor`]; `InvalidArgument` if there is no table, if an index or the query has no such
    /// columns, or the query calculates with byte strings, with floats except for their own aggregates and conditions, or with
    /// unsigned integers of eight bytes except for their sum.
    pub fn group_scan(
        &mut self,
        tables: &[GroupedTable<'_>],
        index: IndexNumber,
        columns: &[ReadColumn],
        mut query: Query,
        memory_max: usize,
    ) -> EngineResult<GroupScan> {
        let scans = tables
            .iter()
            .map(|of| self.column_scan(of.table, index, of.beginning, columns));
        let scans = scans.collect::<EngineResult<Vec<ColumnScan>>>()?;
        query.columns = columns.len();
        let invalid = || EngineError::InvalidArgument("the query does not suit the columns".into());
        let scan = GroupScan {
            choice: scans.first().ok_or_else(invalid)?.choice().clone(),
            scans,
            aggregator: Aggregator::new(query.clone(), memory_max).ok_or_else(invalid)?,
            query,
            state: State::Begin,
        };
        match scan.is_valid() && scan.has_equal_columns() {
            true => Ok(scan),
            false => Err(invalid()),
        }
    }
}

/// Columns of rows that were read one by one.
struct Gathered {
    rows: usize,
    vectors: Vec<Vector>,
}

impl Columns for Gathered {
    type Error = StorageError;

    fn rows(&self) -> usize {
        self.rows
    }

    fn vector(&mut self, column: usize) -> Result<Vector, StorageError> {
        let missing = || Vector::new(true);
        let taken = self.vectors.get_mut(column);
        Ok(taken.map_or_else(missing, |vector| std::mem::replace(vector, missing())))
    }
}

impl GroupScan {
    /// Moves to the next group; the first call reads the rows. Returns the number of the group, or `None` after the
    /// last.
    ///
    /// # Errors
    /// `Storage`, `Interrupted`; also if a value is malformed.
    pub fn next(
        &mut self,
        transaction: &mut EngineTransaction,
        caller: &mut dyn GroupScanCaller,
    ) -> EngineResult<Option<u32>> {
        loop {
            match std::mem::replace(&mut self.state, State::End) {
                State::End => return Ok(None),
                State::Begin => {
                    self.read(transaction, caller)?;
                    self.state = State::Group(0);
                }
                State::Group(group) if group < self.aggregator.groups() => {
                    self.state = State::Group(group + 1);
                    return Ok(Some(group));
                }
                State::Group(_) => {
                    if self.aggregator.next_pass() {
                        self.state = State::Begin;
                    }
                }
            }
        }
    }

    /// The number of pages that were not read, because no row can match according to the zones of their columns.
    #[must_use]
    pub fn unread_pages(&self) -> u64 {
        self.scans.iter().map(ColumnScan::unread_pages).sum()
    }

    /// Makes the next call of `next` read the rows again, in the transaction's current view.
    pub fn rewind(&mut self) {
        self.aggregator.restart();
        self.state = State::Begin;
    }

    /// Reads all rows, in the order of the tables and of their keys.
    fn read(
        &mut self,
        transaction: &mut EngineTransaction,
        caller: &mut dyn GroupScanCaller,
    ) -> EngineResult<()> {
        let (query, aggregator) = (&self.query, &mut self.aggregator);
        for (table, scan) in self.scans.iter_mut().enumerate() {
            scan.rewind();
            let mut adding = Adding {
                aggregator,
                caller,
                table,
            };
            read_table(scan, query, transaction, &mut adding)?;
            // Without its position, it retains no blocks.
            scan.rewind();
        }
        Ok(())
    }

    /// A part of the key of a group, as a value of its column: in the first row of the group that was found. `None` for
    /// NULL, and if there is no such part.
    #[must_use]
    pub fn key(&self, group: u32, part: usize) -> Option<Vec<u8>> {
        match self.aggregator.key(group).get(part)? {
            KeyValue::Number(number) => self.value_of(self.query.keys.get(part)?.column, *number),
            KeyValue::Text(text) => Some(text.to_vec()),
            KeyValue::Null => None,
        }
    }

    /// The number of rows that count for an aggregate of a group; `None` if there is no such group or aggregate.
    #[must_use]
    pub fn count(&self, group: u32, aggregate: usize) -> Option<u64> {
        self.aggregator.count(group, aggregate)
    }

    /// A sum. `None` if the aggregate is not one, or no row counts for it.
    #[must_use]
    pub fn sum(&self, group: u32, aggregate: usize) -> Option<BigInt> {
        let Total::Sum { sum, count } = self.aggregator.total(group, aggregate)? else {
            return None;
        };
        let is_less = match self.query.aggregates.get(aggregate)? {
            Aggregate::Sum(expression) => self.has_unsigned_longs(expression),
            _ => false,
        };
        let difference = BigInt::from(if is_less { count } else { 0 }) << 63u8;
        (count > 0).then_some(sum + difference)
    }

    /// A minimum or maximum, as a value of the column. `None` if the aggregate is neither, or no row counts for it.
    #[must_use]
    pub fn extreme(&self, group: u32, aggregate: usize) -> Option<Vec<u8>> {
        let aggregator = &self.aggregator;
        match self.query.aggregates.get(aggregate)? {
            Aggregate::Min(column) | Aggregate::Max(column) => {
                let Total::Extreme(number) = aggregator.total(group, aggregate)? else {
                    return None;
                };
                self.value_of(*column, number?)
            }
            Aggregate::MinFloat(column) | Aggregate::MaxFloat(column) => {
                let Total::Float(float) = aggregator.total(group, aggregate)? else {
                    return None;
                };
                let column = self.choice.column(*column)?;
                Some(bytes_of_float(float?, column.width()))
            }
            _ => None,
        }
    }

    /// A sum of floats. `None` if the aggregate is not one, or no row counts for it.
    #[must_use]
    pub fn sum_of_floats(&self, group: u32, aggregate: usize) -> Option<f64> {
        match (
            self.query.aggregates.get(aggregate)?,
            self.aggregator.total(group, aggregate)?,
        ) {
            (Aggregate::SumFloats(_), Total::Float(sum)) => sum,
            _ => None,
        }
    }

    fn value_of(&self, column: usize, number: i64) -> Option<Vec<u8>> {
        let column = self.choice.column(column).filter(|of| of.has_numbers())?;
        let mut bytes = Vec::new();
        column.put_value(number, &mut bytes);
        Some(bytes)
    }

    fn has_unsigned_longs(&self, expression: &Expression) -> bool {
        let mut columns = expression.columns().iter();
        columns.any(|column| {
            let column = self.choice.column(*column);
            column.is_some_and(Column::is_unsigned_long)
        })
    }

    /// Whether the numbers of the expression are those of the values, or it is one column.
    fn is_exact(&self, expression: &Expression) -> bool {
        expression.is_column() || !self.has_unsigned_longs(expression)
    }

    /// Whether the columns of all tables are of the same types.
    fn has_equal_columns(&self) -> bool {
        let equal = |scan: &ColumnScan| {
            (0..self.query.columns).all(|n| scan.choice().column(n) == self.choice.column(n))
        };
        self.scans.iter().all(equal)
    }

    /// Whether the aggregates and the condition have numbers where they need them.
    fn is_valid(&self) -> bool {
        let has_numbers = |column: &usize| {
            let column = self.choice.column(*column);
            column.is_some_and(Column::has_numbers)
        };
        let is_float = |column: usize| {
            let column = self.choice.column(column);
            column.is_some_and(|of| of.kind() == Kind::Float)
        };
        // Equal floats may have different bytes.
        if self.query.keys.iter().any(|key| is_float(key.column)) {
            return false;
        }
        let mut aggregates = self.query.aggregates.iter();
        let condition = self.query.condition.as_ref();
        let suits = condition.is_none_or(|condition| suits_columns(condition, &self.choice));
        suits
            && aggregates.all(|aggregate| match aggregate {
                Aggregate::CountRows | Aggregate::Count(_) => true,
                Aggregate::Min(column) | Aggregate::Max(column) => has_numbers(column),
                Aggregate::SumFloats(column)
                | Aggregate::MinFloat(column)
                | Aggregate::MaxFloat(column) => is_float(*column),
                Aggregate::Sum(expression) => {
                    expression.columns().iter().all(has_numbers) && self.is_exact(expression)
                }
            })
    }
}

/// A float that is one of this width, as a value.
#[expect(clippy::cast_possible_truncation, reason = "it was one of 4 bytes")]
fn bytes_of_float(float: f64, width: usize) -> Vec<u8> {
    match width {
        4 => (float as f32).to_le_bytes().to_vec(),
        _ => float.to_le_bytes().to_vec(),
    }
}

/// What takes the rows of a table.
struct Adding<'a> {
    aggregator: &'a mut Aggregator,
    caller: &'a mut dyn GroupScanCaller,
    table: usize,
}

fn read_table(
    scan: &mut ColumnScan,
    query: &Query,
    transaction: &mut EngineTransaction,
    adding: &mut Adding<'_>,
) -> EngineResult<()> {
    let mut choice = scan.choice().clone();
    let mut gathered = Gathered {
        rows: 0,
        vectors: choice.vectors(),
    };
    while let Some(batch) = scan.next(transaction, query.condition.as_ref())? {
        let is_well_formed = match batch {
            ColumnBatch::Columns(mut columns) => {
                // Rows are added in the order of their keys.
                gathered.flush(&choice, adding)?;
                adding.add(&mut OpenedPage(&mut columns))?;
                true
            }
            ColumnBatch::Rows(rows) => {
                let mut rows = rows.iter();
                rows.all(|row| gathered.add(&mut choice, &row, adding).is_some())
            }
        };
        if !is_well_formed {
            return Err(scan.malformed_row());
        }
        if gathered.rows >= ROWS_MAX {
            gathered.flush(&choice, adding)?;
        }
    }
    gathered.flush(&choice, adding)
}

impl Adding<'_> {
    fn add(&mut self, columns: &mut impl Columns<Error = StorageError>) -> EngineResult<()> {
        Ok(self.aggregator.add(columns, as_rules(self.caller))?)
    }
}

impl Gathered {
    /// Passes the rows on.
    fn flush(&mut self, choice: &ColumnChoice, adding: &mut Adding<'_>) -> EngineResult<()> {
        if self.rows > 0 {
            adding.add(self)?;
            self.rows = 0;
            self.vectors = choice.vectors();
        }
        Ok(())
    }

    /// `None` if the row is malformed.
    fn add(
        &mut self,
        choice: &mut ColumnChoice,
        row: &Row<'_>,
        adding: &mut Adding<'_>,
    ) -> Option<()> {
        let value = match choice.is_of(row.value) {
            true => row.value,
            false => adding.caller.convert(adding.table, row.key, row.value)?,
        };
        self.rows += 1;
        choice.split(row.key, value, &mut self.vectors).ok()
    }
}

fn as_rules(caller: &mut dyn GroupScanCaller) -> &mut dyn TextRules {
    caller
}
