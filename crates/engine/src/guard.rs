//! Calls into plugins: a panic costs the attempt at hand, not the engine.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use framework::{PluginName, Status};

use crate::ports::{Count, Probe};

/// Runs `call`, which enters the plugin called `name`. A panic is counted and becomes an Error status
/// that names the plugin.
///
/// State the plugin was changing may be left half-changed; it belongs to the attempt, which fails.
pub(crate) fn guarded<T>(
    name: &PluginName,
    probe: &mut dyn Probe,
    call: impl FnOnce() -> T,
) -> Result<T, Status> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        probe.count(Count::Panic { plugin: name });
        Status::error(format!("plugin {name:?} panicked: {}", text(&*payload))).by(name)
    })
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use framework::Code;

    use super::*;

    #[derive(Default)]
    struct Panics(Vec<String>);

    impl Probe for Panics {
        fn count(&mut self, count: Count<'_>) {
            if let Count::Panic { plugin } = count {
                self.0.push(plugin.to_string());
            }
        }
    }

    #[test]
    fn a_panic_is_counted_and_named() {
        let mut probe = Panics::default();
        let status =
            guarded::<()>(&"Careless".into(), &mut probe, || panic!("index 7")).unwrap_err();
        assert_eq!(status.code(), Code::Error);
        assert_eq!(status.message(), "plugin \"Careless\" panicked: index 7");
        assert_eq!(probe.0, ["Careless"]);
    }
}
