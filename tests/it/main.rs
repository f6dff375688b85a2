//! The integration suite: one binary, because linking is what takes time.

mod real;
