//! Names of effects. Only an engine gives them out, so one is asked: it fails to schedule pods.

use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, EffectId, Engine, EngineConfig};
use framework::testing::pod;
use framework::{Bind, BindStep, CycleState, Plugin, Pod, QueueSort, QueuedPod, Registry, Time};

struct Minimal;

impl QueueSort for Minimal {
    fn less(&self, a: &QueuedPod, b: &QueuedPod) -> bool {
        a.timestamp < b.timestamp
    }
}

impl Bind for Minimal {
    fn bind(&self, _: &CycleState, _: &Pod, _: &str) -> BindStep {
        BindStep::Skip
    }
}

fn engine() -> Engine {
    let mut registry = Registry::new();
    let minimal = |_: &_| Ok(Plugin::new("Minimal", Minimal).queue_sort().bind().build());
    registry.register("Minimal", minimal).unwrap();
    let profile =
        SchedulerProfile { scheduler_name: "default-scheduler".into(), ..Default::default() };
    let plugins = [PluginRef::new("Minimal", 0)];
    Engine::new(EngineConfig::new(Profiles::build(&[profile], &plugins, &registry, false).unwrap()))
}

/// At least `count` names, in the order in which an engine gives them out.
pub(super) fn effect_ids(count: usize) -> impl Iterator<Item = EffectId> {
    let (mut engine, outside, probe) = (engine(), &mut (), &mut ());
    let ports = &mut Ports { outside, probe };
    for number in 0..count {
        let pod = pod(&format!("p{number}")).build();
        engine.apply(Change::Pod(Box::new(pod)), Time::ZERO, ports);
        engine.schedule_one(Time::ZERO, ports);
    }
    engine.take_effects().into_iter().map(|effect| effect.id)
}
