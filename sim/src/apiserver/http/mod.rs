//! HTTP around the server.
