//! Timelines of Workloads.
//!
//! [`Timeline::new`] turns snapshots of Workloads ([`WorkloadSnapshot`]s, such as an API server's
//! history) into spans: one lane of [`Phase`]s a Workload and one lane of check states an admission
//! check. It is a pure function, as are the output formats:
//!
//! | format | for |
//! | --- | --- |
//! | [`Timeline::chart`] | a terminal: one row a lane, one column a time interval |
//! | [`Timeline::table`] | a terminal, a log or a bug report: every change with its time and message |
//! | [`Timeline::html`] | a browser: one self-contained file, no scripts, any screen and theme |
//! | [`Timeline::svg`] | documents: one picture of a fixed size |
//!
//! ```
//! use kueue_check_sim::timeline::{WorkloadSnapshot, Timeline};
//! use serde_json::json;
//!
//! let start = "2026-11-21T09:00:00Z".parse()?;
//! let end = "2026-11-21T09:10:00Z".parse()?;
//! let workload = json!({"metadata": {"namespace": "team", "name": "train", "uid": "1"}});
//! let timeline = Timeline::new([WorkloadSnapshot::new(start, workload)], end);
//! assert!(timeline.chart(100).contains("team/train"));
//! # Ok::<(), jiff::Error>(())
//! ```

mod axis;
mod build;
mod format;
mod html;
mod phase;
mod read;
mod snapshot;
mod spans;
mod svg;
mod text;

pub use phase::Phase;
pub use read::summary;
pub(crate) use read::{condition, is_true, text};
pub use snapshot::WorkloadSnapshot;
pub use spans::{Span, Timeline, Track};
