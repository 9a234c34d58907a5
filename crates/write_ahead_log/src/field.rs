//! The field types of log records, each with one encoding. Lists are in
//! `list.rs`.

use std::fmt;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::{FileId, Operation, WriteId};

/// The encoding of a field type, used by the record table.
pub(crate) trait Field<'a>: Sized {
    /// Appends the encoding.
    fn put(&self, out: &mut Vec<u8>);
    /// Decodes one value from the front of the input.
    fn take(take: &mut Take<'a>) -> Result<Self, Malformed>;
    /// An upper bound of the encoded length, in bytes.
    fn bytes_max(&self) -> usize;
    /// Prints the value in readable form.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// Maximum length of a varint, in bytes.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

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

/// The remaining bytes of a record, without a length field.
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

/// One operation of a write, on one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOperation<'a> {
    /// The index.
    pub file: FileId,
    /// The operation on the key.
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
