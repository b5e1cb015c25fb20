//! The timers of plugins.

use std::collections::{BTreeMap, BTreeSet};

use framework::{PluginName, Time};

use crate::context::Context;
use crate::plugin_call::call_beside;
use crate::world::World;

/// One timer per plugin and token, in the order in which they fire.
#[derive(Debug, Default)]
pub struct Timers {
    by_name: BTreeMap<(PluginName, u64), Time>,
    by_time: BTreeSet<(Time, PluginName, u64)>,
}

impl Timers {
    /// Sets a timer, in place of an earlier one of the same plugin and token.
    pub fn set(&mut self, plugin: PluginName, token: u64, at: Time) {
        if let Some(before) = self.by_name.insert((plugin.clone(), token), at) {
            self.by_time.remove(&(before, plugin.clone(), token));
        }
        self.by_time.insert((at, plugin, token));
    }

    /// Removes and returns the first timer that is due.
    pub fn pop_due(&mut self, now: Time) -> Option<(PluginName, u64)> {
        self.by_time.first().filter(|(at, ..)| *at <= now)?;
        let (_, plugin, token) = self.by_time.pop_first()?;
        self.by_name.remove(&(plugin.clone(), token));
        Some((plugin, token))
    }

    /// Returns when the next timer is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.by_time.first().map(|(at, ..)| *at)
    }
}

/// Calls a plugin whose timer has fired.
pub(crate) fn fire(plugin: &str, token: u64, world: &World, cx: &mut Context<'_>) {
    for profile in world.profiles().iter() {
        for timer in profile.timers.iter().filter(|timer| *timer.name == *plugin) {
            let handle = world.handle(cx.now);
            // A panic is counted; the timer has fired.
            let _ = call_beside("Timer", &timer.name, cx.probe, || {
                timer.plugin.fire(token, &handle);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_command_replaces_the_timer_of_its_token() {
        let (mut timers, at) = (Timers::default(), Time::from_secs);
        timers.set("A".into(), 1, at(9));
        timers.set("A".into(), 2, at(5));
        timers.set("A".into(), 1, at(3));
        assert_eq!(timers.next_deadline(), Some(at(3)));
        assert_eq!(timers.pop_due(at(2)), None);
        assert_eq!(timers.pop_due(at(5)), Some(("A".into(), 1)));
        assert_eq!(timers.pop_due(at(5)), Some(("A".into(), 2)));
        assert_eq!((timers.pop_due(at(99)), timers.next_deadline()), (None, None));
    }
}
