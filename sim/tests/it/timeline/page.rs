//! The HTML page: it is well-formed, and none of a cluster's text becomes markup.

use kueue_check_sim::timeline::Timeline;

use super::fixtures::{Scenario, at, morning, seconds, start, week};

/// Parses the markup; returns the text between tags and the values of attributes. Panics if a tag
/// is left open or closed by another.
fn read(page: &str) -> Vec<String> {
    let mut open = Vec::new();
    let mut read = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
    while let Some(begin) = rest.find('<') {
        let (text, tag) = rest.split_at(begin);
        let end = end_of_tag(tag);
        let (tag, after) = (&tag[1..end], &tag[end + 1..]);
        read.push(text.to_owned());
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed after {text:?}");
        } else {
            let name = tag.split([' ', '/']).next().unwrap();
            read.extend(attributes(&tag[name.len()..]));
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        rest = after;
    }
    assert!(open.is_empty(), "left open: {open:?}");
    read
}

/// Returns the place of the `>` that ends the tag, outside of quotes.
fn end_of_tag(tag: &str) -> usize {
    let mut quoted = false;
    for (place, c) in tag.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '>' if !quoted => return place,
            '<' if place > 0 => panic!("a bare < in {}", &tag[..place]),
            _ => {}
        }
    }
    panic!("a tag without end: {tag}");
}

fn attributes(text: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut rest = text.trim().trim_end_matches('/').trim();
    while let Some((name, after)) = rest.split_once("=\"") {
        assert!(
            name.trim()
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-'),
            "attribute {name:?}"
        );
        let (value, after) = after.split_once('"').unwrap();
        values.push(value.to_owned());
        rest = after;
    }
    assert_eq!(rest.trim(), "", "not an attribute");
    values
}

#[test]
fn every_page_is_well_formed() {
    let pages = [
        ("a morning", morning()),
        ("a week", week()),
        ("seconds", seconds()),
        ("nothing", Timeline::new([], start())),
    ];
    for (title, timeline) in pages {
        let page = timeline.html(title);
        read(&page);
        // For inspection after a run.
        let file = format!("{}/timeline, {title}.html", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(file, page).unwrap();
    }
}

#[test]
fn every_picture_is_well_formed_and_explains_its_colours() {
    for timeline in [morning(), week(), seconds(), Timeline::new([], start())] {
        let picture = timeline.svg("a title");
        let texts = read(&format!("<!DOCTYPE html>{picture}"));
        assert!(texts.iter().any(|text| text == "a title"));
        for track in &timeline.tracks {
            for span in &track.phases {
                assert!(texts.iter().any(|text| *text == span.what.to_string()));
            }
            for span in track.checks.values().flatten() {
                let words = format!("check {}", span.what);
                assert!(texts.contains(&words), "{words} is not in the legend");
            }
        }
        assert!(
            !picture
                .replace("http://www.w3.org/2000/svg", "")
                .contains("//")
        );
    }
}

#[test]
fn what_comes_from_the_cluster_stays_text_in_a_picture() {
    let evil = "</text><script>\"'&";
    let scenario = Scenario::new(evil).check(evil, "Pending", evil).seen(0);
    let picture = Timeline::new(scenario.seen, at(100)).svg(evil);
    read(&format!("<!DOCTYPE html>{picture}"));
    assert!(!picture.contains("<script"));
}

#[test]
fn nothing_is_loaded_and_nothing_is_run() {
    let page = morning().html("A morning");
    for outside in [
        "http:", "https:", "//", "<script", "src=", "href=", "url(", "@import",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn what_comes_from_the_cluster_stays_text() {
    let evil = "</title></svg><script>alert(1)</script>\"' onload=\"x&y\u{1b}";
    let scenario = Scenario::new(evil)
        .check(evil, evil, evil)
        .condition("QuotaReserved", true, evil)
        .seen(0)
        .check(evil, "Ready", evil)
        .seen(50);
    let page = Timeline::new(scenario.seen, at(100)).html(evil);
    let read = read(&page);
    assert!(!page.contains("<script"));
    assert!(!page.contains('\u{1b}'));
    let escaped = "&lt;/title&gt;&lt;/svg&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39; onload=&quot;x&amp;y\u{fffd}";
    let times = read.iter().filter(|text| text.contains(escaped)).count();
    // Title and heading; the Workload's and the check's labels; the states' titles; the table.
    assert!(times >= 10, "{times} of {}", read.len());
}

#[test]
fn the_last_message_is_the_tooltip() {
    let page = morning().html("A morning");
    let tooltip = "<title>window: Pending, 09:05:00 to 09:20:00 (15m)\noutside the window, opens at 09:20</title>";
    assert!(page.contains(tooltip));
}

#[test]
fn an_unusual_state_is_explained_where_it_occurs() {
    assert!(
        !morning()
            .html("")
            .contains("may run once others are preempted")
    );
    assert!(
        seconds()
            .html("")
            .contains("may run once others are preempted")
    );
}
