//! `teak dump`: the rows of a table, or the records of the log, without a server.

mod arguments;
mod directory;
mod file;
mod log;

pub(crate) use self::arguments::Arguments;
use std::io;
use std::process::ExitCode;

pub(crate) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    if arguments.log {
        return log::run(arguments);
    }
    if arguments.path.is_dir() {
        directory::run(arguments)?;
    } else {
        file::run(arguments)?;
    }
    Ok(ExitCode::SUCCESS)
}
