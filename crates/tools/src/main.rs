//! `teak`: command-line tools of the storage engine. `teak help` describes the commands.

mod backup;
mod backup_info;
mod cell;
mod convert_dump;
mod definition;
mod dump;
mod increments;
mod index_files;
mod inspect;
mod keys;
mod migrate;
mod names;
mod output;
mod paths;
mod progress;
mod recover;
mod restore;
mod rows;
mod server_options;
mod sizes;
mod sql_client;
mod stored_file;
mod top;
mod verify;

use clap::{Parser, Subcommand};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Tools for the Teak storage engine of MariaDB.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    /// Encryption keys for reading encrypted files: lines of ID;KEY, the key in hexadecimal digits, as in the file of the
    /// plugin file_key_management before it is encrypted itself, or of ID;VERSION;KEY.
    #[arg(long, global = true, value_name = "FILE")]
    keys: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Backup(backup::Arguments),
    ConvertDump(convert_dump::Arguments),
    Dump(dump::Arguments),
    Inspect(inspect::Arguments),
    Migrate(migrate::Arguments),
    Recover(recover::Arguments),
    Restore(restore::Arguments),
    Top(top::Arguments),
    Verify(verify::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let loaded = arguments.keys.as_deref().map_or(Ok(()), keys::load);
    let outcome = loaded.and_then(|()| run(&arguments.command));
    outcome.unwrap_or_else(|error| {
        // The reader of a pipe needs no more, as with `teak dump ... | head`.
        if error.kind() != io::ErrorKind::BrokenPipe {
            eprintln!("teak: {error}");
        }
        ExitCode::FAILURE
    })
}

fn run(command: &Command) -> io::Result<ExitCode> {
    match command {
        Command::Backup(arguments) => backup::run(arguments),
        Command::ConvertDump(arguments) => convert_dump::run(arguments),
        Command::Dump(arguments) => dump::run(arguments),
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Migrate(arguments) => migrate::run(arguments),
        Command::Recover(arguments) => recover::run(arguments),
        Command::Restore(arguments) => restore::run(arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
    }
}
