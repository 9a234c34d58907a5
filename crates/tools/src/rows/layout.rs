//! The places of columns in rows: `docs/design/format.md`, "A row".

use crate::definition::{Frm, FrmColumn, Layout, LayoutColumn, Type};
use teak_base::bytes::{Malformed, Take};
use teak_tree::PageColumns;

/// The layout of rows with the definition. `decodable`: the columns that the key gives back.
pub(super) fn current(frm: &Frm, decodable: &[usize]) -> Layout {
    let stored = |(position, column): &(usize, &FrmColumn)| {
        column.is_stored && !decodable.contains(position)
    };
    let mut columns: Vec<_> = frm.columns.iter().enumerate().filter(stored).collect();
    columns.sort_by_key(|(_, column)| column.offset);
    let bits_of = |column: &FrmColumn| {
        let places = match &column.kind {
            Type::Bit { places } if !places.is_empty() => places.end,
            _ => 0,
        };
        places.max(column.null_bit.map_or(0, |bit| bit + 1))
    };
    let bits = columns.iter().map(|(_, column)| bits_of(column)).max();
    let group = |number| {
        let of = |column: &FrmColumn| match (column.width, column.null_bit) {
            (None, _) => 2,
            (_, Some(_)) => 1,
            _ => 0,
        };
        let columns = columns
            .iter()
            .filter(move |(_, column)| of(column) == number);
        columns.map(|(position, column)| LayoutColumn {
            column: Some(*position),
            width: column.width,
            null_bit: column.null_bit,
        })
    };
    Layout {
        null_area_bytes: bits.unwrap_or(0).div_ceil(8),
        columns: group(0).chain(group(1)).chain(group(2)).collect(),
    }
}

/// Whether the columns of the index's pages are those of the layout.
pub(super) fn matches(layout: &Layout, columns: &PageColumns) -> bool {
    let Some((header, front)) = columns.value().split_first() else {
        return true;
    };
    let widths = |is_nullable: bool| {
        let of = layout.columns.iter();
        let of = of.filter(move |column| column.null_bit.is_some() == is_nullable);
        of.filter_map(|column| column.width)
            .filter(|width| *width > 0)
    };
    let tail = columns.tail();
    let variable = layout
        .columns
        .iter()
        .filter(|column| column.width.is_none());
    header.width() > layout.null_area_bytes
        && widths(false).eq(front.iter().map(|column| column.width()))
        && widths(true).eq(tail.optional.iter().map(|optional| optional.column.width()))
        && variable.count() == tail.variable.len()
}

/// Whether a bit of a NULL area is set.
pub(super) fn bit(area: &[u8], number: usize) -> bool {
    let byte = area.get(number / 8).copied().unwrap_or(0);
    byte >> (number % 8) & 1 == 1
}

/// The parts of a row.
pub(super) struct Parts<'a> {
    pub(super) null_area: &'a [u8],
    /// The values of the columns of the layout; `None` for NULL.
    pub(super) values: Vec<Option<&'a [u8]>>,
}

/// Divides a row, without its schema version.
pub(super) fn divide<'a>(layout: &Layout, row: &'a [u8]) -> Result<Parts<'a>, Malformed> {
    let mut take = Take::new(row);
    let null_area = take.take(layout.null_area_bytes)?;
    let is_null =
        |column: &LayoutColumn| column.null_bit.is_some_and(|place| bit(null_area, place));
    let mut values = Vec::with_capacity(layout.columns.len());
    let variable_from = layout
        .columns
        .iter()
        .position(|column| column.width.is_none());
    let variable_from = variable_from.unwrap_or(layout.columns.len());
    let (fixed, variable) = layout.columns.split_at(variable_from);
    for column in fixed {
        let width = column.width.ok_or(Malformed)?;
        values.push(match is_null(column) {
            true => None,
            false => Some(take.take(width)?),
        });
    }
    let mut lengths = Vec::with_capacity(variable.len());
    for column in variable {
        lengths.push(match is_null(column) {
            true => None,
            false => Some(usize::try_from(take.varint()?).map_err(|_| Malformed)?),
        });
    }
    for length in lengths {
        values.push(length.map(|length| take.take(length)).transpose()?);
    }
    match take.is_empty() {
        true => Ok(Parts { null_area, values }),
        false => Err(Malformed),
    }
}
