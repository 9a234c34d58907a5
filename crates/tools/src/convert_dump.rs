//! `teak convert-dump`: rewrites the table definitions of a dump for Teak.
//!
//! The dump is split into statements (`statements`). Definitions of tables are divided into tokens
//! (`tokens`) and edited (`table`); all other bytes are passed through unchanged.

mod report;
mod statements;
mod table;
mod tokens;

use self::report::{Options, Report};
use self::statements::{Statement, Statements};
use self::table::Edits;
use crate::output::open;
use crate::paths::named;
use clap::Args;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status when the output has definitions that Teak refuses.
const REFUSED: u8 = 2;

/// Databases of the server, whose tables keep their engine.
const SYSTEM_DATABASES: [&str; 4] = ["mysql", "sys", "information_schema", "performance_schema"];

/// Converts a dump of TokuDB or InnoDB tables to one of Teak tables.
///
/// Reads the output of mysqldump, mariadb-dump or mydumper, and changes only definitions of tables:
///
///   ENGINE=TokuDB, ENGINE=InnoDB      become ENGINE=TEAK, also in partitions
///   ROW_FORMAT=TOKUDB_ZLIB and so on  become COMPRESSION=...
///   CLUSTERING KEY k (a)              becomes KEY k (a) CLUSTERING=YES, with partitions KEY k (a)
///
/// All other bytes are written as they are. Tables of the databases mysql and sys keep their engine.
/// Teak has no FOREIGN KEY, FULLTEXT KEY and SPATIAL KEY. They are listed; the exit status is 2 unless options say to
/// drop them.
///
/// Examples:
///
///   mysqldump --single-transaction --databases shop | teak convert-dump | mariadb
///
///   teak convert-dump --drop-foreign-keys dump.sql --output teak.sql
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The dump; standard input when not given
    dump: Option<PathBuf>,
    /// Where to write; standard output when not given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Engines whose tables are converted
    #[arg(
        long,
        value_name = "ENGINES",
        value_delimiter = ',',
        default_value = "TokuDB,InnoDB"
    )]
    from: Vec<String>,
    /// Leave out foreign keys
    #[arg(long)]
    drop_foreign_keys: bool,
    /// Leave out FULLTEXT and SPATIAL keys
    #[arg(long)]
    drop_fulltext_and_spatial_keys: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let options = Options {
        from: arguments.from.clone(),
        drop_foreign_keys: arguments.drop_foreign_keys,
        drop_fulltext_and_spatial_keys: arguments.drop_fulltext_and_spatial_keys,
    };
    let mut input: Box<dyn BufRead> = match &arguments.dump {
        Some(path) => Box::new(BufReader::with_capacity(
            1 << 20,
            File::open(path).map_err(|error| named(path, &error))?,
        )),
        None => Box::new(io::stdin().lock()),
    };
    let mut output = open(arguments.output.as_ref())?;
    let report = convert(&mut input, &mut output, &options)?;
    output.flush()?;
    report.print();
    if report.has_refused() {
        eprintln!("see --drop-foreign-keys and --drop-fulltext-and-spatial-keys");
        return Ok(ExitCode::from(REFUSED));
    }
    Ok(ExitCode::SUCCESS)
}

fn convert(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    options: &Options,
) -> io::Result<Report> {
    let mut report = Report::default();
    let mut statements = Statements::new(input);
    let mut is_system = false;
    while let Some(statement) = statements.next(output)? {
        match statement {
            Statement::Use(database, bytes) => {
                let same = |name: &str| name.eq_ignore_ascii_case(&database);
                is_system = SYSTEM_DATABASES.iter().any(|name| same(name));
                output.write_all(&bytes)?;
            }
            Statement::Definition(bytes) if is_system => output.write_all(&bytes)?,
            Statement::Definition(bytes) => {
                output.write_all(&Edits::of(&bytes, options, &mut report).apply(&bytes))?;
            }
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(drop: bool) -> Options {
        Options {
            from: vec!["TokuDB".into(), "InnoDB".into()],
            drop_foreign_keys: drop,
            drop_fulltext_and_spatial_keys: drop,
        }
    }

    fn converted(dump: &str, drop: bool) -> (String, Report) {
        let mut output = Vec::new();
        let report = convert(&mut dump.as_bytes(), &mut output, &options(drop)).unwrap();
        (String::from_utf8(output).unwrap(), report)
    }

    #[test]
    fn a_dump_of_percona_server_is_converted() {
        let dump = "\
-- MySQL dump 10.13  Distrib 5.7.44
/*!40101 SET NAMES utf8 */;
USE `shop`;
DROP TABLE IF EXISTS `t`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
CREATE TABLE `t` (
  `id` int(11) NOT NULL AUTO_INCREMENT COMMENT 'ENGINE=TokuDB, CLUSTERING KEY',
  `a` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  CLUSTERING KEY `a` (`a`),
  UNIQUE CLUSTERING KEY `b` (`a`,`id`) USING BTREE,
  KEY `clustering` (`a`)
) ENGINE=TokuDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8 ROW_FORMAT=TOKUDB_LZMA;
CREATE TABLE `p` (`id` int, CLUSTERING KEY `c` (`id`)) ENGINE=TokuDB
/*!50100 PARTITION BY RANGE (id)
(PARTITION p0 VALUES LESS THAN (10) ENGINE = TokuDB,
 PARTITION p1 VALUES LESS THAN MAXVALUE ENGINE = TokuDB) */;
INSERT INTO `t` VALUES (1,2),('ENGINE=TokuDB; CREATE TABLE x (a int) ENGINE=TokuDB;',3);
";
        let (sql, report) = converted(dump, false);
        let expected = dump
            .replace(
                "  CLUSTERING KEY `a` (`a`),",
                "  KEY `a` (`a`) CLUSTERING=YES,",
            )
            .replace(
                "UNIQUE CLUSTERING KEY `b` (`a`,`id`) USING BTREE,",
                "UNIQUE KEY `b` (`a`,`id`) USING BTREE CLUSTERING=YES,",
            )
            .replace(") ENGINE=TokuDB AUTO", ") ENGINE=TEAK AUTO")
            .replace(
                "(`id` int, CLUSTERING KEY `c` (`id`)) ENGINE=TokuDB",
                "(`id` int, KEY `c` (`id`)) ENGINE=TEAK",
            )
            .replace("ENGINE = TokuDB", "ENGINE = TEAK")
            .replace("ROW_FORMAT=TOKUDB_LZMA", "COMPRESSION=lzma");
        assert_eq!(sql, expected);
        assert_eq!(
            (report.tables, report.clustering_keys, report.row_formats),
            (2, 2, 1)
        );
        assert!(!report.has_refused());
        let [(table, left_out, is_dropped)] = report.refused.as_slice() else {
            unreachable!("one key is not a clustering key any more");
        };
        assert_eq!((table.as_str(), *is_dropped), ("p", true));
        assert_eq!(left_out, "CLUSTERING of CLUSTERING KEY `c` (`id`)");
    }

    #[test]
    fn a_dump_of_mariadb_is_converted() {
        let dump = "CREATE TABLE t (a INT, KEY k (a) `CLUSTERING`=YES) ENGINE=\"tokudb\" `COMPRESSION`='tokudb_zlib';\n\
            ALTER TABLE t ENGINE = 'TokuDB';\n";
        let (sql, report) = converted(dump, false);
        let expected = dump
            .replace("\"tokudb\"", "TEAK")
            .replace("'TokuDB'", "TEAK");
        assert_eq!(sql, expected);
        assert_eq!((report.tables, report.clustering_keys), (2, 0));
    }

    #[test]
    fn keys_that_teak_refuses_are_listed_or_left_out() {
        let dump = "CREATE TABLE `c` (\n  `a` int,\n  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`a`) ON DELETE CASCADE,\n  \
            KEY `k` (`a`),\n  FULLTEXT KEY `t` (`b`),\n  FOREIGN KEY (`a`) REFERENCES `q` (`a`)\n) ENGINE=InnoDB;";
        let (sql, report) = converted(dump, false);
        assert_eq!(sql, dump.replace("InnoDB", "TEAK"));
        assert!(report.has_refused());
        assert_eq!(report.refused.len(), 3);
        assert_eq!(report.refused[0].0, "c");
        assert!(
            report.refused[0]
                .1
                .starts_with("CONSTRAINT `f` FOREIGN KEY")
        );
        let (sql, report) = converted(dump, true);
        assert_eq!(
            sql,
            "CREATE TABLE `c` (\n  `a` int,\n  KEY `k` (`a`)\n) ENGINE=TEAK;"
        );
        assert!(!report.has_refused());
        let added =
            "ALTER TABLE `c` ADD KEY k (a), ADD CONSTRAINT `f` FOREIGN KEY (a) REFERENCES q (a);";
        let (sql, report) = converted(added, true);
        assert_eq!(sql, added);
        let (table, _, is_dropped) = &report.refused[0];
        assert_eq!((table.as_str(), *is_dropped), ("c", false));
        let first = "CREATE TABLE c (FOREIGN KEY (a) REFERENCES q (a), a INT) ENGINE=InnoDB;";
        assert_eq!(
            converted(first, true).0,
            "CREATE TABLE c (a INT) ENGINE=TEAK;"
        );
    }

    #[test]
    fn tables_of_the_server_and_of_other_engines_keep_theirs() {
        let dump = "USE `mysql`;\nCREATE TABLE a (a INT) ENGINE=InnoDB;\nUSE shop;\nCREATE TABLE b (a INT) ENGINE=MyISAM;\n\
            CREATE TABLE c (a INT) ENGINE=InnoDB;\nCREATE TABLE d LIKE c;\n";
        let (sql, report) = converted(dump, false);
        assert_eq!(
            sql,
            dump.replace("c (a INT) ENGINE=InnoDB", "c (a INT) ENGINE=TEAK")
        );
        assert_eq!(report.tables, 1);
    }

    #[test]
    fn bodies_of_routines_are_not_changed() {
        let dump = "DELIMITER ;;\nCREATE PROCEDURE p() BEGIN\nCREATE TABLE x (a INT) ENGINE=InnoDB;\nEND ;;\nDELIMITER ;\n\
            CREATE TABLE y (a INT) ENGINE=InnoDB;";
        let (sql, _) = converted(dump, false);
        assert_eq!(
            sql,
            dump.replace("y (a INT) ENGINE=InnoDB", "y (a INT) ENGINE=TEAK")
        );
    }

    proptest! {
        #[test]
        fn other_bytes_are_passed_through(bytes: Vec<u8>, lines in "[-'\"`#/*!;a-z \n\\\\]{0,200}") {
            for dump in [bytes.as_slice(), lines.as_bytes()] {
                let mut output = Vec::new();
                convert(&mut &*dump, &mut output, &options(true)).unwrap();
                prop_assert_eq!(output, dump);
            }
        }
    }
}
