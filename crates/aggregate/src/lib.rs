//! Conditions, groups and aggregates over vectors of columns. Knows neither pages nor SQL.
//!
//! An [`Aggregator`] gets the rows of a scan in batches. For each batch:
//!
//! 1. The condition selects rows (`condition`). If there are none, no other column is read. Conditions of byte strings
//!    are the caller's, which is asked once for each string (`texts`).
//! 2. Each selected row gets its group (`groups`). Byte strings are compared by weights that the caller computes.
//! 3. The expressions are evaluated for all selected rows, and added to the sums of their groups (`expression`,
//!    `totals`). Integers have 64 bits where the batch's values allow no overflow, and any number of bits elsewhere,
//!    so sums are exact.
//!
//! The memory of groups is bounded: if they take too much, those with the largest hashes are dropped, and the caller
//! scans again for them ([`Aggregator::next_pass`]).

mod aggregator;
mod arena;
mod batch;
mod condition;
mod expression;
mod filter;
mod groups;
mod text_cache;
mod texts;
mod totals;

pub use self::aggregator::{Aggregator, Query};
pub use self::batch::Columns;
pub use self::condition::{Comparison, Condition};
pub use self::expression::{Expression, Step};
pub use self::filter::RowFilter;
pub use self::groups::{Key, KeyValue};
pub use self::texts::TextRules;
pub use self::totals::{Aggregate, Total};
pub use teak_columns::number_of_float;
