//! Keys of groups of nodes, packed from several numbers.

use framework::{DomainIx, Status};

/// The key of one node; see [`FilterScope::Group`](framework::FilterScope::Group).
#[derive(Debug)]
pub(crate) struct GroupKey {
    key: i64,
    /// Number of bits of each number.
    width: u32,
    fits: bool,
}

impl GroupKey {
    /// Returns the key of no numbers, with room for so many.
    pub(crate) const fn of(numbers: usize) -> Self {
        let numbers = if numbers == 0 { 1 } else { numbers };
        // At most 63 bits; more numbers than that do not fit.
        let width = 63 / numbers as u32;
        Self { key: 0, width, fits: width > 0 }
    }

    /// Adds a number that is not negative.
    pub(crate) const fn push(&mut self, number: i64) {
        self.fits &= self.width > 0 && number >= 0 && number >> self.width == 0;
        if self.fits {
            self.key = (self.key << (self.width - 1) << 1) | number;
        }
    }

    /// Adds a number that may be negative. It differs from a node without a domain.
    pub(crate) const fn push_signed(&mut self, number: i64) {
        // 1, 3, 5 ... for numbers from 0 on, 2, 4, 6 ... for -1, -2, -3 ...
        let doubled = number.saturating_abs().saturating_mul(2);
        self.push(if number < 0 { doubled } else { doubled.saturating_add(1) });
    }

    /// Adds the domain of the node, if it has one.
    pub(crate) fn push_domain(&mut self, domain: Option<DomainIx>) {
        self.push(domain.map_or(0, |domain| domain.index() as i64 + 1));
    }

    /// Returns the key.
    ///
    /// # Errors
    /// The numbers are too many or too large for a key.
    pub(crate) fn finish(self) -> Result<i64, Status> {
        if self.fits {
            return Ok(self.key);
        }
        Err(Status::error("the numbers that decide about a node do not fit into its key"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(numbers: &[i64]) -> Option<i64> {
        let mut key = GroupKey::of(numbers.len());
        numbers.iter().for_each(|number| key.push(*number));
        key.finish().ok()
    }

    #[test]
    fn keys_differ_if_a_number_differs() {
        let rows: [&[i64]; 7] =
            [&[0, 0], &[0, 1], &[1, 0], &[1, 1], &[5, 0], &[0, 5], &[1 << 30, 5]];
        let keys: std::collections::BTreeSet<_> = rows.map(key).into_iter().collect();
        assert!(keys.len() == rows.len() && !keys.contains(&None));
        assert_eq!((key(&[]), key(&[7]), key(&[i64::MAX])), (Some(0), Some(7), Some(i64::MAX)));
    }

    #[test]
    fn numbers_that_do_not_fit_have_no_key() {
        assert_eq!(key(&[-1]), None);
        assert_eq!(key(&[1 << 31, 0]), None);
        assert_eq!(key(&[0; 64]), None);
        assert!(key(&[1; 63]).is_some());
    }
}
