//! Commands besides those of every check.
