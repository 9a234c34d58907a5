//! The types that stand in log records, each with one encoding. Lists are
//! borrowed slices when they are written and undecoded (but checked) bytes when
//! they were read, so neither direction allocates.

use std::fmt;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::{FileId, Operation, WriteId};

/// One encoding of a type, used by the record table.
pub(crate) trait Field<'a>: Sized {
    /// Appends the encoding.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes one value from the front.
    fn take(take: &mut Take<'a>) -> Result<Self, Malformed>;
    /// At least the length of the encoding, in bytes.
    fn bytes_max(&self) -> usize;
    /// Prints the value for people.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// Longest varint, in bytes.
const VARINT_BYTES_MAX: usize = 10;

impl<'a> Field<'a> for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_varint(*self);
    }
    fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
        take.varint()
    }
    fn bytes_max(&self) -> usize {
        VARINT_BYTES_MAX
    }
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<'a> Field<'a> for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(*self);
    }
    fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
        take.u8()
    }
    fn bytes_max(&self) -> usize {
        1
    }
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<'a> Field<'a> for &'a [u8] {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self);
    }
    fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
        take.bytes()
    }
    fn bytes_max(&self) -> usize {
        VARINT_BYTES_MAX + self.len()
    }
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// All that is left of a record, without a length of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest<'a>(pub &'a [u8]);

impl<'a> Field<'a> for Rest<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
    fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
        Ok(Rest(take.take(take.rest().len())?))
    }
    fn bytes_max(&self) -> usize {
        self.0.len()
    }
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

macro_rules! id_field {
    ($name:ident) => {
        impl<'a> Field<'a> for $name {
            fn put(&self, out: &mut Vec<u8>) {
                out.put_varint(self.0);
            }
            fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
                Ok($name(take.varint()?))
            }
            fn bytes_max(&self) -> usize {
                VARINT_BYTES_MAX
            }
            fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id_field!(WriteId);
id_field!(FileId);

/// What one write does to one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOperation<'a> {
    /// The index.
    pub file: FileId,
    /// What happens to the key.
    pub operation: Operation,
    /// The key.
    pub key: &'a [u8],
    /// The value; empty for a delete.
    pub value: &'a [u8],
}

impl<'a> Field<'a> for WriteOperation<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_varint(self.file.0);
        out.put_u8(self.operation.number());
        out.put_bytes(self.key);
        out.put_bytes(self.value);
    }
    fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
        Ok(WriteOperation {
            file: FileId(take.varint()?),
            operation: Operation::from_number(take.u8()?).ok_or(Malformed)?,
            key: take.bytes()?,
            value: take.bytes()?,
        })
    }
    fn bytes_max(&self) -> usize {
        3 * VARINT_BYTES_MAX + 1 + self.key.len() + self.value.len()
    }
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} file={} key=\"{}\" value=\"{}\"",
            self.operation,
            self.file,
            self.key.escape_ascii(),
            self.value.escape_ascii()
        )
    }
}

macro_rules! list_field {
    ($(#[$meta:meta])* $list:ident, $iter:ident, $element:ty) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $list<'a>(Source<'a, $element>);

        impl<'a> $list<'a> {
            /// The number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Whether there are none.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The elements in order.
            #[must_use]
            pub fn iter(&self) -> $iter<'a> {
                $iter { rest: self.0 }
            }
        }

        impl<'a> From<&'a [$element]> for $list<'a> {
            fn from(elements: &'a [$element]) -> Self {
                Self(Source::Borrowed(elements))
            }
        }

        impl<'a, const N: usize> From<&'a [$element; N]> for $list<'a> {
            fn from(elements: &'a [$element; N]) -> Self {
                Self(Source::Borrowed(elements))
            }
        }

        impl<'a> From<&'a Vec<$element>> for $list<'a> {
            fn from(elements: &'a Vec<$element>) -> Self {
                Self(Source::Borrowed(elements))
            }
        }

        impl<'a> IntoIterator for $list<'a> {
            type Item = $element;
            type IntoIter = $iter<'a>;
            fn into_iter(self) -> $iter<'a> {
                self.iter()
            }
        }

        impl<'a> IntoIterator for &$list<'a> {
            type Item = $element;
            type IntoIter = $iter<'a>;
            fn into_iter(self) -> $iter<'a> {
                self.iter()
            }
        }

        impl PartialEq for $list<'_> {
            fn eq(&self, other: &Self) -> bool {
                self.len() == other.len() && self.iter().eq(other.iter())
            }
        }

        impl Eq for $list<'_> {}

        impl fmt::Debug for $list<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.iter()).finish()
            }
        }

        /// The elements of the list in order.
        #[derive(Clone, Debug)]
        pub struct $iter<'a> {
            rest: Source<'a, $element>,
        }

        impl<'a> Iterator for $iter<'a> {
            type Item = $element;

            fn next(&mut self) -> Option<$element> {
                self.rest.next()
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.rest.len(), Some(self.rest.len()))
            }
        }

        impl ExactSizeIterator for $iter<'_> {}

        impl<'a> Field<'a> for $list<'a> {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
                Source::take(take).map(Self)
            }
            fn bytes_max(&self) -> usize {
                self.0.bytes_max()
            }
            fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.print(f)
            }
        }
    };
}

list_field! {
    /// The operations of one row: one for each index concerned.
    Operations, OperationsIter, WriteOperation<'a>
}
list_field! {
    /// A list of write ids.
    WriteIds, WriteIdsIter, WriteId
}

/// Where a list's elements come from.
#[derive(Clone, Copy, Debug)]
enum Source<'a, T> {
    /// The caller's slice.
    Borrowed(&'a [T]),
    /// Encoded elements that decoded once already.
    Encoded { count: usize, elements: Take<'a> },
}

impl<'a, T: Field<'a> + Copy> Source<'a, T> {
    fn len(&self) -> usize {
        match self {
            Source::Borrowed(elements) => elements.len(),
            Source::Encoded { count, .. } => *count,
        }
    }

    fn next(&mut self) -> Option<T> {
        match self {
            Source::Borrowed(elements) => {
                let (first, rest) = elements.split_first()?;
                *elements = rest;
                Some(*first)
            }
            Source::Encoded { count, elements } => {
                *count = count.checked_sub(1)?;
                T::take(elements).ok()
            }
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_varint(self.len() as u64);
        let mut rest = *self;
        while let Some(element) = rest.next() {
            element.put(out);
        }
    }

    fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
        // An element takes a byte at least, so the rest bounds the count.
        let count = take.length(take.rest().len())?;
        let elements = *take;
        for _ in 0..count {
            T::take(take)?;
        }
        Ok(Source::Encoded { count, elements })
    }

    fn bytes_max(&self) -> usize {
        let mut bytes = VARINT_BYTES_MAX;
        let mut rest = *self;
        while let Some(element) = rest.next() {
            bytes += element.bytes_max();
        }
        bytes
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        let mut rest = *self;
        let mut separator = "";
        while let Some(element) = rest.next() {
            write!(f, "{separator}")?;
            element.print(f)?;
            separator = ", ";
        }
        write!(f, "]")
    }
}
