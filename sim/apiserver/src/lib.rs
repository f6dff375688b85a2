#![doc = include_str!("../README.md")]

mod apply;
mod call;
pub mod definitions;
mod history;
mod hooks;
mod http;
mod kinds;
mod metadata;
pub mod names;
mod notifications;
mod patch;
mod schema;
mod select;
mod server;
mod state;
mod status;
mod store;
mod strategic_merge;
mod verbs;
mod watch;

use self::state::Core;

pub use call::{ApiRequest, ApiResponse, Patch, Resource, Verb};
pub use hooks::{
    Admission, EventFault, Faults, Operation, Phase, RequestFault, RequestInfo, Review, Stored,
    WatchDelivery,
};
pub use notifications::ChangeReceiver;
pub use server::{ApiServer, CompiledDefinitions, TimeSource, system_time};
pub use status::{FieldError, Status};
pub use store::{Backup, Change, ChangeVerb};
pub use watch::{Event, Watch, WatchOptions};
