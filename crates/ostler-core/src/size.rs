//! Sizes in bytes, as people write them: 500MB, 1GB, 2GiB.

use std::fmt;
use std::str::FromStr;

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

/// A size in bytes. `Display` uses the largest unit that gives a whole number, such as `512 MB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// A size limit; `None` means unlimited, and is written `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeLimit(pub Option<u64>);

/// A text that is not a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// A size was expected.
    #[error("expected a size such as 500MB, 1GB, 2GiB")]
    Size,
    /// A size or `none` was expected.
    #[error("expected a size such as 500MB, 1GB, 2GiB, or none")]
    Limit,
}

/// Parses a size such as `500MB` or `2GiB`. A plain number is in bytes.
impl FromStr for ByteSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
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
        bytes.map(|bytes| Self(bytes as u64)).ok_or(SizeError::Size)
    }
}

impl FromStr for SizeLimit {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self(None)),
            text => match text.parse() {
                Ok(ByteSize(bytes)) => Ok(Self(Some(bytes))),
                Err(_) => Err(SizeError::Limit),
            },
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1_000_000_000_000, "TB"),
            (1_000_000_000, "GB"),
            (1_000_000, "MB"),
            (1_000, "KB"),
        ];
        let fits = units
            .iter()
            .find(|(scale, _)| self.0 >= *scale && self.0.is_multiple_of(*scale));
        match fits {
            Some((scale, unit)) => write!(f, "{} {unit}", self.0 / scale),
            None => write!(f, "{} bytes", self.0),
        }
    }
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
            ("3KiB", 3_072),
            ("1MiB", 1_048_576),
            ("2GiB", 2_147_483_648),
            ("4GB", 4_000_000_000),
            ("5TB", 5_000_000_000_000),
            ("7B", 7),
            ("999999TB", 999_999_000_000_000_000),
        ];
        for (text, want) in good {
            assert_eq!(text.parse(), Ok(ByteSize(want)), "{text}");
            assert_eq!(text.parse(), Ok(SizeLimit(Some(want))), "{text}");
        }
        assert_eq!("none".parse(), Ok(SizeLimit(None)));
        assert_eq!("none".parse::<ByteSize>(), Err(SizeError::Size));
        for bad in [
            "",
            "MB",
            "-1MB",
            "1XB",
            "1e30",
            "infMB",
            "NaN",
            "1 GB",
            "None",
            "+1",
            "1000000TB",
            "1kb",
        ] {
            assert_eq!(bad.parse::<ByteSize>(), Err(SizeError::Size), "{bad}");
            assert_eq!(bad.parse::<SizeLimit>(), Err(SizeError::Limit), "{bad}");
        }
    }

    #[test]
    fn sizes_are_displayed() {
        let all = [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (512_000_000, "512 MB"),
            (1_500, "1500 bytes"),
            (1_000, "1 KB"),
            (2_000, "2 KB"),
            (1_000_000, "1 MB"),
            (3_000_000_000, "3 GB"),
            (7_000_000_000_000, "7 TB"),
            (1_000_000_000_001, "1000000000001 bytes"),
        ];
        for (bytes, want) in all {
            assert_eq!(ByteSize(bytes).to_string(), want);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_displayed_size_parses_back(number in 0u64..1000, scale in 0u32..5) {
            let size = ByteSize(number * 1000u64.pow(scale));
            let written = size.to_string().replace(" bytes", "").replace(' ', "");
            proptest::prop_assert_eq!(written.parse(), Ok(size));
        }
    }
}
