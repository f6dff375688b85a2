use http::StatusCode;

use super::*;

fn reply(status: u16, body: &str) -> HttpResponse {
    HttpResponse::new(
        StatusCode::from_u16(status).unwrap(),
        HeaderMap::new(),
        body,
    )
}

fn amounts(pairs: &[(&str, f64)]) -> BTreeMap<String, f64> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect()
}

#[test]
fn columns_become_amounts() {
    let body = r#"{"data": {"type": "scalar_response", "attributes": {"columns": [
        {"type": "group", "name": "kube_namespace", "values": [["vision"], ["nlp"], ["N/A"], ["idle"]]},
        {"type": "number", "name": "spent", "values": [12.5, 3, 99, null], "meta": {"unit": null}}]}}}"#;
    assert_eq!(
        columns(&reply(200, body), "kube_namespace").unwrap(),
        amounts(&[("vision", 12.5), ("nlp", 3.0), ("idle", 0.0)])
    );
    let empty = r#"{"data": {"attributes": {"columns": []}}}"#;
    assert_eq!(
        columns(&reply(200, empty), "kube_namespace").unwrap(),
        BTreeMap::new()
    );
}

#[test]
fn series_are_summed_without_gaps() {
    let body = r#"{"status": "ok", "series": [
        {"tag_set": ["kube_namespace:vision"], "scope": "kube_namespace:vision", "interval": 900, "pointlist": [[1000, 1.5], [901000, null], [1801000, 2]]},
        {"tag_set": [], "scope": "host:a,kube_namespace:nlp", "interval": 900, "pointlist": []}]}"#;
    let all = series(&reply(200, body)).unwrap();
    assert_eq!(
        sums(&all, "kube_namespace").unwrap(),
        amounts(&[("vision", 3.5), ("nlp", 0.0)])
    );
    assert_eq!(all[0].newest().unwrap().as_second(), 1801);
    assert!(all[1].newest().is_none());
    assert_eq!(sums(&all, "team").unwrap_err().reason(), "WrongShape");
}

#[test]
fn each_bad_response_has_its_reason() {
    for (status, body, reason) in [
        (400, r#"{"errors": ["invalid query"]}"#, "BadQuery"),
        (401, "", "Unauthorized"),
        (403, r#"{"errors": ["Forbidden"]}"#, "Unauthorized"),
        (429, "", "Throttled"),
        (500, "oops", "Unavailable"),
        (302, "", "BadResponse"),
        (200, "<html>", "BadResponse"),
        (
            200,
            r#"{"data": {"attributes": {"columns": [{"type": "number", "name": "spent", "values": [1]}]}}}"#,
            "WrongShape",
        ),
        (
            200,
            r#"{"data": {"attributes": {"columns": [{"type": "group", "name": "host", "values": []}]}}}"#,
            "WrongShape",
        ),
    ] {
        assert_eq!(
            columns(&reply(status, body), "kube_namespace")
                .unwrap_err()
                .reason(),
            reason,
            "{status} {body}"
        );
    }
    for (body, reason) in [
        (
            r#"{"status": "error", "error": "Rate limit of 1600 requests"}"#,
            "QueryFailed",
        ),
        (r#"{"status": "pending"}"#, "QueryFailed"),
        ("7", "BadResponse"),
    ] {
        let error = series(&reply(200, body)).err().unwrap();
        assert_eq!(error.reason(), reason, "{body}");
    }
}

#[test]
fn queries_sum_and_slow_down_when_few_requests_are_left() {
    assert_eq!(
        summed("sum:x{*} by {kube_namespace}.as_count()", 900),
        "sum:x{*} by {kube_namespace}.as_count().rollup(sum, 900)"
    );
    assert_eq!(
        summed("sum:x{*}.rollup(sum, 300)", 900),
        "sum:x{*}.rollup(sum, 300)"
    );
    let headers = |remaining: &str| {
        let pairs = [
            ("x-ratelimit-limit", "1600"),
            ("x-ratelimit-remaining", remaining),
        ];
        pairs
            .into_iter()
            .map(|(key, value)| (key.parse().unwrap(), value.parse().unwrap()))
            .collect::<HeaderMap>()
    };
    assert!(
        is_running_out(&headers("159"))
            && !is_running_out(&headers("160"))
            && !is_running_out(&HeaderMap::new())
    );
}
