//! What an entry of an index does to its key. One word for the log, the
//! memtables, the pages and the merges.

/// The operation of an entry. The numbers are on disk and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// The key has this value now.
    Put = 1,
    /// The key is gone; the value is empty.
    Delete = 2,
}

impl Operation {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Operation; 2] = [Operation::Put, Operation::Delete];

    /// The operation of an on-disk number.
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
