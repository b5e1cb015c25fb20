//! Moves of the pods of a dump: room for a pending pod, and nodes that can be emptied.

use std::sync::Arc;

pub use ::make_room::Limits;
pub use ::make_room::report::{
    EmptyNode, EmptyNodes, Options, Outcome, Room, RoomMove, ShapesRoom, StayingNode,
};
use framework::PodKey;

use crate::cluster::{Dump, Error};
use crate::{Settings, World, budgets};

/// How the pods of a dump are to be moved.
#[derive(Debug, Clone)]
pub struct Question {
    /// Settings of the engine.
    pub settings: Settings,
    /// How pods may be moved.
    pub options: Options,
}

/// Looks for moves after which a pending pod of the dump fits, or the PodGroup of this name. Other
/// pending pods wait.
///
/// # Errors
/// A profile cannot be built, or the dump has neither such a pod without a node nor such a PodGroup
/// with one.
pub fn room_for(name: &PodKey, dump: Dump, question: &Question) -> Result<Room, Error> {
    let pod = dump.pods.iter().find(|own| own.pod.key == *name && own.is_pending());
    let pod = pod.map(|own| Arc::new(own.pod.clone()));
    let (mut world, warnings) = read(dump, question)?;
    let room = world.about_moves(question.options, |asking| match &pod {
        Some(pod) => Some(asking.room_for(pod)),
        None => asking.room_for_pending(name),
    });
    room.map(|room| Room { warnings, ..room }).ok_or_else(|| Error::NotPending(name.clone()))
}

/// Looks for moves for one more pod of each of the `most` largest shapes.
///
/// # Errors
/// A profile cannot be built.
pub fn room_for_largest(most: usize, dump: Dump, question: &Question) -> Result<ShapesRoom, Error> {
    let (mut world, warnings) = read(dump, question)?;
    let found = world.about_moves(question.options, |asking| asking.room_for_largest(most));
    Ok(ShapesRoom { warnings, ..found })
}

/// Looks for nodes of the dump whose pods all fit elsewhere. Pending pods wait.
///
/// # Errors
/// A profile cannot be built.
pub fn empty_nodes(dump: Dump, question: &Question) -> Result<EmptyNodes, Error> {
    let (mut world, warnings) = read(dump, question)?;
    let found = world.about_moves(question.options, |asking| asking.empty_nodes());
    Ok(EmptyNodes { warnings, ..found })
}

/// Returns the dump in an engine that makes no attempts, and the warnings about it.
fn read(mut dump: Dump, question: &Question) -> Result<(World, Vec<String>), Error> {
    budgets::complete(&mut dump.objects, &dump.pods);
    let names = dump.pods.iter().map(|own| &*own.pod.spec.scheduler_name);
    let mut world = World::new(&question.settings, names)?;
    dump.nodes.into_iter().for_each(|node| world.add_node(node));
    dump.objects.into_iter().for_each(|object| world.add_object(object.parsed()));
    dump.pods.into_iter().for_each(|own| world.add_pod(own.pod));
    Ok((world, dump.warnings))
}
