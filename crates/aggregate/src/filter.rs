//! Conditions of rows that are only searched for, not computed with.

use crate::batch::{Batch, Columns};
use crate::condition::Condition;
use crate::text_cache::TextCache;
use crate::texts::{Judge, TextRules};

/// Decides whether batches have rows that match a condition.
#[derive(Debug)]
pub struct RowFilter {
    columns: usize,
    condition: Condition,
    /// For each condition of the caller.
    accepted: Vec<TextCache<bool>>,
}

impl RowFilter {
    /// `columns`: the number of columns of batches. `None` if the condition has a column with a number that is too large.
    #[must_use]
    pub fn new(columns: usize, condition: Condition) -> Option<Self> {
        condition.is_valid(columns).then_some(Self {
            columns,
            condition,
            accepted: Vec::new(),
        })
    }

    /// The condition.
    #[must_use]
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Whether a row of the batch matches the condition.
    ///
    /// # Errors
    /// Those of reading columns.
    pub fn matches_any<C: Columns>(
        &mut self,
        columns: &mut C,
        rules: &mut dyn TextRules,
    ) -> Result<bool, C::Error> {
        let mut mask = vec![true; columns.rows()];
        let mut batch = Batch::new(columns, self.columns);
        let mut judge = Judge {
            rules,
            accepted: &mut self.accepted,
        };
        self.condition.narrow(&mut batch, &mut mask, &mut judge)?;
        Ok(mask.contains(&true))
    }
}
