//! Metrics of a check.

use std::fmt::Write;

/// Metrics of a check in the OpenMetrics text format, for
/// [`metrics`](crate::Check::metrics).
///
/// Label values are escaped, so text of others (a namespace, an error) can neither add a series nor
/// make the text unreadable. Names of metrics and labels are the check author's; a character that
/// is not allowed in one becomes `_`.
///
/// ```
/// use kueue_check::MetricsText;
///
/// let mut text = MetricsText::new();
/// let mut seats = text.gauge("licence_seats", "Seats of a licence");
/// seats.sample(&[("licence", "cad")], 12.5);
/// seats.sample(&[("licence", "a\"} 1\nleader{pod=\"x")], 1.0);
/// let mut requests = text.counter("licence_requests", "Requests to the licence server");
/// requests.count(&[("result", "ok")], 7);
/// let text = text.finish();
/// let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
/// assert_eq!(lines, [
///     "licence_seats{licence=\"cad\"} 12.5",
///     r#"licence_seats{licence="a\"} 1\nleader{pod=\"x"} 1"#,
///     "licence_requests_total{result=\"ok\"} 7",
/// ]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct MetricsText(String);

/// A metric of a [`MetricsText`], to which samples are added. It may have none.
///
/// ```
/// let mut text = kueue_check::MetricsText::new();
/// let mut queue = text.gauge("booking_queue", "Bookings that wait");
/// for (site, waiting) in [("north", 3), ("south", 0)] {
///     queue.count(&[("site", site)], waiting);
/// }
/// let text = text.finish();
/// assert!(text.ends_with("\nbooking_queue{site=\"north\"} 3\nbooking_queue{site=\"south\"} 0\n"));
/// ```
#[derive(Debug)]
pub struct MetricFamily<'a> {
    text: &'a mut String,
    /// The name of its series.
    name: String,
}

impl MetricsText {
    /// Makes a text without metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the gauge `name`: a value that rises and falls. All its samples follow at once.
    pub fn gauge(&mut self, name: &str, help: &str) -> MetricFamily<'_> {
        self.family(name, "gauge", "", help)
    }

    /// Begins the counter `name`, without the `_total` that its series end in: a value that only
    /// rises until the process ends. All its samples follow at once.
    pub fn counter(&mut self, name: &str, help: &str) -> MetricFamily<'_> {
        self.family(
            name.strip_suffix("_total").unwrap_or(name),
            "counter",
            "_total",
            help,
        )
    }

    /// Returns the text, without the final `# EOF`.
    pub fn finish(self) -> String {
        self.0
    }

    fn family(&mut self, name: &str, kind: &str, suffix: &str, help: &str) -> MetricFamily<'_> {
        let name = legal_name(name);
        // Writing to a string does not fail.
        let _ = write!(
            self.0,
            "# TYPE {name} {kind}\n# HELP {name} {}\n",
            escaped(help)
        );
        MetricFamily {
            text: &mut self.0,
            name: name + suffix,
        }
    }
}

impl MetricFamily<'_> {
    /// Adds the series with these labels. No two samples of one metric may have the same labels.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        let value = match value {
            f64::INFINITY => "+Inf".to_owned(),
            f64::NEG_INFINITY => "-Inf".to_owned(),
            value => value.to_string(),
        };
        self.line(labels, &value)
    }

    /// Adds a sample as [`sample`](Self::sample) does, for a whole number.
    pub fn count(&mut self, labels: &[(&str, &str)], value: u64) -> &mut Self {
        self.line(labels, &value.to_string())
    }

    fn line(&mut self, labels: &[(&str, &str)], value: &str) -> &mut Self {
        self.text.push_str(&self.name);
        if !labels.is_empty() {
            let labels: Vec<String> = labels
                .iter()
                .map(|(name, value)| format!("{}=\"{}\"", legal_name(name), escaped(value)))
                .collect();
            let _ = write!(self.text, "{{{}}}", labels.join(","));
        }
        let _ = writeln!(self.text, " {value}");
        self
    }
}

/// Returns `text`, escaped for a quoted label value.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            c => escaped.push(c),
        }
    }
    escaped
}

fn legal_name(name: &str) -> String {
    let legal: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if legal.starts_with(|c: char| !c.is_ascii_digit()) {
        legal
    } else {
        format!("_{legal}")
    }
}

#[cfg(test)]
mod tests {
    use kueue_check_testenv::exposition;

    use super::*;

    #[test]
    fn a_label_contains_what_was_given_and_adds_no_series() {
        let exploit = "x\",kind=\"namespace\"} 1\nkueue_check_leader{pod=\"x";
        for value in [
            "",
            "plain",
            "a\"b\\nc",
            "a\"b\nc",
            "\\",
            "\\\"",
            "ends\\",
            "# EOF\n# EOF",
            "größer",
            "\r\t",
            exploit,
        ] {
            let mut text = MetricsText::new();
            text.gauge("seats", "Seats")
                .sample(&[("of", value), ("kind", "k")], 1.0);
            let text = text.finish() + "# EOF\n";
            let samples = exposition::parse(&text)
                .unwrap_or_else(|error| panic!("{value:?}: {error}\n{text}"));
            assert_eq!(samples.len(), 1, "{text}");
            assert_eq!(samples[0].name, "seats");
            assert_eq!(samples[0].labels["of"], value);
        }
    }

    #[test]
    fn names_help_and_values_are_legal_too() {
        let mut text = MetricsText::new();
        text.gauge("9 a\nb", "a \"help\"\\\nof lines")
            .sample(&[("l\"=", "v")], f64::INFINITY)
            .sample(&[], f64::NEG_INFINITY);
        text.counter("requests_total", "").count(&[], u64::MAX);
        text.gauge("", "").sample(&[("", "")], f64::NAN);
        let text = text.finish() + "# EOF\n";
        let samples = exposition::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let names: Vec<&str> = samples.iter().map(|sample| &*sample.name).collect();
        assert_eq!(names, ["_9_a_b", "_9_a_b", "requests_total", "_"]);
        assert!(samples[0].value.is_infinite() && samples[3].value.is_nan());
    }
}
