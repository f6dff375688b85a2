//! kubectl on the port that it serves.

use std::process::Command;

use crate::running::Running;

/// Returns kubectl, if it is installed: that of the machine, or of the test environment.
fn kubectl() -> Option<std::path::PathBuf> {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../testenv/bin/kubectl");
    let candidates = [own, "kubectl".into()];
    candidates.into_iter().find(|program| {
        let version = Command::new(program).args(["version", "--client"]).output();
        version.is_ok_and(|version| version.status.success())
    })
}

#[test]
fn kubectl_reads_and_writes_its_cluster() {
    let Some(program) = kubectl() else {
        assert!(
            std::env::var_os("KUEUE_CHECK_REQUIRE_TESTENV").is_none(),
            "there is no kubectl"
        );
        eprintln!("SKIPPED: kubectl, because there is none");
        return;
    };
    let mut running = Running::start("kubectl", &[]);
    let kubeconfig = running.kubeconfig();
    running.expect("the first verdict");
    let run = |arguments: &str| {
        let output = Command::new(&program)
            .args(arguments.split(' '))
            .env("KUBECONFIG", &kubeconfig)
            .env("HOME", kubeconfig.parent().unwrap())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let table = run("get workloads,clusterqueues,admissionchecks,windows");
    assert!(
        table.contains("workload.kueue.x-k8s.io/job-train"),
        "{table}"
    );
    assert!(table.contains("window.example.com/day"), "{table}");
    let text = run("describe workload job-train");
    assert!(
        text.contains("Quota Reserved") || text.contains("QuotaReserved"),
        "{text}"
    );
    assert!(run("explain workloads.spec.queueName").contains("queueName"));
    // kubectl writes the kinds that it supports as protobuf.
    assert!(
        run("create job sleep --image=busybox -- sleep 60").contains("job.batch/sleep created")
    );
    let job = run("get job sleep -o jsonpath={.spec.template.spec.containers[0].command}");
    assert_eq!(job, r#"["sleep","60"]"#);
    run("delete job sleep --timeout=10s");
    // A job of a queue gets a Workload.
    let queued = running.samples().with_file_name("job.yaml");
    std::fs::write(&queued, JOB).unwrap();
    run(&format!("apply -f {}", queued.display()));
    running.expect("Workload job-queued-");
}

const JOB: &str = r"
apiVersion: batch/v1
kind: Job
metadata: {name: queued, labels: {kueue.x-k8s.io/queue-name: by-day}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, resources: {requests: {cpu: 1}}}]
";
