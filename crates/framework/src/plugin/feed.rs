//! Facts that come from elsewhere than a watch of the API server.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::PluginName;

/// A source of objects beside the watches of the API server.
///
/// Plugins read its objects like those of a watched custom kind, with
/// [`Cluster::object`](crate::Cluster::object) and [`Cluster::objects`](crate::Cluster::objects)
/// under [`EventResource::Custom`](crate::EventResource::Custom)`(kind)`, and its changes raise
/// cluster events of that kind.
#[derive(Clone)]
#[non_exhaustive]
pub enum Feed {
    /// A kind of an aggregated API that can be listed but not watched, such as
    /// `nodes.v1beta1.metrics.k8s.io`.
    Poll {
        /// The kind, as `<plural>.<version>.<group>`.
        kind: Arc<str>,
        /// Time between two lists.
        interval: Duration,
    },
    /// A task of the daemon that reports changes of objects.
    Task {
        /// The kind under which its objects are kept, as `<plural>.<version>.<group>`. The API
        /// server need not know it.
        kind: Arc<str>,
        /// Makes the task. It runs until the daemon stops: a future that ends or panics is made
        /// again after a pause, of a second at first and up to a minute.
        run: Arc<dyn Fn(FeedSink) -> FeedFuture + Send + Sync>,
    },
    /// Answers of an HTTP server, which the daemon asks for at each interval.
    Http(HttpFeed),
    /// The arguments of the plugin, which the daemon reads again when the configuration changes.
    Arguments(ArgumentsFeed),
}

/// The arguments of a plugin that may change while the scheduler runs. The daemon reports new ones
/// as the object [`NAME`](Self::NAME), with the arguments in the field `args`. There is no object
/// until they change.
#[derive(Clone)]
pub struct ArgumentsFeed {
    /// The kind under which the arguments are kept, as `<plural>.<version>.<group>`. The API server
    /// need not know it. Profiles with the same kind share the arguments.
    pub kind: Arc<str>,
    /// The name of the plugin in `pluginConfig`.
    pub plugin: PluginName,
    /// Checks new arguments, and is notified of each reload.
    pub reload: Arc<dyn Reload>,
}

impl ArgumentsFeed {
    /// The name of the object.
    pub const NAME: &str = "arguments";
}

/// The part of a plugin whose arguments may change.
pub trait Reload: Send + Sync {
    /// Returns whether the plugin was made from these arguments; null for none.
    fn began_with(&self, args: &Value) -> bool;

    /// Checks new arguments.
    ///
    /// # Errors
    /// The arguments are wrong. The scheduler keeps the old ones.
    fn check(&self, args: &Value) -> Result<(), String>;

    /// Counts a reload: whether new arguments are in force.
    fn reloaded(&self, succeeded: bool);
}

/// GET requests to one HTTP server, and the function that reads objects from the answers.
#[derive(Clone)]
pub struct HttpFeed {
    /// The kind under which the objects are kept, as `<plural>.<version>.<group>`. The API server
    /// need not know it. Feeds of one kind have equal requests.
    pub kind: Arc<str>,
    /// Time between two rounds of requests.
    pub interval: Duration,
    /// The server.
    pub server: HttpServer,
    /// Path and query of each request, behind the address of the server.
    pub paths: Vec<String>,
    /// Returns all objects that there are, from the bodies of the answers in the order of the
    /// paths. Objects of the last round that are not among them are gone. It is not called if a
    /// request fails or is not answered with the status 200; the objects then stay as they are.
    pub read: Arc<ReadAnswers>,
}

/// A function that reads objects from the bodies of answers. The error is a text for the log.
pub type ReadAnswers = dyn Fn(&[&[u8]]) -> Result<Vec<Value>, String> + Send + Sync;

/// An HTTP server.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HttpServer {
    /// Its address: `http://prometheus.monitoring.svc:9090`. It may have a path.
    pub address: String,
    /// The bearer token of the requests, if any.
    pub token: Option<String>,
    /// Whether the certificate of the server is not verified.
    pub accepts_any_certificate: bool,
}

/// Formats without the token.
impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl HttpServer {
    /// Checks the address.
    ///
    /// # Errors
    /// The address is not one of an HTTP server. The text does not contain a password.
    pub fn check(&self) -> Result<(), String> {
        let rest = ["http://", "https://"].iter().find_map(|own| self.address.strip_prefix(own));
        let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
        if host.contains('@') {
            return Err("a user in the address is not supported".to_owned());
        }
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#');
        match !host.is_empty() && !host.starts_with(':') && self.address.chars().all(is_plain) {
            true => Ok(()),
            false => Err(format!(
                "must be the address of a server, like http://prometheus.monitoring.svc:9090, got {:?}",
                self.address
            )),
        }
    }
}

/// The task of a [`Feed::Task`].
pub type FeedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Feed {
    /// The kind of the objects it brings.
    pub const fn kind(&self) -> &Arc<str> {
        match self {
            Self::Poll { kind, .. } | Self::Task { kind, .. } => kind,
            Self::Http(feed) => &feed.kind,
            Self::Arguments(feed) => &feed.kind,
        }
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poll { kind, interval } => {
                f.debug_struct("Poll").field("kind", kind).field("interval", interval).finish()
            }
            Self::Task { kind, .. } => f.debug_struct("Task").field("kind", kind).finish(),
            Self::Http(feed) => feed.fmt(f),
            Self::Arguments(feed) => feed.fmt(f),
        }
    }
}

impl fmt::Debug for ArgumentsFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, plugin, .. } = self;
        f.debug_struct("Arguments").field("kind", kind).field("plugin", plugin).finish()
    }
}

impl fmt::Debug for HttpFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, interval, server, paths, .. } = self;
        let mut feed = f.debug_struct("Http");
        feed.field("kind", kind).field("interval", interval).field("server", server);
        feed.field("paths", paths).finish()
    }
}

/// A function that handles a change: namespace, name, and the object unless it is gone.
type Report = dyn Fn(&str, &str, Option<Value>) + Send + Sync;

/// The receiver of the changes a [`Feed::Task`] reports. Clones share it.
#[derive(Clone)]
pub struct FeedSink(Arc<Report>);

impl FeedSink {
    /// Makes a sink of a function that receives namespace, name, and the object (`None` if it is
    /// removed).
    pub fn new(report: impl Fn(&str, &str, Option<Value>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    /// Adds or replaces an object. The namespace is empty for cluster-scoped objects.
    pub fn set(&self, namespace: &str, name: &str, object: Value) {
        (self.0)(namespace, name, Some(object));
    }

    /// Removes an object. The namespace is empty for cluster-scoped objects.
    pub fn remove(&self, namespace: &str, name: &str) {
        (self.0)(namespace, name, None);
    }
}

impl fmt::Debug for FeedSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FeedSink")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    #[test]
    fn address_of_a_server_has_a_scheme_and_a_host() {
        let check = |address: &str| {
            let address = address.to_owned();
            HttpServer { address, token: None, accepts_any_certificate: false }.check()
        };
        for valid in ["http://prometheus:9090", "https://m.example.com/prom/", "http://[::1]:1"] {
            assert_eq!(check(valid), Ok(()), "{valid}");
        }
        for (wrong, expected) in [
            ("prometheus:9090", "must be the address of a server"),
            ("http://", "must be the address of a server"),
            ("http://:9090", "must be the address of a server"),
            ("http://a b", "must be the address of a server"),
            ("http://a/?x=1", "must be the address of a server"),
            ("http://me:secret@a", "a user in the address is not supported"),
        ] {
            let error = check(wrong).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn sink_reports_objects_and_removals() {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let sink = FeedSink::new({
            let reports = reports.clone();
            move |namespace, name, object| {
                reports.lock().unwrap().push((namespace.to_owned(), name.to_owned(), object));
            }
        });
        sink.clone().set("", "n", json!({"load": 1}));
        sink.remove("", "n");
        let node = |object| (String::new(), "n".to_owned(), object);
        assert_eq!(*reports.lock().unwrap(), [node(Some(json!({"load": 1}))), node(None)]);
    }
}
