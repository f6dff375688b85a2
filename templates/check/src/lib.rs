//! An admission check for Kueue. `README.md` describes what it does and how to run it.
{% if cleanup %}
pub mod bookings;{% endif %}
pub mod check;{% if source != "none" %}
pub mod http;{% endif %}{% if state %}
pub mod rate_limit;{% endif %}{% if parameters %}
pub mod parameters;{% endif %}
pub mod rule;{% if source != "none" %}
pub mod source;{% endif %}
