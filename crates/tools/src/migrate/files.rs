//! The sizes of InnoDB's files. Those in INFORMATION_SCHEMA.TABLES are estimates.

use super::tables::{self, Table};
use crate::names::file_name_of;
use crate::sql_client::Session;
use std::collections::BTreeMap;
use std::io;

/// Separates the name of a table from that of a partition.
const PARTITION: &str = "#P#";

pub(super) struct FileSizes(BTreeMap<String, u64>);

impl FileSizes {
    pub(super) fn read(session: &mut Session) -> io::Result<Self> {
        let mut sizes = BTreeMap::new();
        let has_innodb = tables::number(
            session,
            "SELECT COUNT(*) FROM INFORMATION_SCHEMA.PLUGINS WHERE PLUGIN_NAME = 'INNODB_SYS_TABLESPACES' \
             AND PLUGIN_STATUS = 'ACTIVE'",
        )?;
        if has_innodb == 0 {
            return Ok(Self(sizes));
        }
        let rows = session.execute(
            "SELECT NAME, ALLOCATED_SIZE FROM INFORMATION_SCHEMA.INNODB_SYS_TABLESPACES",
        )?;
        for row in rows {
            if let [name, bytes] = row.as_slice() {
                sizes.insert(name.clone(), bytes.parse().unwrap_or(0));
            }
        }
        Ok(Self(sizes))
    }

    /// Sets the size of a table with files of its own.
    pub(super) fn correct(&self, table: &mut Table) {
        let name = format!(
            "{}/{}",
            file_name_of(&table.database),
            file_name_of(&table.name)
        );
        let own = self.0.get(&name).copied();
        let partitions = format!("{name}{PARTITION}");
        let of_partitions: u64 = self
            .0
            .range(partitions.clone()..)
            .take_while(|(name, _)| name.starts_with(&partitions))
            .map(|(_, bytes)| bytes)
            .sum();
        let bytes = own.unwrap_or(0) + of_partitions;
        if table.engine == "InnoDB" && bytes > 0 {
            table.bytes = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::Kind;
    use super::*;

    #[test]
    fn files_of_tables_and_partitions_are_added() {
        let sizes = [
            ("d/t", 1),
            ("d/p#P#p0", 2),
            ("d/p#P#p1", 4),
            ("d/p@0024", 8),
            ("d/p#P", 16),
        ];
        let sizes = FileSizes(sizes.map(|(name, bytes)| (name.to_owned(), bytes)).into());
        for (name, bytes) in [("t", 1), ("p", 6), ("p$", 8), ("none", 100)] {
            let mut table = Table {
                database: "d".to_owned(),
                name: name.to_owned(),
                engine: "InnoDB".to_owned(),
                kind: Kind::Plain,
                rows: 0,
                bytes: 100,
                definition: String::new(),
            };
            sizes.correct(&mut table);
            assert_eq!(table.bytes, bytes, "{name}");
        }
    }
}
