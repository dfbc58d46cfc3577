//! Notices that the reader of stdout has gone away, even if there is nothing to write.

/// Resolves when stdout is a pipe that nothing reads any more; pending if it is anything else.
#[cfg(unix)]
#[expect(
    unsafe_code,
    reason = "the runtime cannot know that a descriptor stays open"
)]
pub(crate) async fn reader_is_gone() {
    use std::io;
    use std::os::fd::AsFd;

    use rustix::fs::{FileType, fstat};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    let out = io::stdout();
    let is_pipe =
        fstat(&out).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    let own = out.as_fd().try_clone_to_owned().ok();
    let watched = own.filter(|_| is_pipe).and_then(|own| {
        // SAFETY: an `OwnedFd` always refers to the same open descriptor.
        unsafe { AsyncFd::register_with_interest(own, Interest::ERROR) }.ok()
    });
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
