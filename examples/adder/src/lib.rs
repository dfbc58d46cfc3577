//! Adds numbers. Its tests fail, so that an agent has something to fix.

/// Returns the sum of two numbers.
pub fn add(a: i64, b: i64) -> i64 {
    a - b
}

/// Returns the sum of all numbers.
pub fn sum(numbers: &[i64]) -> i64 {
    numbers.iter().fold(0, |sum, n| add(sum, *n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_and_two_are_four() {
        assert_eq!(add(2, 2), 4);
    }

    #[test]
    fn a_list_is_added_up() {
        assert_eq!(sum(&[1, 2, 3]), 6);
        assert_eq!(sum(&[]), 0);
    }
}
