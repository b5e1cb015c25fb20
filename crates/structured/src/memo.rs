//! Answers that nodes with equal devices share.

use std::collections::HashMap;
use std::sync::Arc;

use framework::device::DeviceSelector;
use framework::{Cluster, DeviceShape, NodeView};

use crate::{AllocateError, Allocator, Budget, Claims, Diagnosis, Found};

/// Whether claims fit on nodes of each shape. It belongs to one [`Claims`].
#[derive(Debug, Clone, Default)]
pub struct Memo {
    is_usable: bool,
    answers: HashMap<DeviceShape, Answer>,
}

#[derive(Debug, Clone)]
enum Answer {
    Fits,
    DoesNotFit(Arc<Diagnosis>),
    OutOfSteps,
}

impl Memo {
    /// Returns an empty memo. It stays empty if a selector may read attributes that shapes do not
    /// have.
    pub fn new(claims: &Claims, cluster: &Cluster) -> Self {
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
        let is_usable = expressions.into_iter().all(|expression| expression.names_attributes())
            && !texts.any(|text| cluster.names_hidden_attribute(text));
        Self { is_usable, answers: HashMap::new() }
    }
}

impl Allocator<'_> {
    /// Returns why the claims do not fit on the node, or `None` if they fit. It is the answer of
    /// [`allocate`](Self::allocate), but nodes whose devices look alike are searched once.
    ///
    /// # Errors
    /// The search ended early; see [`AllocateError`].
    pub fn fits(
        &self,
        claims: &Claims,
        node: &NodeView<'_>,
        budget: Budget,
        memo: &mut Memo,
    ) -> Result<Option<Arc<Diagnosis>>, AllocateError> {
        let shape = self.shape(node, memo);
        if let Some(answer) = shape.and_then(|shape| memo.answers.get(&shape)) {
            return match answer {
                Answer::Fits => Ok(None),
                Answer::DoesNotFit(diagnosis) => Ok(Some(diagnosis.clone())),
                Answer::OutOfSteps => Err(AllocateError::OutOfSteps),
            };
        }
        let (result, answer) = match self.allocate(claims, node, budget, 0) {
            Ok(Found::Allocations(_)) => (Ok(None), Answer::Fits),
            Ok(Found::Nothing(diagnosis)) => {
                let diagnosis: Arc<Diagnosis> = diagnosis.into();
                (Ok(Some(diagnosis.clone())), Answer::DoesNotFit(diagnosis))
            }
            Err(AllocateError::OutOfSteps) => (Err(AllocateError::OutOfSteps), Answer::OutOfSteps),
            // The text may name a device of the node.
            Err(error) => return Err(error),
        };
        if let Some(shape) = shape {
            memo.answers.insert(shape, answer);
        }
        result
    }

    /// Returns the shape of the node; `None` if it has no answer in common with other nodes.
    fn shape(&self, node: &NodeView<'_>, memo: &Memo) -> Option<DeviceShape> {
        let pools = self.cluster.device_pools();
        let is_overlaid =
            self.allocated.overlay.filter(|overlay| !overlay.is_empty()).is_some_and(|overlay| {
                pools.pools_naming(node.name()).any(|key| overlay.pool(key).is_some())
            });
        let has_rules = self.gates.device_taint_rules;
        if !memo.is_usable || is_overlaid || has_rules {
            return None;
        }
        self.cluster.device_shape(node.name())
    }
}
