//! Its output: the verdicts, and how they follow the file.

use std::fs;
use std::time::Duration;

use crate::running::Running;

#[test]
fn once_ends_when_each_workload_has_a_verdict() {
    let mut running = Running::start("once", &["--once"]);
    running.expect("starting a simulated API server");
    running.expect("AdmissionCheck day: Active=True");
    running.expect("the first verdict, after");
    let status = running.ended(Duration::from_secs(60));
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    assert_eq!(running.files(), Vec::<String>::new());
}

#[test]
fn verdicts_follow_the_file() {
    let mut running = Running::start("edited", &[]);
    let path = running.samples();
    let text = fs::read_to_string(&path).unwrap();
    let always = r#"opens: "00:00", closes: "23:59""#;
    let never = r#"opens: "00:00", closes: "00:00""#;
    let both = |hours: &str| {
        text.replace(r#"opens: "06:00", closes: "20:00""#, hours)
            .replace(r#"opens: "20:00", closes: "06:00""#, hours)
    };
    running.expect("the first verdict");
    fs::write(&path, both(always)).unwrap();
    running.expect("the file has changed");
    running.expect("Workload job-train: admitted");
    fs::write(&path, "kind: [").unwrap();
    running.expect("samples.yaml: ");
    // A verdict may still be based on the earlier parameters, and admitted Workloads stay so.
    let outside = "Workload job-train, check day: Pending (outside the window";
    let seen = (0..10).any(|_| {
        fs::write(&path, both(never)).unwrap();
        running.line(outside, Duration::from_secs(6)).is_some()
    });
    assert!(seen, "no line with `{outside}`");
}

#[test]
fn a_program_that_is_no_check_is_an_error() {
    let mut running = Running::start_program("/bin/sh".as_ref(), "not-a-check", &[]);
    let status = running.ended(Duration::from_secs(10)).unwrap();
    assert!(!status.success());
    let error = running.error();
    assert!(error.contains("crds"), "{error}");
}
