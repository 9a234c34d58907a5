//! The metadata of a table, as the plugin writes it: `docs/design/format.md`, "Metadata of a table".

use super::frm::Frm;
use std::collections::BTreeMap;
use teak_base::Codec;
use teak_base::bytes::{Malformed, Take};

/// The format that this build reads.
const FORMAT: u8 = 4;

/// Bytes of the definition's version, as the server identifies it.
const VERSION_BYTES: usize = 16;

const FRM_BYTES_MAX: usize = 64 << 20;

/// The metadata of a table.
pub(crate) struct Metadata {
    /// The schema version in which rows are written.
    pub(crate) schema_version: u32,
    pub(crate) earlier: EarlierRows,
    /// The definition; `None` if it is not stored.
    pub(crate) frm: Option<Frm>,
}

/// How rows were stored that were written before the last changes of columns.
#[derive(Default)]
pub(crate) struct EarlierRows {
    /// The values of columns that such rows may lack, by the position in the table; `None` for NULL.
    pub(crate) added: BTreeMap<usize, Option<Vec<u8>>>,
    /// By schema version.
    pub(crate) layouts: BTreeMap<u32, Layout>,
}

/// The columns of a row, in the order of the row.
pub(crate) struct Layout {
    pub(crate) null_area_bytes: usize,
    pub(crate) columns: Vec<LayoutColumn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutColumn {
    /// The position in the table; `None` for a column that was dropped.
    pub(crate) column: Option<usize>,
    /// Bytes; `None` for a column of variable width.
    pub(crate) width: Option<usize>,
    /// In the NULL area; `None` for a column that is never NULL.
    pub(crate) null_bit: Option<usize>,
}

fn number(take: &mut Take<'_>) -> Result<usize, Malformed> {
    usize::try_from(take.varint()?).map_err(|_| Malformed)
}

/// A number that is stored plus one; 0 for none.
fn number_or_none(take: &mut Take<'_>) -> Result<Option<usize>, Malformed> {
    Ok(number(take)?.checked_sub(1))
}

impl EarlierRows {
    fn take(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes);
        let mut earlier = Self::default();
        for _ in 0..number(&mut take)? {
            let column = number(&mut take)?;
            let value = match take.u8()? {
                0 => None,
                1 => Some(take.bytes()?.to_vec()),
                _ => return Err(Malformed),
            };
            earlier.added.insert(column, value);
        }
        for _ in 0..number(&mut take)? {
            let version = u32::try_from(take.varint()?).map_err(|_| Malformed)?;
            let null_area_bytes = number(&mut take)?;
            let mut columns = Vec::new();
            for _ in 0..number(&mut take)? {
                columns.push(LayoutColumn {
                    column: number_or_none(&mut take)?,
                    width: number_or_none(&mut take)?,
                    null_bit: number_or_none(&mut take)?,
                });
            }
            let layout = Layout {
                null_area_bytes,
                columns,
            };
            earlier.layouts.insert(version, layout);
        }
        match take.is_empty() {
            true => Ok(earlier),
            false => Err(Malformed),
        }
    }
}

impl Metadata {
    /// `None` if the bytes are not metadata of the plugin, as those of tables that programs have created.
    ///
    /// # Errors
    /// What is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, String> {
        if bytes.first() != Some(&FORMAT) {
            return Ok(None);
        }
        let malformed = |_| "the table's metadata is malformed".to_owned();
        let mut take = Take::new(bytes);
        let mut header = || {
            take.take(4)?;
            let schema_version = take.u32()?;
            take.take(VERSION_BYTES)?;
            let earlier_bytes = take.u32()? as usize;
            let frm_bytes = take.u32()? as usize;
            take.take(8)?;
            Ok::<_, Malformed>((schema_version, take.take(earlier_bytes)?, frm_bytes))
        };
        let (schema_version, earlier, frm_bytes) = header().map_err(malformed)?;
        let earlier = match earlier.is_empty() {
            true => EarlierRows::default(),
            false => EarlierRows::take(earlier).map_err(malformed)?,
        };
        let stored = take.rest();
        let frm = match frm_bytes {
            0 => None,
            _ if stored.len() == frm_bytes => Some(Frm::decode(stored)?),
            1..=FRM_BYTES_MAX => {
                let image = Codec::Zstd.decompress(stored, frm_bytes);
                let image = image.map_err(|_| "the stored .frm file does not decompress")?;
                Some(Frm::decode(&image)?)
            }
            _ => return Err(malformed(Malformed)),
        };
        Ok(Some(Self {
            schema_version,
            earlier,
            frm,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_format_is_decoded() {
        let hex = "04000000030000 00000102030405060708090a0b0c0d0e0f1e00000000000000\
            0000000000000000 02 0001020500 0300 02 010102 000501 030000 020103 010300 000501 030000";
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        let metadata = Metadata::decode(&bytes).unwrap().unwrap();
        assert_eq!(metadata.schema_version, 3);
        assert!(metadata.frm.is_none());
        assert_eq!(metadata.earlier.added[&0], Some(vec![5, 0]));
        assert_eq!(metadata.earlier.added[&3], None);
        let first = &metadata.earlier.layouts[&1];
        assert_eq!(first.null_area_bytes, 1);
        let dropped = LayoutColumn {
            column: None,
            width: Some(4),
            null_bit: Some(0),
        };
        let name = LayoutColumn {
            column: Some(2),
            width: None,
            null_bit: None,
        };
        assert_eq!(first.columns, [dropped, name]);
        for cut in 1..bytes.len() {
            assert!(Metadata::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(Metadata::decode(b"other").unwrap().is_none());
    }
}
