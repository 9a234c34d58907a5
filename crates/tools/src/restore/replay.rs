//! Applies transactions of the binary log to the private server: `mariadb-binlog ... | mariadb`.

use super::destination::Destination;
use super::plan::Plan;
use super::programs::tail;
use super::server::PrivateServer;
use crate::progress::{Progress, Unit};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

const BUFFER_BYTES: usize = 1 << 16;

/// Applies the transactions of the plan.
///
/// # Errors
/// If a statement fails, or the files cannot be read.
pub(super) fn replay(
    program: &Path,
    plan: &Plan,
    server: &PrivateServer,
    place: &Destination,
) -> io::Result<()> {
    let (client_log, reader_log) = (place.log("client.log"), place.log("binlog.log"));
    let mut client = server
        .client()
        .args(["--batch", "--binary-mode", "--max-allowed-packet=1G"])
        .arg("--local-infile=1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(File::create(&client_log)?)
        .spawn()?;
    let reader = Command::new(program)
        .args(["--no-defaults", "--verify-binlog-checksum"])
        .arg(format!("--local-load={}", place.temporary.display()))
        .arg(format!("--start-position={}", plan.start))
        .arg(format!("--stop-position={}", plan.stop))
        .args(&plan.files)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&reader_log)?)
        .spawn();
    let outcome = reader.and_then(|reader| feed(reader, client.stdin.take(), server));
    // Without its input the client ends.
    drop(client.stdin.take());
    let status = client.wait()?;
    // If the reader has failed, the client may have failed at a statement that was cut off.
    if let Ok(false) = outcome {
        return Err(io::Error::other(format!(
            "{} has failed: {}",
            program.display(),
            tail(&reader_log)
        )));
    }
    if !status.success() {
        return Err(io::Error::other(format!(
            "the transactions of the binary log cannot be applied: {}",
            tail(&client_log)
        )));
    }
    outcome?;
    server.check_end()
}

/// Passes the statements to the client. Returns whether the reader has read all of them.
fn feed(mut reader: Child, input: Option<ChildStdin>, server: &PrivateServer) -> io::Result<bool> {
    let missing = || io::Error::other("a pipe is missing");
    let mut input = input.ok_or_else(missing)?;
    let mut output = reader.stdout.take().ok_or_else(missing)?;
    let mut progress = Progress::new("binary log, as SQL", Unit::Bytes, 0);
    let copied = copy(&mut output, &mut input, &mut progress);
    // If the client has ended, the reader ends by the closed pipe.
    drop(output);
    let status = reader.wait()?;
    copied?;
    if status.success() {
        input.write_all(server.drop_user().as_bytes())?;
    }
    Ok(status.success())
}

fn copy(from: &mut dyn Read, to: &mut dyn Write, progress: &mut Progress) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0;
    loop {
        let read = from.read(&mut buffer)?;
        let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else {
            return Ok(());
        };
        to.write_all(part)?;
        bytes += part.len() as u64;
        progress.at(bytes);
    }
}
