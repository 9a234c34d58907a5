//! Decodes rows of which only the kinds of columns are known, as index files and the catalogue contain them.

use super::text;
use super::times::{big_endian, little_endian};
use super::value::{decimal, float};
use crate::cell::{Cell, Column};
use teak_base::bytes::Take;
use teak_tree::{Column as Kind, ColumnKind, PageColumns};

/// Where the columns are named as `teak inspect` numbers them. The last column contains what the others do not.
pub(crate) struct UntypedRows {
    of: PageColumns,
    columns: Vec<Column>,
}

impl UntypedRows {
    pub(super) fn new(of: &PageColumns) -> Self {
        let mut columns = Vec::new();
        match of.key().len() {
            0 => columns.push(Column::new("key")),
            count => columns.extend((0..count).map(|number| Column::new(format!("key{number}")))),
        }
        let values = of.value().len() + of.tail().optional.len() + of.tail().variable.len();
        columns.extend((0..values).map(|number| Column::new(format!("column{number}"))));
        columns.push(Column::new(if values == 0 { "value" } else { "other" }));
        Self {
            of: of.clone(),
            columns,
        }
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(super) fn read(&self, key: &[u8], value: &[u8]) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(self.columns.len());
        let keys = self.of.key();
        match fixed(keys, &mut Take::new(key)).filter(|_| !keys.is_empty()) {
            Some(values) => cells.extend(values),
            None => {
                cells.push(text::guess(key));
                cells.resize(keys.len().max(1), Cell::Null);
            }
        }
        let values = match self.of.value() {
            [] => None,
            _ => self.split(value),
        };
        match values {
            Some(values) => {
                cells.extend(values);
                cells.push(Cell::Null);
            }
            None => {
                cells.resize(self.columns.len().saturating_sub(1), Cell::Null);
                cells.push(text::guess(value));
            }
        }
        cells
    }

    /// The columns of a value; `None` if it has others.
    fn split(&self, value: &[u8]) -> Option<Vec<Cell>> {
        let mut take = Take::new(value);
        let mut cells = fixed(self.of.value(), &mut take)?;
        let tail = self.of.tail();
        if tail.optional.is_empty() && tail.variable.is_empty() {
            // Nothing is known about bytes after the front.
            return take.is_empty().then_some(cells);
        }
        let is_absent = |bit: u32| {
            let byte = value.get(bit as usize / 8).copied().unwrap_or(0);
            byte >> (bit % 8) & 1 == 1
        };
        for optional in &tail.optional {
            let bytes = match is_absent(optional.null_bit) {
                true => None,
                false => Some(take.take(optional.column.width()).ok()?),
            };
            cells.push(bytes.map_or(Cell::Null, |bytes| cell(optional.column, bytes)));
        }
        let mut lengths = Vec::with_capacity(tail.variable.len());
        for bit in &tail.variable {
            lengths.push(match bit.is_some_and(is_absent) {
                true => None,
                false => Some(usize::try_from(take.varint().ok()?).ok()?),
            });
        }
        for length in lengths {
            let bytes = length.map(|length| take.take(length));
            cells.push(bytes.transpose().ok()?.map_or(Cell::Null, text::guess));
        }
        take.is_empty().then_some(cells)
    }
}

/// Columns of fixed width at the front of a string.
fn fixed(columns: &[Kind], take: &mut Take<'_>) -> Option<Vec<Cell>> {
    let value = |column: &Kind| Some(cell(*column, take.take(column.width()).ok()?));
    columns.iter().map(value).collect()
}

fn cell(column: Kind, bytes: &[u8]) -> Cell {
    let scale = column
        .decimal()
        .map_or(0, |decimal| decimal.fraction().into());
    match column.kind() {
        ColumnKind::Bytes => Cell::Bytes(bytes.to_vec()),
        ColumnKind::UnsignedLittle => Cell::Number(little_endian(bytes).to_string()),
        ColumnKind::UnsignedBig => Cell::Number(big_endian(bytes).to_string()),
        ColumnKind::SignedLittle => {
            let unused = 64 - 8 * bytes.len().min(8);
            let value = little_endian(bytes) << unused;
            Cell::Number((value.cast_signed() >> unused).to_string())
        }
        ColumnKind::Float => float_cell(bytes),
        ColumnKind::Decimal => match decimal(bytes, scale) {
            Some(digits) => Cell::Number(digits),
            None => Cell::Bytes(bytes.to_vec()),
        },
    }
}

fn float_cell(bytes: &[u8]) -> Cell {
    let four = bytes.try_into().map(f32::from_le_bytes);
    let eight = bytes.try_into().map(f64::from_le_bytes);
    match (four, eight) {
        (Ok(value), _) => float(value, f64::from(value).abs()),
        (_, Ok(value)) => float(value, value.abs()),
        _ => Cell::Bytes(bytes.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use teak_tree::{OptionalColumn, ValueTail};

    fn column(kind: ColumnKind, width: u32) -> Kind {
        Kind::new(kind, width).unwrap()
    }

    #[test]
    fn values_are_split_by_kind() {
        let tail = ValueTail {
            optional: vec![OptionalColumn {
                column: column(ColumnKind::Float, 8),
                null_bit: 8,
            }],
            variable: vec![None, Some(9)],
        };
        let columns = PageColumns::with_tail(
            vec![column(ColumnKind::UnsignedBig, 4)],
            vec![
                column(ColumnKind::Bytes, 2),
                column(ColumnKind::SignedLittle, 2),
            ],
            tail,
        );
        let rows = UntypedRows::new(&columns);
        let names: Vec<_> = rows
            .columns()
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "key0", "column0", "column1", "column2", "column3", "column4", "other"
            ]
        );
        let mut value = vec![1, 2, 0xfe, 0xff];
        value.extend_from_slice(&1.5f64.to_le_bytes());
        value.extend_from_slice(b"\x03abc");
        let cells = rows.read(&[0, 0, 1, 0], &value);
        let number = |text: &str| Cell::Number(text.to_owned());
        let expected = [
            number("256"),
            Cell::Bytes(vec![1, 2]),
            number("-2"),
            number("1.5"),
            Cell::Text("abc".to_owned()),
            Cell::Null,
            Cell::Null,
        ];
        assert_eq!(cells, expected);
        let cells = rows.read(b"key", b"\x01");
        assert_eq!(cells[0], Cell::Text("key".to_owned()));
        assert_eq!(cells[6], Cell::Bytes(vec![1]));
        assert_eq!(cells[1..6], [const { Cell::Null }; 5]);
    }

    #[test]
    fn without_columns_the_key_and_the_value_are_shown() {
        let rows = UntypedRows::new(&PageColumns::default());
        assert_eq!(rows.columns().len(), 2);
        let cells = rows.read(b"k", b"\xff");
        assert_eq!(cells, [Cell::Text("k".into()), Cell::Bytes(vec![255])]);
    }
}
