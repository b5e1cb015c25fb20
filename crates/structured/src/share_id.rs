use std::fmt::Write;
use std::sync::Arc;

use fastrand::Rng;

/// Returns a random UUID (version 4).
pub(crate) fn random(rng: &mut Rng) -> Arc<str> {
    let bits = rng.u128(..) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let mut text = String::with_capacity(36);
    for (part, length) in [(96, 8), (80, 4), (64, 4), (48, 4), (0, 12)] {
        let dash = if text.is_empty() { "" } else { "-" };
        let digits = bits >> part & ((1 << (4 * length)) - 1);
        write!(text, "{dash}{digits:0length$x}").expect("writing to a string succeeds");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_id_is_a_version_4_uuid_that_depends_on_the_seed() {
        let id = |seed| random(&mut Rng::with_seed(seed));
        assert_eq!(id(1), id(1));
        assert_ne!(id(1), id(2));
        let one = id(7);
        assert_eq!(one.len(), 36);
        assert_eq!(&one[14..15], "4");
        assert!("89ab".contains(&one[19..20]), "{one}");
        let parts: Vec<_> = one.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
    }
}
