//! Every link has a target.

use std::fs;

use kueue_check_book::repository;

use super::markdown::{Page, book, others};

/// Allowed link targets that a test cannot follow without a network. They are web pages of projects
/// and specifications, for people.
const OUTSIDE: [&str; 9] = [
    "https://kueue.sigs.k8s.io",
    "https://github.com/kubernetes-sigs/kueue/",
    "https://github.com/kubernetes/",
    "https://github.com/kueue-check/kueue-check",
    "https://kubernetes.io/",
    "https://docs.rs/",
    "https://prometheus.io/",
    "https://go.dev/dl",
    "https://cargo-generate.github.io/cargo-generate/",
];

fn broken(page: &Page, is_book: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let mut fail = |line: usize, target: &str, why: &str| {
        broken.push(format!("{}:{line}: {target}: {why}", page.name));
    };
    for (line, target) in page.links() {
        if target.starts_with("http") {
            if !OUTSIDE.iter().any(|known| target.starts_with(known)) {
                fail(line, &target, "is not among the addresses that are known");
            }
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let folder = page.path.parent().unwrap();
        let path = if file.is_empty() {
            page.path.clone()
        } else {
            folder.join(file)
        };
        let Ok(path) = path.canonicalize() else {
            fail(line, &target, "there is no such file");
            continue;
        };
        if is_book && !path.starts_with(repository().join("book/src").canonicalize().unwrap()) {
            fail(
                line,
                &target,
                "is not part of the book: link to the repository's address",
            );
        }
        if anchor.is_empty() {
            continue;
        }
        let anchors = anchors(&path);
        if !anchors.iter().any(|known| known == anchor) {
            fail(
                line,
                &target,
                &format!("has no such heading; there are {anchors:?}"),
            );
        }
    }
    broken
}

/// Returns the anchors of a page's headings, with those of the pages that it includes.
fn anchors(path: &std::path::Path) -> Vec<String> {
    let name = path
        .strip_prefix(repository().canonicalize().unwrap())
        .unwrap();
    let page = Page {
        name: name.display().to_string(),
        path: path.to_owned(),
        text: fs::read_to_string(path).unwrap(),
    };
    let mut anchors = page.anchors();
    for (_, line) in page.prose() {
        if let Some(included) = line.trim().strip_prefix("{{#include ") {
            let file = included.trim_end_matches("}}").split(':').next().unwrap();
            let path = path.parent().unwrap().join(file);
            anchors.extend(self::anchors(&path.canonicalize().unwrap()));
        }
    }
    anchors
}

#[test]
fn every_link_and_anchor_is_there() {
    let mut found: Vec<String> = book().iter().flat_map(|page| broken(page, true)).collect();
    found.extend(others().iter().flat_map(|page| broken(page, false)));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_link_to_a_file_of_the_repository_names_one_that_is_there() {
    let pages = book();
    let links = pages.iter().flat_map(Page::links);
    let prefix = "https://github.com/kueue-check/kueue-check/";
    let mut count = 0;
    for (_, target) in links.filter(|(_, target)| target.starts_with(prefix)) {
        let path = &target[prefix.len()..];
        let path = path
            .strip_prefix("blob/main/")
            .or(path.strip_prefix("tree/main/"));
        let path = path.unwrap_or_else(|| panic!("{target} leads to no branch"));
        let file = path.split('#').next().unwrap();
        count += 1;
        let there = repository().join(file).exists();
        assert!(there, "{target}");
        if let Some((_, anchor)) = path.split_once('#') {
            let path = repository().canonicalize().unwrap().join(file);
            assert!(
                anchors(&path).iter().any(|known| known == anchor),
                "{target}"
            );
        }
    }
    assert!(count > 5, "{count}");
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = book()
        .into_iter()
        .find(|page| page.name.ends_with("SUMMARY.md"))
        .unwrap();
    let listed: Vec<String> = summary
        .links()
        .into_iter()
        .map(|(_, target)| target)
        .collect();
    for page in book() {
        let name = page.name.strip_prefix("book/src/").unwrap();
        let included = name.contains("/generated/") || name == "SUMMARY.md";
        assert!(
            included || listed.iter().any(|target| target == name),
            "{name} is not in SUMMARY.md"
        );
    }
}
