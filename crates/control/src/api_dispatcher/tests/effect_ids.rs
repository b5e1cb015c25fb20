//! Effect ids. Only an engine creates them, so this one fails to schedule pods.

use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, EffectId, Engine, EngineConfig, Input};
use framework::{Attempt, Bind, BindStep, Handle, Plugin, QueueSort, QueuedEntity, Registry, Time};
use testkit::pod;

struct Minimal;

impl QueueSort for Minimal {
    fn less(&self, a: &QueuedEntity, b: &QueuedEntity, _: &Handle<'_>) -> bool {
        a.history().timestamp < b.history().timestamp
    }
}

impl Bind for Minimal {
    fn bind(&self, _: &Attempt<'_>, _: &str) -> BindStep {
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

/// Returns effect ids in ascending order, without an end.
pub(super) fn effect_ids() -> impl Iterator<Item = EffectId> {
    let mut engine = engine();
    (0_u32..).flat_map(move |number| {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        let pod = pod(&format!("p{number}")).build();
        engine.step(Input::Change(Change::Pod(Box::new(pod))), Time::ZERO, ports);
        engine.step(Input::Schedule, Time::ZERO, ports).attempt();
        engine.take_effects().into_iter().map(|effect| effect.id)
    })
}
