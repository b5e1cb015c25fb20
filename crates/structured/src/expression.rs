//! Compiled selectors.

use std::sync::Arc;

use framework::device::DeviceDescription;

/// A compiled expression of a selector.
pub trait Expression: std::fmt::Debug + Send + Sync {
    /// Returns whether the device matches. Adds the cost of the evaluation: what takes about as
    /// long as a unit of CEL.
    ///
    /// # Errors
    /// The expression fails at run time; the text is what follows `CEL runtime error: `.
    fn matches(&self, device: &DeviceDescription, cost: &mut u64) -> Result<bool, Box<str>>;

    /// Returns whether the expression has a result for the device, as far as that can be known
    /// without evaluating it. It depends only on the driver, on the names and types of attributes,
    /// on the names of capacities, and on whether an attribute is unreadable.
    fn cannot_fail(&self, _: &DeviceDescription) -> bool {
        false
    }

    /// Returns whether the expression has the same result and error for both devices, as far as
    /// that can be known without evaluating it.
    fn reads_alike(&self, one: &DeviceDescription, other: &DeviceDescription) -> bool;

    /// Returns whether the expression reads single attributes only, and names each of them. The
    /// answers for nodes that look alike are shared only then.
    fn names_attributes(&self) -> bool {
        false
    }
}

/// A compiled expression, or the text that follows `CEL compile error: `.
pub type Compiled = Result<Arc<dyn Expression>, Box<str>>;

/// Compiles expressions, or takes them from a cache.
pub trait Compiler {
    /// Returns the compiled expression.
    fn compile(&mut self, expression: &str) -> Compiled;
}
