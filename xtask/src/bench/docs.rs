//! Writes the last report into the documentation.

use anyhow::{Context, Result};

use super::report::Report;
use super::{chart, table};
use crate::workspace;

const PAGE: &str = "docs/performance.md";
const IMAGE: &str = "docs/images/performance.svg";

const BEGIN: &str = "<!-- begin: written by `cargo xtask bench --write-docs` -->\n";
const BEGIN_DAEMON: &str = "<!-- begin: written by `cargo xtask bench daemon --write-docs` -->\n";
const END: &str = "<!-- end -->\n";

/// Rewrites the generated part of the page, and the image.
pub(super) fn write(report: &Report) -> Result<()> {
    let path = workspace::root().join(PAGE);
    let page = std::fs::read_to_string(&path)?;
    let page = replace(&page, BEGIN, &table::markdown(report))
        .with_context(|| format!("{PAGE} has no line {BEGIN:?} or {END:?}"))?;
    std::fs::write(path, page)?;
    let image = workspace::root().join(IMAGE);
    if let Some(folder) = image.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(image, chart::svg(report))?;
    println!("Wrote {PAGE} and {IMAGE}.");
    Ok(())
}

/// Rewrites the part of the page about the daemon.
pub(super) fn write_daemon(text: &str) -> Result<()> {
    let path = workspace::root().join(PAGE);
    let page = std::fs::read_to_string(&path)?;
    let page = replace(&page, BEGIN_DAEMON, text)
        .with_context(|| format!("{PAGE} has no line {BEGIN_DAEMON:?} or {END:?}"))?;
    std::fs::write(path, page)?;
    println!("Wrote {PAGE}.");
    Ok(())
}

/// Replaces the text between a marker and the next end.
fn replace(page: &str, begin: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n{text}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_markers_changes() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        let expected = format!("a\n{BEGIN}\nnew\n{END}b\n");
        assert_eq!(replace(&page, BEGIN, "new").unwrap(), expected);
        assert_eq!(replace(&page, BEGIN_DAEMON, "new"), None);
    }
}
