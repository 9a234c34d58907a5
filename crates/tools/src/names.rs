//! Names of tables as users and as the catalogue write them.

/// Separates the name of a table from that of a partition.
const PARTITION: &str = "#P#";

/// A name as the server writes it in names of files: special characters become `@` and four hexadecimal digits.
fn encoded(name: &str) -> String {
    let mut text = String::new();
    for char in name.chars() {
        if char.is_ascii_alphanumeric() || char == '_' || char == '#' {
            text.push(char);
        } else {
            text += &format!("@{:04x}", u32::from(char));
        }
    }
    text
}

/// The tables of the catalogue that a user names: one, or the partitions of one. `wanted`: `database.table`, or a name
/// of the catalogue.
pub(crate) fn find(wanted: &str, names: &[String]) -> Vec<String> {
    let plain = wanted.trim_start_matches("./").to_owned();
    let mut candidates = vec![plain];
    if let Some((database, table)) = wanted.split_once('.') {
        candidates.push(format!("{database}/{table}"));
        candidates.push(format!("{}/{}", encoded(database), encoded(table)));
    }
    for candidate in candidates {
        if names.contains(&candidate) {
            return vec![candidate];
        }
        let prefix = format!("{candidate}{PARTITION}");
        let mut partitions: Vec<String> = names
            .iter()
            .filter(|name| name.to_lowercase().starts_with(&prefix.to_lowercase()))
            .cloned()
            .collect();
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

/// The last part of a name, as INSERT statements use it.
pub(crate) fn table_of(name: &str) -> &str {
    let name = without_partition(name);
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
