//! The columns of rows that a calculation reads.

use super::columns::PageColumns;
use super::projection::Projection;
use super::tail::{is_absent, is_variable_absent};
use teak_base::bytes::{Malformed, Take};
use teak_columns::{Column, Kind, Vector};

/// A column that a calculation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadColumn {
    /// A column of values, counted as the bits of [`Projection::new`], but not the first one.
    Value(usize),
    /// A column of keys of kind [`Kind::UnsignedBig`], whose bytes order like those of a value.
    Key {
        /// Its number.
        number: usize,
        /// The column of such values, which has numbers ([`Column::number_in_key`]).
        value: Column,
    },
}

/// Where a column is among those of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnPlace {
    /// The number of a column of keys.
    Key(usize),
    /// The number of a column of the front.
    Front(usize),
    /// The number of an optional column.
    Optional(usize),
    /// The number of a variable column.
    Variable(usize),
}

/// A column that is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChosenColumn {
    pub(super) place: ColumnPlace,
    /// What its values are: of a variable one `None`.
    pub(super) column: Option<Column>,
}

/// The columns of rows that a calculation reads, in its order. It applies to the values with the same beginning,
/// which states their form; others must be converted.
#[derive(Clone, Debug)]
pub struct ColumnChoice {
    chosen: Vec<ChosenColumn>,
    projection: Projection,
    /// Where the columns of keys begin.
    key_offsets: Vec<usize>,
    /// Where the columns of the front begin.
    offsets: Vec<usize>,
    /// For each optional and variable column the place among the chosen ones; without those after the last chosen one.
    optional: Vec<Option<usize>>,
    variable: Vec<Option<usize>>,
    lengths: Vec<usize>,
}

/// Where columns begin that follow each other.
fn offsets_of(columns: &[Column]) -> Vec<usize> {
    let widths = columns.iter().map(|column| column.width());
    let offsets = widths.scan(0, |end, width| {
        *end += width;
        Some(*end - width)
    });
    offsets.collect()
}

/// For each of the first numbers, up to the largest, its place in the list.
fn places_of(numbers: impl Iterator<Item = (usize, usize)>) -> Vec<Option<usize>> {
    let mut places = Vec::new();
    for (place, number) in numbers {
        if places.len() <= number {
            places.resize(number + 1, None);
        }
        if let Some(slot) = places.get_mut(number) {
            *slot = Some(place);
        }
    }
    places
}

impl ColumnChoice {
    /// `columns`: those of the tree. `beginning`: that of all values of this form, within the first column.
    /// `read`: the columns that are read, each once. `None` if there is no such column.
    #[must_use]
    pub fn new(columns: &PageColumns, beginning: &[u8], read: &[ReadColumn]) -> Option<Self> {
        let (front, tail) = (columns.value(), columns.tail());
        let count = front.len() + tail.optional.len() + tail.variable.len();
        let mut bits = vec![0u64; count / 64 + 1];
        *bits.first_mut()? |= 1;
        let mut chosen: Vec<ChosenColumn> = Vec::with_capacity(read.len());
        for read in read.iter().copied() {
            let number = match read {
                ReadColumn::Value(number) => number,
                ReadColumn::Key { number, value } => {
                    let in_key = columns.key().get(number).copied();
                    let place = ColumnPlace::Key(number);
                    let is_possible = value.has_numbers() && in_key == column_in_key(value);
                    if !is_possible || chosen.iter().any(|of| of.place == place) {
                        return None;
                    }
                    let column = Some(value);
                    chosen.push(ChosenColumn { place, column });
                    continue;
                }
            };
            let word = bits.get_mut(number / 64)?;
            let bit = 1 << (number % 64);
            if number >= count || *word & bit != 0 {
                return None;
            }
            *word |= bit;
            let behind = number.checked_sub(front.len());
            let found = match (front.get(number), behind) {
                (Some(column), _) => (ColumnPlace::Front(number), Some(*column)),
                (None, Some(behind)) => match tail.optional.get(behind) {
                    Some(optional) => (ColumnPlace::Optional(behind), Some(optional.column)),
                    None => (ColumnPlace::Variable(behind - tail.optional.len()), None),
                },
                (None, None) => return None,
            };
            let (place, column) = found;
            chosen.push(ChosenColumn { place, column });
        }
        let optional = chosen
            .iter()
            .enumerate()
            .filter_map(|(n, of)| match of.place {
                ColumnPlace::Optional(number) => Some((n, number)),
                _ => None,
            });
        let variable = chosen
            .iter()
            .enumerate()
            .filter_map(|(n, of)| match of.place {
                ColumnPlace::Variable(number) => Some((n, number)),
                _ => None,
            });
        Some(Self {
            offsets: offsets_of(front),
            key_offsets: offsets_of(columns.key()),
            optional: places_of(optional),
            variable: places_of(variable),
            projection: Projection::new(columns.clone(), beginning, bits),
            chosen,
            lengths: Vec::new(),
        })
    }

    /// The same columns, for the rows that are read as bytes.
    #[must_use]
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// A column, counted as in the choice: what its values mean. `None` for a variable one, and if there is no such
    /// column.
    #[must_use]
    pub fn column(&self, number: usize) -> Option<Column> {
        self.chosen.get(number)?.column
    }

    /// Empty vectors for the columns.
    #[must_use]
    pub fn vectors(&self) -> Vec<Vector> {
        let has_numbers = |of: &ChosenColumn| of.column.is_some_and(Column::has_numbers);
        let vectors = self.chosen.iter();
        vectors.map(|of| Vector::new(has_numbers(of))).collect()
    }

    /// Whether a value has the form that the columns describe.
    #[must_use]
    pub fn is_of(&self, value: &[u8]) -> bool {
        self.projection.is_beginning(value)
    }

    pub(super) fn chosen(&self) -> &[ChosenColumn] {
        &self.chosen
    }

    /// For each chosen column its number among those of keys and values, as [`PageZones`](super::PageZones) count them, and
    /// of one of keys what its values are.
    pub(crate) fn zone_numbers(&self) -> impl Iterator<Item = (usize, Option<Column>)> {
        let columns = self.projection.columns();
        let front = columns.key().len();
        let optional = front + columns.value().len();
        let variable = optional + columns.tail().optional.len();
        self.chosen.iter().map(move |of| match of.place {
            ColumnPlace::Key(number) => (number, of.column),
            ColumnPlace::Front(number) => (front + number, None),
            ColumnPlace::Optional(number) => (optional + number, None),
            ColumnPlace::Variable(number) => (variable + number, None),
        })
    }

    /// Whether the calculation reads columns of keys.
    pub(super) fn has_key_columns(&self) -> bool {
        let mut chosen = self.chosen.iter();
        chosen.any(|of| matches!(of.place, ColumnPlace::Key(_)))
    }

    /// Appends the columns of a row, whose value has this form, to their vectors.
    ///
    /// # Errors
    /// [`Malformed`]; then the vectors may have different lengths.
    pub fn split(
        &mut self,
        key: &[u8],
        value: &[u8],
        vectors: &mut [Vector],
    ) -> Result<(), Malformed> {
        let columns = self.projection.columns();
        let front_bytes = columns.value_bytes();
        let (front, mut rest) = value.split_at_checked(front_bytes).ok_or(Malformed)?;
        for (of, vector) in self.chosen.iter().zip(&mut *vectors) {
            let (bytes, offsets, number) = match of.place {
                ColumnPlace::Key(number) => (key, &self.key_offsets, number),
                ColumnPlace::Front(number) => (front, &self.offsets, number),
                ColumnPlace::Optional(_) | ColumnPlace::Variable(_) => continue,
            };
            let column = of.column.ok_or(Malformed)?;
            let start = *offsets.get(number).ok_or(Malformed)?;
            let bytes = bytes.get(start..start + column.width()).ok_or(Malformed)?;
            match of.place {
                ColumnPlace::Key(_) => push_of_key(column, bytes, vector)?,
                _ => push(column, bytes, vector)?,
            }
        }
        let tail = columns.tail();
        let optional = match self.variable.is_empty() {
            true => self.optional.len(),
            false => tail.optional.len(),
        };
        for (number, of) in tail.optional.iter().enumerate().take(optional) {
            let chosen = self.optional.get(number).copied().flatten();
            let vector = chosen.and_then(|place| vectors.get_mut(place));
            if is_absent(front, of.null_bit) {
                if let Some(vector) = vector {
                    vector.push_null();
                }
                continue;
            }
            let (bytes, others) = rest.split_at_checked(of.column.width()).ok_or(Malformed)?;
            rest = others;
            if let Some(vector) = vector {
                push(of.column, bytes, vector)?;
            }
        }
        if self.variable.is_empty() {
            return Ok(());
        }
        let mut take = Take::new(rest);
        self.lengths.clear();
        for null_bit in &tail.variable {
            if !is_variable_absent(front, *null_bit) {
                let length = usize::try_from(take.varint()?).map_err(|_| Malformed)?;
                self.lengths.push(length);
            }
        }
        let mut lengths = self.lengths.iter();
        for (null_bit, chosen) in tail.variable.iter().zip(&self.variable) {
            let vector = chosen.and_then(|place| vectors.get_mut(place));
            if is_variable_absent(front, *null_bit) {
                if let Some(vector) = vector {
                    vector.push_null();
                }
                continue;
            }
            let text = take.take(*lengths.next().ok_or(Malformed)?)?;
            if let Some(vector) = vector
                && !vector.push_text(text)
            {
                return Err(Malformed);
            }
        }
        Ok(())
    }
}

/// The integer that the bytes of a column in a key are.
pub(super) fn column_in_key(value: Column) -> Option<Column> {
    Column::new(Kind::UnsignedBig, u32::try_from(value.width()).ok()?)
}

fn push_of_key(value: Column, bytes: &[u8], vector: &mut Vector) -> Result<(), Malformed> {
    let in_key = column_in_key(value).and_then(|column| column.number_of(bytes));
    let number = in_key.and_then(|number| value.number_in_key(number));
    match vector.push_number(number.ok_or(Malformed)?) {
        true => Ok(()),
        false => Err(Malformed),
    }
}

#[inline]
fn push(column: Column, value: &[u8], vector: &mut Vector) -> Result<(), Malformed> {
    let is_pushed = match column.has_numbers() {
        true => vector.push_number(column.number_of(value).ok_or(Malformed)?),
        false => vector.push_text(value),
    };
    if is_pushed { Ok(()) } else { Err(Malformed) }
}
