//! Slow: a gigabyte through one session, and two hundred sessions through one process, measured.
