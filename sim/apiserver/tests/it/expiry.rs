//! Requests with compacted versions. These rows run after the others, one by one, because
//! compaction affects the whole server.

use super::definitions::{WIDGETS, make};
use super::harness::{Row, compact, get, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row(
            "a continue that expired",
            [
                make("a"),
                make("b"),
                make("c"),
                get(200, format!("{WIDGETS}?limit=1")),
                make("bb"),
                compact(),
                get(410, format!("{WIDGETS}?limit=1&continue={{token}}"))
                    .message("The provided continue parameter is too old"),
                // The error contains a token that continues with the present objects.
                get(200, format!("{WIDGETS}?limit=1&continue={{token}}")),
                make("bbb"),
                get(200, format!("{WIDGETS}?limit=9&continue={{token}}")),
            ],
        ),
        row(
            "a list of a version that is gone",
            [
                make("a"),
                make("b"),
                compact(),
                get(
                    410,
                    format!("{WIDGETS}?resourceVersion={{first}}&resourceVersionMatch=Exact"),
                ),
                get(410, format!("{WIDGETS}?resourceVersion={{first}}&limit=1")),
                get(
                    200,
                    format!(
                        "{WIDGETS}?resourceVersion={{first}}&resourceVersionMatch=NotOlderThan"
                    ),
                ),
                get(200, format!("{WIDGETS}?resourceVersion={{first}}")),
            ],
        ),
        row(
            "a watch of a version that is gone",
            [
                make("a"),
                compact(),
                get(
                    200,
                    format!("{WIDGETS}?watch=true&timeoutSeconds=2&resourceVersion=1"),
                ),
            ],
        ),
        row(
            "a version that is not there yet",
            [
                get(504, format!("{WIDGETS}?resourceVersion=999999999")),
                get(
                    504,
                    format!("{WIDGETS}?resourceVersion=999999999&resourceVersionMatch=Exact"),
                ),
                get(504, format!("{WIDGETS}/a?resourceVersion=999999999")),
            ],
        ),
    ]
}
