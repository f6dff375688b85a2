//! A child process that does not outlive its parent.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A running program. It ends when this is dropped, and also when the process that holds it is
/// killed: a shell stands in between, whose standard input is a pipe from us, and which kills the
/// program when the pipe breaks. If the shell itself is killed, its process group is killed when
/// this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    shell: Child,
    pipe: Option<ChildStdin>,
}

/// Takes the folder to remove at the end (or nothing), the program and its arguments. Who writes
/// `keep` keeps the folder.
const GUARD: &str = r#"folder=$1; shift; "$@" </dev/null & child=$!; word=$(cat); kill -9 $child; wait $child; [ -z "$folder" ] || [ "$word" = keep ] || rm -rf "$folder""#;

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
            .process_group(0)
            .spawn()?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }

    /// Ends the program, and keeps the folder.
    pub(crate) fn stop(mut self) -> io::Result<()> {
        match &mut self.pipe {
            Some(pipe) => pipe.write_all(b"keep"),
            None => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.pipe = None;
        let group = format!("-{}", self.shell.id());
        let ended = self.shell.wait();
        if ended.is_ok_and(|status| status.signal().is_some()) {
            let _ = Command::new("kill")
                .args(["-s", "KILL", "--", &group])
                .status();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_ends_though_its_shell_was_killed() {
        let folder = std::env::temp_dir().join(format!("process-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (log, id) = (folder.join("log"), folder.join("id"));
        let script = format!("echo $$ > {}; exec sleep 600", id.display());
        let arguments = ["-c".to_owned(), script];
        let mut process = Process::start("sh".as_ref(), &arguments, &log, None).unwrap();
        let program = loop {
            let text = std::fs::read_to_string(&id).unwrap_or_default();
            if text.ends_with('\n') {
                break text.trim().to_owned();
            }
        };
        process.shell.kill().unwrap();
        drop(process);
        let status = format!("/proc/{program}/stat");
        let runs = || std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z "));
        let mut reads = 0;
        while runs() {
            reads += 1;
            assert!(reads < 100_000, "the program runs");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
