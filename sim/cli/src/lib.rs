#![doc = include_str!("../README.md")]

pub mod demo;
pub mod record;
pub mod replay;
