//! The code of the book.
//!
//! | here | what |
//! | --- | --- |
//! | [`tutorials`] | a program for each tutorial, with its tests; the pages include them |
//! | [`images`] | the timelines that the pages show, played on the simulated cluster |
//! | [`reference`](mod@reference) | the pages that are read off the programs |

pub mod images;
pub mod reference;
pub mod tutorials;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.parent().and_then(Path::parent);
    root.unwrap_or(own).to_owned()
}

/// All that is generated: files below `book/src`, and their text. `book` is this crate's program.
pub fn generated(book: &Path) -> Vec<(String, String)> {
    let mut files = images::all();
    files.extend(reference::all(book));
    files
}

/// What happens in a picture.
pub type Scenario =
    for<'a> fn(&'a kueue_check_sim::Cluster) -> std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;
