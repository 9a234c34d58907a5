//! Calls that the MariaDB server needs and other programs rarely do.

pub mod alteration;
pub mod cursor;
pub mod locks;
pub mod prepared;
pub mod table;
pub mod transaction;
