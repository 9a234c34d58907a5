//! Lists of columns, as pages and the catalogue contain them.

use teak_base::bytes::{Malformed, Put, Take};
use teak_columns::{Column, Decimal, Kind};

/// Maximum number of columns of keys, and of values.
pub(super) const COLUMNS_MAX: usize = 8192;

/// Bytes of a string with these columns.
pub(super) fn width_of(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width()).sum()
}

pub(super) fn put_list(columns: &[Column], out: &mut Vec<u8>) {
    out.put_varint(columns.len() as u64);
    for column in columns {
        put_column(*column, out);
    }
}

pub(super) fn put_column(column: Column, out: &mut Vec<u8>) {
    out.put_u8(column.kind().number());
    match column.decimal() {
        Some(decimal) => out.extend_from_slice(&[decimal.digits(), decimal.fraction()]),
        None => out.put_varint(column.width() as u64),
    }
}

pub(super) fn take_column(take: &mut Take<'_>) -> Result<Column, Malformed> {
    let column = match Kind::from_number(take.u8()?).ok_or(Malformed)? {
        Kind::Decimal => {
            let (digits, fraction) = (take.u8()?, take.u8()?);
            Decimal::new(digits, fraction).map(Column::of_decimals)
        }
        kind => {
            let width = u32::try_from(take.varint()?).map_err(|_| Malformed)?;
            Column::new(kind, width)
        }
    };
    column.ok_or(Malformed)
}

pub(super) fn take_list(take: &mut Take<'_>) -> Result<Vec<Column>, Malformed> {
    let count = take.varint()?;
    if count > COLUMNS_MAX as u64 {
        return Err(Malformed);
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push(take_column(take)?);
    }
    Ok(columns)
}
