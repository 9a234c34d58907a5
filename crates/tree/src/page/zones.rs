//! What an index block contains of the columns of a page, so that readers can do without the page.

use super::columns::PageColumns;
use teak_base::WriteId;
use teak_columns::{Column, Zone};

/// Bytes of the beginning of values that are noted, so many at most.
const BEGINNING_BYTES_MAX: usize = 8;

/// The zones of a page by column, all of whose entries are puts of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageZones {
    /// That of the columns of the page.
    pub(crate) fingerprint: u64,
    /// The write of all entries.
    pub(crate) write: WriteId,
    /// How all values begin, within their first column.
    pub(crate) beginning: Vec<u8>,
    /// Of the columns of keys, then of those of values.
    pub(crate) columns: Vec<Zone>,
}

/// Collects the zones of the columns of a page while they are encoded.
#[derive(Debug, Default)]
pub(super) struct ZoneBuilder {
    beginning: Vec<u8>,
    keys: Vec<Zone>,
    values: Vec<Zone>,
}

impl ZoneBuilder {
    pub(super) fn clear(&mut self) {
        self.beginning.clear();
        self.keys.clear();
        self.values.clear();
    }

    /// Adds the next column of keys.
    pub(super) fn add_key(&mut self, column: Column, values: &[u8]) {
        self.keys.push(zone_of(column, values, false));
    }

    /// Adds the next column that all values have. `values`: their bytes in this column.
    pub(super) fn add_front(&mut self, column: Column, values: &[u8]) {
        if self.values.is_empty() {
            common_beginning(values.chunks_exact(column.width()), &mut self.beginning);
        }
        self.values.push(zone_of(column, values, false));
    }

    /// Adds the next optional column. `values`: of those of the `entries` values that have it.
    pub(super) fn add_optional(&mut self, column: Column, values: &[u8], entries: usize) {
        let has_nulls = values.len() / column.width() < entries;
        self.values.push(zone_of(column, values, has_nulls));
    }

    /// Adds the next variable column, which `count` of the `entries` values have.
    pub(super) fn add_variable(&mut self, count: usize, entries: usize) {
        let zone = Zone::of_any_values(count > 0, count < entries);
        self.values.push(zone);
    }

    /// The zones of the page. `write`: that of all entries.
    pub(super) fn finish(&self, columns: &PageColumns, write: WriteId) -> PageZones {
        let mut zones = self.keys.clone();
        // If the keys of the page are not by column.
        zones.resize(columns.key().len(), Zone::of_any_values(true, true));
        zones.extend_from_slice(&self.values);
        PageZones {
            fingerprint: columns.fingerprint(),
            write,
            beginning: self.beginning.clone(),
            columns: zones,
        }
    }
}

fn zone_of(column: Column, values: &[u8], has_nulls: bool) -> Zone {
    let has_values = !values.is_empty();
    match column.range_of(values) {
        None => Zone::of_any_values(has_values, has_nulls),
        Some((min, max)) => Zone {
            min,
            max,
            has_values,
            has_nulls,
        },
    }
}

/// Replaces `beginning` by what all of these begin with.
fn common_beginning<'a>(mut values: impl Iterator<Item = &'a [u8]>, beginning: &mut Vec<u8>) {
    beginning.clear();
    let first = values.next().unwrap_or_default();
    beginning.extend_from_slice(first.get(..BEGINNING_BYTES_MAX).unwrap_or(first));
    for value in values {
        keep_common(beginning, value);
    }
}

/// Shortens `beginning` to what `value` begins with, too.
pub(crate) fn keep_common(beginning: &mut Vec<u8>, value: &[u8]) {
    if !value.starts_with(beginning) {
        let pairs = beginning.iter().zip(value);
        let common = pairs.take_while(|(one, other)| one == other).count();
        beginning.truncate(common);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{OptionalColumn, PageBuilder, ValueTail};
    use teak_base::Operation;
    use teak_columns::Kind;

    fn column(kind: Kind, width: u32) -> Column {
        Column::new(kind, width).unwrap()
    }

    /// Keys of four bytes. Values: a version, a number; an optional number and a string.
    fn columns() -> PageColumns {
        let optional = OptionalColumn {
            column: column(Kind::SignedLittle, 2),
            null_bit: 8,
        };
        PageColumns::with_tail(
            vec![column(Kind::UnsignedBig, 4)],
            vec![column(Kind::Bytes, 2), column(Kind::UnsignedLittle, 4)],
            ValueTail {
                optional: vec![optional],
                variable: vec![Some(9)],
            },
        )
    }

    fn value(number: u32, optional: Option<i16>, text: Option<&str>) -> Vec<u8> {
        let nulls = u8::from(optional.is_none()) | u8::from(text.is_none()) << 1;
        let mut value = vec![7, nulls];
        value.extend(number.to_le_bytes());
        value.extend(optional.iter().flat_map(|number| number.to_le_bytes()));
        if let Some(text) = text {
            value.push(u8::try_from(text.len()).unwrap());
            value.extend(text.as_bytes());
        }
        value
    }

    fn zones(entries: impl Iterator<Item = (WriteId, Operation, Vec<u8>)>) -> Option<PageZones> {
        let mut page = PageBuilder::with_columns(0, columns());
        for (number, (write, operation, value)) in (100u32..).zip(entries) {
            page.push(&number.to_be_bytes(), write, operation, &value);
        }
        page.finish(&mut Vec::new());
        page.take_zones()
    }

    #[test]
    fn a_page_by_column_has_the_ranges_of_its_columns() {
        let rows = (0..40u32).map(|row| {
            let optional = (row % 4 == 0).then_some(-5 + i16::try_from(row).unwrap());
            let value = value(1000 + row * 3, optional, None);
            (WriteId(9), Operation::Put, value)
        });
        let found = zones(rows).unwrap();
        assert_eq!((found.write, &found.beginning[..]), (WriteId(9), &[7][..]));
        assert_eq!(found.fingerprint, columns().fingerprint());
        let zone = |min, max, has_nulls| Zone {
            min,
            max,
            has_values: true,
            has_nulls,
        };
        let expected = [
            zone(100, 139, false),
            Zone::of_any_values(true, false),
            zone(1000, 1117, false),
            zone(-5, 31, true),
            Zone::of_any_values(false, true),
        ];
        assert_eq!(found.columns, expected);
    }

    #[test]
    fn pages_of_several_writes_or_with_deletes_have_no_zones() {
        let row = |row: u32| value(row, Some(1), Some("a"));
        let writes = (0..40u32).map(|n| (WriteId(u64::from(n / 39)), Operation::Put, row(n)));
        assert_eq!(zones(writes), None);
        let deletes = (0..40u32).map(|n| match n {
            7 => (WriteId(0), Operation::Delete, Vec::new()),
            _ => (WriteId(0), Operation::Put, row(n)),
        });
        assert_eq!(zones(deletes), None);
        // Too few entries for columns.
        let few = (0..8u32).map(|n| (WriteId(0), Operation::Put, row(n)));
        assert_eq!(zones(few), None);
    }

    #[test]
    fn only_the_common_beginning_is_noted() {
        let mut beginning = Vec::new();
        let values = [&b"abcdefghij"[..], b"abcdefghiz", b"abcx"];
        common_beginning(values[..2].iter().copied(), &mut beginning);
        assert_eq!(beginning, b"abcdefgh");
        common_beginning(values.into_iter(), &mut beginning);
        assert_eq!(beginning, b"abc");
        keep_common(&mut beginning, b"b");
        assert!(beginning.is_empty());
    }
}
