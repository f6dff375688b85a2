//! The HTTP layer of the server: routes, bodies, responses and injected faults.

mod accept;
pub(crate) mod body;
mod client;
mod form;
mod handle;
mod protobuf;
mod response;
mod route;
mod serve;
mod stream;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

pub(crate) use handle::handle;

/// The body of a response; it can break.
pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;
