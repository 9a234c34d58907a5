//! The run of one seed.

use crate::outcome::Bug;
use crate::report::{Failure, Report};
use crate::simulation::Simulation;
use std::panic::AssertUnwindSafe;

/// Runs the simulation of a seed. With `verbose`, every step is printed before
/// it is taken.
///
/// # Errors
/// [`Failure`] when the engine returned a wrong answer, lost or invented data,
/// or panicked.
pub fn simulate(seed: u64, verbose: bool) -> Result<Report, Box<Failure>> {
    let mut simulation = Simulation::new(seed, verbose);
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| simulation.run()));
    let message = match outcome {
        Ok(Ok(())) => return Ok(simulation.report),
        Ok(Err(Bug(message))) => message,
        Err(cause) => {
            let text = cause
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| cause.downcast_ref::<&str>().copied());
            format!("panic: {}", text.unwrap_or("without a message"))
        }
    };
    Err(Box::new(Failure {
        seed,
        message,
        trace: simulation.trace.into_iter().collect(),
    }))
}
