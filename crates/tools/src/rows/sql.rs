//! Decodes rows with the definition of the table.

use super::key::{Part, decode, parts_of};
use super::layout::{bit, current, divide, matches};
use super::value::cell;
use crate::cell::{Cell, Column, ColumnNames, hex};
use crate::definition::{EarlierRows, Frm, FrmColumn, Layout, Type};
use teak_base::bytes::Take;
use teak_tree::PageColumns;

/// Bytes of a hidden primary key.
const HIDDEN_KEY_BYTES: usize = 8;

pub(crate) struct SqlRows {
    frm: Frm,
    /// The columns of the output, and their positions in the table.
    columns: Vec<Column>,
    positions: Vec<usize>,
    /// The parts of the key; `None` if it is hidden.
    key: Option<Vec<Part>>,
    layout: Layout,
    /// The schema version of rows with the layout; `None`: unknown.
    version: Option<u32>,
    earlier: EarlierRows,
}

impl SqlRows {
    /// # Errors
    /// Why the definition does not describe the rows.
    pub(super) fn new(
        frm: Frm,
        version: Option<u32>,
        earlier: EarlierRows,
        columns: &PageColumns,
    ) -> Result<Self, String> {
        let unknown = || "the .frm file is malformed".to_owned();
        let key = match &frm.primary {
            Some(parts) => Some(parts_of(&frm.columns, parts).ok_or_else(unknown)?),
            None => None,
        };
        let parts = key.iter().flatten();
        let decodable: Vec<usize> = parts
            .filter(|part| part.is_decodable)
            .map(|part| part.column)
            .collect();
        let layout = current(&frm, &decodable);
        if !matches(&layout, columns) {
            return Err("the definition of the table has other columns than its rows".to_owned());
        }
        let is_output = |position: &usize| {
            let column = frm.columns.get(*position);
            column.is_some_and(|column| column.is_stored) || decodable.contains(position)
        };
        let positions: Vec<usize> = (0..frm.columns.len()).filter(is_output).collect();
        let found = positions
            .iter()
            .filter_map(|position| frm.columns.get(*position));
        let columns = found.map(|column| Column {
            name: column.name.clone(),
            is_insertable: !column.is_generated,
        });
        Ok(Self {
            columns: columns.collect(),
            positions,
            key,
            layout,
            version,
            earlier,
            frm,
        })
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(super) fn read(&self, key: &[u8], value: &[u8]) -> Result<Vec<Cell>, String> {
        let malformed = |_| "the row does not match the definition of the table".to_owned();
        let mut take = Take::new(value);
        let version = take.varint().map_err(malformed)?;
        let is_current = self
            .version
            .is_none_or(|current| u64::from(current) == version);
        let layout = match is_current {
            true => &self.layout,
            false => {
                let number = u32::try_from(version).ok();
                let layout = number.and_then(|number| self.earlier.layouts.get(&number));
                layout.ok_or_else(|| format!("the row has the unknown schema version {version}"))?
            }
        };
        let parts = divide(layout, take.rest()).map_err(malformed)?;
        let mut cells: Vec<Option<Cell>> = vec![None; self.frm.columns.len()];
        let mut set = |position: usize, cell: Cell| {
            if let Some(place) = cells.get_mut(position) {
                *place = Some(cell);
            }
        };
        self.read_key(key, &mut set)?;
        for (place, bytes) in layout.columns.iter().zip(&parts.values) {
            let column = place.column.and_then(|position| {
                let column = self.frm.columns.get(position)?;
                Some((position, column))
            });
            // Another column was dropped.
            if let Some((position, column)) = column {
                set(
                    position,
                    read_cell(column, *bytes, parts.null_area, is_current)?,
                );
            }
        }
        let missing = |position: &usize| -> Result<Cell, String> {
            let lacks = || "the row lacks a column".to_owned();
            let added = self.earlier.added.get(position).filter(|_| !is_current);
            let column = self.frm.columns.get(*position).ok_or_else(lacks)?;
            read_cell(column, added.ok_or_else(lacks)?.as_deref(), &[], true)
        };
        let take = |position: &usize| match cells.get_mut(*position).and_then(Option::take) {
            Some(cell) => Ok(cell),
            None => missing(position),
        };
        self.positions.iter().map(take).collect()
    }

    pub(super) fn stored_names(&self) -> ColumnNames {
        let name = |position: usize| {
            let column = self.frm.columns.get(position);
            column.map_or_else(String::new, |column| column.name.clone())
        };
        let keys = self.key.iter().flatten().map(|part| name(part.column));
        let stored = self
            .layout
            .columns
            .iter()
            .filter(|column| column.width != Some(0));
        ColumnNames {
            keys: keys.collect(),
            values: stored
                .filter_map(|column| column.column)
                .map(name)
                .collect(),
        }
    }

    /// The values of the decodable columns of a key, with the names of the columns.
    pub(super) fn key_texts(&self, key: &[u8]) -> Option<Vec<String>> {
        self.key.as_ref()?;
        let mut texts = Vec::new();
        let mut set = |position: usize, cell: Cell| {
            let name = self
                .frm
                .columns
                .get(position)
                .map_or("", |column| &column.name);
            texts.push(match cell {
                Cell::Null => format!("{name} NULL"),
                Cell::Number(text) | Cell::Text(text) => format!("{name} {text}"),
                Cell::Bytes(bytes) => format!("{name} 0x{}", hex(&bytes)),
            });
        };
        self.read_key(key, &mut set).ok()?;
        (!texts.is_empty()).then_some(texts)
    }

    fn read_key(&self, key: &[u8], set: &mut dyn FnMut(usize, Cell)) -> Result<(), String> {
        let Some(parts) = &self.key else {
            return match key.len() {
                HIDDEN_KEY_BYTES => Ok(()),
                _ => Err("the key is not that of a hidden primary key".to_owned()),
            };
        };
        for (part, value) in parts.iter().zip(decode(parts, key)?) {
            if let (Some(value), Some(column)) = (value, self.frm.columns.get(part.column)) {
                set(part.column, cell(column, &value.bytes, value.high_bits)?);
            }
        }
        Ok(())
    }
}

fn read_cell(
    column: &FrmColumn,
    bytes: Option<&[u8]>,
    null_area: &[u8],
    is_current: bool,
) -> Result<Cell, String> {
    let Some(bytes) = bytes else {
        return Ok(Cell::Null);
    };
    let Type::Bit { places } = &column.kind else {
        return cell(column, bytes, 0);
    };
    if !is_current && !places.is_empty() {
        return Err("a BIT of an earlier schema version cannot be decoded".to_owned());
    }
    let bits = places.clone().enumerate();
    let set = bits.filter(|(_, place)| bit(null_area, *place));
    cell(column, bytes, set.map(|(number, _)| 1 << number).sum())
}
