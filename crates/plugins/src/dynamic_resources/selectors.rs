//! Selectors in CEL, compiled once for each expression.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cel::{AttributeValue, DeviceView, EvalError, Read, Reads, Selector};
use foldhash::HashMap;
use framework::Behaviours;
use framework::device::{Amount, Attribute, DeviceDescription};
use structured::{Compiled, Compiler, Expression, Gates, LongSearches};

/// The bytes of expressions that are kept, more than one claim can have. A cluster has a few
/// expressions for each class; the expressions of claims come and go.
const KEPT: usize = 4 << 20;
/// The part of the size of an expression that does not come from its text.
const ENTRY: usize = 256;
/// The bytes that are compiled for one pod in any case.
const FREE: usize = 2 << 10;

/// The compiled expressions of a scheduler.
#[derive(Debug, Default)]
pub(crate) struct Selectors(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_text: HashMap<Box<str>, Compiled>,
    bytes: usize,
}

impl Selectors {
    fn known(&self, expression: &str) -> Option<Compiled> {
        self.lock().by_text.get(expression).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // A panic leaves the map consistent: entries are only added or all dropped.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compiles expressions that are not kept, and keeps them.
impl Selectors {
    fn compile(&self, expression: &str, behaviours: Behaviours) -> Compiled {
        if let Some(known) = self.known(expression) {
            return known;
        }
        let compiled: Compiled = match Selector::compile(expression) {
            Ok(selector) => Ok(Arc::new(DeviceSelector::new(selector, behaviours))),
            Err(error) => Err(error.to_string().into()),
        };
        let mut kept = self.lock();
        if kept.bytes > KEPT {
            *kept = Kept::default();
        }
        kept.bytes += expression.len() + ENTRY;
        kept.by_text.insert(expression.into(), compiled.clone());
        compiled
    }
}

/// The compiled expressions of a scheduler, at a level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelectorsAt<'a> {
    selectors: &'a Selectors,
    behaviours: Behaviours,
}

impl<'a> SelectorsAt<'a> {
    pub(crate) const fn new(selectors: &'a Selectors, behaviours: Behaviours) -> Self {
        Self { selectors, behaviours }
    }

    /// Returns the gates of the level, for an allocator that only counts.
    pub(crate) fn gates(&self) -> Gates {
        Gates { behaviours: self.behaviours, ..Gates::default() }
    }
}

impl Compiler for SelectorsAt<'_> {
    fn compile(&mut self, expression: &str) -> Compiled {
        self.selectors.compile(expression, self.behaviours)
    }
}

/// Compiles the expressions for one pod that are not known yet. Long ones take steps, because they
/// take milliseconds.
pub(crate) struct SelectorsOfPod<'a> {
    selectors: SelectorsAt<'a>,
    long: &'a mut LongSearches,
    /// The bytes that were compiled.
    bytes: usize,
}

impl<'a> SelectorsOfPod<'a> {
    pub(crate) const fn new(selectors: SelectorsAt<'a>, long: &'a mut LongSearches) -> Self {
        Self { selectors, long, bytes: 0 }
    }
}

impl Compiler for SelectorsOfPod<'_> {
    fn compile(&mut self, expression: &str) -> Compiled {
        if let Some(known) = self.selectors.selectors.known(expression) {
            return known;
        }
        self.bytes += expression.len();
        match self.bytes <= FREE || self.long.take_text(expression.len()) {
            true => self.selectors.compile(expression),
            false => Ok(Arc::new(NotCompiled)),
        }
    }
}

/// An expression that there were no steps to compile. It takes more steps than there can be, so the
/// search ends.
#[derive(Debug)]
struct NotCompiled;

impl Expression for NotCompiled {
    fn matches(&self, _: &DeviceDescription, cost: &mut u64) -> Result<bool, Box<str>> {
        *cost = u64::MAX;
        Ok(false)
    }

    fn reads_alike(&self, _: &DeviceDescription, _: &DeviceDescription) -> bool {
        false
    }
}

/// A driver, and whether its devices match.
type OfDriver = (Arc<str>, bool);

/// A compiled expression over devices.
#[derive(Debug)]
struct DeviceSelector {
    selector: Selector,
    /// The latest driver and its result, if the expression reads nothing else, like the expressions
    /// of most classes.
    of_driver: Option<Mutex<Option<OfDriver>>>,
    /// Whether attributes may be lists. At level 1.36 they are values of an unknown type.
    reads_lists: bool,
}

impl DeviceSelector {
    fn new(selector: Selector, behaviours: Behaviours) -> Self {
        let reads_driver_only = match selector.reads() {
            Reads::Everything => false,
            Reads::Only(reads) => reads.iter().all(|read| *read == Read::Driver),
        };
        let of_driver = reads_driver_only.then(Mutex::default);
        Self { selector, of_driver, reads_lists: behaviours.selectors_read_lists }
    }

    /// Whether an attribute of the device has no value, so that the selector fails.
    const fn is_unreadable(&self, device: &DeviceDescription) -> bool {
        device.has_unreadable_attribute || device.has_list_attribute && !self.reads_lists
    }

    fn evaluate(&self, device: &DeviceDescription, cost: &mut u64) -> Result<bool, Box<str>> {
        let view = self.view_of(device);
        let matched = view.and_then(|view| {
            let evaluation = self.selector.evaluate(&view);
            *cost = cost.saturating_add(evaluation.effort);
            evaluation.result
        });
        matched.map_err(|error| error.to_string().into())
    }

    /// Returns what the selector reads of the device.
    ///
    /// # Errors
    /// An attribute has no value, whether or not it is read.
    fn view_of<'a>(&'a self, device: &'a DeviceDescription) -> Result<DeviceView<'a>, EvalError> {
        let DeviceDescription { driver, attributes, capacity, .. } = device;
        let reads = self.selector.reads();
        let mut view = DeviceView::read_by(reads, driver);
        view.set_allow_multiple_allocations(device.allows_multiple_allocations);
        let add = |view: &mut DeviceView<'a>, name: &'a str, value: &'a Attribute| {
            let value = match value.is_list() && !self.reads_lists {
                true => AttributeValue::Unsupported,
                false => value_of(value),
            };
            view.add_attribute(name, value)
        };
        let add_attributes = |view: &mut DeviceView<'a>| {
            attributes.iter().try_for_each(|(name, value)| add(view, name, value))
        };
        let add_capacities = |view: &mut DeviceView<'a>| {
            capacity.iter().for_each(|(name, own)| view.add_capacity(name, own.value.quantity()));
        };
        let Reads::Only(reads) = reads else {
            add_attributes(&mut view)?;
            add_capacities(&mut view);
            return Ok(view);
        };
        if self.is_unreadable(device) {
            add_attributes(&mut view)?;
        }
        for read in reads {
            match read {
                Read::Driver | Read::AllowMultipleAllocations => {}
                Read::Attribute { domain, id } => {
                    if let Some((name, value)) = find_named(attributes, driver, domain, id) {
                        add(&mut view, name, value)?;
                    }
                }
                Read::Capacity { domain, id } => {
                    if let Some((name, own)) = find_named(capacity, driver, domain, id) {
                        view.add_capacity(name, own.value.quantity());
                    }
                }
                Read::AttributeDomain(_) => add_attributes(&mut view)?,
                Read::CapacityDomain(_) => add_capacities(&mut view),
            }
        }
        Ok(view)
    }
}

impl Expression for DeviceSelector {
    fn matches(&self, device: &DeviceDescription, cost: &mut u64) -> Result<bool, Box<str>> {
        let of_driver = self.of_driver.as_ref().filter(|_| !self.is_unreadable(device));
        let Some(latest) = of_driver else { return self.evaluate(device, cost) };
        // A panic leaves the pair consistent: it is replaced as a whole.
        let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((driver, matches)) = &*latest
            && *driver == device.driver
        {
            return Ok(*matches);
        }
        let matches = self.evaluate(device, cost)?;
        *latest = Some((device.driver.clone(), matches));
        Ok(matches)
    }

    fn cannot_fail(&self, device: &DeviceDescription) -> bool {
        let Reads::Only(reads) = self.selector.reads() else { return false };
        self.selector.is_total()
            && !self.is_unreadable(device)
            && reads.iter().all(|read| has_comparable(device, read))
    }

    fn names_attributes(&self) -> bool {
        let is_named = |read: &Read| !matches!(read, Read::AttributeDomain(_));
        matches!(self.selector.reads(), Reads::Only(reads) if reads.iter().all(is_named))
    }

    fn reads_alike(&self, one: &DeviceDescription, other: &DeviceDescription) -> bool {
        match self.selector.reads() {
            Reads::Everything => one == other,
            Reads::Only(reads) => {
                one.driver == other.driver
                    && !self.is_unreadable(one)
                    && !self.is_unreadable(other)
                    && reads.iter().all(|read| is_alike(read, one, other))
            }
        }
    }
}

fn value_of(value: &Attribute) -> AttributeValue<'_> {
    match value {
        Attribute::Int(number) => AttributeValue::Int(*number),
        Attribute::Bool(value) => AttributeValue::Bool(*value),
        Attribute::String(text) => AttributeValue::String(text),
        Attribute::Version(text) => AttributeValue::Version(text),
        Attribute::Ints(numbers) => AttributeValue::Ints(numbers),
        Attribute::Bools(values) => AttributeValue::Bools(values),
        Attribute::Strings(texts) => AttributeValue::Strings(texts),
        Attribute::Versions(texts) => AttributeValue::Versions(texts),
        Attribute::Unsupported => AttributeValue::Unsupported,
    }
}

/// Whether the device has the attribute or capacity, and its value is neither a version nor a list.
fn has_comparable(device: &DeviceDescription, read: &Read) -> bool {
    let DeviceDescription { driver, attributes, capacity, .. } = device;
    match read {
        Read::Driver | Read::AllowMultipleAllocations => true,
        Read::Attribute { domain, id } => find_named(attributes, driver, domain, id)
            .is_some_and(|(_, value)| !matches!(value, Attribute::Version(_)) && !value.is_list()),
        Read::Capacity { domain, id } => find_named(capacity, driver, domain, id).is_some(),
        Read::AttributeDomain(_) | Read::CapacityDomain(_) => false,
    }
}

/// Whether both devices, of one driver, have equal values for what is read.
fn is_alike(read: &Read, one: &DeviceDescription, other: &DeviceDescription) -> bool {
    match read {
        Read::Driver => true,
        Read::AllowMultipleAllocations => {
            one.allows_multiple_allocations == other.allows_multiple_allocations
        }
        Read::Attribute { domain, id } => {
            let find = |device| -> Option<&Attribute> {
                let DeviceDescription { attributes, driver, .. }: &DeviceDescription = device;
                find_named(attributes, driver, domain, id).map(|(_, value)| value)
            };
            find(one) == find(other)
        }
        Read::Capacity { domain, id } => {
            let find = |device| -> Option<&Amount> {
                let DeviceDescription { capacity, driver, .. }: &DeviceDescription = device;
                find_named(capacity, driver, domain, id).map(|(_, own)| &own.value)
            };
            find(one) == find(other)
        }
        // Whole domains are rare, and a comparison of everything is safe.
        Read::AttributeDomain(_) => one.attributes == other.attributes,
        Read::CapacityDomain(_) => one.capacity == other.capacity,
    }
}

/// Returns the value with this domain and id, as selectors read it, with its name: the last one. A
/// name without a domain belongs to the domain of the driver.
fn find_named<'a, T>(
    values: &'a [(Arc<str>, T)],
    driver: &str,
    domain: &str,
    id: &str,
) -> Option<(&'a Arc<str>, &'a T)> {
    let is_named = |name: &str| match name.strip_suffix(id) {
        Some("") => driver == domain,
        Some(rest) => rest.strip_suffix('/') == Some(domain),
        None => false,
    };
    let found = values.iter().rev().find(|(name, _)| is_named(name));
    found.map(|(name, value)| (name, value))
}

#[cfg(test)]
mod tests {
    use framework::{Level, Time};

    use super::*;

    fn device(driver: &str, version: &str) -> DeviceDescription {
        let attributes = [("v".into(), Attribute::Version(version.into()))];
        DeviceDescription {
            driver: driver.into(),
            attributes: attributes.into(),
            has_unreadable_attribute: version == "1.2",
            ..DeviceDescription::default()
        }
    }

    #[test]
    fn selector_of_driver_is_evaluated_for_each_driver_and_fails_for_bad_attributes() {
        let selectors = Selectors::default();
        let selector = selectors.compile("device.driver == 'a.com'", Behaviours::default());
        let selector = selector.unwrap();
        let matches = |driver, version| selector.matches(&device(driver, version), &mut 0);
        for _ in 0..2 {
            assert_eq!(matches("a.com", "1.2.3"), Ok(true));
            assert_eq!(matches("b.com", "1.2.3"), Ok(false));
            assert!(matches("b.com", "1.2").is_err());
            assert!(matches("a.com", "1.2").is_err());
        }
    }

    #[test]
    fn lists_are_read_from_1_37_on_and_fail_every_selector_before() {
        let texts = |own: &[&str]| own.iter().map(|text| (*text).into()).collect();
        let attributes = [
            ("bits".into(), Attribute::Bools([true, false].into())),
            ("id".into(), Attribute::Int(7)),
            ("numas".into(), Attribute::Ints([1, 2].into())),
            ("releases".into(), Attribute::Versions(texts(&["1.0.0", "2.0.0"]))),
            ("roots".into(), Attribute::Strings(texts(&["pci-0", "pci-1"]))),
        ];
        let device = DeviceDescription {
            driver: "a.com".into(),
            attributes: attributes.into(),
            has_list_attribute: true,
            ..DeviceDescription::default()
        };
        let list = "CEL result of type list could not be converted to bool";
        let rows: [(&str, Result<bool, &str>); 12] = [
            ("device.driver == 'a.com'", Ok(true)),
            ("own.id == 7", Ok(true)),
            ("own.roots.includes('pci-1')", Ok(true)),
            ("own.roots.includes('pci-2')", Ok(false)),
            ("own.id.includes(7)", Ok(true)),
            ("'pci-0' in own.roots", Ok(true)),
            ("own.numas.size() == 2 && own.numas[1] == 2", Ok(true)),
            ("own.numas.exists(numa, numa > 1)", Ok(true)),
            ("own.bits.all(bit, bit)", Ok(false)),
            ("own.releases.exists(it, it.isGreaterThan(semver('1.5.0')))", Ok(true)),
            ("own.releases.includes(semver('2.0.0'))", Ok(true)),
            ("own.roots", Err(list)),
        ];
        for (text, expected) in rows {
            let text = text.replace("own.", "device.attributes['a.com'].");
            for (level, expected) in [
                (Level::V1_37, expected),
                (Level::V1_36, Err("attribute bits: unsupported attribute value")),
            ] {
                let selectors = Selectors::default();
                let selector = selectors.compile(&text, Behaviours::of(level)).unwrap();
                let found = selector.matches(&device, &mut 0);
                let found = found.map_err(|error| {
                    error.split_once(": type conversion").map_or(&*error, |(it, _)| it).to_owned()
                });
                assert_eq!(found, expected.map_err(str::to_owned), "{level}: {text}");
                assert!(!selector.cannot_fail(&device) || found.is_ok(), "{level}: {text}");
            }
        }
    }

    #[test]
    fn long_expressions_of_one_tenant_are_compiled_one_after_the_other() {
        let selectors = Selectors::default();
        let at_level = SelectorsAt::new(&selectors, Behaviours::default());
        let mut long = LongSearches::default();
        let device = device("a.com", "1.2.3");
        let compiled = |start: usize, long: &mut LongSearches| {
            let mut of_pod = SelectorsOfPod::new(at_level, long);
            let text = |number: usize| format!("device.driver == '{number}{}'", "x".repeat(3_000));
            let has_result = |number: usize| {
                let mut cost = 0;
                let own = of_pod.compile(&text(number)).unwrap();
                own.matches(&device, &mut cost).unwrap();
                cost < u64::MAX
            };
            (start..start + 100).map(has_result).filter(|own| *own).count()
        };
        let first = compiled(0, &mut long);
        assert!((10..100).contains(&first), "{first}");
        assert_eq!(compiled(0, &mut long), first, "what is compiled is kept");
        let mut of_pod = SelectorsOfPod::new(at_level, &mut long);
        let usual = of_pod.compile("device.driver == 'b.com'");
        let mut cost = 0;
        assert_eq!(usual.unwrap().matches(&device, &mut cost), Ok(false));
        assert!(cost < 100, "others need no steps");
        long.refill(Time::from_secs(1));
        assert!(compiled(0, &mut long) > first);
    }
}
