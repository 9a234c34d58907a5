//! Strings of one length, stored by column.

use super::column_list::{put_list, take_list, width_of};
use super::projection::Projection;
use teak_base::bytes::{Malformed, Take};
use teak_columns::{Codec, Column};

/// Appends columns: their list, and each column encoded. `rows`: strings of the width of all columns. `note` is called
/// for each column with its values.
pub(super) fn put_columns(
    columns: &[Column],
    rows: &[u8],
    codec: &mut Codec,
    note: &mut dyn FnMut(Column, &[u8]),
    out: &mut Vec<u8>,
) {
    let width = width_of(columns);
    put_list(columns, out);
    let mut values = Vec::with_capacity(rows.len());
    let mut offset = 0;
    for column in columns {
        values.clear();
        for row in rows.chunks_exact(width) {
            let value = row.get(offset..offset + column.width());
            values.extend_from_slice(value.unwrap_or_default());
        }
        codec.encode(*column, &values, out);
        note(*column, &values);
        offset += column.width();
    }
}

/// Decodes columns, and writes them to their places: row `n` begins at `place_of(n)` in `out`, and has
/// `width` bytes.
///
/// # Panics
/// When a row is not within `out`.
pub(super) fn take_columns(
    take: &mut Take<'_>,
    entries: usize,
    width: usize,
    out: &mut [u8],
    place_of: impl Fn(usize) -> usize,
) -> Result<(), Malformed> {
    take_some_columns(take, entries, width, out, place_of, None).map(|_| ())
}

/// As [`take_columns`], but decodes only the columns of the projection. Returns `false` if the projection does not
/// apply to these columns or values; then it has decoded only some of them.
pub(super) fn take_some_columns(
    take: &mut Take<'_>,
    entries: usize,
    width: usize,
    out: &mut [u8],
    place_of: impl Fn(usize) -> usize,
    projection: Option<&Projection>,
) -> Result<bool, Malformed> {
    let columns = take_list(take)?;
    if width_of(&columns) != width {
        return Err(Malformed);
    }
    if projection.is_some_and(|projection| !projection.is_front(&columns)) {
        return Ok(false);
    }
    let mut codec = Codec::default();
    let mut offset = 0;
    for (number, column) in columns.into_iter().enumerate() {
        if projection.is_none_or(|projection| projection.has_front(number)) {
            codec.decode(column, entries, take, out, |row| place_of(row) + offset)?;
        } else {
            Codec::skip(column, entries, take)?;
        }
        offset += column.width();
        if let Some(projection) = projection
            && number == 0
        {
            let begins = |row| {
                let place = place_of(row);
                let value = out.get(place..place + column.width());
                value.is_some_and(|value| projection.is_beginning(value))
            };
            if !(0..entries).all(begins) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
