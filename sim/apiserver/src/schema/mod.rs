//! Schemas, as every room here uses them, and what only the built-in kinds need of them.

mod decode;

pub(crate) use decode::undecodable;
pub(crate) use kueue_check_schema::{
    Definitions, ListKind, Schema, Type, blocks_rules, compile, default_fields, drop_nulls,
    duplicates, key_of, prune, validate, validate_status, violated_rules,
};
