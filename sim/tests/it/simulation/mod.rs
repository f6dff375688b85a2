//! Checks on trial: the author's API, the explorer, and the runtime under every single fault.

mod author;
mod behind;
mod defects;
mod determinism;
mod dropped;
mod lasting_failure;
mod mistakes;
mod pairs;
mod scenarios;
mod upgrade;
