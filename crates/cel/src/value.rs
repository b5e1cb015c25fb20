//! Values of expressions.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use framework::device::Version;

use crate::device::{DeviceView, Scope};
use crate::environment::FactMap;
use crate::functions::format::NamedFormat;
use crate::functions::url::Url;
use crate::meter::Meter;

/// Something borrowed from the device or the expression, or computed and shared.
#[derive(Debug)]
pub(crate) enum Held<'a, T: ?Sized> {
    Borrowed(&'a T),
    Shared(Arc<T>),
}

impl<T: ?Sized> Clone for Held<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Borrowed(value) => Self::Borrowed(value),
            Self::Shared(value) => Self::Shared(Arc::clone(value)),
        }
    }
}

impl<T: ?Sized> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(value) => value,
            Self::Shared(value) => value,
        }
    }
}

impl Held<'_, str> {
    /// Returns the text, shared.
    pub(crate) fn shared(self) -> Arc<str> {
        match self {
            Self::Borrowed(text) => text.into(),
            Self::Shared(text) => text,
        }
    }

    fn into_owned(self) -> Held<'static, str> {
        Held::Shared(self.shared())
    }
}

/// A string.
pub(crate) type Text<'a> = Held<'a, str>;

/// An exact number of billionths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    pub(crate) nanos: i128,
    /// Whether Kubernetes converts the quantity to an integer. It refuses `1000m`, although it is
    /// whole.
    pub(crate) whole: bool,
}

/// A span of time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Duration(pub(crate) i64);

/// A network address with the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

/// The entries of a map in the order of their insertion. Maps are small: the functions that make
/// them cost as much as a scan of it.
pub(crate) type Entries<'a> = Vec<(Value<'a>, Value<'a>)>;

/// A value of CEL.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Held<'a, [u8]>),
    Duration(Duration),
    Timestamp(jiff::Timestamp),
    List(Arc<Vec<Value<'a>>>),
    Map(Arc<Entries<'a>>),
    Optional(Option<Arc<Value<'a>>>),
    Type(Text<'a>),
    Quantity(Amount),
    Version(Held<'a, Version>),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Format(&'static NamedFormat),
    /// A fact that is a map.
    Facts(FactMap<'a>),
    /// The variable `device`.
    Device(&'a DeviceView<'a>),
    /// `device.attributes` or `device.capacity`.
    Domains(&'a DeviceView<'a>, Scope),
    /// The attributes or capacities of one domain.
    Domain(&'a DeviceView<'a>, Scope, Text<'a>),
}

/// The reason an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An error, which `||` and `&&` absorb if the other side decides.
    Error(Cow<'static, str>),
    /// The expression costs more than the limit. Nothing absorbs this.
    TooExpensive,
}

impl Fault {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Error(text.into())
    }

    /// No overload of an operator accepts the values.
    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    /// No overload of a function accepts the values.
    pub(crate) fn no_overload_of(function: &str, args: &[Value<'_>]) -> Self {
        let types: Vec<_> = args.iter().map(Value::type_name).collect();
        Self::new(format!("no such overload: {function}({})", types.join(", ")))
    }
}

/// The outcome of an evaluation.
pub(crate) type Outcome<'a> = Result<Value<'a>, Fault>;

impl<'a> Value<'a> {
    /// Returns the value of a constant, without counting references to its text.
    pub(crate) fn borrow(&'a self) -> Self {
        match self {
            Self::String(text) => Self::String(Held::Borrowed(text)),
            other => other.clone(),
        }
    }

    /// Returns the value without what it borrows.
    pub(crate) fn into_owned(self) -> Value<'static> {
        let owned = |value: &Value<'_>| value.clone().into_owned();
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Uint(value) => Value::Uint(value),
            Self::Double(value) => Value::Double(value),
            Self::String(text) => Value::String(text.into_owned()),
            Self::Bytes(bytes) => Value::Bytes(Held::Shared((*bytes).into())),
            Self::Duration(value) => Value::Duration(value),
            Self::Timestamp(value) => Value::Timestamp(value),
            Self::List(values) => Value::list(values.iter().map(owned).collect()),
            Self::Optional(inner) => Value::Optional(inner.map(|inner| Arc::new(owned(&inner)))),
            Self::Type(text) => Value::Type(text.into_owned()),
            Self::Quantity(value) => Value::Quantity(value),
            Self::Version(version) => Value::Version(Held::Shared(Arc::new((*version).clone()))),
            Self::Url(url) => Value::Url(url),
            Self::Ip(ip) => Value::Ip(ip),
            Self::Cidr(cidr) => Value::Cidr(cidr),
            Self::Format(format) => Value::Format(format),
            map @ (Self::Map(_)
            | Self::Facts(_)
            | Self::Device(_)
            | Self::Domains(..)
            | Self::Domain(..)) => {
                let entries = map.entries().into_iter();
                let entries = entries.map(|(key, value)| (key.into_owned(), value.into_owned()));
                Value::Map(Arc::new(entries.collect()))
            }
        }
    }

    pub(crate) fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Held::Shared(text.into()))
    }

    pub(crate) fn list(values: Vec<Value<'a>>) -> Self {
        Self::List(Arc::new(values))
    }

    pub(crate) fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// Returns the name of the type, as `type` and error texts have it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_)
            | Self::Facts(_)
            | Self::Device(_)
            | Self::Domains(..)
            | Self::Domain(..) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Version(_) => "kubernetes.Semver",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// Returns the name of the type in the implementation that Kubernetes uses, which one of its
    /// error texts has.
    pub(crate) fn go_type_name(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Duration(_) => "types.Duration",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Optional(_) => "*types.Optional",
            Self::Type(_) => "*types.Type",
            Self::Quantity(_) => "cel.Quantity",
            Self::Version(_) => "cel.Semver",
            Self::Url(_) => "cel.URL",
            Self::Ip(_) => "cel.IP",
            Self::Cidr(_) => "cel.CIDR",
            Self::Format(_) => "*cel.Format",
            Self::List(_) | Self::Map(_) | Self::Device(_) => "types.List",
            Self::Facts(_) | Self::Domains(..) | Self::Domain(..) => "types.Map",
        }
    }

    /// Returns the length of a string in characters, of bytes, or of a list or map; `None` for
    /// values without a length.
    pub(crate) fn size(&self) -> Option<u64> {
        let size = match self {
            Self::String(text) => {
                if text.is_ascii() {
                    text.len()
                } else {
                    text.chars().count()
                }
            }
            Self::Bytes(bytes) => bytes.len(),
            Self::List(values) => values.len(),
            Self::Map(entries) => entries.len(),
            Self::Facts(map) => map.entries().len(),
            Self::Device(_) => 4,
            Self::Domains(device, scope) => device.domains(*scope).count(),
            Self::Domain(device, scope, domain) => device.ids(*scope, domain).count(),
            // Both have a size, which only costs: the number of bytes of the address.
            Self::Ip(ip) => bytes_of(ip),
            Self::Cidr(cidr) => bytes_of(&cidr.address),
            _ => return None,
        };
        Some(size as u64)
    }

    /// Returns whether two values are equal. Numbers of different types are compared by value,
    /// other values of different types differ.
    ///
    /// # Errors
    ///
    /// Types of Kubernetes refuse a comparison with another type.
    pub(crate) fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, Fault> {
        meter.work(1)?;
        Ok(match (self, other) {
            (Self::Null, _) | (_, Self::Null) => {
                matches!((self, other), (Self::Null, Self::Null))
            }
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::String(left), Self::String(right)) => **left == **right,
            (Self::Bytes(left), Self::Bytes(right)) => **left == **right,
            (Self::Duration(left), Self::Duration(right)) => left == right,
            (Self::Timestamp(left), Self::Timestamp(right)) => left == right,
            (Self::Type(left), Self::Type(right)) => **left == **right,
            (Self::List(left), Self::List(right)) => {
                Arc::ptr_eq(left, right) || equal_lists(left, right, meter)?
            }
            (Self::Optional(left), Self::Optional(right)) => match (left, right) {
                (Some(left), Some(right)) => left.equals(right, meter)?,
                (left, right) => left.is_none() && right.is_none(),
            },
            (Self::Quantity(left), Self::Quantity(right)) => left.nanos == right.nanos,
            (Self::Version(left), Self::Version(right)) => **left == **right,
            (Self::Url(left), Self::Url(right)) => left == right,
            (Self::Ip(left), Self::Ip(right)) => left == right,
            (Self::Cidr(left), Self::Cidr(right)) => left == right,
            (Self::Format(left), Self::Format(right)) => left.name == right.name,
            (
                Self::Quantity(_)
                | Self::Version(_)
                | Self::Url(_)
                | Self::Ip(_)
                | Self::Cidr(_)
                | Self::Format(_),
                _,
            ) => return Err(Fault::no_such_overload()),
            _ if self.is_map() && other.is_map() => self.equal_maps(other, meter)?,
            _ => compare_numbers(self, other) == Some(Ordering::Equal),
        })
    }

    fn is_map(&self) -> bool {
        matches!(
            self,
            Self::Map(_) | Self::Facts(_) | Self::Device(_) | Self::Domains(..) | Self::Domain(..)
        )
    }

    fn equal_maps(&self, other: &Self, meter: &mut Meter) -> Result<bool, Fault> {
        if self.size() != other.size() {
            return Ok(false);
        }
        for (key, value) in self.entries() {
            if !other.contains_key(&key, meter)? {
                return Ok(false);
            }
            match other.find(&key, meter)? {
                Some(found) if value.equals(&found, meter)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns the entries of a map in a fixed order: sorted for maps of the device, otherwise in
    /// the order of insertion.
    pub(crate) fn entries(&self) -> Vec<(Value<'a>, Value<'a>)> {
        match self {
            Self::Map(entries) => entries.to_vec(),
            Self::Facts(map) => map.entries(),
            Self::Device(device) => {
                let names = ["allowMultipleAllocations", "attributes", "capacity", "driver"];
                let entry = |name| Some((Value::String(Held::Borrowed(name)), device.field(name)?));
                names.into_iter().filter_map(entry).collect()
            }
            Self::Domains(device, scope) => device
                .domains(*scope)
                .map(|domain| {
                    let key = Held::Borrowed(domain);
                    (Value::String(key.clone()), Value::Domain(device, *scope, key))
                })
                .collect(),
            Self::Domain(device, scope, domain) => device
                .ids(*scope, domain)
                .map(|(id, value)| (Value::String(Held::Borrowed(id)), value))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the value of a key. An unknown domain of a device is an empty map.
    pub(crate) fn find(
        &self,
        key: &Value<'a>,
        meter: &mut Meter,
    ) -> Result<Option<Value<'a>>, Fault> {
        Ok(match (self, key) {
            (Self::Map(entries), _) => {
                for (candidate, value) in entries.iter() {
                    if same_key(candidate, key, meter)? {
                        return Ok(Some(value.clone()));
                    }
                }
                None
            }
            (Self::Facts(map), Self::String(name)) => map.find(name),
            (Self::Device(device), Self::String(name)) => device.field(name),
            (Self::Domains(device, scope), Self::String(domain)) => {
                Some(Self::Domain(device, *scope, domain.clone()))
            }
            (Self::Domains(..), _) => Some(Self::Map(Arc::default())),
            (Self::Domain(device, scope, domain), Self::String(id)) => {
                device.value(*scope, domain, id)
            }
            _ => None,
        })
    }

    /// Returns whether a map has a key. Unlike `find`, this is false for an unknown domain.
    pub(crate) fn contains_key(&self, key: &Value<'a>, meter: &mut Meter) -> Result<bool, Fault> {
        match (self, key) {
            (Self::Domains(device, scope), Self::String(domain)) => {
                Ok(device.ids(*scope, domain).next().is_some())
            }
            (Self::Domains(..), _) => Ok(false),
            _ => self.find(key, meter).map(|found| found.is_some()),
        }
    }
}

fn bytes_of(ip: &IpAddr) -> usize {
    match ip {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 16,
    }
}

fn equal_lists(left: &[Value<'_>], right: &[Value<'_>], meter: &mut Meter) -> Result<bool, Fault> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (left, right) in left.iter().zip(right) {
        if !left.equals(right, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether two keys of a map are the same: numbers by value, all others by type and value.
pub(crate) fn same_key(
    left: &Value<'_>,
    right: &Value<'_>,
    meter: &mut Meter,
) -> Result<bool, Fault> {
    match left.equals(right, meter) {
        Err(Fault::Error(_)) => Ok(false),
        other => other,
    }
}

/// Compares two numbers of any type; `None` for other values and NaN.
pub(crate) fn compare_numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Uint(left), Value::Uint(right)) => Some(left.cmp(right)),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
        (Value::Int(left), Value::Uint(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Uint(left), Value::Int(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Int(left), Value::Double(right)) => compare_exactly(i128::from(*left), *right),
        (Value::Uint(left), Value::Double(right)) => compare_exactly(i128::from(*left), *right),
        (Value::Double(left), Value::Int(right)) => {
            compare_exactly(i128::from(*right), *left).map(Ordering::reverse)
        }
        (Value::Double(left), Value::Uint(right)) => {
            compare_exactly(i128::from(*right), *left).map(Ordering::reverse)
        }
        _ => None,
    }
}

/// Compares a whole number of 64 bits with a floating point number. Large numbers are rounded, as
/// in the reference.
fn compare_exactly(left: i128, right: f64) -> Option<Ordering> {
    (left as f64).partial_cmp(&right)
}
