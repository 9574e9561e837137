/// Generator of pseudo-random numbers (SplitMix64), which gives the same numbers for a seed in
/// every version of this project.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64, stream: u64) -> Self {
        Self(mix(mix(seed) ^ stream))
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a random number below `bound`; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next() % u64::from(bound.max(1))).unwrap_or_default()
    }

    /// True with a probability of `thousandths` in a thousand.
    pub(super) fn share(&mut self, thousandths: u32) -> bool {
        self.below(1000) < thousandths
    }

    pub(super) fn pick(&mut self, words: &[&'static str]) -> &'static str {
        let count = u32::try_from(words.len()).unwrap_or(u32::MAX);
        let place = usize::try_from(self.below(count)).unwrap_or_default();
        words.get(place).copied().unwrap_or_default()
    }

    /// Returns a random digit or, with `letters`, a random digit or upper-case letter.
    pub(super) fn base_character(&mut self, letters: bool) -> char {
        let radix = if letters { 36 } else { 10 };
        char::from_digit(self.below(radix), radix).unwrap_or('0').to_ascii_uppercase()
    }
}

const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
