//! Each test that the table of differences names exists.

use std::path::Path;

#[test]
fn every_test_that_the_table_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    for folder in ["src", "tests"] {
        read(&root.join(folder), &mut sources);
    }
    let table = std::fs::read_to_string(root.join("DIFFERENCES.md")).unwrap();
    let mut named = 0;
    for line in table.lines() {
        for name in line.split('`').skip(1).step_by(2) {
            let is_test = name.contains('_')
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if is_test {
                named += 1;
                assert!(
                    sources.contains(&format!("fn {name}()")),
                    "there is no test {name}"
                );
            }
        }
    }
    assert!(named >= 60, "{named} names");
    for point in 1..=51 {
        assert!(table.contains(&format!("\n| {point} | ")), "point {point}");
    }
}

fn read(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}
