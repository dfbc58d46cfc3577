//! A deterministic random number generator, and mutations of texts.

/// SplitMix64.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// Returns the generator of one case of a campaign.
    pub(super) fn of_case(seed: u64, case: u64) -> Self {
        let mut first = Self(seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self(first.next())
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap()
    }

    /// Returns true once in `n` times on average.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// Mutates a text in a few places: characters are removed, duplicated or swapped, and tokens
    /// inserted.
    pub(super) fn mutate(&mut self, text: &str, tokens: &[&str]) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..=self.below(4) {
            let at = self.below(chars.len() + 1);
            match self.below(6) {
                0 if at < chars.len() => drop(chars.remove(at)),
                1 if at < chars.len() => chars.insert(at, chars[at]),
                2 if at + 1 < chars.len() => chars.swap(at, at + 1),
                3 => {
                    let end = (at + self.below(8)).min(chars.len());
                    let piece: Vec<char> = chars[at..end].to_vec();
                    let to = self.below(chars.len() + 1);
                    chars.splice(to..to, piece);
                }
                _ => drop(
                    chars
                        .splice(at..at, self.pick(tokens).chars())
                        .collect::<Vec<_>>(),
                ),
            }
        }
        chars.into_iter().collect()
    }
}
