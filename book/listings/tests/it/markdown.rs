//! The Markdown documents as lines, links and blocks.

use std::fs;
use std::path::{Path, PathBuf};

use kueue_check_book::repository;

/// One file.
pub(super) struct Page {
    /// Its path from the repository's root.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// The lines between two code fences.
pub(super) struct Block {
    /// The first word after the fence: `rust`, `console`, …
    pub(super) language: String,
    /// The words after the language.
    pub(super) marks: Vec<String>,
    pub(super) lines: Vec<String>,
    /// The number of its first line, from 1.
    pub(super) line: usize,
}

impl Block {
    /// Returns true if `mark` is one of the words after the language.
    pub(super) fn is(&self, mark: &str) -> bool {
        self.marks.iter().any(|known| known == mark)
    }
}

/// Returns the source files of the book's pages.
pub(super) fn book() -> Vec<Page> {
    let mut pages = Vec::new();
    collect(&repository().join("book/src"), &mut pages);
    assert!(pages.len() > 20, "{} pages", pages.len());
    pages
}

/// Returns the other documents for people.
pub(super) fn others() -> Vec<Page> {
    let names = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "sim/README.md",
        "checks/budget/README.md",
        "checks/provisioning/README.md",
        "checks/rule/README.md",
        "charts/kueue-check/README.md",
        "templates/README.md",
    ];
    names
        .iter()
        .map(|name| Page::read(&repository().join(name)))
        .collect()
}

/// Returns one page of the book.
pub(super) fn page(name: &str) -> Page {
    Page::read(&repository().join("book/src").join(name))
}

fn collect(folder: &Path, pages: &mut Vec<Page>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|end| end == "md") {
            pages.push(Page::read(&path));
        }
    }
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path
            .strip_prefix(repository())
            .unwrap()
            .display()
            .to_string();
        Self {
            name,
            path: path.to_owned(),
            text,
        }
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut inside = false;
        for (number, line) in self.text.lines().enumerate() {
            match line.trim_start().strip_prefix("```") {
                Some(info) if !inside => {
                    inside = true;
                    let mut words = info.split(',').map(|word| word.trim().to_owned());
                    blocks.push(Block {
                        language: words.next().unwrap_or_default(),
                        marks: words.collect(),
                        lines: Vec::new(),
                        line: number + 1,
                    });
                }
                Some(_) => inside = false,
                None if inside => blocks.last_mut().unwrap().lines.push(line.to_owned()),
                None => {}
            }
        }
        assert!(!inside, "{}: a block is left open", self.name);
        blocks
    }

    /// Returns the lines outside of blocks, with their numbers.
    pub(super) fn prose(&self) -> Vec<(usize, &str)> {
        let mut inside = false;
        let mut prose = Vec::new();
        for (number, line) in self.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if !inside {
                prose.push((number + 1, line));
            }
        }
        prose
    }

    /// Returns the link targets with their line numbers.
    pub(super) fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (number, line) in self.prose() {
            let line = without_code(line);
            for (place, _) in line.match_indices("](") {
                let target = &line[place + 2..];
                let end = target.find(')').unwrap_or(target.len());
                links.push((number, target[..end].trim().to_owned()));
            }
            for attribute in ["src=\"", "href=\""] {
                for (place, _) in line.match_indices(attribute) {
                    let target = &line[place + attribute.len()..];
                    links.push((number, target.split('"').next().unwrap().to_owned()));
                }
            }
        }
        links
    }

    /// Returns the anchors of its headings, as mdBook and GitHub generate them.
    pub(super) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for (_, line) in self.prose() {
            let title = line.trim_start_matches('#');
            if title.len() == line.len() || !title.starts_with(' ') {
                continue;
            }
            let base = anchor(title.trim());
            let twins = anchors.iter().filter(|known| **known == base).count();
            anchors.push(if twins == 0 {
                base
            } else {
                format!("{base}-{twins}")
            });
        }
        anchors
    }
}

/// Removes code between backticks, which is not markup.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts
        .filter(|(number, _)| number % 2 == 0)
        .map(|(_, text)| text)
        .collect::<Vec<_>>()
        .join("`")
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}
