//! Names of tables as users and as the catalogue write them.

mod file_name;

use file_name::{decoded, encoded};

/// Separates the name of a table from that of a partition.
const PARTITION: &str = "#P#";

/// A name of SQL.
pub(crate) fn quoted_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The name of a table with its database.
pub(crate) fn quoted_table(database: &str, table: &str) -> String {
    format!("{}.{}", quoted_name(database), quoted_name(table))
}

/// The names of the catalogue that `wanted` may mean: itself, or a database and a table with any of its points between them. The part
/// after `#P#` is the name of a partition.
fn candidates(wanted: &str) -> Vec<String> {
    let mut candidates = vec![wanted.trim_start_matches("./").to_owned()];
    for (at, _) in wanted.match_indices('.') {
        let (Some(database), Some(table)) = (wanted.get(..at), wanted.get(at + 1..)) else {
            continue;
        };
        candidates.push(format!("{database}/{table}"));
        let database = encoded(database);
        candidates.push(format!("{database}/{}", encoded(table)));
        if let Some((table, partition)) = table.split_once(PARTITION) {
            candidates.push(format!(
                "{database}/{}{PARTITION}{partition}",
                encoded(table)
            ));
        }
    }
    candidates
}

/// The tables of the catalogue that a user names: one, or the partitions of one. `wanted`: `database.table`, or a name
/// of the catalogue.
pub(crate) fn find(wanted: &str, names: &[String]) -> Vec<String> {
    for candidate in candidates(wanted) {
        if names.contains(&candidate) {
            return vec![candidate];
        }
        let prefix = format!("{candidate}{PARTITION}").to_lowercase();
        let is_partition = |name: &&String| name.to_lowercase().starts_with(&prefix);
        let mut partitions: Vec<String> = names.iter().filter(is_partition).cloned().collect();
        if !partitions.is_empty() {
            partitions.sort();
            return partitions;
        }
    }
    Vec::new()
}

/// The name of a table without that of a partition.
pub(crate) fn without_partition(name: &str) -> &str {
    let end = name.to_lowercase().find(&PARTITION.to_lowercase());
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

/// The table of a name, as statements of SQL write it.
pub(crate) fn table_of(name: &str) -> String {
    let name = without_partition(name);
    let name = name.rsplit('/').next().unwrap_or(name);
    decoded(name).unwrap_or_else(|| name.to_owned())
}

/// The name of the file or directory of a table or database.
pub(crate) fn file_name_of(name: &str) -> String {
    encoded(name)
}

/// A name of the catalogue as users write it, if [`find`] finds it by that: `database.table`.
pub(crate) fn shown(name: &str) -> String {
    let names = [name.to_owned()];
    let (table, partition) = name.split_at(without_partition(name).len());
    let shown = table.split_once('/').and_then(|(database, table)| {
        Some(format!(
            "{}.{}{partition}",
            decoded(database)?,
            decoded(table)?
        ))
    });
    shown
        .filter(|shown| find(shown, &names) == names)
        .unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sql_are_quoted() {
        assert_eq!(quoted_table("a`b\\'", "t"), "`a``b\\'`.`t`");
    }

    #[test]
    fn tables_and_partitions_are_found_by_their_names() {
        let names: Vec<String> = [
            "shop/orders",
            "shop/a@002db",
            "shop/p#P#p1",
            "shop/p#P#p0",
            "shop/p2",
        ]
        .map(str::to_owned)
        .into();
        assert_eq!(find("shop.orders", &names), ["shop/orders"]);
        assert_eq!(find("./shop/orders", &names), ["shop/orders"]);
        assert_eq!(find("shop.a-b", &names), ["shop/a@002db"]);
        assert_eq!(find("shop.p", &names), ["shop/p#P#p0", "shop/p#P#p1"]);
        assert_eq!(find("shop.p#P#p1", &names), ["shop/p#P#p1"]);
        assert!(find("shop.none", &names).is_empty());
        assert_eq!(table_of("shop/p#P#p1"), "p");
    }

    #[test]
    fn names_are_shown_as_users_write_them() {
        for (name, text) in [
            ("shop/orders", "shop.orders"),
            ("shop/p#P#p1", "shop.p#P#p1"),
            ("my@002eshop/@0p@002e#P#p1", "my.shop.é.#P#p1"),
            // Not as the server writes names.
            ("a.b/c", "a.b.c"),
            ("orders", "orders"),
            ("a/b@", "a/b@"),
        ] {
            assert_eq!(shown(name), text);
            assert_eq!(find(text, &[name.to_owned()]), [name]);
        }
        assert_eq!(table_of("shop/a@002db#P#p1"), "a-b");
    }
}
