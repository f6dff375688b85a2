//! `{{ project-name }} --help` lists its commands.

use kueue_check::App;
use {{ crate_name }}::check;
{%- if source != "none" %}
use {{ crate_name }}::http;
use {{ crate_name }}::source::Source;
{%- endif %}

#[kueue_check::main]
async fn main() -> kueue_check::Result<()> {
{%- if source != "none" %}
    let source = Source::new(http::client(http::REQUEST_TIMEOUT)?{% unless parameters %}, {{ crate_name }}::source::url(){% endunless %});
{%- endif %}
    let app = App::new().name("{{ project-name }}").version(env!("CARGO_PKG_VERSION"));
{%- if cleanup and source != "none" %}
    app.check_on(move |client| check::new(client, source.clone())).main().await
{%- elsif cleanup %}
    app.check_on(check::new).main().await
{%- else %}
    app.check(check::new({% if source != "none" %}source{% endif %})).main().await
{%- endif %}
}
