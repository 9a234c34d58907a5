//! What tables use that Teak does not support.

use super::tables::{self, shown};
use crate::names::{quoted_name, quoted_table};
use crate::sql_client::Session;
use std::io;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForeignKey {
    pub database: String,
    pub table: String,
    pub name: String,
    /// The table to which it refers.
    pub parent_database: String,
    pub parent: String,
}

impl ForeignKey {
    pub(super) fn quoted_table(&self) -> String {
        quoted_table(&self.database, &self.table)
    }

    pub(super) fn shown_table(&self) -> String {
        shown(&self.database, &self.table)
    }
}

/// A FULLTEXT or SPATIAL key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SpecialKey {
    pub database: String,
    pub table: String,
    pub name: String,
    pub kind: String,
}

/// Of all tables of the server.
#[derive(Debug, Default)]
pub(super) struct Features {
    pub foreign_keys: Vec<ForeignKey>,
    pub special_keys: Vec<SpecialKey>,
    /// The names and definitions of tables that consist of others.
    pub merges: Vec<(String, String)>,
    /// Whether tables of InnoDB are encrypted without an option.
    pub encrypts_innodb: bool,
    /// Whether tables of Teak are.
    pub encrypts_teak: bool,
}

impl Features {
    pub(super) fn read(session: &mut Session) -> io::Result<Self> {
        let mut features = Self::default();
        let rows = session.execute(
            "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME \
             FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS",
        )?;
        for row in rows {
            if let [database, table, name, parent_database, parent] = row.as_slice() {
                features.foreign_keys.push(ForeignKey {
                    database: database.clone(),
                    table: table.clone(),
                    name: name.clone(),
                    parent_database: parent_database.clone(),
                    parent: parent.clone(),
                });
            }
        }
        let rows = session.execute(
            "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, INDEX_TYPE FROM INFORMATION_SCHEMA.STATISTICS \
             WHERE INDEX_TYPE IN ('FULLTEXT', 'SPATIAL')",
        )?;
        for row in rows {
            if let [database, table, name, kind] = row.as_slice() {
                features.special_keys.push(SpecialKey {
                    database: database.clone(),
                    table: table.clone(),
                    name: name.clone(),
                    kind: kind.clone(),
                });
            }
        }
        let rows = session.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE ENGINE = 'MRG_MyISAM'",
        )?;
        for row in rows {
            if let [database, table] = row.as_slice() {
                let quoted = quoted_table(database, table);
                let definition = tables::definition(session, &quoted)?;
                features.merges.push((shown(database, table), definition));
            }
        }
        let mut encrypts = |engine: &str| {
            let name = format!("{engine}_encrypt_tables");
            let rows = session.execute(&format!("SHOW GLOBAL VARIABLES LIKE '{name}'"))?;
            let value = rows.first().and_then(|row| row.get(1));
            Ok::<_, io::Error>(value.is_some_and(|value| value != "OFF"))
        };
        features.encrypts_innodb = encrypts("innodb")?;
        features.encrypts_teak = encrypts("teak")?;
        Ok(features)
    }
}

/// The options of a table, without quoted texts and names, in upper case.
fn options(definition: &str) -> String {
    let options = definition
        .split_once("\n) ENGINE=")
        .map_or("", |(_, options)| options);
    let mut text = String::new();
    let mut quote = None;
    let mut chars = options.chars();
    while let Some(char) = chars.next() {
        match quote {
            // The second one of a doubled quote begins a quoted text again.
            Some(end) if char == end => quote = None,
            Some(end) => {
                if char == '\\' && end == '\'' {
                    chars.next();
                }
            }
            None => {
                text.push(char);
                if char == '\'' || char == '`' {
                    quote = Some(char);
                }
            }
        }
    }
    text.to_uppercase()
}

/// Options of a table, in its definition, that have no equivalent.
pub(super) fn refused_options(definition: &str) -> Vec<String> {
    let options = options(definition);
    let refused = ["DATA DIRECTORY", "INDEX DIRECTORY"];
    let used = refused.iter().filter(|option| options.contains(*option));
    used.map(|option| (*option).to_owned()).collect()
}

/// Whether a definition says that the table is encrypted, or that it is not.
pub(super) fn encrypted_option(definition: &str) -> Option<bool> {
    let options = definition
        .split_once("\n) ENGINE=")
        .map(|(_, options)| options.to_uppercase());
    let options = options?;
    let (_, value) = options.split_once("`ENCRYPTED`=")?;
    Some(!value.trim_start_matches(['\'', '"']).starts_with("NO"))
}

/// The clause of a definition that creates a foreign key.
pub(super) fn constraint(definition: &str, name: &str) -> Option<String> {
    let begin = format!("CONSTRAINT {} FOREIGN KEY ", quoted_name(name));
    let mut lines = definition.lines().map(str::trim);
    let line = lines.find(|line| line.starts_with(&begin))?;
    Some(line.strip_suffix(',').unwrap_or(line).to_owned())
}

/// Whether the definition of a MERGE table contains a table.
pub(super) fn merges(definition: &str, database: &str, table: &str) -> bool {
    let Some((_, tables)) = definition.split_once(" UNION=(") else {
        return false;
    };
    let (database, table) = (quoted_name(database), quoted_name(table));
    tables.contains(&format!("{database}.{table}")) || tables.contains(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = "CREATE TABLE `t` (\n  `a` int(11) DEFAULT NULL COMMENT 'DATA DIRECTORY',\n  CONSTRAINT `f``1` FOREIGN KEY (`a`) REFERENCES `p` (`b`) ON DELETE CASCADE,\n  CONSTRAINT `f2` FOREIGN KEY (`a`) REFERENCES `q` (`b`)\n) ENGINE=InnoDB COMMENT='x'' DATA DIRECTORY=\\'y' `ENCRYPTED`=YES DATA DIRECTORY='/d'";

    #[test]
    fn options_are_found_outside_of_texts() {
        assert_eq!(refused_options(DEFINITION), ["DATA DIRECTORY"]);
        let (definition, _) = DEFINITION.rsplit_once(" DATA").unwrap();
        assert!(refused_options(definition).is_empty());
        assert!(refused_options("CREATE TABLE").is_empty());
    }

    #[test]
    fn encryption_is_found() {
        assert_eq!(encrypted_option(DEFINITION), Some(true));
        let other = DEFINITION.replace("=YES", "='no'");
        assert_eq!(encrypted_option(&other), Some(false));
        let other = DEFINITION.replace("`ENCRYPTED`", "`OTHER`");
        assert_eq!(encrypted_option(&other), None);
    }

    #[test]
    fn clauses_of_foreign_keys_are_found() {
        let clause = constraint(DEFINITION, "f`1").unwrap();
        assert_eq!(
            clause,
            "CONSTRAINT `f``1` FOREIGN KEY (`a`) REFERENCES `p` (`b`) ON DELETE CASCADE"
        );
        assert!(constraint(DEFINITION, "f2").unwrap().ends_with("(`b`)"));
        assert_eq!(constraint(DEFINITION, "f"), None);
    }

    #[test]
    fn tables_of_merges_are_found() {
        let definition = "CREATE TABLE `m` (\n  `a` int\n) ENGINE=MRG_MyISAM UNION=(`a`,`d`.`b`)";
        assert!(merges(definition, "x", "a") && merges(definition, "d", "b"));
        assert!(!merges(definition, "d", "c") && !merges("CREATE TABLE `a`", "d", "a"));
    }
}
