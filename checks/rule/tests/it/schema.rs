//! The committed schemas equal those of the types.

use std::path::Path;

use kueue_check_rule::document::{json_schema, openapi};

#[test]
fn the_schemas_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    for (file, schema) in [
        ("documents.json", json_schema()),
        ("openapi.json", openapi()),
    ] {
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = folder.join(file);
        if std::env::var_os("KUEUE_CHECK_WRITE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "{file} is stale: KUEUE_CHECK_WRITE=1 cargo test -p kueue-check-rule schemas"
        );
    }
}
