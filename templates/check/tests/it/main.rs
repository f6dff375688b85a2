//! Tests of the check: on a simulated cluster in virtual time, and on a real API server if there is
//! one.

mod deploy;
mod real;
{%- if source != "none" %}
mod service;
{%- endif %}
mod simulated;
{%- if source != "none" %}
mod wire;
{%- endif %}
