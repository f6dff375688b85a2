//! Timelines for a terminal.

mod chart;
mod table;
