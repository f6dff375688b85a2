//! `validate`: validates files with parameters, without a cluster.

mod documents;
mod validation;

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Error, Result};
use crate::check::DynCheck;
use documents::documents;
use validation::{DocumentResult, Kinds};

/// The findings, line by line, and the result.
pub(super) struct Report {
    pub(super) text: String,
    pub(super) result: Result<()>,
}

/// Validates `files`; `-` is the standard input.
pub(super) fn validate(checks: &[DynCheck], files: &[PathBuf]) -> Result<Report> {
    let kinds = Kinds::of(checks);
    let mut texts = Vec::new();
    for file in files {
        texts.push((file.display().to_string(), contents(file)?));
    }
    Ok(report(&kinds, &texts))
}

fn contents(file: &Path) -> Result<String> {
    let failed = |error: std::io::Error| Error::Read {
        what: file.display().to_string(),
        why: error.to_string(),
    };
    if file.as_os_str() != "-" {
        return std::fs::read_to_string(file).map_err(failed);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Validates the documents of `files`, each a name and its text. Pure.
fn report(kinds: &Kinds, files: &[(String, String)]) -> Report {
    let mut text = String::new();
    let (mut right, mut wrong) = (0, 0);
    for (file, content) in files {
        for document in documents(content) {
            let place = format!("{file}: {}", document.place);
            let result = match &document.object {
                Ok(object) => kinds.validate_document(object),
                Err(why) => DocumentResult::Wrong {
                    name: "not YAML".to_owned(),
                    errors: vec![why.clone()],
                },
            };
            match result {
                DocumentResult::Right { name, notes } => {
                    right += 1;
                    text += &format!("{place}: {name} is valid\n");
                    for note in notes {
                        text += &format!("{place}: {name}: note: {note}\n");
                    }
                }
                DocumentResult::Wrong { name, errors } => {
                    wrong += 1;
                    for error in errors {
                        text += &format!("{place}: {name}: {error}\n");
                    }
                }
                DocumentResult::Other(what) => text += &format!("{place}: skipped, {what}\n"),
            }
        }
    }
    let names = kinds.names();
    let result = if wrong > 0 {
        let all = right + wrong;
        Err(Error::Invalid(format!(
            "{wrong} of {all} documents are invalid"
        )))
    } else if names.is_empty() {
        Err(Error::Invalid(
            "this program takes no parameters: there is nothing to validate".to_owned(),
        ))
    } else if right == 0 {
        Err(Error::Invalid(format!(
            "nothing was validated: no document is {}",
            names.join(" or ")
        )))
    } else {
        Ok(())
    };
    Report { text, result }
}
