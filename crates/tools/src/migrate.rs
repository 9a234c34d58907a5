//! `teak migrate`: converts tables of other engines on a running server.
//!
//! 1. List the tables, and what Teak does not support of them.
//! 2. Estimate the size and the time of each from a sample of its rows, which is inserted into a table of Teak.
//! 3. With `--execute`, convert one table after another with `ALTER TABLE`, which is atomic and keeps definitions,
//!    triggers and grants. A table is converted or not, so a further run continues with what is missing.

mod arguments;
mod contents;
mod convert;
mod estimate;
mod features;
mod files;
mod journal;
mod patterns;
mod plan;
mod planned;
mod report;
mod server;
mod tables;
mod throttle;

pub(crate) use self::arguments::Arguments;

use self::journal::Journal;
use self::plan::Plan;
use self::planned::Planned;
use self::server::Server;
use crate::sql_client::{SqlClient, check_connection_options};
use std::io;
use std::process::ExitCode;

pub(crate) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    check_connection_options(&arguments.options)?;
    let client = SqlClient::new(&arguments.client, &arguments.options);
    let server = Server::connect(&client, arguments)?;
    let mut journal = match arguments.execute {
        true => Some(Journal::open(&arguments.log)?),
        false => None,
    };
    let mut guard = server.session()?;
    server.exclude_others(&mut guard)?;
    let mut plan = Plan::make(&mut guard, arguments)?;
    estimate_all(&server, &mut plan, arguments)?;
    report::print_plan(&plan, arguments);
    let Some(journal) = &mut journal else {
        return Ok(exit_code(plan.refused().count() == 0));
    };
    let outcomes = convert::convert_all(&server, &plan, arguments, journal)?;
    let earlier = journal.converted_before(&mut guard, &outcomes)?;
    let complete = report::print_summary(&plan, &earlier, &outcomes);
    Ok(exit_code(complete && plan.refused().count() == 0))
}

fn exit_code(success: bool) -> ExitCode {
    match success {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Estimates each table. Those that the server cannot convert are refused.
fn estimate_all(server: &Server<'_>, plan: &mut Plan, arguments: &Arguments) -> io::Result<()> {
    if arguments.sample_rows == 0 {
        return Ok(());
    }
    let mut samples = estimate::Samples::begin(server, arguments)?;
    let tables: Vec<Planned> = plan.convertible().cloned().collect();
    for planned in &tables {
        match samples.estimate(planned)? {
            Ok(estimate) => plan.set_estimate(&planned.table, estimate),
            Err(reason) => plan.refuse(&planned.table, reason),
        }
    }
    samples.end()
}
