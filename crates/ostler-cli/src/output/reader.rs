//! Notices that the reader of stdout has gone away, even if there is nothing to write.

/// Resolves when stdout is a pipe that nothing reads any more; pending if it is anything else.
#[cfg(unix)]
pub(crate) async fn reader_is_gone() {
    use std::io;

    use rustix::fs::{FileType, fstat};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    let is_pipe = |out: &io::Stdout| {
        fstat(out).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
    };
    let out = Some(io::stdout()).filter(is_pipe);
    let watched = out.and_then(|out| AsyncFd::with_interest(out, Interest::ERROR).ok());
    // Without a watch, the next write notices it.
    match watched {
        Some(out) if out.ready(Interest::ERROR).await.is_ok() => {}
        _ => std::future::pending().await,
    }
}

/// Elsewhere, only the next write notices it.
#[cfg(not(unix))]
pub(crate) async fn reader_is_gone() {
    std::future::pending().await
}
