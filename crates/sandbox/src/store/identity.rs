//! UIDs and generated names, from a seeded generator.

/// Characters of generated names: no vowels, to avoid words, and no look-alikes.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
const LONGEST_NAME: usize = 63;

/// A generator of UIDs and names; equal seeds give equal sequences.
#[derive(Debug, Clone)]
pub(super) struct Identities(fastrand::Rng);

impl Identities {
    pub(super) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Returns a UID in the form of a random UUID (version 4).
    pub(super) fn uid(&mut self) -> String {
        let bits = self.0.u128(..);
        let (time, version) = ((bits >> 96) as u32, (bits >> 80) as u16);
        let (third, variant) = ((bits >> 64) as u16 & 0x0fff, (bits >> 48) as u16 & 0x3fff);
        let node = bits as u64 & 0xffff_ffff_ffff;
        format!("{time:08x}-{version:04x}-4{third:03x}-{:04x}-{node:012x}", variant | 0x8000)
    }

    /// Returns a number of seconds in this range.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.u64(least..=most)
    }

    /// Returns `generateName` with five random characters, cut to the length of a label.
    pub(super) fn name(&mut self, base: &str) -> String {
        let kept = base.char_indices().map(|(at, _)| at).find(|at| *at >= LONGEST_NAME - SUFFIX);
        let mut name = base[..kept.unwrap_or(base.len())].to_owned();
        for _ in 0..SUFFIX {
            name.push(char::from(ALPHABET[self.0.usize(..ALPHABET.len())]));
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_identities() {
        let (mut one, mut other) = (Identities::new(7), Identities::new(7));
        assert_eq!((one.uid(), one.name("a-")), (other.uid(), other.name("a-")));
    }

    #[test]
    fn uids_have_the_form_of_random_uuids() {
        let uid = Identities::new(1).uid();
        let parts: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(uid[14..].starts_with('4'));
        assert!("89ab".contains(&uid[19..20]));
    }

    #[test]
    fn long_base_names_are_cut_to_the_length_of_a_label() {
        assert_eq!(Identities::new(1).name(&"x".repeat(80)).len(), 63);
        assert_eq!(Identities::new(1).name("web-").len(), 9);
        assert!(Identities::new(1).name(&"ä".repeat(40)).starts_with(&"ä".repeat(29)));
    }
}
