//! An API server in memory.
//!
//! It answers as kube-apiserver 1.36 does: one table of requests runs on both (`tests/it/apiserver`). The same calls give the same history, byte for byte:
//! maps are ordered, uids are counted, and time is that of one [`Clock`](kueue_check::Clock).
//!
//! [`ApiServer::call`] is the whole of it, in process; [`ApiServer::client`] and [`ApiServer::serve`] put HTTP around it, and faults where they are wished for.

mod apply;
mod call;
mod core;
mod hooks;
mod http;
mod kinds;
mod patch;
mod rules;
mod schema;
mod select;
mod server;
mod status;
mod store;
mod verbs;
mod watch;

use self::core::Core;

pub use call::{Answer, Call, Patch, Resource, Verb};
pub use hooks::{
    Admission, Delivery, EventFault, Faults, Operation, Phase, Request, RequestFault, Review,
};
pub use server::{ApiServer, Prepared};
pub use status::{FieldError, Status};
pub use store::{Change, ChangeVerb, Changes};
pub use watch::{Event, Watch, WatchOptions};
