//! The memory that a response costs the process, counted by the allocator. A binary of its own,
//! because it counts all allocations.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use kueue_check::api::Workload;
use kueue_check::{AdmissionCheckController, Parameters, RequestBuilder};
use kueue_check_rule::celcheck::rule::{Environment, Rule};
use kueue_check_rule::tools::read_rule;
use kueue_check_rule::{ServerPolicy, Unlisted, WebhookCheck, webhook::resource};
use peak_alloc::PeakAlloc;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The limit of a response, without the surrounding document.
const LARGE: usize = (8 << 20) - 4096;
/// The maximum memory of a response at any moment: its bytes, the growth of their buffer, and an
/// item.
const MOST: usize = 28 << 20;

/// The number of bytes in one write.
const BLOCK: usize = 64 * 1024;

/// Locks the allocator's count, which all tests share.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a server whose response is `head`, `item` in whole blocks up to `size` bytes, and `tail`.
fn server(
    runtime: &Runtime,
    head: &'static str,
    item: &'static str,
    tail: &'static str,
    size: usize,
) -> String {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let times = BLOCK / item.len();
    let block = item.repeat(times);
    runtime.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 8192];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            let _ = stream.write_all(head.as_bytes()).await;
            for _ in 0..size / block.len() {
                if stream.write_all(block.as_bytes()).await.is_err() {
                    break;
                }
            }
            let _ = stream.write_all(tail.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

#[test]
fn a_response_of_any_size_and_shape_costs_at_most_28_mib() {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let open = r#"{"apiVersion": "kueue-check.dev/v1alpha1", "kind": "AdmissionCheckReview", "response": {"items": ["#;
    let message = r#"{"apiVersion": "kueue-check.dev/v1alpha1", "kind": "AdmissionCheckReview", "response": {"items": [{"uid": "n/w/u/check/1795251600", "state": "Ready", "message": ""#;
    let updates = r#"{"apiVersion": "kueue-check.dev/v1alpha1", "kind": "AdmissionCheckReview", "response": {"items": [{"uid": "n/w/u/check/1795251600", "state": "Ready", "podSetUpdates": [{}"#;
    for (case, head, item, tail, size, part) in [
        (
            "nothing but space",
            "",
            " ",
            "",
            100 << 20,
            "larger than 8 MiB",
        ),
        (
            "many small items",
            open,
            "7,",
            "7]}}",
            LARGE,
            "more than 1000 elements",
        ),
        ("lists in lists", open, "[", "", LARGE, "EOF while parsing"),
        (
            "small objects",
            open,
            "{},",
            "{}]}}",
            LARGE,
            "more than 1000 elements",
        ),
        (
            "a long message",
            message,
            "xxxxxxxx",
            "\"}]}}",
            LARGE,
            "larger than 256 KiB",
        ),
        (
            "many updates",
            updates,
            ",{}",
            "]}]}}",
            LARGE,
            "larger than 256 KiB",
        ),
        (
            "updates within the limit of an item",
            updates,
            ",{}",
            "]}]}}",
            192 * 1024,
            "missing field `name`",
        ),
    ] {
        let url = server(&runtime, head, item, tail, size);
        let check = WebhookCheck::new(ServerPolicy {
            folder: "/nonexistent".into(),
            servers: vec![url.parse().unwrap()],
            unlisted: Unlisted::Refuse,
            setting: "--allow-host",
        });
        let workload = Workload::from_json(json!({
            "metadata": {"namespace": "n", "name": "w", "uid": "u"},
            "status": {"conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}]},
        }));
        let webhook = resource::WebhookCheck::decode(json!({
            "apiVersion": "kueue-check.dev/v1alpha1", "kind": "WebhookCheck", "metadata": {"name": "w"}, "spec": {"url": url},
        }));
        let request = RequestBuilder::new(workload.unwrap(), "check").build(webhook.unwrap());
        ALLOCATOR.reset_peak_usage();
        let before = ALLOCATOR.current_usage();
        let error = runtime.block_on(check.preview(request)).unwrap_err();
        let cost = ALLOCATOR.peak_usage().saturating_sub(before);
        println!("{case}: {} KiB", cost >> 10);
        assert!(cost <= MOST, "{case}: {cost} bytes");
        assert!(error.to_string().contains(part), "{case}: {error}");
    }
}

/// The maximum memory of a checked rule, besides its object: 1,000 of them stay below this.
const OF_A_RULE: usize = 16 * 1024;

#[test]
fn a_checked_rule_takes_less_than_16_kib() {
    let _alone = alone();
    for (name, text) in [
        ("nights", include_str!("../examples/nights.yaml")),
        ("maintenance", include_str!("../examples/maintenance.yaml")),
        ("nodes", include_str!("../examples/nodes.yaml")),
        ("price", include_str!("../examples/price.yaml")),
    ] {
        let rule = read_rule(text, None).unwrap();
        // Values that all rules share are created first.
        drop(Rule::new(&rule.spec, &Environment::default()).unwrap());
        let before = ALLOCATOR.current_usage();
        let rules: Vec<Rule> = (0..100)
            .map(|_| Rule::new(&rule.spec, &Environment::default()).unwrap())
            .collect();
        let each = ALLOCATOR.current_usage().saturating_sub(before) / rules.len();
        println!("a rule such as {name}: {each} bytes");
        assert!(each <= OF_A_RULE, "{name}: {each} bytes");
    }
}
