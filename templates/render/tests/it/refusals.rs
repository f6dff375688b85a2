//! Invalid answers.

use std::path::{Path, PathBuf};

use kueue_check_template::{Config, Error, render};

pub(crate) fn template() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../check")
}

#[test]
fn a_controller_name_is_a_domain_and_a_path_as_kueue_has_them() {
    for name in [
        "example.com/window",
        "checks.example.com/Seat_check.v2",
        "a.b/c",
        "kueue-checks.example.co.uk/x-1",
    ] {
        let project = render(&template(), "seat-check", &[("controller_name", name)]);
        assert!(project.is_ok(), "{name}");
    }
    let long = format!("example.com/{}", "x".repeat(64));
    for name in [
        "",
        "window",
        "example.com",
        "example.com/",
        "/window",
        "localhost/window",
        "Example.com/window",
        "example.com/win dow",
        "example.com/window/more",
        "example..com/window",
        "-example.com/window",
        "example.com/window-",
        "example.com/\"window",
        "example.com/wïndow",
        &long,
    ] {
        let refused = render(&template(), "seat-check", &[("controller_name", name)]);
        let Err(Error::Answer {
            placeholder, value, ..
        }) = refused
        else {
            panic!("{name}: {refused:?}");
        };
        assert_eq!((&*placeholder, &*value), ("controller_name", name));
    }
}

#[test]
fn other_answers_are_checked_too() {
    let name = ("controller_name", "example.com/seat");
    for answers in [
        &[][..],
        &[name, ("source", "ldap")],
        &[name, ("parameters", "maybe")],
        &[name, ("image_registry", "ghcr.io/x y")],
        &[name, ("kueue_check_source", "0.1\"")],
        &[name, ("colour", "red")],
    ] {
        assert!(
            render(&template(), "seat-check", answers).is_err(),
            "{answers:?}"
        );
    }
    assert!(render(&template(), "seat check", &[name]).is_err());
}

#[test]
fn what_cargo_generate_rejects_is_rejected() {
    for (text, expected) in [
        (
            r#"[placeholders]
x = { type = "string" }"#,
            "no prompt",
        ),
        (
            r#"[placeholders]
x = { type = "number", prompt = "?" }"#,
            "`number`",
        ),
        (
            r#"[placeholders]
crate_name = { prompt = "?" }"#,
            "own",
        ),
        (
            r#"[placeholders]
x = { prompt = "?", choices = [] }"#,
            "choices",
        ),
        (
            r#"[placeholders]
x = { prompt = "?", choices = ["a"], default = "b" }"#,
            "one of a",
        ),
        (
            r#"[placeholders]
x = { prompt = "?", regex = "^a$", default = "b" }"#,
            "does not match",
        ),
        (
            r#"[placeholders]
x = { prompt = "?", regex = "(" }"#,
            "regex",
        ),
        (
            r#"[placeholders]
x = { type = "bool", prompt = "?", regex = "a" }"#,
            "neither",
        ),
        (
            r#"[placeholders]
x = { type = "bool", prompt = "?", default = "true" }"#,
            "another type",
        ),
        (
            r#"[conditional.'x < 3']
ignore = ["a"]"#,
            "not understood",
        ),
        (
            r#"[hooks]
pre = ["a.rhai"]"#,
            "`hooks`",
        ),
    ] {
        let error = Config::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
