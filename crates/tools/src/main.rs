//! `teak`: command-line tools of the storage engine. `teak help` describes the commands.

mod convert_dump;
mod index_files;
mod inspect;
mod sizes;
mod verify;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Tools for the Teak storage engine of MariaDB.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    ConvertDump(convert_dump::Arguments),
    Inspect(inspect::Arguments),
    Verify(verify::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::ConvertDump(arguments) => convert_dump::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Verify(arguments) => Ok(verify::run(&arguments)),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("teak: {error}");
        ExitCode::FAILURE
    })
}
