//! Answers that nodes with equal devices share.

use std::sync::Arc;

use foldhash::HashMap;
use framework::device::{Allocation, DeviceSelector, Numbers};
use framework::{Cluster, DeviceShape, DeviceShapes, NodeBits, NodeIx};

use crate::counting::Counting;
use crate::overlay::Overlaid;
use crate::search::Buffers;
use crate::shared_pools::SharedPools;
use crate::steps::StepsLeft;
use crate::{AllocateError, Allocator, Budget, Claims, Diagnosis, Limits, LongSearches, Overlay};

/// The number of claims whose answers are kept. Claims of one template have the same answers.
const CLAIMS_MAX: usize = 64;
/// The number of answers that are kept for all claims together, about 30 MiB.
const ANSWERS_MAX: usize = 1 << 20;

/// Whether claims fit on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The claims fit.
    Fits {
        /// What the caller of [`Allocator::fits`] thinks of the allocations.
        rank: i64,
    },
    /// The claims do not fit.
    DoesNotFit,
    /// The search took too many steps.
    OutOfSteps,
}

/// The answers for nodes of each shape. It belongs to claims that ask for the same.
#[derive(Debug, Clone, Default)]
struct Memo {
    /// By the place of the shape. An answer for a shape that no node has any more is not read.
    of_shapes: Vec<Option<(DeviceShape, Answer)>>,
    /// For nodes with allocations that the watch does not show.
    of_overlaid: HashMap<(DeviceShape, Arc<[Overlaid]>), Answer>,
    /// For nodes with shared pools, whose state belongs to one trial.
    of_kinds: HashMap<NodesOfKind, Answer>,
}

/// The nodes of a kind, by their own devices with further allocations.
type NodesOfKind = (u32, DeviceShape, Option<Arc<[Overlaid]>>);

/// The number of answers for nodes with allocations that the watch does not show, for each memo.
const OVERLAID_MAX: usize = 1 << 14;

/// The nodes that have the same answer as one node.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Likeness {
    /// The nodes of this shape, which has this place.
    Shape(usize, DeviceShape),
    /// The nodes of this shape whose devices have these further allocations.
    Overlaid((DeviceShape, Arc<[Overlaid]>)),
    /// The nodes of this kind whose own devices look alike.
    OfKind(NodesOfKind),
    /// No other node.
    Alone,
}

/// The diagnoses of one trial, which nodes with equal devices share.
#[derive(Debug, Default)]
pub struct Diagnoses {
    known: HashMap<Likeness, Option<Arc<Diagnosis>>>,
    long: LongSearches,
}

/// Claims that are tried on many nodes.
#[derive(Debug)]
pub struct Trial {
    claims: Claims,
    /// `None` if a selector may read attributes that shapes do not have.
    memo: Option<Memo>,
    /// `None` if nodes cannot be rejected by the number of their devices.
    counting: Option<Counting>,
    buffers: Buffers,
}

/// The answers for the claims that were tried last. They stay true as long as gates and budget are
/// the same.
#[derive(Debug, Default)]
pub struct Memos {
    /// The numbers of the shapes that the answers are for.
    numbers: Numbers,
    /// The claims that were tried last come first.
    kept: Vec<(Claims, Memo)>,
}

impl Memos {
    /// Starts trials of claims, with the answers for claims that ask for the same.
    pub fn start(&mut self, claims: Claims, cluster: &Cluster) -> Trial {
        if !reads_shapes(&claims, cluster) {
            return Trial::new(claims, None, None);
        }
        let numbers = cluster.device_shape_numbers();
        if !self.numbers.are_same(numbers) {
            *self = Self { numbers: numbers.clone(), kept: Vec::new() };
        }
        let counting = Counting::of(&claims);
        let known = self.kept.iter().position(|(known, _)| known.asks_like(&claims));
        let memo = known.map(|place| self.kept.remove(place).1);
        Trial::new(claims, Some(memo.unwrap_or_default()), counting)
    }

    /// Keeps the answers of ended trials.
    pub fn keep(&mut self, trial: Trial) {
        let Some(mut memo) = trial.memo else { return };
        memo.of_kinds.clear();
        self.kept.insert(0, (trial.claims, memo));
        let mut answers = 0;
        let has_room = |(_, memo): &(Claims, Memo)| {
            answers += memo.of_shapes.len() + memo.of_overlaid.len();
            answers <= ANSWERS_MAX
        };
        let fitting = self.kept.iter().map(has_room).take_while(|fits| *fits).count();
        self.kept.truncate(fitting.clamp(1, CLAIMS_MAX));
    }
}

/// Returns whether selectors and constraints read only attributes that shapes have.
fn reads_shapes(claims: &Claims, cluster: &Cluster) -> bool {
    let expressions = claims.bodies.iter().flat_map(|body| {
        let compiled = body.class_selectors.iter().chain(&body.selectors);
        compiled.flatten().flatten()
    });
    let selectors = claims.bodies.iter().flat_map(|body| {
        let of_class = body.class.as_ref().map_or(&[][..], |class| &class.selectors);
        of_class.iter().chain(&claims.body_of(body).selectors)
    });
    let texts = selectors.filter_map(|selector| match selector {
        DeviceSelector::Cel(text) => Some(text),
        DeviceSelector::Unknown => None,
    });
    let mut texts = texts.chain(claims.constraint_attributes());
    expressions.into_iter().all(|expression| expression.names_attributes())
        && !texts.any(|text| cluster.names_hidden_attribute(text))
}

impl Trial {
    fn new(claims: Claims, memo: Option<Memo>, counting: Option<Counting>) -> Self {
        Self { claims, memo, counting, buffers: Buffers::default() }
    }

    /// Returns whether there is nothing to allocate.
    pub const fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

impl Memo {
    #[inline]
    fn get(&self, likeness: &Likeness) -> Option<Answer> {
        match likeness {
            Likeness::Shape(place, shape) => {
                let (known, answer) = self.of_shapes.get(*place).copied().flatten()?;
                (known == *shape).then_some(answer)
            }
            Likeness::Overlaid(key) => self.of_overlaid.get(key).copied(),
            Likeness::OfKind(key) => self.of_kinds.get(key).copied(),
            Likeness::Alone => None,
        }
    }

    fn set(&mut self, likeness: Likeness, answer: Answer) {
        match likeness {
            Likeness::Shape(place, shape) => {
                if self.of_shapes.len() <= place {
                    self.of_shapes.resize(place + 1, None);
                }
                self.of_shapes[place] = Some((shape, answer));
            }
            Likeness::Overlaid(key) => {
                if self.of_overlaid.len() >= OVERLAID_MAX {
                    self.of_overlaid.clear();
                }
                self.of_overlaid.insert(key, answer);
            }
            Likeness::OfKind(key) => {
                self.of_kinds.insert(key, answer);
            }
            Likeness::Alone => {}
        }
    }
}

/// The nodes of a cluster by the shapes of their devices.
#[derive(Debug)]
pub struct NodesByShape<'a> {
    /// `None` if nodes are not compared.
    pub(crate) shapes: Option<DeviceShapes<'a>>,
    shared: Option<SharedPools<'a>>,
    /// The nodes with allocations that the watch does not show.
    overlaid: NodeBits,
    overlaid_devices: HashMap<NodeIx, &'a Arc<[Overlaid]>>,
}

impl<'a> NodesByShape<'a> {
    /// Returns the devices of a node with allocations that the watch does not show; `None` if it
    /// has none.
    #[inline]
    fn overlaid_devices(&self, node: NodeIx) -> Option<&'a Arc<[Overlaid]>> {
        // Most nodes have none, and a bit is faster than a map.
        self.overlaid.contains(node).then(|| self.overlaid_devices.get(&node).copied())?
    }
}

impl<'a> Allocator<'a> {
    /// Returns the nodes by the shapes of their devices.
    pub fn nodes_by_shape(&self) -> NodesByShape<'a> {
        // A rule for taints selects devices by name.
        let has_rules =
            self.gates.device_taint_rules && self.cluster.device_taint_rules().next().is_some();
        let shapes = (!has_rules).then(|| self.cluster.device_shapes());
        let shared = SharedPools::of(self.cluster);
        let overlay = self.allocated.overlay.filter(|_| shapes.is_some());
        let nodes = overlay.into_iter().flat_map(Overlay::nodes);
        let row = |(name, devices): (&Arc<str>, _)| Some((self.cluster.node_named(name)?, devices));
        let overlaid_devices: HashMap<_, _> = nodes.filter_map(row).collect();
        let mut overlaid = NodeBits::default();
        overlaid_devices.keys().for_each(|node| {
            overlaid.insert(*node);
        });
        NodesByShape { shapes, shared, overlaid, overlaid_devices }
    }

    /// Returns whether the claims fit on the node. It is the answer of
    /// [`allocate`](Self::allocate), but nodes whose devices look alike are searched once. `rank`
    /// judges the allocations for [`Answer::Fits`]; it must depend on the requests and alternatives
    /// only for which devices are allocated. The answer is [`Answer::OutOfSteps`] also if too few
    /// steps are left for long searches.
    ///
    /// # Errors
    /// The search ended early; see [`AllocateError`].
    pub fn fits(
        &self,
        trial: &mut Trial,
        nodes: &NodesByShape<'_>,
        node: NodeIx,
        limits: Limits<'_>,
        rank: impl Fn(&[Allocation]) -> i64,
    ) -> Result<Answer, AllocateError> {
        let Trial { claims, memo, counting, buffers } = trial;
        let Limits { budget, long } = limits;
        let limit = long.limit(budget);
        let search = |limit| self.search_alone(claims, node, limit, buffers, rank);
        let Some(memo) = memo else {
            let (answer, steps) = search(limit);
            long.take(steps);
            return answer;
        };
        let likeness = Self::likeness(nodes, node);
        if let Some(answer) = memo.get(&likeness) {
            return Ok(answer);
        }
        let mut steps = StepsLeft::of(limit);
        let lacks_devices = match (counting, nodes.shapes, &likeness) {
            (Some(counting), Some(shapes), Likeness::Shape(place, _)) => {
                counting.lacks_devices(claims, shapes.devices(*place), &mut steps)
            }
            _ => false,
        };
        let counted = steps.taken_of(limit);
        let (answer, searched) = match lacks_devices {
            true => (Ok(Answer::DoesNotFit), 0),
            false => search(Budget(limit.0 - counted)),
        };
        long.take(counted + searched);
        // The text of an error may name a device of the node.
        let answer = answer?;
        // Another attempt may have more steps.
        if answer != Answer::OutOfSteps || limit == budget {
            memo.set(likeness, answer);
        }
        Ok(answer)
    }

    /// Returns why the claims do not fit on the node; `None` if they fit or the search ends early.
    /// Nodes whose devices look alike are searched once. Once the searches have taken many steps
    /// together, those of further nodes are short.
    pub fn diagnose(
        &self,
        trial: &Trial,
        diagnoses: &mut Diagnoses,
        nodes: &NodesByShape<'_>,
        node: NodeIx,
        budget: Budget,
    ) -> Option<Arc<Diagnosis>> {
        let Diagnoses { known, long } = diagnoses;
        let mut search = || {
            let node = self.cluster.node(node);
            let (diagnosis, steps) = self.diagnosis(&trial.claims, &node, long.limit(budget));
            long.take(steps);
            diagnosis.map(Arc::new)
        };
        match trial.memo.as_ref().map(|_| Self::likeness(nodes, node)) {
            None | Some(Likeness::Alone) => search(),
            Some(likeness) => known.entry(likeness).or_insert_with(search).clone(),
        }
    }

    fn search_alone(
        &self,
        claims: &Claims,
        node: NodeIx,
        budget: Budget,
        buffers: &mut Buffers,
        rank: impl Fn(&[Allocation]) -> i64,
    ) -> (Result<Answer, AllocateError>, u64) {
        let node = self.cluster.node(node);
        let (found, steps) = self.allocate_in(buffers, claims, &node, budget, 0);
        let answer = match found {
            Ok(Some(allocations)) => Ok(Answer::Fits { rank: rank(&allocations) }),
            Ok(None) => Ok(Answer::DoesNotFit),
            Err(AllocateError::OutOfSteps) => Ok(Answer::OutOfSteps),
            Err(error) => Err(error),
        };
        (answer, steps)
    }

    #[inline]
    pub(crate) fn likeness(nodes: &NodesByShape<'_>, node: NodeIx) -> Likeness {
        let Some((place, shape)) = nodes.shapes.and_then(|shapes| shapes.of(node)) else {
            return Likeness::Alone;
        };
        let overlaid = nodes.overlaid_devices(node);
        match (&nodes.shared, overlaid) {
            (None, None) => Likeness::Shape(place, shape),
            (None, Some(devices)) => Likeness::Overlaid((shape, devices.clone())),
            (Some(shared), devices) => match shared.number_of(node) {
                Some(kind) => Likeness::OfKind((kind, shape, devices.cloned())),
                None => Likeness::Alone,
            },
        }
    }
}
