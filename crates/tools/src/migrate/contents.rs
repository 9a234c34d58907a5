//! The rows of a table: their number and a checksum, which are equal before and after the conversion.
//!
//! CHECKSUM TABLE adds up checksums of the records of all rows. It includes bits that depend on the engine if the table has
//! virtual columns, whose NULL bits are not set, or columns of type BIT, whose bits may be among the NULL bits. The rows of
//! such tables are added up by a query.

use super::tables::{self, Kind, Table};
use crate::names::quoted_name;
use crate::sql_client::Session;
use std::fmt::{self, Display};
use std::io;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub rows: u64,
    checksum: String,
}

impl Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows with checksum {}", self.rows, self.checksum)
    }
}

/// A column that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    data_type: String,
}

const SHAPES: [&str; 8] = [
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
];

/// A digest of the value of a column; NULL for NULL.
fn digest(column: &Column) -> String {
    let name = quoted_name(&column.name);
    match column.data_type.as_str() {
        // As text, a FLOAT has only six digits.
        "float" | "double" => format!("MD5(CAST({name} AS DOUBLE))"),
        "bit" => format!("MD5({name} + 0)"),
        "uuid" | "inet6" | "inet4" => format!("MD5(CAST({name} AS CHAR))"),
        shape if SHAPES.contains(&shape) => {
            format!("CONCAT(ST_SRID({name}), MD5(ST_AsWKB({name})))")
        }
        _ => format!("MD5({name})"),
    }
}

/// The sum of 60 bits of the digests of all rows. The text of all columns might be too long for the server.
fn sum(columns: &[Column]) -> String {
    let digests: Vec<String> = columns
        .iter()
        .map(|column| format!("IFNULL({}, 'NULL')", digest(column)))
        .collect();
    let row = format!("MD5(CONCAT_WS(',', {}))", digests.join(", "));
    format!("IFNULL(SUM(CAST(CONV(LEFT({row}, 15), 16, 10) AS UNSIGNED)), 0)")
}

/// The stored columns, if CHECKSUM TABLE cannot be used.
fn columns_to_add_up(session: &mut Session, table: &Table) -> io::Result<Option<Vec<Column>>> {
    let rows = session.execute(&format!(
        "SELECT COLUMN_NAME, DATA_TYPE, EXTRA FROM INFORMATION_SCHEMA.COLUMNS WHERE {} ORDER BY ORDINAL_POSITION",
        table.condition()
    ))?;
    let mut columns = Vec::new();
    let mut is_needed = false;
    for row in rows {
        let [name, data_type, extra] = row.as_slice() else {
            continue;
        };
        let is_virtual = extra.contains("VIRTUAL GENERATED");
        is_needed |= is_virtual || data_type == "bit";
        if !is_virtual {
            columns.push(Column {
                name: name.clone(),
                data_type: data_type.clone(),
            });
        }
    }
    Ok((is_needed && !columns.is_empty()).then_some(columns))
}

pub(super) fn read(session: &mut Session, table: &Table) -> io::Result<Contents> {
    let quoted = table.quoted();
    let history = match table.kind {
        Kind::Versioned => " FOR SYSTEM_TIME ALL",
        Kind::Plain | Kind::Sequence => "",
    };
    let rows = tables::number(session, &format!("SELECT COUNT(*) FROM {quoted}{history}"))?;
    let checksum = match columns_to_add_up(session, table)? {
        Some(columns) => {
            session.value(&format!("SELECT {} FROM {quoted}{history}", sum(&columns)))?
        }
        None => {
            let answer = session.execute(&format!("CHECKSUM TABLE {quoted} EXTENDED"))?;
            answer
                .first()
                .and_then(|row| row.get(1))
                .cloned()
                .unwrap_or_default()
        }
    };
    match checksum.parse::<u128>() {
        Ok(_) => Ok(Contents { rows, checksum }),
        Err(_) => Err(io::Error::other("the server computes no checksum of it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_digested_exactly() {
        let column = |name: &str, data_type: &str| Column {
            name: name.to_owned(),
            data_type: data_type.to_owned(),
        };
        assert_eq!(digest(&column("a`b", "int")), "MD5(`a``b`)");
        assert_eq!(digest(&column("f", "float")), "MD5(CAST(`f` AS DOUBLE))");
        let sum = sum(&[column("a", "bit"), column("b", "text")]);
        let row = "MD5(CONCAT_WS(',', IFNULL(MD5(`a` + 0), 'NULL'), IFNULL(MD5(`b`), 'NULL')))";
        let expected = format!("IFNULL(SUM(CAST(CONV(LEFT({row}, 15), 16, 10) AS UNSIGNED)), 0)");
        assert_eq!(sum, expected);
    }
}
