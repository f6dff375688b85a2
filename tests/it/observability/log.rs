//! The log: panics in its format, and its filter.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::program::{Program, Stage};

/// Parses each line of a JSON log.
pub(super) fn objects(lines: &[String]) -> Vec<Value> {
    let object = |line: &String| match serde_json::from_str(line) {
        Ok(object @ Value::Object(_)) => object,
        _ => panic!("no JSON object: {line}"),
    };
    lines.iter().map(object).collect()
}

#[tokio::test]
async fn a_panic_is_one_line_of_the_log() {
    let stage = Stage::new().await;
    stage.reserve("panics-0");
    let program = Program::start(&stage, "json", &[]);
    program
        .line("a panic", |line| line.contains("\"panicked\""))
        .await;
    stage.reserve("ready-0");
    stage.wait_ready("ready-0").await;
    let (_, lines) = program.stop().await;
    let objects = objects(&lines);
    let panic = objects.iter().find(|o| o["message"] == "panicked").unwrap();
    assert_eq!(panic["level"], "ERROR");
    let error = panic["error"].as_str().unwrap();
    assert!(error.starts_with("no seat\nfor password="), "{panic}");
    assert!(!lines.join("").contains("hunter2"), "{panic}");
    let location = panic["location"].as_str().unwrap();
    assert!(location.contains("program.rs:"), "{panic}");
    assert!(
        panic["thread"].is_string() && panic["task"].is_string(),
        "{panic}"
    );
    assert!(
        panic.get("backtrace").is_none(),
        "it was not requested: {panic}"
    );

    let program = Program::start(&stage, "text", &[("RUST_BACKTRACE", "1")]);
    let line = program
        .line("a panic", |line| line.contains("panicked"))
        .await;
    for part in [
        "ERROR",
        "error=\"no seat\\nfor password=",
        "location=",
        "thread=",
        "task=",
        "backtrace=",
    ] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    let (_, lines) = program.stop().await;
    let panics = lines
        .iter()
        .filter(|line| line.contains("hunter2") || line.contains("RUST_BACKTRACE"));
    assert_eq!(panics.count(), 0, "{lines:#?}");
}

/// Returns the response to a request of the admin endpoint.
async fn send(program: &Program, method: &str, query: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(program.admin).await.unwrap();
    let request = format!(
        "{method} /debug/flags/log-filter{query} HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn what_is_logged_is_changed_while_the_program_runs() {
    let stage = Stage::new().await;
    let program = Program::start(&stage, "json", &[]);
    stage.reserve("ready-0");
    stage.wait_ready("ready-0").await;
    let response = send(&program, "GET", "", "").await;
    assert!(response.ends_with("\r\n\r\ninfo\n"), "{response}");
    let response = send(&program, "PUT", "?for=1h", "info,kueue_check=debug").await;
    assert!(
        response.contains("\r\n\r\ninfo,kueue_check=debug\nuntil ")
            && response.ends_with(", then info\n"),
        "{response}"
    );
    stage.reserve("ready-1");
    stage.wait_ready("ready-1").await;
    let response = send(&program, "PUT", "", "info").await;
    assert!(response.starts_with("HTTP/1.0 200 OK"), "{response}");
    stage.reserve("ready-2");
    stage.wait_ready("ready-2").await;
    let response = send(&program, "PUT", "", "kueue_check=loud").await;
    assert!(
        response.starts_with("HTTP/1.0 400 Bad Request"),
        "{response}"
    );
    let (_, lines) = program.stop().await;
    let evaluated = objects(&lines);
    let evaluated = evaluated
        .iter()
        .filter(|o| o["message"] == "check evaluated" || o["level"] == "DEBUG");
    let about: Vec<&str> = evaluated.filter_map(|o| o["workload"].as_str()).collect();
    assert_eq!(about, ["default/ready-1"], "{lines:#?}");
}
