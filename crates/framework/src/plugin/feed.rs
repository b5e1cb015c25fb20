//! Facts that come from elsewhere than a watch of the API server.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

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
}

/// The task of a [`Feed::Task`].
pub type FeedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Feed {
    /// The kind of the objects it brings.
    pub const fn kind(&self) -> &Arc<str> {
        match self {
            Self::Poll { kind, .. } | Self::Task { kind, .. } => kind,
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
        }
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
