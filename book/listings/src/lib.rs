//! The code of the book.
//!
//! | here | what |
//! | --- | --- |
//! | [`tutorials`] | a program for each tutorial, with its tests; the pages include them |
//! | [`images`] | the timelines that the pages show, run on the simulated cluster |
//! | [`reference`](mod@reference) | the pages that are generated from the programs |

pub mod images;
pub mod reference;
pub mod tutorials;

use std::path::{Path, PathBuf};

/// Returns the root of the repository.
pub fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.parent().and_then(Path::parent);
    root.unwrap_or(own).to_owned()
}

/// Returns all generated files below `book/src` and their text. `book` is this crate's program.
pub fn generated(book: &Path) -> Vec<(String, String)> {
    let mut files = images::all();
    files.extend(reference::all(book));
    files
}

/// The scenario of a picture.
pub type Scenario =
    for<'a> fn(&'a kueue_check_sim::Cluster) -> std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;
