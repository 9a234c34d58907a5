//! The operation of an index entry, as stored in the log, memtables and pages.

/// The operation of an entry. The numbers are on disk and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Sets the value of the key.
    Put = 1,
    /// Deletes the key; the value is empty.
    Delete = 2,
}

impl Operation {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Operation; 2] = [Operation::Put, Operation::Delete];

    /// The operation with this on-disk number; `None` if there is none.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Operation> {
        match number {
            1 => Some(Operation::Put),
            2 => Some(Operation::Delete),
            _ => None,
        }
    }

    /// The on-disk number.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for operation in Operation::ALL {
            assert_eq!(Operation::from_number(operation.number()), Some(operation));
        }
        assert_eq!(Operation::from_number(0), None);
        assert_eq!(Operation::from_number(3), None);
    }
}
