//! Durations in human notation: 500ms, 90s, 10m, 2h, none.

use std::time::Duration;

use super::ValueError;

/// Maximum limit. A longer one is a mistake, or means none.
const MAX_TIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Parses a duration; `None` for no limit.
///
/// # Errors
/// Returns what is expected.
pub fn time(text: &str) -> Result<Option<Duration>, ValueError> {
    if text == "none" {
        return Ok(None);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = digits.parse::<f64>().map_or(f64::NAN, |n| n * scale);
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time > MAX_TIME => Err(ValueError::new(
            "expected at most ten years (87600h), or none",
        )),
        Ok(time) if !time.is_zero() => Ok(Some(time)),
        _ => Err(ValueError::new(
            "expected a time such as 500ms, 90s, 10m, 2h, or none",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let ok = |s: &str| time(s).unwrap();
        assert_eq!(ok("90"), Some(Duration::from_secs(90)));
        assert_eq!(ok("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(ok("1.5m"), Some(Duration::from_secs(90)));
        assert_eq!(ok("2h"), Some(Duration::from_secs(7200)));
        assert_eq!(ok("87600h"), Some(MAX_TIME));
        assert_eq!(ok("none"), None);
        for bad in [
            "", "0", "-1s", "5 s", "s", "1d", "NaN", "1e400", "1e19", "87601h",
        ] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
