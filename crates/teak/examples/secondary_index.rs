//! A table of users that is read by e-mail address and by city.
//!
//! `cargo run -p teak --example secondary_index`

use teak::{Database, Error, Result, TableSchema};

/// A user as it is stored: `email|city`.
fn field(value: &[u8], number: usize) -> Vec<u8> {
    let mut fields = value.split(|byte| *byte == b'|');
    fields.nth(number).unwrap_or_default().to_vec()
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    // The functions derive a row's keys in each index, so that every write keeps the indexes
    // current. For `None`, the row has no entry.
    let users = db.table(
        TableSchema::new("users")
            .unique_index("by_email", |_id, value| Some(field(value, 0)))
            .index("by_city", |_id, value| Some(field(value, 1))),
    )?;
    users.insert("1", "ada@example.org|London")?;
    users.insert("2", "bob@example.org|Paris")?;
    users.insert("3", "cid@example.org|London")?;

    match users.insert("4", "ada@example.org|Rome") {
        Err(Error::DuplicateKey { index: Some(index) }) => println!("refused by {index}"),
        other => println!("unexpected: {other:?}"),
    }

    users.update("2", "bob@example.org|London")?;
    let snapshot = db.snapshot();
    let by_email = snapshot.index(&users, "by_email")?;
    if let Some(row) = by_email.get("bob@example.org")? {
        println!("bob is user {}", String::from_utf8_lossy(&row.key));
    }
    let by_city = snapshot.index(&users, "by_city")?;
    println!("users in London: {}", by_city.equal("London").count());
    for row in by_city.range("A".."Z") {
        let row = row?;
        println!(
            "  {} in {}",
            String::from_utf8_lossy(&row.key),
            String::from_utf8_lossy(&row.index_key)
        );
    }
    Ok(())
}
