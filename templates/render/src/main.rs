//! `kueue-check-template FOLDER`: writes every project that `templates/check` can make into a folder, as one workspace.

use std::path::Path;
use std::process::ExitCode;

use kueue_check_template::variants;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder] = &arguments[..] else {
        eprintln!("usage: kueue-check-template FOLDER");
        return ExitCode::from(2);
    };
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let repository = own.ancestors().nth(2).unwrap_or(own);
    match variants::write_workspace(repository, Path::new(folder)) {
        Ok(number) => {
            println!("{number} projects in {folder}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
