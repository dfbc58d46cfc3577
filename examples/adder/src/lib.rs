//! Adds numbers. One of its tests fails: that is what the agent is for.

/// The sum of two numbers.
pub fn add(a: i64, b: i64) -> i64 {
    a - b
}

/// The sum of all numbers.
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
