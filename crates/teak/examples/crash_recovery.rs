//! Kills a process while it writes, and checks the data afterwards.
//!
//! `cargo run -p teak --example crash_recovery [DIRECTORY]`
//!
//! The program starts itself as a child process, which commits rows and prints the number of each
//! row after its commit. The parent kills the child while it writes, opens the database, and checks
//! that it has every printed row.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use teak::Database;

type AnyResult<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Number of commits that the parent waits for before it kills the child.
const ROWS: usize = 200;

fn main() -> AnyResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", directory] => write_forever(Path::new(directory)),
        [directory] => kill_and_recover(directory.into()),
        _ => {
            let name = format!("teak-crash-recovery-{}", std::process::id());
            kill_and_recover(std::env::temp_dir().join(name))
        }
    }
}

fn write_forever(directory: &Path) -> AnyResult<()> {
    let db = Database::open(directory)?;
    let table = db.table("rows")?;
    let mut out = std::io::stdout();
    for number in 0u64.. {
        table.insert(number.to_be_bytes(), "a row")?;
        writeln!(out, "{number}")?;
        out.flush()?;
    }
    Ok(())
}

fn kill_and_recover(directory: PathBuf) -> AnyResult<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("write")
        .arg(&directory)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    let mut reported = Vec::new();
    for line in BufReader::new(output).lines().take(ROWS) {
        reported.push(line?.parse::<u64>()?);
    }
    child.kill()?; // SIGKILL: nothing is flushed or closed
    child.wait()?;
    println!(
        "killed the writer after it had reported {} commits",
        reported.len()
    );

    let db = Database::open(&directory)?;
    let table = db.table("rows")?;
    let snapshot = db.snapshot();
    let found = snapshot.iter(&table).collect::<teak::Result<Vec<_>>>()?;
    println!("recovered {} rows", found.len());
    for number in reported {
        if table.get(number.to_be_bytes())?.is_none() {
            return Err(format!("row {number} was committed and is lost").into());
        }
    }
    println!("every reported commit is there; the writer may have committed one more");
    drop(snapshot);
    drop(table);
    db.close()?;
    Ok(())
}
