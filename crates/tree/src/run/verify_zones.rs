//! Checks the zones of a page against its rows.

use super::IndexBlock;
use super::block_zones::BlockZones;
use crate::Page;
use crate::page::{ColumnChoice, ColumnPage, Opened, PageColumns, ReadColumn, page_columns};
use teak_base::bytes::Malformed;
use teak_columns::{Vector, VectorValues, Zone, float_of, number_of_float};

/// The columns of a page; `None`: it is not encoded by column.
type PageVectors = Option<Vec<Vector>>;

/// The zones of a page in its index block, and the columns of the page.
pub(super) struct ZonesOfPage {
    number: usize,
    read: Result<Option<(BlockZones, PageVectors)>, Malformed>,
}

/// All columns of which a page may have zones.
fn all_columns(columns: &PageColumns) -> Vec<ReadColumn> {
    let of_keys = columns.key().iter().enumerate();
    let of_keys = of_keys.map(|(number, value)| ReadColumn::Key {
        number,
        value: *value,
    });
    let tail = columns.tail();
    let of_values = columns.value().len() + tail.optional.len() + tail.variable.len();
    of_keys
        .filter(|read| matches!(read, ReadColumn::Key { value, .. } if value.has_numbers()))
        .chain((1..of_values).map(ReadColumn::Value))
        .collect()
}

impl ZonesOfPage {
    /// `raw`: the encoded page. If it does not describe all columns of the table, nothing is compared.
    pub(super) fn open(index: &IndexBlock, number: usize, raw: &[u8]) -> Self {
        let read = page_columns(raw).and_then(|columns| {
            let choice = ColumnChoice::new(&columns, &[], &all_columns(&columns));
            let choice = choice.ok_or(Malformed)?;
            let Some(zones) = index.zones(&choice)? else {
                return Ok(None);
            };
            let count = choice.zone_numbers().count();
            if count == 0 {
                // Only the entries have zones.
                return Ok(Some((zones, Some(Vec::new()))));
            }
            let Opened::Columns(mut page) = ColumnPage::open(raw.to_vec(), &choice)? else {
                // Such a page has no zones.
                return Ok(Some((zones, None)));
            };
            let vectors: Result<Vec<Vector>, Malformed> =
                (0..count).map(|n| page.vector(n)).collect();
            Ok(Some((zones, Some(vectors?))))
        });
        Self { number, read }
    }

    /// What is wrong. `before`: the key before the page.
    pub(super) fn fault(self, page: &Page, before: Option<&[u8]>) -> Option<&'static str> {
        let Ok(read) = self.read else {
            return Some("the zones of the page are malformed");
        };
        let (zones, vectors) = read?;
        let entries = zones.page(self.number)?;
        for entry in 0..page.entries() {
            if page.write(entry).1 != entries.write
                || !page.value(entry).starts_with(zones.beginning())
            {
                return Some("the page has other entries than its zones");
            }
        }
        if entries.is_new_key == before.is_some_and(|before| before == page.key(0)) {
            return Some("the zones are wrong about the first key of the page");
        }
        let Some(vectors) = vectors else {
            return Some("the page has zones, but no columns");
        };
        let mut columns = vectors.iter().enumerate();
        let is_within = |(column, vector): (usize, &Vector)| {
            let zone = zones.zone(self.number, column);
            zone.is_none_or(|zone| is_within(vector, zone))
        };
        let fault = "a value of the page is outside the zone of its column";
        (!columns.all(is_within)).then_some(fault)
    }
}

/// Whether all values are those that a zone may have.
fn is_within(vector: &Vector, zone: Zone) -> bool {
    (0..vector.rows()).all(|row| {
        if vector.is_null(row) {
            return zone.has_nulls;
        }
        let number = match vector.values() {
            VectorValues::Numbers(numbers) => numbers.get(row).copied(),
            VectorValues::Texts(texts) => float_of(texts.get(row)).map(number_of_float),
        };
        let is_any = (zone.min, zone.max) == (i64::MIN, i64::MAX);
        zone.has_values && (is_any || number.is_some_and(|n| zone.min <= n && n <= zone.max))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterSize;
    use crate::page::{OptionalColumn, PageBuilder, PageZones, ValueTail};
    use crate::run::index_block::IndexBlockBuilder;
    use teak_base::{Operation, WriteId};
    use teak_block_file::BlockAddress;
    use teak_columns::{Column, Kind};

    /// A page of keys from 100 on, whose values have a version, a number and an optional float.
    fn page() -> (Vec<u8>, PageZones) {
        let column = |kind, width| Column::new(kind, width).unwrap();
        let tail = ValueTail {
            optional: vec![OptionalColumn {
                column: column(Kind::Float, 8),
                null_bit: 8,
            }],
            variable: vec![],
        };
        let columns = PageColumns::with_tail(
            vec![column(Kind::UnsignedBig, 2)],
            vec![column(Kind::Bytes, 2), column(Kind::SignedLittle, 4)],
            tail,
        );
        let mut page = PageBuilder::with_columns(0, columns);
        for row in 0..50u16 {
            let has_float = row % 3 == 0;
            let mut value = vec![7, u8::from(!has_float)];
            value.extend((i32::from(row) - 20).to_le_bytes());
            if has_float {
                value.extend((f64::from(row) / 3.0).to_le_bytes());
            }
            let key = (row + 100).to_be_bytes();
            page.push(&key, WriteId(5), Operation::Put, &value);
        }
        let mut raw = Vec::new();
        page.finish(&mut raw);
        (raw, page.take_zones().unwrap())
    }

    fn fault(raw: &[u8], zones: PageZones, is_new_key: bool) -> Option<&'static str> {
        let mut block = IndexBlockBuilder::new(FilterSize::Bottom);
        let address = BlockAddress {
            offset: 8192,
            bytes: 100,
        };
        block.push(address, 50, raw.len(), &149u16.to_be_bytes(), 0);
        block.add_zones(zones, is_new_key);
        let mut encoded = Vec::new();
        block.finish(&mut encoded);
        let index = IndexBlock::decode(&encoded).unwrap();
        let page = Page::decode(raw.to_vec()).unwrap();
        ZonesOfPage::open(&index, 0, raw).fault(&page, Some(&99u16.to_be_bytes()))
    }

    #[test]
    fn zones_that_exclude_a_value_are_found() {
        let (raw, zones) = page();
        assert_eq!(fault(&raw, zones.clone(), true), None);
        assert!(fault(&raw, zones.clone(), false).is_some());
        let changed = |change: fn(&mut PageZones)| {
            let mut zones = zones.clone();
            change(&mut zones);
            fault(&raw, zones, true).is_some()
        };
        assert!(changed(|zones| zones.columns[0].min += 1));
        assert!(changed(|zones| zones.columns[2].max -= 1));
        assert!(changed(|zones| zones.columns[3].max -= 1));
        assert!(changed(|zones| zones.columns[3].has_nulls = false));
        assert!(changed(|zones| zones.write = WriteId(6)));
        assert!(changed(|zones| zones.beginning = vec![8]));
        // Wider zones are not wrong, and those of other columns are not used.
        assert!(!changed(|zones| zones.columns[2].max += 1));
        assert!(!changed(|zones| zones.fingerprint += 1));
    }
}
