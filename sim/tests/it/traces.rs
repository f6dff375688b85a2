//! What a real Kueue 0.19.2 did, and what the model does.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kueue_check_sim::replay::{Replay, Trace};

fn recordings() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = here.ancestors().map(|above| above.join("shared/traces"));
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for kind in ["job", "workload"] {
        let files = std::fs::read_dir(folder.join(kind))
            .into_iter()
            .flatten()
            .flatten();
        found.extend(
            files
                .map(|file| file.path())
                .filter(|path| path.extension().is_some_and(|e| e == "json")),
        );
    }
    found.sort();
    found
}

#[test]
fn every_recorded_trace_is_reproduced() {
    let recordings = recordings();
    if recordings.is_empty() {
        println!("skipped: no recordings in ../shared/traces");
        return;
    }
    let mut report = String::new();
    for path in &recordings {
        let differences = Replay::new(Trace::read(path).unwrap()).run().unwrap();
        for difference in &differences {
            writeln!(report, "{}: {difference}", path.display()).unwrap();
        }
    }
    assert!(report.is_empty(), "{report}");
    println!("{} traces reproduced", recordings.len());
}
