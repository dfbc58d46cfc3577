//! Sizes in bytes, as people write them: 500MB, 1GB, 2GiB.

/// Units and their number of bytes. Powers of ten come first.
const UNITS: [(&str, f64); 9] = [
    ("TB", 1e12),
    ("GB", 1e9),
    ("MB", 1e6),
    ("KB", 1e3),
    ("B", 1.0),
    ("", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

/// Largest accepted size; anything larger is a mistake.
const LARGEST: f64 = 1e18;

/// Parses a size such as `500MB` or `2GiB`. A plain number is in bytes.
///
/// # Errors
/// Returns a message that says what is expected.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = UNITS
        .iter()
        .find(|(unit, _)| *unit == &text[digits.len()..]);
    let number = digits
        .parse::<f64>()
        .ok()
        .filter(|_| !digits.starts_with(['-', '+']));
    let bytes = unit
        .zip(number)
        .map(|((_, scale), number)| number * scale)
        .filter(|bytes| *bytes < LARGEST);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "neither negative nor too large"
    )]
    bytes
        .map(|bytes| bytes as u64)
        .ok_or_else(|| "expected a size such as 500MB, 1GB, 2GiB".into())
}

/// Parses a size limit: a size as in [`parse`], or `none` for no limit.
///
/// # Errors
/// Returns a message that says what is expected.
pub fn parse_limit(text: &str) -> Result<Option<u64>, String> {
    match text {
        "none" => Ok(None),
        text => parse(text)
            .map(Some)
            .map_err(|_| "expected a size such as 500MB, 1GB, 2GiB, or none".into()),
    }
}

/// Formats a size with the largest unit that gives a whole number, such as `512 MB`.
#[must_use]
pub fn display(bytes: u64) -> String {
    let units = [
        (1_000_000_000_000, "TB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "KB"),
    ];
    let fits = units
        .iter()
        .find(|(scale, _)| bytes >= *scale && bytes.is_multiple_of(*scale));
    fits.map_or_else(
        || format!("{bytes} bytes"),
        |(scale, unit)| format!("{} {unit}", bytes / scale),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        let good = [
            ("0", 0),
            ("1.5KB", 1_500),
            ("500MB", 500_000_000),
            ("2GiB", 2_147_483_648),
            ("7B", 7),
        ];
        for (text, want) in good {
            assert_eq!(parse(text), Ok(want), "{text}");
            assert_eq!(parse_limit(text), Ok(Some(want)), "{text}");
        }
        assert_eq!(parse_limit("none"), Ok(None));
        for bad in [
            "", "MB", "-1MB", "1XB", "1e30", "infMB", "NaN", "1 GB", "None", "+1",
        ] {
            assert!(parse(bad).is_err() && parse_limit(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_displayed() {
        let all = [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (512_000_000, "512 MB"),
            (1_500, "1500 bytes"),
            (2_000, "2 KB"),
        ];
        for (bytes, want) in all {
            assert_eq!(display(bytes), want);
        }
    }
}
