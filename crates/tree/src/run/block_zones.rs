//! The zones of columns in an index block: for its pages, the minimum and maximum of each column and whether it has NULLs,
//! so that a scan need not read pages of which no row can match its condition.
//!
//! A column has a zone of all pages, and zones of each page only if these are narrower: if the values of the column depend on
//! the keys. So columns of any other values take some bytes of a block. Byte format: `docs/design/format.md`, "Zones".

use crate::page::{ColumnChoice, PageZones, keep_common};
use teak_base::WriteId;
use teak_base::bytes::{Malformed, Put, Take};
use teak_columns::{Column, Zone};

/// What an index block says of the chosen columns of its pages.
#[derive(Debug)]
pub(crate) struct BlockZones {
    /// How all values of these pages begin.
    beginning: Vec<u8>,
    pages: Vec<Option<PageWrite>>,
    /// For each chosen column the zones of the pages; empty if nothing is known.
    columns: Vec<Vec<Zone>>,
}

/// The entries of a page, which are all puts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageWrite {
    pub(crate) write: WriteId,
    /// Whether the first key of the page is another one than that before it.
    pub(crate) is_new_key: bool,
}

/// Flags of a page.
const HAS_ZONES: u8 = 1;
const IS_NEW_KEY: u8 = 2;
const IS_SETTLED: u8 = 4;

/// Flags of a zone.
const HAS_VALUES: u8 = 1;
const HAS_NULLS: u8 = 2;
/// The minimum and the maximum are stored.
const HAS_RANGE: u8 = 4;
/// Zones of each page follow.
const HAS_PAGES: u8 = 8;

/// Collects the zones of the pages of an index block. Reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct ZoneWriter {
    pages: Vec<NotedPage>,
}

#[derive(Debug)]
struct NotedPage {
    number: usize,
    is_new_key: bool,
    zones: PageZones,
}

impl ZoneWriter {
    /// Adds the zones of a page of the block. `is_new_key`: whether its first key is another one than that before it.
    pub(super) fn add(&mut self, number: usize, zones: PageZones, is_new_key: bool) {
        let first = self.pages.first();
        if first.is_none_or(|first| first.zones.fingerprint == zones.fingerprint) {
            self.pages.push(NotedPage {
                number,
                is_new_key,
                zones,
            });
        }
    }

    /// Appends the zones, if a page has some, and forgets them.
    pub(super) fn finish(&mut self, pages: usize, out: &mut Vec<u8>) {
        let Some(first) = self.pages.first() else {
            return;
        };
        out.put_u64(first.zones.fingerprint);
        let mut beginning = first.zones.beginning.clone();
        for page in &self.pages {
            keep_common(&mut beginning, &page.zones.beginning);
        }
        out.put_bytes(&beginning);
        let mut noted = self.pages.iter().peekable();
        for number in 0..pages {
            match noted.next_if(|page| page.number == number) {
                Some(page) => put_page(page, out),
                None => out.put_u8(0),
            }
        }
        let columns = self.pages.iter().map(|page| page.zones.columns.len());
        let mut before = 0;
        for column in 0..columns.max().unwrap_or(0) {
            let zones: Vec<Zone> = self.pages.iter().map(|page| page.zone(column)).collect();
            let all = zones.iter().copied().reduce(Zone::union);
            let Some(all) = all.filter(|all| !all.is_unknown() || are_narrower(*all, &zones))
            else {
                continue;
            };
            out.put_varint((column + 1 - before) as u64);
            before = column + 1;
            put_column(all, &zones, out);
        }
        out.put_varint(0);
        self.pages.clear();
    }
}

impl NotedPage {
    fn zone(&self, column: usize) -> Zone {
        let zone = self.zones.columns.get(column).copied();
        zone.unwrap_or_else(|| Zone::of_any_values(true, true))
    }
}

fn put_page(page: &NotedPage, out: &mut Vec<u8>) {
    let mut flags = HAS_ZONES;
    if page.is_new_key {
        flags |= IS_NEW_KEY;
    }
    let write = page.zones.write;
    if write.is_settled() {
        flags |= IS_SETTLED;
    }
    out.put_u8(flags);
    if !write.is_settled() {
        out.put_varint(write.0);
    }
}

/// The distance of the maximum from the minimum.
fn width(zone: Zone) -> u64 {
    zone.max.wrapping_sub(zone.min).cast_unsigned()
}

fn has_range(zone: Zone) -> bool {
    zone.has_values && (zone.min, zone.max) != (i64::MIN, i64::MAX)
}

/// Whether the zones of the pages are worth their space in addition to that of all of them.
fn are_narrower(all: Zone, zones: &[Zone]) -> bool {
    let differ = |zone: &Zone| (zone.has_values, zone.has_nulls) != (all.has_values, all.has_nulls);
    if zones.iter().any(differ) {
        return true;
    }
    let widths = zones.iter().map(|zone| u128::from(width(*zone)));
    let most = u128::from(width(all)) * zones.len() as u128;
    all.has_values && widths.sum::<u128>() <= most / 2 && width(all) > 0
}

fn put_column(all: Zone, zones: &[Zone], out: &mut Vec<u8>) {
    let has_pages = are_narrower(all, zones);
    let mut flags = flags_of(all);
    if has_pages {
        flags |= HAS_PAGES;
    }
    out.put_u8(flags);
    if has_range(all) {
        out.put_varint(zigzag(all.min));
        out.put_varint(width(all));
    }
    if has_pages {
        for zone in zones {
            out.put_u8(flags_of(*zone));
            if has_range(*zone) {
                out.put_varint(zone.min.wrapping_sub(all.min).cast_unsigned());
                out.put_varint(width(*zone));
            }
        }
    }
}

fn flags_of(zone: Zone) -> u8 {
    let mut flags = 0;
    if zone.has_values {
        flags |= HAS_VALUES;
    }
    if zone.has_nulls {
        flags |= HAS_NULLS;
    }
    if has_range(zone) {
        flags |= HAS_RANGE;
    }
    flags
}

/// Twice a number, or twice its absolute value minus one if it is negative.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

impl BlockZones {
    /// Decodes the zones of the chosen columns. `pages`: the number of pages of the block. `None` if there are none, or they are
    /// those of other columns or other forms of values.
    pub(super) fn decode(
        raw: &[u8],
        pages: usize,
        choice: &ColumnChoice,
    ) -> Result<Option<Self>, Malformed> {
        if raw.is_empty() {
            return Ok(None);
        }
        let mut take = Take::new(raw);
        let (fingerprint, beginning) = (take.u64()?, take.bytes()?);
        let projection = choice.projection();
        if fingerprint != projection.columns().fingerprint() || !projection.is_beginning(beginning)
        {
            return Ok(None);
        }
        let mut zones = Self {
            beginning: beginning.to_vec(),
            pages: Vec::with_capacity(pages),
            columns: vec![Vec::new(); choice.zone_numbers().count()],
        };
        for _ in 0..pages {
            zones.pages.push(take_page(&mut take)?);
        }
        let mut end = 0u64;
        loop {
            let distance = take.varint()?;
            if distance == 0 {
                break;
            }
            end = end.checked_add(distance).ok_or(Malformed)?;
            zones.take_column(end - 1, choice, &mut take)?;
        }
        if take.is_empty() {
            Ok(Some(zones))
        } else {
            Err(Malformed)
        }
    }

    fn take_column(
        &mut self,
        number: u64,
        choice: &ColumnChoice,
        take: &mut Take<'_>,
    ) -> Result<(), Malformed> {
        let flags = take.u8()?;
        let base = match flags & HAS_RANGE {
            0 => i64::MIN,
            _ => unzigzag(take.varint()?),
        };
        let all = take_zone(flags & !HAS_PAGES, base, take)?;
        let mut zones = Vec::with_capacity(self.pages.len());
        for page in &self.pages {
            zones.push(match (page, flags & HAS_PAGES) {
                (None, _) => Zone::of_any_values(true, true),
                (_, 0) => all,
                _ => {
                    let flags = take.u8()?;
                    let base = match flags & HAS_RANGE {
                        0 => base,
                        _ => base.wrapping_add(take.varint()?.cast_signed()),
                    };
                    take_zone(flags, base, take)?
                }
            });
        }
        let chosen = choice.zone_numbers().zip(&mut self.columns);
        for ((chosen, of_key), column) in chosen {
            if chosen as u64 == number {
                column.clone_from(&zones);
                if let Some(value) = of_key {
                    let numbers = column.iter_mut();
                    numbers.for_each(|zone| *zone = zone_of_key(value, *zone));
                }
            }
        }
        Ok(())
    }

    pub(super) fn beginning(&self) -> &[u8] {
        &self.beginning
    }

    /// The entries of a page of which there are zones.
    pub(crate) fn page(&self, page: usize) -> Option<PageWrite> {
        self.pages.get(page).copied().flatten()
    }

    /// What is known of a column on a page; `column` counts the chosen ones.
    pub(crate) fn zone(&self, page: usize, column: usize) -> Option<Zone> {
        self.columns.get(column)?.get(page).copied()
    }
}

fn take_page(take: &mut Take<'_>) -> Result<Option<PageWrite>, Malformed> {
    let flags = take.u8()?;
    if flags == 0 {
        return Ok(None);
    }
    if flags & HAS_ZONES == 0 || flags & !(HAS_ZONES | IS_NEW_KEY | IS_SETTLED) != 0 {
        return Err(Malformed);
    }
    let write = match flags & IS_SETTLED {
        0 => take.varint()?,
        _ => 0,
    };
    Ok(Some(PageWrite {
        write: WriteId(write),
        is_new_key: flags & IS_NEW_KEY != 0,
    }))
}

/// Reads the rest of a zone, which follows its minimum.
fn take_zone(flags: u8, min: i64, take: &mut Take<'_>) -> Result<Zone, Malformed> {
    if flags & !(HAS_VALUES | HAS_NULLS | HAS_RANGE) != 0 {
        return Err(Malformed);
    }
    let (has_values, has_nulls) = (flags & HAS_VALUES != 0, flags & HAS_NULLS != 0);
    if flags & HAS_RANGE == 0 {
        return Ok(Zone::of_any_values(has_values, has_nulls));
    }
    let max = min.checked_add_unsigned(take.varint()?).ok_or(Malformed)?;
    Ok(Zone {
        min,
        max,
        has_values,
        has_nulls,
    })
}

/// The zone of the values that keys contain with these numbers. `value`: what the values are.
fn zone_of_key(value: Column, zone: Zone) -> Zone {
    let range = (value.number_in_key(zone.min), value.number_in_key(zone.max));
    match range {
        (Some(min), Some(max)) if has_range(zone) => Zone { min, max, ..zone },
        _ => Zone::of_any_values(zone.has_values, zone.has_nulls),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{OptionalColumn, PageColumns, ReadColumn, ValueTail};
    use proptest::prelude::*;
    use teak_columns::Kind;

    fn column(kind: Kind, width: u32) -> Column {
        Column::new(kind, width).unwrap()
    }

    fn columns() -> PageColumns {
        let optional = OptionalColumn {
            column: column(Kind::SignedLittle, 8),
            null_bit: 8,
        };
        PageColumns::with_tail(
            vec![column(Kind::UnsignedBig, 4)],
            vec![column(Kind::Bytes, 2), column(Kind::SignedLittle, 4)],
            ValueTail {
                optional: vec![optional],
                variable: vec![Some(9)],
            },
        )
    }

    /// The key, the number, the optional number and the string, as an INT.
    fn choice(beginning: &[u8]) -> ColumnChoice {
        let key = ReadColumn::Key {
            number: 0,
            value: column(Kind::SignedLittle, 4),
        };
        let values = [1, 2, 3].map(ReadColumn::Value);
        ColumnChoice::new(&columns(), beginning, &[&[key], &values[..]].concat()).unwrap()
    }

    fn any_zone() -> impl Strategy<Value = Zone> {
        (
            any::<i64>(),
            any::<u64>(),
            0u32..64,
            any::<bool>(),
            any::<bool>(),
        )
            .prop_map(
                |(min, width, shift, has_values, has_nulls)| match has_values {
                    false => Zone::of_any_values(false, has_nulls),
                    true => Zone {
                        min: min >> shift,
                        max: (min >> shift).saturating_add_unsigned(width >> shift),
                        has_values,
                        has_nulls,
                    },
                },
            )
    }

    fn any_page() -> impl Strategy<Value = Option<(PageZones, bool)>> {
        // Keys have unsigned integers of four bytes.
        let key = (any::<u32>(), any::<u32>()).prop_map(|(a, b)| Zone {
            min: i64::from(a.min(b)),
            max: i64::from(a.max(b)),
            has_values: true,
            has_nulls: false,
        });
        let zones = (
            key,
            any_zone(),
            any_zone(),
            any::<bool>(),
            0u64..3,
            any::<bool>(),
            0usize..4,
        );
        proptest::option::weighted(
            0.8,
            zones.prop_map(
                |(key, number, optional, has_nulls, write, is_new_key, length)| {
                    let zones = PageZones {
                        fingerprint: columns().fingerprint(),
                        write: WriteId(write),
                        beginning: b"\x07abc"[..=length.min(3)].to_vec(),
                        columns: vec![
                            key,
                            Zone::of_any_values(true, false),
                            number,
                            optional,
                            Zone::of_any_values(true, has_nulls),
                        ],
                    };
                    (zones, is_new_key)
                },
            ),
        )
    }

    fn encode(pages: &[Option<(PageZones, bool)>]) -> Vec<u8> {
        let mut writer = ZoneWriter::default();
        for (number, page) in pages.iter().enumerate() {
            if let Some((zones, is_new_key)) = page {
                writer.add(number, zones.clone(), *is_new_key);
            }
        }
        let mut raw = Vec::new();
        writer.finish(pages.len(), &mut raw);
        raw
    }

    fn has(outer: Zone, inner: Zone) -> bool {
        let is_within = outer.min <= inner.min && inner.max <= outer.max;
        (!inner.has_values || outer.has_values && is_within)
            && (!inner.has_nulls || outer.has_nulls)
    }

    proptest! {
        #[test]
        fn decoded_zones_have_all_values_of_the_pages(pages in proptest::collection::vec(any_page(), 1..6)) {
            let raw = encode(&pages);
            let decoded = BlockZones::decode(&raw, pages.len(), &choice(&[7])).unwrap();
            let Some(decoded) = decoded else {
                prop_assert!(pages.iter().all(Option::is_none));
                return Ok(());
            };
            for (number, page) in pages.iter().enumerate() {
                let Some((zones, is_new_key)) = page else {
                    prop_assert_eq!(decoded.page(number), None);
                    continue;
                };
                let expected = PageWrite { write: zones.write, is_new_key: *is_new_key };
                prop_assert_eq!(decoded.page(number), Some(expected));
                prop_assert!(zones.beginning.starts_with(decoded.beginning()));
                // An INT in a key is its value plus 2^31.
                let key = zones.columns[0];
                let key = Zone { min: key.min - (1 << 31), max: key.max - (1 << 31), ..key };
                let expected = [key, zones.columns[2], zones.columns[3], zones.columns[4]];
                for (column, expected) in expected.into_iter().enumerate() {
                    let zone = decoded.zone(number, column).unwrap_or(Zone::of_any_values(true, true));
                    prop_assert!(has(zone, expected), "{zone:?} {expected:?}");
                }
            }
            // Another form of values, and other columns.
            prop_assert!(BlockZones::decode(&raw, pages.len(), &choice(&[8])).unwrap().is_none());
            let others = PageColumns::new(vec![], vec![column(Kind::Bytes, 2), column(Kind::Float, 8)]);
            let others = ColumnChoice::new(&others, &[7], &[ReadColumn::Value(1)]).unwrap();
            prop_assert!(BlockZones::decode(&raw, pages.len(), &others).unwrap().is_none());
        }

        #[test]
        fn any_bytes_decode_or_are_malformed(bytes: Vec<u8>, pages in 1usize..5) {
            let mut raw = Vec::new();
            raw.put_u64(columns().fingerprint());
            raw.put_bytes(&[7]);
            raw.extend(bytes);
            let _ = BlockZones::decode(&raw, pages, &choice(&[7]));
        }

        #[test]
        fn numbers_are_zigzag(number: i64) {
            prop_assert_eq!(unzigzag(zigzag(number)), number);
        }
    }

    /// Zones of one number on each page.
    fn sample(numbers: &[(i64, i64)]) -> Vec<Option<(PageZones, bool)>> {
        let any = Zone::of_any_values(true, true);
        let pages = numbers.iter().map(|(min, max)| {
            let number = Zone {
                min: *min,
                max: *max,
                has_values: true,
                has_nulls: false,
            };
            let zones = PageZones {
                fingerprint: columns().fingerprint(),
                write: WriteId(0),
                beginning: vec![7],
                columns: vec![any, any, number, any, any],
            };
            Some((zones, true))
        });
        pages.collect()
    }

    #[test]
    fn the_documented_example_holds() {
        let mut writer = ZoneWriter::default();
        let zone = |min, max, has_nulls| Zone {
            min,
            max,
            has_values: true,
            has_nulls,
        };
        let zones = [
            (0, 0, zone(1000, 1200, false)),
            (2, 300, zone(1210, 1300, true)),
        ];
        for (page, write, zone) in zones {
            let any = Zone::of_any_values(true, true);
            let zones = PageZones {
                fingerprint: 0x1122_3344_5566_7788,
                write: WriteId(write),
                beginning: vec![7],
                columns: vec![any, any, any, zone],
            };
            writer.add(page, zones, true);
        }
        let mut raw = Vec::new();
        writer.finish(3, &mut raw);
        let documented = crate::test_support::documented_bytes("### Zones");
        assert_eq!(raw, documented, "{raw:02x?}");
    }

    #[test]
    fn pages_have_zones_of_their_own_if_these_are_narrower() {
        let decode = |pages: &[Option<(PageZones, bool)>]| {
            let raw = encode(pages);
            let zones = BlockZones::decode(&raw, pages.len(), &choice(&[7]));
            (raw.len(), zones.unwrap().unwrap())
        };
        // Ascending numbers.
        let (narrow, zones) = decode(&sample(&[(0, 10), (11, 20), (21, 30)]));
        let range = |zones: &BlockZones, page| {
            let zone = zones.zone(page, 1).unwrap();
            (zone.min, zone.max)
        };
        assert_eq!(
            [0, 1, 2].map(|page| range(&zones, page)),
            [(0, 10), (11, 20), (21, 30)]
        );
        // Numbers in no order.
        let (wide, zones) = decode(&sample(&[(0, 29), (1, 30), (3, 30)]));
        assert_eq!([0, 1, 2].map(|page| range(&zones, page)), [(0, 30); 3]);
        assert!(wide < narrow);
        // Columns of which nothing is known.
        assert_eq!(zones.zone(0, 0), None);
    }
}
