//! However it ends, no process is left after ten seconds.

use std::time::Duration;

use crate::running::{Running, eventually, kill, runs};

const LIMIT: Duration = Duration::from_secs(10);

/// The receivers of a signal.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// The process that `cargo xtask try` has become.
    Server,
    Check,
    /// All of them, as the terminal does.
    Group,
}

const ENDINGS: [(&str, &str, Target); 9] = [
    ("Ctrl-C", "INT", Target::Group),
    ("Ctrl-\\", "QUIT", Target::Group),
    ("a closed terminal", "HUP", Target::Group),
    (
        "a closed terminal that reaches the server only",
        "HUP",
        Target::Server,
    ),
    ("a supervisor", "TERM", Target::Server),
    ("a supervisor, at the check", "TERM", Target::Check),
    ("Ctrl-C at the server", "INT", Target::Server),
    ("kill -9 of the server", "KILL", Target::Server),
    ("kill -9 of the check", "KILL", Target::Check),
];

#[test]
fn no_process_is_left_however_it_ends() {
    for (number, (what, signal, target)) in ENDINGS.into_iter().enumerate() {
        let mut running = Running::start(&format!("ending-{number}"), &[]);
        running.expect("the first verdict");
        let children = running.children();
        let [(check, line)] = children.as_slice() else {
            panic!("{what}: the check is the only child, not {children:?}");
        };
        assert!(line.contains("maintenance_window run"), "{line}");
        let server = i64::from(running.child.id());
        match target {
            Target::Server => kill(signal, server),
            Target::Check => kill(signal, i64::from(*check)),
            Target::Group => kill(signal, -server),
        }
        assert!(running.ended(LIMIT).is_some(), "{what}: the server runs");
        let gone = eventually(LIMIT, || (!runs(*check)).then_some(()));
        assert!(gone.is_some(), "{what}: the check runs");
        // A process that is killed cannot remove its files.
        if signal != "KILL" {
            assert_eq!(running.files(), Vec::<String>::new(), "{what}");
        }
    }
}

#[test]
fn it_ends_when_its_output_is_closed() {
    let mut running = Running::start("unread", &[]);
    running.expect("the first verdict");
    let [(check, _)] = running.children()[..] else {
        panic!("the check does not run");
    };
    running.stop_reading();
    std::fs::write(running.samples(), "kind: [").unwrap();
    assert!(running.ended(LIMIT).is_some(), "the server runs");
    assert!(eventually(LIMIT, || (!runs(check)).then_some(())).is_some());
}

/// The processes of a real cluster are children of children.
#[cfg(feature = "real")]
#[test]
fn no_process_of_a_real_cluster_is_left() {
    if std::env::var_os("KUEUE_CHECK_SKIP_TESTENV").is_some() {
        eprintln!("SKIPPED: the ends of a real cluster, because there is no Go");
        return;
    }
    for signal in ["TERM", "KILL"] {
        let mut running = Running::start(&format!("real-{signal}"), &["--real"]);
        running.expect("the first verdict");
        let all = running.descendants();
        for name in ["etcd ", "kube-apiserver ", "maintenance_window run"] {
            assert!(
                all.iter().any(|(_, line)| line.contains(name)),
                "{name}: {all:?}"
            );
        }
        kill(signal, i64::from(running.child.id()));
        assert!(running.ended(LIMIT).is_some(), "{signal}: it runs");
        for (id, line) in all {
            let gone = eventually(LIMIT, || (!runs(id)).then_some(()));
            assert!(gone.is_some(), "{signal}: {line} runs");
        }
    }
}
