//! The check on trial: on a cluster in memory, in virtual time, and on a real API server where
//! there is one.

mod deploy;
mod real;
{%- if source != "none" %}
mod service;
{%- endif %}
mod simulated;
{%- if source != "none" %}
mod wire;
{%- endif %}
