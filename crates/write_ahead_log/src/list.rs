//! Lists of operations in log records. A list to be written borrows a slice of the caller. A list
//! that was read refers to its encoded bytes, which were validated when they were read. So neither
//! direction allocates memory.

use crate::field::{Field, VARINT_BYTES_MAX, WriteOperation};
use std::fmt;
use teak_base::bytes::{Malformed, Put, Take};

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

            /// Whether the list is empty.
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
    /// The operations of one write on the indexes that it changes. An index may have two: a delete
    /// of the old key and a put of the new one.
    Operations, OperationsIter, WriteOperation<'a>
}

/// The elements of a list.
#[derive(Clone, Copy, Debug)]
enum Source<'a, T> {
    /// A borrowed slice of the caller.
    Borrowed(&'a [T]),
    /// Encoded elements. All of them were decoded once without an error.
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
        // An element takes at least one byte, so the number of remaining bytes limits the count.
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
