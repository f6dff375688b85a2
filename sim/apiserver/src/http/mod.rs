//! HTTP around the server: paths in, JSON out, and faults in between.

mod accept;
mod answer;
pub(crate) mod body;
mod client;
mod form;
mod handle;
mod protobuf;
mod route;
mod serve;
mod stream;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

pub(crate) use handle::handle;

/// The body of an answer; it can break.
pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;
