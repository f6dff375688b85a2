//! A timeline for a terminal.

mod chart;
mod table;
