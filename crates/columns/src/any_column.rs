//! Columns for property tests.

use crate::{Column, Decimal, Kind};
use proptest::prelude::*;
use std::ops::Range;

/// Any column of these kinds, by their numbers, or a DECIMAL(12, 2).
pub(crate) fn any_column(kinds: Range<u8>) -> impl Strategy<Value = Column> {
    let columns = (kinds, 1u32..=8).prop_filter_map("no such column", |(kind, width)| {
        Column::new(Kind::from_number(kind)?, width)
    });
    prop_oneof![
        columns,
        Just(Column::of_decimals(Decimal::new(12, 2).unwrap()))
    ]
}
