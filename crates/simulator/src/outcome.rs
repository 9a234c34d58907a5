//! Results of steps and checks.

use teak_engine::EngineError;

/// A bug of the engine, with a description.
#[derive(Debug)]
pub(crate) struct Bug(pub(crate) String);

impl From<String> for Bug {
    fn from(message: String) -> Self {
        Self(message)
    }
}

/// Whether an error means that the disk is full.
pub(crate) fn is_full(error: &EngineError) -> bool {
    match error {
        EngineError::Storage(cause) | EngineError::TableReadOnly { cause, .. } => {
            cause.is_no_space()
        }
        _ => false,
    }
}

/// How the run continues after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The run continues with the next step.
    On,
    /// A fault ended this incarnation: the engine must be opened again.
    Reopen,
}

pub(crate) type Checked<T = Flow> = Result<T, Bug>;

/// The reason why a check failed: a bug, or an error that a planned fault may
/// explain.
pub(crate) enum CheckError {
    Bug(Bug),
    Error(EngineError),
}

impl CheckError {
    pub(crate) fn into_error(self) -> Result<EngineError, Bug> {
        match self {
            CheckError::Bug(bug) => Err(bug),
            CheckError::Error(error) => Ok(error),
        }
    }
}

impl From<Bug> for CheckError {
    fn from(bug: Bug) -> Self {
        CheckError::Bug(bug)
    }
}

impl From<EngineError> for CheckError {
    fn from(error: EngineError) -> Self {
        CheckError::Error(error)
    }
}
