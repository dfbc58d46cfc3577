//! Shorthands for formatted lines and errors.

/// Prints a formatted line to stdout.
macro_rules! outln {
    ($($text:tt)*) => { $crate::output::print_line(&format!($($text)*)) };
}

/// Prints a formatted line to stderr.
macro_rules! errln {
    ($($text:tt)*) => { $crate::output::eprint_line(&format!($($text)*)) };
}

/// Creates a usage error with a formatted message.
macro_rules! usage {
    ($($text:tt)*) => { $crate::fault::Fault::usage(format!($($text)*)) };
}
