//! An API server in memory.
//!
//! It answers as kube-apiserver 1.36 does: one table of requests runs on both (`tests/it/apiserver`). The same calls give the same history, byte for byte:
//! maps are ordered, uids are counted, and time is that of one [`Clock`](kueue_check::Clock).
//!
//! What is not there: users and their rights, protobuf but for objects of built-in kinds in requests, webhooks that convert between versions (only the stored version of such a kind is served), columns of
//! built-in kinds in tables (name and age are), duplicate fields in strict validation, pages of discovery in one document, and most of what the real server
//! checks in built-in kinds: what a model of Kueue and its jobs could break is checked, and the types of all fields. Rules of definitions (CEL) run; what of
//! the language is missing stands in the crate `kueue-check-schema`. Reads are never behind writes: a list or a watch that is behind is a fault that a test asks for
//! ([`RequestFault`]).
//!
//! [`ApiServer::call`] is the whole of it, in process; [`ApiServer::client`] and [`ApiServer::serve`] put HTTP around it, and faults where they are wished for.

mod apply;
mod call;
mod core;
mod hooks;
mod http;
mod kinds;
mod notifications;
mod patch;
mod schema;
mod select;
mod server;
mod status;
mod store;
mod verbs;
mod watch;

use self::core::Core;

pub use call::{ApiRequest, ApiResponse, Patch, Resource, Verb};
pub use hooks::{
    Admission, EventFault, Faults, Operation, Phase, RequestFault, RequestInfo, Review,
    WatchDelivery,
};
pub use server::{ApiServer, CompiledDefinitions};
pub(crate) use status::FieldError;
pub use status::Status;
pub use store::{Backup, Change, ChangeVerb};
pub use watch::{Event, Watch, WatchOptions};
