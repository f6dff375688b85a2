//! A child process that does not outlive its parent.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A running program. It ends when this is dropped, and also when the process that holds it is killed: a shell stands in between, whose standard input is a pipe
/// from us, and which kills the program when the pipe breaks.
#[derive(Debug)]
pub(crate) struct Process {
    shell: Child,
    pipe: Option<ChildStdin>,
}

/// Takes the folder to remove at the end (or nothing), the program and its arguments.
const GUARD: &str = r#"folder=$1; shift; "$@" </dev/null & child=$!; cat >/dev/null; kill -9 $child; wait $child; [ -z "$folder" ] || rm -rf "$folder""#;

impl Process {
    /// Starts `program`, which writes to `log`. When it ends, so does `folder`.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        log: &Path,
        folder: Option<&Path>,
    ) -> io::Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut shell = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(folder.unwrap_or(Path::new("")))
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.shell.wait();
    }
}
