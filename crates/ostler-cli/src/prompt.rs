//! Reading of the task from the command line, stdin or a file in the working directory.

use std::io::{IsTerminal, Read};
use std::path::Path;

use crate::args::TaskArgs;
use crate::fault::{Fault, Result};

/// Reads the task. Stdin is read only if requested or if there is no other task: an inherited pipe
/// that is never closed must not block the program (P32).
pub(crate) fn read(args: &TaskArgs, dir: &Path, verb: &str) -> Result<String> {
    let typed = args.prompt.as_deref().or(args.text.as_deref());
    let given = match (&args.prompt_file, typed) {
        (Some(file), _) => Some(from_file(file, dir, verb)?),
        (None, Some("-")) => None,
        (None, prompt) => prompt.map(str::to_owned),
    };
    let task = match given {
        Some(task) if args.stdin => join(&task, &stdin()?),
        Some(task) => task,
        None if typed.is_none() && std::io::stdin().is_terminal() => String::new(),
        None => stdin()?,
    };
    if task.trim().is_empty() {
        let hint = format!(
            "run `ostler {verb} \"…\"`, pipe the task to stdin, or use `--prompt-file FILE`"
        );
        return Err(Fault::usage("no task given").hint(hint));
    }
    Ok(task)
}

fn join(task: &str, more: &str) -> String {
    if more.trim().is_empty() {
        task.to_owned()
    } else {
        format!("{task}\n\n{more}")
    }
}

/// Reads all of stdin.
pub(crate) fn stdin() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|e| usage!("cannot read stdin: {e}"))?;
    String::from_utf8(bytes).map_err(|_| Fault::usage("the text on stdin is not UTF-8"))
}

/// S4-10, S4-39: the file must be inside the working directory, after resolving links.
fn from_file(file: &Path, dir: &Path, verb: &str) -> Result<String> {
    let shown = file.display();
    let fault = |error: std::io::Error| usage!("cannot read the prompt file {shown}: {error}");
    let root = dir
        .canonicalize()
        .map_err(|e| usage!("cannot use {}: {e}", dir.display()))?;
    let full = root.join(file).canonicalize().map_err(fault)?;
    if !full.starts_with(&root) {
        let hint = format!(
            "move it into {}, or pipe it to stdin: `ostler {verb} < {shown}`",
            root.display()
        );
        return Err(usage!("the prompt file {shown} is outside the working directory").hint(hint));
    }
    std::fs::read_to_string(&full).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_files_outside_the_directory_are_rejected() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("work");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("task.md"), "do it").unwrap();
        std::fs::write(outer.path().join("secret"), "no").unwrap();
        assert_eq!(
            from_file(Path::new("task.md"), &dir, "run").unwrap(),
            "do it"
        );
        assert_eq!(
            from_file(&dir.join("task.md"), &dir, "run").unwrap(),
            "do it"
        );
        assert!(from_file(Path::new("../secret"), &dir, "run").is_err());
        assert!(from_file(&outer.path().join("secret"), &dir, "run").is_err());
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(outer.path().join("secret"), dir.join("link")).unwrap();
            assert!(from_file(Path::new("link"), &dir, "run").is_err());
        }
        // A sibling directory with the same name prefix is outside too.
        std::fs::create_dir(outer.path().join("work2")).unwrap();
        std::fs::write(outer.path().join("work2/task.md"), "no").unwrap();
        assert!(from_file(Path::new("../work2/task.md"), &dir, "run").is_err());
    }
}
