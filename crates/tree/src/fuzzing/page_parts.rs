//! Fuzz target of the readers that decode parts of a page: some columns of all rows, or single rows.

use super::decoders::{columns, declares_too_much};
use crate::page::{Opened, OpenedRows, RowPage};
use crate::{Column, ColumnChoice, ColumnKind, ColumnPage, Page, ReadColumn};
use teak_columns::{Vector, VectorValues};

/// Length of the keys of which a column is read.
const KEY_BYTES: usize = 2;

/// Rows that are decoded one by one: each may take the time of all.
const ROWS_MAX: usize = 8;

/// Decodes parts of a page. What succeeds must agree with the page as a whole, if that can be decoded, too.
pub(super) fn page_parts(bytes: &[u8]) {
    if declares_too_much(bytes) {
        return;
    }
    let page = Page::decode(bytes.to_vec()).ok();
    if let Ok(OpenedRows::Rows(rows)) = RowPage::open(bytes.to_vec()) {
        single_rows(&rows, page.as_ref());
    }
    let key =
        Column::new(ColumnKind::SignedLittle, 2).map(|value| ReadColumn::Key { number: 0, value });
    let mut read: Vec<ReadColumn> = (1..6).map(ReadColumn::Value).collect();
    read.extend(key);
    let choice = ColumnChoice::new(&columns(KEY_BYTES), &[], &read);
    let mut choice = choice.expect("the columns are those of the pages");
    if let Ok(Opened::Columns(mut columns)) = ColumnPage::open(bytes.to_vec(), &choice) {
        let vectors: Vec<_> = (0..read.len()).map(|n| columns.vector(n)).collect();
        let vectors: Vec<&Vector> = vectors.iter().flatten().collect();
        assert!(vectors.iter().all(|of| of.rows() == columns.rows()));
        if let Some(page) = page.filter(|_| vectors.len() == read.len()) {
            assert_eq!(page.entries(), columns.rows());
            let mut split = choice.vectors();
            for row in 0..page.entries() {
                let split = choice.split(page.key(row), page.value(row), &mut split);
                split.expect("the value consists of the columns");
            }
            for (split, vector) in split.iter().zip(vectors) {
                assert!(values_of(split).eq(values_of(vector)));
            }
        }
    }
}

fn values_of(vector: &Vector) -> impl Iterator<Item = Option<(i64, &[u8])>> {
    (0..vector.rows()).map(|row| {
        (!vector.is_null(row)).then(|| match vector.values() {
            VectorValues::Numbers(numbers) => (numbers.get(row).copied().unwrap_or(0), &[][..]),
            VectorValues::Texts(texts) => (0, texts.get(row)),
        })
    })
}

fn single_rows(rows: &RowPage, page: Option<&Page>) {
    let mut value = Vec::new();
    for entry in 0..rows.entries().min(ROWS_MAX) {
        let is_decoded = rows.value(entry, None, &mut value).is_ok();
        if let Some(page) = page.filter(|_| is_decoded) {
            assert_eq!(rows.entries(), page.entries());
            assert_eq!(rows.key(entry), page.key(entry));
            assert_eq!(rows.write(entry), page.write(entry));
            assert_eq!(value, page.value(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::decoders::page_seeds;

    #[test]
    fn a_seed_is_read_by_column_and_by_row() {
        let seeds = page_seeds();
        let seed = seeds.last().unwrap();
        let choice = ColumnChoice::new(&columns(KEY_BYTES), &[], &[]).unwrap();
        let by_column = ColumnPage::open(seed.clone(), &choice);
        assert!(matches!(by_column, Ok(Opened::Columns(_))));
        assert!(matches!(
            RowPage::open(seed.clone()),
            Ok(OpenedRows::Rows(_))
        ));
        page_parts(seed);
    }
}
