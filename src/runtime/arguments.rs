//! Reads the arguments of plugins again when the file of the configuration changes.
//!
//! Only plugins with a [`Feed::Arguments`] take part. Anything else in the file needs a restart.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::Change;
use framework::{ArgumentsFeed, EventResource, EventType, Feed, ObjectKey};
use serde_json::{Value, json};
use tokio::signal::unix::Signal;
use tracing::{info, warn};

use crate::config::{self, Configuration, Gates};
use crate::scheduling_loop::{EventSender, LeaseNote, LoopEvent};
use crate::wire::{Update, WatchedKind};

/// How often the file is read. A kubelet shows a change of a ConfigMap after about a minute.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum length of the text of an event.
const NOTE_MAX: usize = 1000;

/// The file of the configuration.
pub struct ConfigurationFile {
    /// Its path.
    pub path: PathBuf,
    /// The feature gates with which it is read.
    pub gates: Gates,
    /// The signal at which it is read at once.
    pub hangup: Signal,
}

/// The arguments of a plugin, and the profiles that have them.
struct Arguments {
    feed: ArgumentsFeed,
    profiles: Vec<Arc<str>>,
    /// The arguments in force.
    known: Value,
}

/// Reads the arguments of plugins.
pub(super) struct ArgumentsReader<M> {
    arguments: Vec<Arguments>,
    events: EventSender<M>,
}

impl<M> ArgumentsReader<M> {
    /// Creates the reader of the arguments of `feeds`, which a scheduler with this configuration
    /// has.
    pub(super) fn new(
        config: &Configuration,
        feeds: &[(WatchedKind, Feed)],
        events: EventSender<M>,
    ) -> Self {
        let arguments = feeds.iter().filter_map(|(_, feed)| match feed {
            Feed::Arguments(feed) => Some(feed),
            _ => None,
        });
        let arguments = arguments.map(|feed| {
            let has_it =
                |profile: &&config::Profile| feed.reload.began_with(&args_of(profile, feed));
            let profiles: Vec<_> = config.profiles.iter().filter(has_it).collect();
            let known = profiles.first().map_or(Value::Null, |profile| args_of(profile, feed));
            let names = profiles.iter().map(|profile| profile.scheduler_name.as_str().into());
            Arguments { feed: feed.clone(), profiles: names.collect(), known }
        });
        Self { arguments: arguments.collect(), events }
    }

    /// Reads the file at each change. Never ends.
    pub(super) async fn run(mut self, file: Option<ConfigurationFile>) -> Infallible {
        let Some(mut file) = file.filter(|_| !self.arguments.is_empty()) else {
            return std::future::pending().await;
        };
        let mut known = tokio::fs::read_to_string(&file.path).await.unwrap_or_default();
        loop {
            let asked = tokio::select! {
                signal = file.hangup.recv() => signal.is_some(),
                () = tokio::time::sleep(INTERVAL) => false,
            };
            match tokio::fs::read_to_string(&file.path).await {
                Ok(text) if text == known && !asked => {}
                Ok(text) => {
                    self.read(&text, &file.gates).await;
                    known = text;
                }
                // A file that is being replaced is absent for a moment.
                Err(error) if asked => {
                    self.failed(&format!("{}: {error}", file.path.display()));
                }
                Err(_) => {}
            }
        }
    }

    /// Takes over the arguments in a configuration.
    async fn read(&mut self, text: &str, gates: &Gates) {
        let config = match config::load(text, gates) {
            Ok(loaded) => loaded.in_effect(),
            Err(error) => return self.failed(&error.to_string()),
        };
        let mut updates = Vec::new();
        for place in 0..self.arguments.len() {
            let own = &self.arguments[place];
            match own.changed(&config) {
                Ok(None) => {}
                Ok(Some(args)) => {
                    updates.push(Update::from(own.change(&args)));
                    own.feed.reload.reloaded(true);
                    let (plugin, profiles) = (own.feed.plugin.clone(), own.profiles.join(", "));
                    info!(
                        plugin = &*plugin,
                        profiles, "The new arguments of the plugin are in force"
                    );
                    self.note(
                        EventType::Normal,
                        "ArgumentsReloaded",
                        format!("The new arguments of {plugin} are in force in {profiles}"),
                    );
                    self.arguments[place].known = args;
                }
                Err(error) => self.failed_for(place, &error),
            }
        }
        if !updates.is_empty() {
            self.events.send_updates(updates).await;
        }
    }

    fn failed(&self, error: &str) {
        (0..self.arguments.len()).for_each(|place| self.failed_for(place, error));
    }

    fn failed_for(&self, place: usize, error: &str) {
        let feed = &self.arguments[place].feed;
        feed.reload.reloaded(false);
        let plugin = &*feed.plugin;
        warn!(
            plugin,
            err = error,
            "Keeping the old arguments of the plugin: the new ones are wrong"
        );
        let mut note = format!("Keeping the old arguments of {plugin}: {error}");
        note.truncate(note.floor_char_boundary(NOTE_MAX));
        self.note(EventType::Warning, "ArgumentsRejected", note);
    }

    fn note(&self, event_type: EventType, reason: &'static str, note: String) {
        self.events.send(LoopEvent::Note(LeaseNote { event_type, reason, note }));
    }
}

impl Arguments {
    /// Returns the arguments in a configuration, unless they are in force.
    fn changed(&self, config: &Configuration) -> Result<Option<Value>, String> {
        let mut found: Option<Value> = None;
        for name in &self.profiles {
            let profile = config.profiles.iter().find(|own| *own.scheduler_name == **name);
            let profile = profile
                .ok_or_else(|| format!("the profile {name} is gone, which needs a restart"))?;
            let args = args_of(profile, &self.feed);
            if found.as_ref().is_some_and(|found| *found != args) {
                let names = self.profiles.join(", ");
                return Err(format!(
                    "the profiles {names} had equal arguments, and no longer do, which needs a restart"
                ));
            }
            found = Some(args);
        }
        let Some(args) = found.filter(|args| *args != self.known) else { return Ok(None) };
        self.feed.reload.check(&args)?;
        Ok(Some(args))
    }

    fn change(&self, args: &Value) -> Change {
        let resource = EventResource::Custom(self.feed.kind.clone());
        let key = ObjectKey::cluster_scoped(resource, ArgumentsFeed::NAME.into());
        let object = json!({"metadata": {"name": ArgumentsFeed::NAME}, "args": args});
        Change::decode(key, Some(object)).expect("objects of plugins are not decoded into a type")
    }
}

/// Returns the arguments of a plugin in a profile.
fn args_of(profile: &config::Profile, feed: &ArgumentsFeed) -> Value {
    profile.args_of(&feed.plugin).map_or(Value::Null, config::Arguments::to_value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling_loop::{EventReceiver, channel};

    fn configuration(expression: &str) -> String {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {{multiPoint: {{enabled: [{{name: Rules}}]}}}}
  pluginConfig:
  - name: Rules
    args:
      filters: [{{name: rule, expression: '{expression}'}}]
"
        )
    }

    fn reader(text: &str) -> (ArgumentsReader<Infallible>, EventReceiver) {
        let mut registry = plugins::registry();
        rules::add_to(&mut registry);
        let config = config::load(text, &Gates::default()).unwrap().in_effect();
        let profiles = config.build_profiles(&registry).unwrap();
        let (events, received) = channel();
        (ArgumentsReader::new(&config, &crate::wire::feeds(&profiles), events), received)
    }

    /// Returns the expressions that were sent, and the reasons and texts of events.
    fn sent(received: &EventReceiver) -> Vec<String> {
        let mut sent = Vec::new();
        while let Ok(event) = received.try_recv() {
            match event {
                LoopEvent::Updates(updates, _) => {
                    for update in updates {
                        let Change::Object(object) = update.change else { panic!("an object") };
                        let expression = &object.json()["args"]["filters"][0]["expression"];
                        sent.push(expression.as_str().unwrap().to_owned());
                    }
                }
                LoopEvent::Note(LeaseNote { reason, note, .. }) => {
                    sent.push(format!("{reason}: {note}"));
                }
                other => panic!("{other:?}"),
            }
        }
        sent
    }

    #[tokio::test]
    async fn arguments_that_are_wrong_leave_the_old_ones_in_force() {
        let before = configuration("node.metadata.name != \"a\"");
        let (mut reader, received) = reader(&before);
        let gates = Gates::default();
        reader.read(&before, &gates).await;
        assert!(sent(&received).is_empty(), "nothing has changed");

        reader.read(&configuration("node.metadata.name != \"b\""), &gates).await;
        let expected = [
            "ArgumentsReloaded: The new arguments of Rules are in force in default-scheduler",
            "node.metadata.name != \"b\"",
        ];
        assert_eq!(sent(&received), expected);

        for (text, expected) in [
            (configuration("node.metadata.nam != \"b\""), "'node.metadata.nam' is not readable"),
            (configuration("node.status.nodeInfo.osImage != \"b\""), "restart the scheduler"),
            ("kind: [".to_owned(), "Keeping the old arguments of Rules"),
            (before.replace("default-scheduler", "other"), "default-scheduler is gone"),
        ] {
            reader.read(&text, &gates).await;
            let sent = sent(&received);
            let [note] = &sent[..] else { panic!("{sent:?}") };
            assert!(note.starts_with("ArgumentsRejected: ") && note.contains(expected), "{note}");
        }
        reader.read(&before, &gates).await;
        assert_eq!(sent(&received)[1], "node.metadata.name != \"a\"");
    }
}
