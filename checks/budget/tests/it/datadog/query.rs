//! Queries of Datadog's metrics, as far as its documentation describes them: `sum:metric{scope} by
//! {tag}.as_count().rollup(sum, 900)`.

/// A parsed query.
#[derive(Debug, PartialEq)]
pub(super) struct Query {
    pub(super) aggregator: String,
    pub(super) metric: String,
    /// The required tags; none for `*`.
    pub(super) scope: Vec<(String, String)>,
    pub(super) by: Vec<String>,
    /// The method, and the size of its buckets in seconds.
    pub(super) rollup: Option<(String, i64)>,
}

impl Query {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("Rule: {what} in {text:?}");
        let (aggregator, rest) = text.split_once(':').ok_or_else(|| wrong("no aggregator"))?;
        if !["avg", "sum", "min", "max", "count"].contains(&aggregator) {
            return Err(wrong("an unknown aggregator"));
        }
        let (metric, rest) = rest.split_once('{').ok_or_else(|| wrong("no scope"))?;
        let (scope, rest) = rest.split_once('}').ok_or_else(|| wrong("an open scope"))?;
        let named = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if !metric.starts_with(|c: char| c.is_ascii_alphabetic()) || !metric.chars().all(named) {
            return Err(wrong("no name of a metric"));
        }
        let scope = match scope {
            "*" => Vec::new(),
            tags => tags
                .split(',')
                .map(|tag| {
                    let (key, value) = tag.trim().split_once(':').ok_or_else(|| wrong("no tag"))?;
                    Ok((key.to_owned(), value.to_owned()))
                })
                .collect::<Result<_, String>>()?,
        };
        let (by, mut rest) = match rest.strip_prefix(" by {") {
            None => (Vec::new(), rest),
            Some(rest) => {
                let (keys, rest) = rest.split_once('}').ok_or_else(|| wrong("an open group"))?;
                (
                    keys.split(',').map(|key| key.trim().to_owned()).collect(),
                    rest,
                )
            }
        };
        let mut rollup = None;
        while !rest.is_empty() {
            let (name, arguments) = rest
                .strip_prefix('.')
                .and_then(|rest| rest.split_once('('))
                .ok_or_else(|| wrong("no function"))?;
            let (arguments, after) = arguments
                .split_once(')')
                .ok_or_else(|| wrong("an open function"))?;
            match name {
                "as_count" | "as_rate" if arguments.is_empty() => {}
                "rollup" => {
                    let (how, seconds) = arguments
                        .split_once(',')
                        .ok_or_else(|| wrong("a rollup without a time"))?;
                    let seconds = seconds
                        .trim()
                        .parse()
                        .map_err(|_| wrong("a rollup without a time"))?;
                    rollup = Some((how.trim().to_owned(), seconds));
                }
                _ => return Err(wrong("an unknown function")),
            }
            rest = after;
        }
        Ok(Self {
            aggregator: aggregator.to_owned(),
            metric: metric.to_owned(),
            scope,
            by,
            rollup,
        })
    }
}
