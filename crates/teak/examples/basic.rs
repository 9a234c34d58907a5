//! Opens a database, writes rows, reads them, and opens it again.
//!
//! `cargo run -p teak --example basic [DIRECTORY]`

use teak::{Database, Result};

fn main() -> Result<()> {
    let directory = directory("basic");
    let db = Database::open(&directory)?;
    let fruit = db.table("fruit")?;

    // Each call commits by itself.
    fruit.upsert("pear", "green")?;

    // Several writes commit together, or not at all.
    db.transact(|transaction| {
        transaction.upsert(&fruit, "plum", "blue")?;
        transaction.upsert(&fruit, "apple", "red")?;
        transaction.upsert(&fruit, "pear", "yellow")
    })?;

    // A snapshot reads the rows in the order of their keys.
    let snapshot = db.snapshot();
    println!("all:");
    for row in snapshot.iter(&fruit) {
        let row = row?;
        println!("  {} is {}", text(&row.key), text(&row.value));
    }
    println!("that begin with p, backwards:");
    for row in snapshot.prefix(&fruit, "p").rev() {
        println!("  {}", text(&row?.key));
    }
    drop((snapshot, fruit));
    db.close()?;

    let db = Database::open(&directory)?;
    let fruit = db.table("fruit")?;
    let pear = fruit.get("pear")?.unwrap_or_default();
    println!("after opening again, the pear is {}", text(&pear));
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The directory named on the command line, or a temporary one.
fn directory(name: &str) -> std::path::PathBuf {
    std::env::args().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("teak-{name}-{}", std::process::id())),
        Into::into,
    )
}
