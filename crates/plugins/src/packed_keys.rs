//! Keys of nodes, packed from several numbers.

use framework::{DomainIx, NodeColumn, NodeIx, Status, Topology};

/// The keys of nodes, which are in ascending order; see
/// [`FilterScope::Tier`](framework::FilterScope::Tier). Each push adds one number to the key of
/// every node.
#[derive(Debug)]
pub(crate) struct PackedKeys<'a> {
    nodes: &'a [NodeIx],
    /// The key of `nodes[i]` is `keys[i]`.
    keys: &'a mut [i64],
    /// Number of bits of each number.
    width: u32,
    fits: bool,
}

impl<'a> PackedKeys<'a> {
    /// Begins keys with room for so many numbers.
    pub(crate) fn of(numbers: usize, nodes: &'a [NodeIx], keys: &'a mut [i64]) -> Self {
        keys.fill(0);
        // At most 63 bits; more numbers than that do not fit.
        let width = u32::try_from(numbers).map_or(0, |numbers| 63 / numbers.max(1));
        Self { nodes, keys, width, fits: width > 0 }
    }

    /// Adds the domain of each node, and 0 for a node without one.
    pub(crate) fn push_domains(&mut self, topology: Option<Topology<'_>>) {
        self.push_by_domain(topology, |domain| domain.index() as i64 + 1);
    }

    /// Adds for each node with a domain the number of its value in `column`, which is at least 1,
    /// and 0 for a node without one.
    pub(crate) fn push_values<T: Copy + Default + PartialEq>(
        &mut self,
        topology: Option<Topology<'_>>,
        column: &NodeColumn<T>,
        number: impl Fn(T) -> i64,
    ) {
        let default = number(T::default());
        self.push_by_domain(topology, |_| default);
        let (mut any, mask) = (default, !(-1 << (self.width.max(1) - 1) << 1));
        column.for_each_of(self.nodes, |place, value| {
            let own = number(value);
            any |= own;
            let key = &mut self.keys[place];
            // A node without a domain keeps its 0.
            if *key & mask != 0 {
                *key = (*key & !mask) | own;
            }
        });
        self.check(any);
    }

    fn push_by_domain(&mut self, topology: Option<Topology<'_>>, number: impl Fn(DomainIx) -> i64) {
        if !self.fits {
            return;
        }
        let (high, mut any) = (self.width - 1, 0);
        let mut push = |key: &mut i64, number: i64| {
            any |= number;
            *key = (*key << high << 1) | number;
        };
        match topology {
            Some(topology) => topology.column().zip_of(self.nodes, self.keys, |key, domain| {
                push(key, domain.map_or(0, &number));
            }),
            None => self.keys.iter_mut().for_each(|key| push(key, 0)),
        }
        self.check(any);
    }

    /// Checks whether numbers that have at most these bits fit.
    const fn check(&mut self, bits: i64) {
        self.fits &= bits >= 0 && bits >> self.width == 0;
    }

    /// Completes the keys.
    ///
    /// # Errors
    /// The numbers are too many or too large for a key.
    pub(crate) fn finish(self) -> Result<(), Status> {
        if self.fits {
            return Ok(());
        }
        Err(Status::error("the numbers that decide about a node do not fit into its key"))
    }
}

/// Returns a number for keys in place of one that may be negative: 1, 3, 5 ... for 0, 1, 2 ... and
/// 2, 4, 6 ... for -1, -2, -3 ...
pub(crate) const fn unsigned(number: i64) -> i64 {
    let doubled = number.saturating_abs().saturating_mul(2);
    if number < 0 { doubled } else { doubled.saturating_add(1) }
}

#[cfg(test)]
mod tests {
    use framework::{Cluster, NodeIx};
    use testkit::{cluster, node};

    use super::*;

    /// Two nodes in each of three racks, and one in none.
    fn racks() -> Cluster {
        let of =
            |number: usize| node(&format!("n{number}")).label("rack", &(number / 2).to_string());
        let named = |name: &str| node(name).label("name", name);
        let nodes = (0..6).map(|n| of(n).label("name", &n.to_string()).build());
        cluster(nodes.chain([named("alone").build(), node("nameless").build()]), [])
    }

    fn keys(
        numbers: usize,
        cluster: &Cluster,
        push: impl Fn(&mut PackedKeys<'_>),
    ) -> Option<Vec<i64>> {
        let nodes: Vec<NodeIx> = cluster.nodes().iter().collect();
        let mut keys = vec![-1; nodes.len()];
        let mut packed = PackedKeys::of(numbers, &nodes, &mut keys);
        push(&mut packed);
        packed.finish().ok().map(|()| keys)
    }

    #[test]
    fn keys_differ_if_a_number_differs() {
        let cluster = racks();
        let (rack, name) = (cluster.topology("rack"), cluster.topology("name"));
        let column: NodeColumn<i64> = vec![0, 5, 0, -3].into();
        let both = keys(2, &cluster, |keys| {
            keys.push_domains(rack);
            keys.push_values(name, &column, unsigned);
        });
        let both = both.unwrap();
        assert_eq!(both[4], both[5], "one rack, no value");
        let distinct: std::collections::BTreeSet<_> = both.iter().collect();
        assert_eq!(distinct.len(), 7, "{both:?}");
        assert_eq!(both[7], 0, "no domain of either key");
        let alone = keys(1, &cluster, |keys| keys.push_domains(rack)).unwrap();
        assert_eq!(alone, [1, 1, 2, 2, 3, 3, 0, 0]);
        assert_eq!(keys(0, &cluster, |_| ()), Some(vec![0; 8]));
    }

    #[test]
    fn value_of_a_node_without_a_domain_is_ignored() {
        let cluster = racks();
        let column: NodeColumn<i64> = vec![4; 8].into();
        let own = keys(1, &cluster, |keys| {
            keys.push_values(cluster.topology("rack"), &column, |value| value + 1);
        });
        assert_eq!(own, Some(vec![5, 5, 5, 5, 5, 5, 0, 0]));
        let none = keys(1, &cluster, |keys| keys.push_values(None, &column, |value| value + 1));
        assert_eq!(none, Some(vec![0; 8]));
    }

    #[test]
    fn numbers_that_do_not_fit_have_no_key() {
        let cluster = racks();
        let value = |value: i64, numbers: usize| {
            let column: NodeColumn<i64> = vec![0, value].into();
            keys(numbers, &cluster, |keys| {
                keys.push_values(cluster.topology("name"), &column, |value| value.max(1));
            })
        };
        assert!(value(i64::MAX, 1).is_some() && value((1 << 31) - 1, 2).is_some());
        assert_eq!(value(1 << 31, 2), None);
        assert_eq!(value(1, 64), None);
        assert!(value(1, 63).is_some());
        let negative = keys(1, &cluster, |keys| {
            keys.push_values(cluster.topology("name"), &vec![7].into(), |value: i64| -1 - value);
        });
        assert_eq!(negative, None);
    }

    #[test]
    fn numbers_that_may_be_negative_stay_different() {
        assert_eq!([0, 1, -1, 2, -2].map(unsigned), [1, 3, 2, 5, 4]);
        assert_eq!(unsigned(i64::MIN), i64::MAX);
    }
}
