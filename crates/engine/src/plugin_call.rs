//! Calls into plugins. A panic fails the attempt at hand; the engine goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use framework::{
    BindStep, Code, PermitVerdict, PluginName, PodGroupPostFilterResult, PostFilterResult,
    PreBindPreFlight, PreBindStep, Status,
};

use crate::ports::{Count, Point, Probe, Span};

/// Calls the plugin called `name` at a point, measures the call and
/// [catches](catch_panic) a panic.
pub(crate) fn call_plugin<T: HasCode>(
    point: impl Into<Point>,
    name: &PluginName,
    probe: &mut dyn Probe,
    call: impl FnOnce() -> T,
) -> Result<T, Status> {
    let point = point.into();
    probe.start(Span::Plugin(point, name));
    let answer = catch_panic(name, probe, call);
    probe.stop(Span::Plugin(point, name), answer.code());
    answer
}

/// Calls the plugin called `name` beside the points of a profile, for example a timer.
/// [Catches](catch_panic) a panic.
pub(crate) fn call_beside<T>(
    purpose: &'static str,
    name: &PluginName,
    probe: &mut dyn Probe,
    call: impl FnOnce() -> T,
) -> Result<T, Status> {
    probe.start(Span::Call(purpose, name));
    let answer = catch_panic(name, probe, call);
    let code = answer.as_ref().err().map_or(Code::Success, Status::code);
    probe.stop(Span::Call(purpose, name), code);
    answer
}

/// The status code under which metrics count an answer.
pub(crate) trait HasCode {
    /// Returns the status code.
    fn code(&self) -> Code;
}

impl HasCode for () {
    fn code(&self) -> Code {
        Code::Success
    }
}

impl HasCode for Status {
    fn code(&self) -> Code {
        Self::code(self)
    }
}

impl<T: HasCode, E: HasCode> HasCode for Result<T, E> {
    fn code(&self) -> Code {
        match self {
            Ok(answer) => answer.code(),
            Err(error) => error.code(),
        }
    }
}

impl HasCode for framework::PreFilterResult {
    fn code(&self) -> Code {
        Code::Success
    }
}

impl HasCode for framework::GroupPlacements {
    fn code(&self) -> Code {
        Code::Success
    }
}

impl HasCode for PostFilterResult {
    fn code(&self) -> Code {
        self.status.code()
    }
}

impl HasCode for PodGroupPostFilterResult {
    fn code(&self) -> Code {
        self.status.code()
    }
}

impl HasCode for PermitVerdict {
    fn code(&self) -> Code {
        match self {
            Self::Allow => Code::Success,
            Self::Wait { .. } => Code::Wait,
            Self::Reject(status) => status.code(),
        }
    }
}

impl HasCode for PreBindPreFlight {
    fn code(&self) -> Code {
        match self {
            Self::Skip { .. } => Code::Skip,
            Self::Run { .. } => Code::Success,
            Self::Fail(status) => status.code(),
        }
    }
}

impl HasCode for PreBindStep {
    fn code(&self) -> Code {
        match self {
            Self::Done(status) => status.code(),
            Self::Write(_) | Self::Wait { .. } => Code::Wait,
        }
    }
}

impl HasCode for BindStep {
    fn code(&self) -> Code {
        match self {
            Self::Skip => Code::Skip,
            Self::Bind(_) => Code::Success,
            Self::Done(status) => status.code(),
        }
    }
}

/// Runs `call`, which enters the plugin called `name`. A panic is counted and becomes an Error
/// status that names the plugin.
///
/// The plugin may leave state half-changed; that state belongs to the attempt, which fails.
///
/// # Errors
/// The plugin panicked.
pub fn catch_panic<T>(
    name: &str,
    probe: &mut dyn Probe,
    call: impl FnOnce() -> T,
) -> Result<T, Status> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let plugin = PluginName::from(name);
        probe.count(Count::Panic { plugin: &plugin });
        let message = panic_message(&*payload);
        Status::error(format!("plugin {name:?} panicked: {message}")).by(&plugin)
    })
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
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
        let status = catch_panic::<()>("Careless", &mut probe, || panic!("index 7")).unwrap_err();
        assert_eq!(status.code(), Code::Error);
        assert_eq!(status.message(), "plugin \"Careless\" panicked: index 7");
        assert_eq!(probe.0, ["Careless"]);
    }
}
