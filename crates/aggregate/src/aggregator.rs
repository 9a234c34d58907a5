//! Conditions, groups and aggregates of the rows of a scan.

use crate::batch::{Batch, Columns};
use crate::condition::Condition;
use crate::groups::{Groups, Key, KeyValue};
use crate::text_cache::TextCache;
use crate::texts::{Judge, TextRules};
use crate::totals::{Aggregate, Selected, Total, Totals};

/// What is computed from rows.
#[derive(Clone, Debug)]
pub struct Query {
    /// The number of columns.
    pub columns: usize,
    /// Which rows count; `None`: all.
    pub condition: Option<Condition>,
    /// The columns by which rows are grouped. Without any, all rows are one group, even if there are no rows.
    pub keys: Vec<Key>,
    /// What is computed for each group.
    pub aggregates: Vec<Aggregate>,
}

/// Computes the aggregates of groups.
#[derive(Debug)]
pub struct Aggregator {
    query: Query,
    groups: Groups,
    totals: Vec<Totals>,
    /// For each condition of the caller.
    accepted: Vec<TextCache<bool>>,
    memory_max: usize,
}

impl Aggregator {
    /// `memory_max`: bytes of groups from which some are left to another pass. `None` if the query has a column with a
    /// number that is too large.
    #[must_use]
    pub fn new(query: Query, memory_max: usize) -> Option<Self> {
        let totals: Vec<Totals> = query.aggregates.iter().cloned().map(Totals::new).collect();
        let count = query.columns;
        let keys = query.keys.iter().map(|key| &key.column);
        let mut used = keys.chain(totals.iter().flat_map(Totals::columns));
        let condition = query.condition.as_ref();
        if used.any(|column| *column >= count) || condition.is_some_and(|of| !of.is_valid(count)) {
            return None;
        }
        let mut aggregator = Self {
            query,
            groups: Groups::default(),
            totals,
            accepted: Vec::new(),
            memory_max,
        };
        aggregator.add_the_only_group();
        Some(aggregator)
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// Those of reading columns. Then the results are wrong until [`Aggregator::restart`].
    pub fn add<C: Columns>(
        &mut self,
        columns: &mut C,
        rules: &mut dyn TextRules,
    ) -> Result<(), C::Error> {
        let count = columns.rows();
        let mut batch = Batch::new(columns, self.query.columns);
        let mut rows: Vec<u32> = match &self.query.condition {
            None => (0..u32::try_from(count).unwrap_or(u32::MAX)).collect(),
            Some(condition) => {
                let mut mask = vec![true; count];
                let mut judge = Judge {
                    rules,
                    accepted: &mut self.accepted,
                };
                condition.narrow(&mut batch, &mut mask, &mut judge)?;
                let numbered = (0u32..).zip(&mask);
                let selected = numbered.filter(|(_, is_selected)| **is_selected);
                selected.map(|(row, _)| row).collect()
            }
        };
        if rows.is_empty() {
            return Ok(());
        }
        let mut groups = Vec::new();
        if !self.query.keys.is_empty() {
            let keys = &self.query.keys;
            self.groups
                .find(keys, &mut batch, rules, &mut rows, &mut groups)?;
            for totals in &mut self.totals {
                totals.grow(self.groups.len());
            }
        }
        let selected = Selected {
            rows: &rows,
            groups: &groups,
        };
        for totals in &mut self.totals {
            totals.add(&mut batch, &selected)?;
        }
        while self.memory_bytes() > self.memory_max {
            let Some(kept) = self.groups.drop_half() else {
                break;
            };
            for totals in &mut self.totals {
                totals.retain(&kept);
            }
        }
        Ok(())
    }

    /// Memory of the groups, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let totals = self.totals.iter().map(Totals::memory_bytes);
        self.groups.memory_bytes() + totals.sum::<usize>()
    }

    /// The number of groups of this pass.
    #[must_use]
    pub fn groups(&self) -> u32 {
        match self.query.keys.is_empty() {
            true => 1,
            false => u32::try_from(self.groups.len()).unwrap_or(u32::MAX),
        }
    }

    /// The key of a group, in the order of the query's keys.
    ///
    /// # Panics
    /// When there is no such group.
    #[must_use]
    pub fn key(&self, group: u32) -> Vec<KeyValue<'_>> {
        match self.query.keys.len() {
            0 => Vec::new(),
            count => self.groups.parts(group, count),
        }
    }

    /// An aggregate of a group; `None` if there is no such group or aggregate.
    #[must_use]
    pub fn total(&self, group: u32, aggregate: usize) -> Option<Total> {
        self.totals.get(aggregate)?.total(group)
    }

    /// The number of rows that count for an aggregate of a group; `None` if there is no such group or aggregate.
    #[must_use]
    pub fn count(&self, group: u32, aggregate: usize) -> Option<u64> {
        self.totals.get(aggregate)?.count(group)
    }

    /// Removes the groups, and begins the pass for those that were left to it: all rows must be added again. Returns
    /// `false` if no groups were left.
    #[must_use]
    pub fn next_pass(&mut self) -> bool {
        let is_another = self.groups.next_pass();
        if is_another {
            self.totals.iter_mut().for_each(Totals::clear);
        }
        is_another
    }

    /// Removes the groups, and begins with the first pass.
    pub fn restart(&mut self) {
        self.groups.restart();
        self.totals.iter_mut().for_each(Totals::clear);
        self.add_the_only_group();
    }

    fn add_the_only_group(&mut self) {
        if self.query.keys.is_empty() {
            self.totals.iter_mut().for_each(|totals| totals.grow(1));
        }
    }
}
