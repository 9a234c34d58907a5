//! Which tables are converted, in which order, and why others are not.

use super::arguments::Arguments;
use super::features::{self, Features, ForeignKey};
use super::files::FileSizes;
use super::planned::{Estimate, Planned};
use super::tables::{self, Kind, Table};
use crate::sql_client::Session;
use std::collections::HashSet;
use std::io;

#[derive(Debug)]
pub(super) struct Plan {
    pub tables: Vec<Planned>,
}

impl Plan {
    pub(super) fn make(session: &mut Session, arguments: &Arguments) -> io::Result<Self> {
        let mut tables = tables::list(session, arguments)?;
        let features = Features::read(session)?;
        let sizes = FileSizes::read(session)?;
        for table in &mut tables {
            sizes.correct(table);
        }
        Ok(Self::of(tables, &features, arguments))
    }

    fn of(mut tables: Vec<Table>, features: &Features, arguments: &Arguments) -> Self {
        // The space of the small ones is free when the large ones are converted.
        tables.sort_by_key(|table| table.bytes);
        let tables = referring_first(tables, &features.foreign_keys);
        let planned = |table| plan_table(table, features, arguments);
        let mut plan = Self {
            tables: tables.into_iter().map(planned).collect(),
        };
        plan.refuse_parents();
        plan
    }

    /// Refuses tables to which foreign keys of other tables refer that are not converted.
    fn refuse_parents(&mut self) {
        loop {
            let converted: HashSet<(String, String)> = self
                .convertible()
                .map(|planned| (planned.table.database.clone(), planned.table.name.clone()))
                .collect();
            let mut changed = false;
            for planned in self
                .tables
                .iter_mut()
                .filter(|planned| planned.refusals.is_empty())
            {
                for key in &planned.foreign_keys {
                    if !converted.contains(&(key.database.clone(), key.table.clone())) {
                        planned
                            .refusals
                            .push(refers(key) + ", which is not converted");
                        changed = true;
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    pub(super) fn convertible(&self) -> impl Iterator<Item = &Planned> {
        self.tables
            .iter()
            .filter(|planned| planned.refusals.is_empty())
    }

    pub(super) fn refused(&self) -> impl Iterator<Item = &Planned> {
        self.tables
            .iter()
            .filter(|planned| !planned.refusals.is_empty())
    }

    fn find(&mut self, table: &Table) -> Option<&mut Planned> {
        self.tables
            .iter_mut()
            .find(|planned| planned.table == *table)
    }

    pub(super) fn set_estimate(&mut self, table: &Table, estimate: Estimate) {
        if let Some(planned) = self.find(table) {
            planned.estimate = Some(estimate);
        }
    }

    pub(super) fn refuse(&mut self, table: &Table, reason: String) {
        if let Some(planned) = self.find(table) {
            planned.refusals.push(reason);
        }
        self.refuse_parents();
    }
}

fn refers(key: &ForeignKey) -> String {
    format!(
        "FOREIGN KEY {} of {} refers to it",
        key.name,
        key.shown_table()
    )
}

/// Tables with foreign keys before those to which they refer, otherwise in the same order.
fn referring_first(tables: Vec<Table>, keys: &[ForeignKey]) -> Vec<Table> {
    let mut remaining: Vec<Option<Table>> = tables.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(remaining.len());
    for place in 0..remaining.len() {
        let mut stack = vec![place];
        while let Some(&top) = stack.last() {
            let Some(Some(table)) = remaining.get(top) else {
                stack.pop();
                continue;
            };
            let refers = |other: &Table| {
                keys.iter().any(|key| {
                    table.is(&key.parent_database, &key.parent)
                        && other.is(&key.database, &key.table)
                })
            };
            // In a cycle any order is as good as another.
            let next = remaining.iter().enumerate().position(|(other, found)| {
                !stack.contains(&other) && found.as_ref().is_some_and(refers)
            });
            match next {
                Some(next) => stack.push(next),
                None => {
                    stack.pop();
                    ordered.extend(remaining.get_mut(top).and_then(Option::take));
                }
            }
        }
    }
    ordered
}

fn plan_table(table: Table, features: &Features, arguments: &Arguments) -> Planned {
    let mut refusals = Vec::new();
    let mut foreign_keys = Vec::new();
    for key in &features.foreign_keys {
        let own = table.is(&key.database, &key.table);
        if !own && !table.is(&key.parent_database, &key.parent) {
            continue;
        }
        if arguments.drop_foreign_keys {
            foreign_keys.push(key.clone());
        } else {
            let what = if own {
                format!("FOREIGN KEY {}", key.name)
            } else {
                refers(key)
            };
            refusals.push(what + " (--drop-foreign-keys drops it)");
        }
    }
    let mut keys = Vec::new();
    for key in &features.special_keys {
        if !table.is(&key.database, &key.table) {
            continue;
        }
        if arguments.drop_fulltext_and_spatial_keys {
            keys.push(key.name.clone());
        } else {
            refusals.push(format!(
                "{} KEY {} (--drop-fulltext-and-spatial-keys drops it)",
                key.kind, key.name
            ));
        }
    }
    refusals.extend(features::refused_options(&table.definition));
    // With the option, the new table is encrypted, too.
    let has_option = features::encrypted_option(&table.definition).is_some();
    let is_encrypted = features.encrypts_innodb && table.engine == "InnoDB";
    if is_encrypted && !has_option && !features.encrypts_teak && !arguments.decrypt {
        let reason = "it is encrypted by innodb_encrypt_tables, and teak_encrypt_tables is OFF (--decrypt converts it)";
        refusals.push(reason.to_owned());
    }
    if table.kind == Kind::Versioned && table.engine == "InnoDB" {
        let reason =
            "the server does not change the engine of a table of InnoDB WITH SYSTEM VERSIONING";
        refusals.push(reason.to_owned());
    }
    for (merge, definition) in &features.merges {
        if table.engine == "MyISAM" && features::merges(definition, &table.database, &table.name) {
            refusals.push(format!("it is part of the MERGE table {merge}"));
        }
    }
    Planned {
        table,
        refusals,
        foreign_keys,
        keys,
        estimate: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(options: &[&str]) -> Arguments {
        Command::parse_from(["migrate"].iter().chain(options)).arguments
    }

    fn table(name: &str, bytes: u64) -> Table {
        Table {
            database: "d".to_owned(),
            name: name.to_owned(),
            engine: "InnoDB".to_owned(),
            kind: Kind::Plain,
            rows: 1,
            bytes,
            definition: "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB".to_owned(),
        }
    }

    fn key(table: &str, parent: &str) -> ForeignKey {
        ForeignKey {
            database: "d".to_owned(),
            table: table.to_owned(),
            name: format!("{table}_{parent}"),
            parent_database: "d".to_owned(),
            parent: parent.to_owned(),
        }
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.tables
            .iter()
            .map(|planned| planned.table.name.as_str())
            .collect()
    }

    #[test]
    fn small_tables_are_first_but_after_those_that_refer_to_them() {
        let features = Features {
            // c refers to b, b to a; x and y to each other; s to itself.
            foreign_keys: [("c", "b"), ("b", "a"), ("x", "y"), ("y", "x"), ("s", "s")]
                .map(|(table, parent)| key(table, parent))
                .into(),
            ..Features::default()
        };
        let tables = ["c", "b", "a", "x", "y", "s", "z"]
            .into_iter()
            .rev()
            .enumerate();
        let tables = tables
            .map(|(bytes, name)| table(name, bytes as u64))
            .collect();
        let plan = Plan::of(tables, &features, &arguments(&["--drop-foreign-keys"]));
        assert_eq!(names(&plan), ["z", "s", "x", "y", "c", "b", "a"]);
        assert_eq!(plan.convertible().count(), 7);
        let y = plan
            .tables
            .iter()
            .find(|planned| planned.table.name == "y")
            .unwrap();
        assert_eq!(y.foreign_keys.len(), 2);
    }

    #[test]
    fn foreign_keys_of_tables_that_remain_are_not_dropped() {
        let features = Features {
            foreign_keys: vec![key("b", "a"), key("other", "b")],
            ..Features::default()
        };
        let tables = || vec![table("a", 1), table("b", 2)];
        let plan = Plan::of(tables(), &features, &arguments(&[]));
        assert_eq!(plan.refused().count(), 2);
        let text = plan.tables.iter().flat_map(|planned| &planned.refusals);
        let text: Vec<&String> = text.collect();
        assert_eq!(text[0], "FOREIGN KEY b_a (--drop-foreign-keys drops it)");
        // b cannot be converted, because `other` is not, so that a cannot either.
        let plan = Plan::of(tables(), &features, &arguments(&["--drop-foreign-keys"]));
        let refused: Vec<&Planned> = plan.refused().collect();
        assert_eq!(refused.len(), 2);
        assert_eq!(
            refused[0].refusals,
            ["FOREIGN KEY other_b of d.other refers to it, which is not converted"]
        );
    }

    #[test]
    fn tables_that_would_lose_their_encryption_are_refused() {
        let features = Features {
            encrypts_innodb: true,
            ..Features::default()
        };
        let plan = Plan::of(vec![table("a", 1)], &features, &arguments(&[]));
        assert_eq!(plan.refused().count(), 1);
        let plan = Plan::of(vec![table("a", 1)], &features, &arguments(&["--decrypt"]));
        assert_eq!(plan.convertible().count(), 1);
        let mut with_option = table("a", 1);
        with_option
            .definition
            .push_str("\n) ENGINE=InnoDB `ENCRYPTED`=YES");
        let plan = Plan::of(vec![with_option], &features, &arguments(&[]));
        assert_eq!(plan.convertible().count(), 1);
        let features = Features {
            encrypts_teak: true,
            ..features
        };
        let plan = Plan::of(vec![table("a", 1)], &features, &arguments(&[]));
        assert_eq!(plan.convertible().count(), 1);
    }
}
