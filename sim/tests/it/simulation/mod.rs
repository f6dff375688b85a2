//! Tests of checks: the author's API, the explorer, and the runtime under every single fault.

mod check_api;
mod determinism;
mod dropped;
mod lasting_failure;
mod misuse;
mod pairs;
mod scenarios;
mod seeded_bugs;
mod stale_reads;
mod upgrade;
