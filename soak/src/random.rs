//! Random numbers that a seed determines.

/// The `SplitMix64` generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator for the part `part` of a run with `seed`: a job, a proxy, the kills.
    pub(crate) fn new(seed: u64, part: &str) -> Self {
        // FNV-1a gives the same value on every machine.
        let digest = part
            .bytes()
            .fold(0xCBF2_9CE4_8422_2325_u64, |digest, byte| {
                (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ digest);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `end`, exclusive.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.next() % u64::from(end.max(1))).unwrap_or_default()
    }

    /// Returns a number from `least` to `most`.
    pub(crate) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * f64::from(self.below(1 << 20)) / f64::from(1 << 20)
    }

    /// Returns true in `thousandths` of 1,000 cases.
    pub(crate) fn chance(&mut self, thousandths: u32) -> bool {
        self.below(1000) < thousandths
    }

    /// Returns one of the values, each as often as its weight; `None` if no weight is more than 0.
    pub(crate) fn weighted<T: Copy>(&mut self, all: &[(u32, T)]) -> Option<T> {
        let mut at = self.below(all.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in all {
            if at < *weight {
                return Some(*one);
            }
            at -= weight;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64, part: &str) -> Vec<u32> {
        let mut random = Random::new(seed, part);
        (0..20).map(|_| random.below(1000)).collect()
    }

    #[test]
    fn a_seed_and_a_part_determine_the_numbers() {
        assert_eq!(drawn(1, "job-1"), drawn(1, "job-1"));
        assert_ne!(drawn(1, "job-1"), drawn(1, "job-2"));
        assert_ne!(drawn(1, "job-1"), drawn(2, "job-1"));
    }

    #[test]
    fn numbers_are_in_their_bounds_and_weights_of_0_are_not_drawn() {
        let mut random = Random::new(1, "x");
        for _ in 0..500 {
            assert!((2.0..=3.0).contains(&random.between(2.0, 3.0)));
            assert_ne!(random.weighted(&[(1, 'a'), (0, 'b'), (2, 'c')]), Some('b'));
            assert!(!random.chance(0) && random.chance(1000));
        }
        assert_eq!(random.weighted(&[(0, 'a')]), None);
    }
}
