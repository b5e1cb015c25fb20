//! The timers of plugins against a list.

use engine::timers::Timers;
use fastrand::Rng;
use framework::{PluginName, Time};

use super::super::rules::{Checked, rule};

/// Lives through a history of timers.
pub(super) fn run(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut timers = Timers::default();
    let mut model: Vec<(Time, PluginName, u64)> = Vec::new();
    let mut now = 0;
    for _ in 0..40 {
        if random.bool() {
            let (plugin, token) =
                (PluginName::from(["A", "B"][random.usize(..2)]), random.u64(..2));
            let at = Time::from_secs(now + random.i64(0..6));
            trace.push(format!("{plugin} sets {token} to {at}"));
            model.retain(|(_, known, number)| (known, *number) != (&plugin, token));
            model.push((at, plugin.clone(), token));
            timers.set(plugin, token, at);
        } else {
            now += random.i64(0..3);
            trace.push(format!("{now}"));
            let time = Time::from_secs(now);
            model.sort();
            while let Some((plugin, token)) = timers.pop_due(time) {
                let first = model.first().filter(|(at, ..)| *at <= time).cloned();
                rule(
                    first.is_some_and(|(_, own, number)| (own, number) == (plugin.clone(), token)),
                    || format!("{plugin} {token} fires out of turn"),
                )?;
                model.remove(0);
            }
            rule(model.first().is_none_or(|(at, ..)| *at > time), || "a timer is late".to_owned())?;
        }
        let next = model.iter().map(|(at, ..)| *at).min();
        rule(timers.next_deadline() == next, || format!("the next timer is due at {next:?}"))?;
    }
    Ok(())
}
