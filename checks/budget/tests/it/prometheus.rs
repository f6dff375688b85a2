//! A real Prometheus.
