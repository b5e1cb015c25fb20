//! An engine with the in-tree plugins and the plugin Rules.

use engine::cycle::Form;
use engine::profile::PluginConfig;
use framework::{ArgumentsFeed, EventResource, Feed, PluginArgs};
use plugin_trial::{World, profiles};
use serde_json::{Value, json};

/// Creates a world whose profile has the plugin with these arguments, with a weight above all.
pub(crate) fn with_rules(form: Form, args: Value) -> World {
    let mut registry = plugins::registry();
    loadmaster_rules::add_to(&mut registry);
    let rules = PluginConfig { name: loadmaster_rules::NAME.to_owned(), args: Some(args) };
    World::new(form, profiles(&registry, &[rules], 50))
}

/// Reports new rules, as the daemon does after a change of the configuration, to a world that began
/// with others.
pub(crate) fn reload(world: &mut World, began_with: &Value, args: Value) {
    let made = loadmaster_rules::plugin(&PluginArgs::new(began_with.clone())).unwrap();
    let Some(Feed::Arguments(feed)) = made.feeds.first() else { panic!("a feed") };
    feed.reload.check(&args).unwrap();
    let object = json!({"metadata": {"name": ArgumentsFeed::NAME}, "args": args});
    world.add_object(EventResource::Custom(feed.kind.clone()), object);
}

/// Adds or replaces a namespace.
pub(crate) fn namespace(world: &mut World, name: &str, labels: Value) {
    let object = json!({"metadata": {"name": name, "labels": labels}});
    world.add_object(EventResource::Namespace, object);
}
