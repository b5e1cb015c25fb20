//! Device selectors in CEL, as kube-scheduler 1.36 evaluates them.
//!
//! ```
//! use loadmaster_cel::{AttributeValue, DeviceView, Selector};
//!
//! let selector = Selector::compile("device.attributes['example.com'].model == 'a100'")?;
//! let mut device = DeviceView::new("example.com");
//! device.add_attribute("model", AttributeValue::String("a100"))?;
//! assert_eq!(selector.matches(&device), Ok(true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Environment
//!
//! The variable `device` has the fields `driver`, `allowMultipleAllocations`, `attributes` and
//! `capacity`. The last two are maps from domain to identifier to value. A name without a domain
//! belongs to the domain of the driver. An unknown domain is an empty map, an unknown identifier is
//! an error.
//!
//! | Library | Functions |
//! |---|---|
//! | Standard | Operators, conversions, `size`, `contains`, `startsWith`, `endsWith`, `matches`, parts of timestamps and durations, `has`, `all`, `exists`, `exists_one`, `map`, `filter` |
//! | Optional | `a.?b`, `a[?b]`, `[?a]`, `{?k: v}`, `optional.of`, `optional.ofNonZeroValue`, `optional.none`, `hasValue`, `value`, `or`, `orValue`, `optMap`, `optFlatMap` |
//! | Two variables | `all`, `exists`, `existsOne`, `transformList`, `transformMap`, `transformMapEntry` |
//! | Bindings | `cel.bind` |
//! | Strings | `charAt`, `format`, `indexOf`, `join`, `lastIndexOf`, `lowerAscii`, `replace`, `split`, `strings.quote`, `substring`, `trim`, `upperAscii` |
//! | Lists | `distinct`, `flatten`, `indexOf`, `isSorted`, `lastIndexOf`, `lists.range`, `max`, `min`, `reverse`, `slice`, `sort`, `sortBy`, `sum` |
//! | Sets | `sets.contains`, `sets.equivalent`, `sets.intersects` |
//! | Regular expressions | `find`, `findAll` |
//! | Quantities | `quantity`, `isQuantity`, `add`, `asApproximateFloat`, `asInteger`, `compareTo`, `isGreaterThan`, `isInteger`, `isLessThan`, `sign`, `sub` |
//! | Versions | `semver`, `isSemver`, `compareTo`, `isGreaterThan`, `isLessThan`, `major`, `minor`, `patch` |
//! | Addresses | `ip`, `isIP`, `ip.isCanonical`, `cidr`, `isCIDR`, `containsIP`, `containsCIDR`, `family`, `isLoopback` and the like, `masked`, `prefixLength` |
//! | URLs | `url`, `isURL`, `getScheme`, `getHost`, `getHostname`, `getPort`, `getEscapedPath`, `getQuery` |
//! | Formats | `format.named`, `format.dns1123Label` and the like, `validate` |
//! | Devices | `includes` |
//!
//! # Limits
//!
//! An evaluation costs at most one million (`CELSelectorExpressionMaxCost`). Copies and comparisons
//! that CEL does not charge for have a limit of their own, with the same error. Expressions have at
//! most 250 nested levels, as in the reference. Deep ones are parsed and evaluated on a stack of
//! their own.

mod checker;
mod declarations;
mod device;
mod environment;
mod error;
mod estimate;
mod eval;
mod expression;
mod fast;
mod functions;
mod macros;
mod meter;
mod nesting;
mod plan;
mod preparing;
mod reads;
mod selector;
mod source;
mod syntax;
mod total;
mod types;
mod value;

pub use device::{AttributeValue, DeviceView};
pub use environment::{
    Environment, Fact, FactFunction, FactType, FactValue, Facts, ObjectType, Quantity,
};
pub use error::{CompileError, EvalError};
pub use expression::{
    BoundCall, Compared, Evaluated, Expression, FactRead, Prepared, ResultType, Verdict,
};
pub use reads::{Read, Reads};
pub use selector::{Evaluation, Selector};
