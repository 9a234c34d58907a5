//! Calls for the MariaDB server. Other programs rarely need them.

pub mod aggregate;
pub mod aggregate_query;
pub mod alteration;
pub mod backup;
pub mod block_map;
pub mod columns;
pub mod cursor;
pub mod indexes;
pub mod jobs;
pub mod locks;
pub mod log;
pub mod page_filter;
pub mod prepared;
pub mod salvage;
pub mod table;
pub mod transaction;
pub mod visitor;
