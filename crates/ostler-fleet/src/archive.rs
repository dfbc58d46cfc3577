//! Archives: a file or directory as a tar file, with its hash, and back.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::nats::MAX_ARCHIVE_BYTES;

/// Maximum number of entries of an archive.
const MAX_ENTRIES: usize = 100_000;

/// Name of the entry in the archive of a single file.
const SINGLE_FILE: &str = "file";

/// An archive.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) file: tempfile::NamedTempFile,
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
}

/// What an archive may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Files, directories and symbolic links, from an owner whose signature names the hash.
    Workspace,
    /// Files and directories; anything else is left out. A link of a worker could lead a reader
    /// of the results to other files of this machine.
    Artifacts,
}

/// Packs a file or a directory. The same files give the same archive.
pub(crate) fn pack(source: &Path) -> io::Result<Packed> {
    let file = tempfile::NamedTempFile::new()?;
    let mut archive = tar::Builder::new(BufWriter::new(file.reopen()?));
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    if source.is_dir() {
        let mut budget = MAX_ARCHIVE_BYTES;
        add_dir(&mut archive, source, Path::new(""), &mut budget)?;
    } else {
        check_size(fs::metadata(source)?.len(), source)?;
        archive.append_path_with_name(source, SINGLE_FILE)?;
    }
    archive.into_inner()?.flush()?;
    let (sha256, bytes) = measure(file.path())?;
    check_size(bytes, source)?;
    Ok(Packed {
        file,
        sha256,
        bytes,
    })
}

/// Adds the entries of a directory in the order of their names.
fn add_dir(
    archive: &mut tar::Builder<BufWriter<File>>,
    dir: &Path,
    below: &Path,
    budget: &mut u64,
) -> io::Result<()> {
    let mut names: Vec<_> = fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<_>>()?;
    names.sort();
    for name in names {
        let (path, inside) = (dir.join(&name), below.join(&name));
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            archive.append_dir(&inside, &path)?;
            add_dir(archive, &path, &inside, budget)?;
        } else if metadata.is_file() || metadata.is_symlink() {
            let left = budget.checked_sub(metadata.len());
            *budget = left.ok_or_else(|| too_large(dir))?;
            archive.append_path_with_name(&path, &inside)?;
        }
        // Sockets and pipes of a process that has ended are left out.
    }
    Ok(())
}

fn check_size(bytes: u64, source: &Path) -> io::Result<()> {
    match bytes > MAX_ARCHIVE_BYTES {
        true => Err(too_large(source)),
        false => Ok(()),
    }
}

fn too_large(source: &Path) -> io::Error {
    let message = format!(
        "{} is too large for a fleet: at most {MAX_ARCHIVE_BYTES} bytes are sent",
        source.display()
    );
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

/// Returns the SHA-256 and the size of a file.
pub(crate) fn measure(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 128 * 1024];
    let mut length = 0_u64;
    loop {
        let read = file.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        hash.update(bytes);
        length += u64::try_from(read).unwrap_or(u64::MAX);
    }
    let digits = hash.finalize();
    Ok((
        digits.iter().map(|byte| format!("{byte:02x}")).collect(),
        length,
    ))
}

/// Unpacks an archive into a directory. The total size of the files is limited too.
pub(crate) fn unpack(archive: &Path, target: &Path, contents: Contents) -> io::Result<()> {
    let mut archive = tar::Archive::new(BufReader::new(File::open(archive)?));
    archive.set_preserve_permissions(false);
    archive.set_overwrite(true);
    fs::create_dir_all(target)?;
    let (mut total, mut count) = (0_u64, 0_usize);
    for entry in archive.entries()? {
        let mut entry = entry?;
        count += 1;
        total = total.saturating_add(entry.size());
        if count > MAX_ENTRIES || total > MAX_ARCHIVE_BYTES {
            return Err(too_large(target));
        }
        let kind = entry.header().entry_type();
        let is_plain = kind.is_file() || kind.is_dir();
        let is_wanted = is_plain || (contents == Contents::Workspace && kind.is_symlink());
        // `unpack_in` skips entries that would lie outside the directory.
        if is_wanted && !entry.unpack_in(target)? {
            let message = "an entry of the archive lies outside its directory";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
    }
    match contents {
        Contents::Workspace => check_links(target),
        Contents::Artifacts => Ok(()),
    }
}

/// Checks that no symbolic link below a directory leads out of it, through another link or not.
///
/// A target goes up first and then only down. Going up starts at a real directory, and going down
/// leaves the directory only through a link that is refused itself.
pub(crate) fn check_links(dir: &Path) -> io::Result<()> {
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(dir.join(&below))? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, below.join(entry.file_name()));
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_symlink() && !stays_inside(&below, &fs::read_link(entry.path())?) {
                let message = format!("the symbolic link {} leads out of it", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
    }
    Ok(())
}

/// Returns true if a link in a directory, given relative to the top, stays below the top.
fn stays_inside(below: &Path, target: &Path) -> bool {
    let depth = below.components().count();
    let is_up = |part: &Component<'_>| *part == Component::ParentDir;
    let ups = target.components().take_while(is_up).count();
    let mut rest = target.components().skip(ups);
    ups <= depth && rest.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Packs a file or a directory of a workspace on a thread for blocking work. Workers refuse links
/// that lead out of it.
pub(crate) async fn pack_workspace(source: &Path) -> io::Result<Packed> {
    let source = source.to_owned();
    let pack = move || {
        if source.is_dir() {
            check_links(&source)?;
        }
        pack(&source)
    };
    blocking(pack).await
}

/// Unpacks an archive on a thread for blocking work.
pub(crate) async fn unpack_aside(
    archive: &Path,
    target: &Path,
    contents: Contents,
) -> io::Result<()> {
    let (archive, target) = (archive.to_owned(), target.to_owned());
    blocking(move || unpack(&archive, &target, contents)).await
}

/// Runs file work where it does not delay renewals of leases.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other).and_then(|done| done)
}

/// Returns the place of an unpacked attachment: a single file has its own name again.
pub(crate) fn unpacked_file(dir: &Path) -> PathBuf {
    dir.join(SINGLE_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_comes_back_with_its_links_and_the_same_hash() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("a");
        fs::create_dir_all(source.join("b/empty")).unwrap();
        fs::write(source.join("b/c.txt"), "text").unwrap();
        std::os::unix::fs::symlink("b/c.txt", source.join("link")).unwrap();
        let packed = pack(&source).unwrap();
        assert_eq!(packed.sha256, pack(&source).unwrap().sha256);
        let target = dir.path().join("t");
        unpack(packed.file.path(), &target, Contents::Workspace).unwrap();
        assert_eq!(fs::read_to_string(target.join("link")).unwrap(), "text");
        assert!(target.join("b/empty").is_dir());
        let plain = dir.path().join("p");
        unpack(packed.file.path(), &plain, Contents::Artifacts).unwrap();
        assert!(plain.join("b/c.txt").is_file() && !plain.join("link").exists());
    }

    #[test]
    fn a_link_cannot_leave_the_directory() {
        for (target, expected) in [
            ("file", true),
            ("./file", true),
            ("missing/file", true),
            ("../../a/b/file", true),
            ("../..", true),
            ("../../..", false),
            ("../../../other", false),
            ("/etc", false),
            // Only its form says so: `up` could lead to another depth.
            ("up/../..", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let source = dir.path().join("source");
            fs::create_dir_all(source.join("a/b")).unwrap();
            std::os::unix::fs::symlink(target, source.join("a/b/link")).unwrap();
            let packed = pack(&source).unwrap();
            let unpacked = dir.path().join("t");
            let result = unpack(packed.file.path(), &unpacked, Contents::Workspace);
            assert_eq!(result.is_ok(), expected, "{target}: {result:?}");
            assert_eq!(check_links(&source).is_ok(), expected, "{target}");
        }
    }

    #[test]
    fn an_entry_cannot_leave_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("evil.tar");
        let mut archive = tar::Builder::new(File::create(&file).unwrap());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        // `set_path` refuses such a name.
        header.as_gnu_mut().unwrap().name[..10].copy_from_slice(b"../escaped");
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, &b"x"[..]).unwrap();
        archive.into_inner().unwrap();
        let target = dir.path().join("t");
        assert!(unpack(&file, &target, Contents::Workspace).is_err());
        assert!(!dir.path().join("escaped").exists());
    }
}
