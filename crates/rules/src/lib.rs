//! The plugin Rules: filters and scores in CEL, written in the arguments of the plugin.
//!
//! ```yaml
//! pluginConfig:
//! - name: Rules
//!   args:
//!     filters:
//!     - name: young-nodes-only
//!       match: pod.metadata.namespace == "team-b"
//!       expression: now() - node.metadata.creationTimestamp < duration("2160h")
//!       message: node is older than 90 days
//! ```
//!
//! `docs/rules.md` has the fields that rules can read, and examples. The language is that of the
//! crate `cel`; [`facts`] has the fields, [`rule_set`] the compiled rules, [`mod@plugin`] the
//! extension points, and `hints` the events that wake a pod.

pub mod args;
mod details;
pub mod facts;
mod hints;
mod metrics;
pub mod plugin;
mod prepared;
mod reading;
mod reloads;
pub mod rule_set;
mod selector;
mod subject;
#[cfg(test)]
mod tests;

pub use plugin::{NAME, plugin};

use framework::Registry;

/// Registers the plugin, unless a plugin with its name is already registered.
pub fn add_to(registry: &mut Registry) {
    if registry.get(NAME).is_none() {
        registry.register(NAME, plugin).expect("the name is free");
    }
}
