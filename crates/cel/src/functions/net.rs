//! Addresses of networks and hosts.

use std::net::IpAddr;

use super::{Library, no_overload};
use crate::meter::Meter;
use crate::value::{Cidr, Fault, Outcome, Value};

/// The functions of addresses.
pub(crate) const LIBRARY: &Library = &[
    ("ip", ip, &["string_to_ip (string) -> ip", "cidr_ip cidr.() -> ip"]),
    ("isIP", is_ip, &["is_ip (string) -> bool"]),
    ("ip.isCanonical", is_canonical, &["ip_is_canonical (string) -> bool"]),
    ("family", family, &["ip_family ip.() -> int"]),
    (
        "isUnspecified",
        |_, args| test("isUnspecified", args, |ip| ip.is_unspecified()),
        &["ip_is_unspecified ip.() -> bool"],
    ),
    (
        "isLoopback",
        |_, args| test("isLoopback", args, |ip| ip.is_loopback()),
        &["ip_is_loopback ip.() -> bool"],
    ),
    (
        "isLinkLocalMulticast",
        |_, args| test("isLinkLocalMulticast", args, is_link_local_multicast),
        &["ip_is_link_local_multicast ip.() -> bool"],
    ),
    (
        "isLinkLocalUnicast",
        |_, args| test("isLinkLocalUnicast", args, is_link_local_unicast),
        &["ip_is_link_local_unicast ip.() -> bool"],
    ),
    (
        "isGlobalUnicast",
        |_, args| test("isGlobalUnicast", args, is_global_unicast),
        &["ip_is_global_unicast ip.() -> bool"],
    ),
    ("cidr", cidr, &["string_to_cidr (string) -> cidr"]),
    ("isCIDR", is_cidr, &["is_cidr (string) -> bool"]),
    (
        "containsIP",
        contains_ip,
        &["cidr_contains_ip_string cidr.(string) -> bool", "cidr_contains_ip_ip cidr.(ip) -> bool"],
    ),
    (
        "containsCIDR",
        contains_cidr,
        &[
            "cidr_contains_cidr_string cidr.(string) -> bool",
            "cidr_contains_cidr cidr.(cidr) -> bool",
        ],
    ),
    ("prefixLength", prefix_length, &["cidr_prefix_length cidr.() -> int"]),
    ("masked", masked, &["cidr_masked cidr.() -> cidr"]),
];

/// Parses an address.
///
/// # Errors
///
/// A text that is not an address, an address with a zone, or an IPv4 address in the form of IPv6.
fn parse_ip(text: &str) -> Result<IpAddr, Fault> {
    if let Some((address, zone)) = text.split_once('%')
        && !zone.is_empty()
        && matches!(address.parse(), Ok(IpAddr::V6(_)))
    {
        return Err(Fault::new(format!("IP address {text:?} with zone value is not allowed")));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        Fault::new(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): \
             unable to parse IP"
        ))
    })?;
    match address {
        IpAddr::V6(long) if long.to_ipv4_mapped().is_some() => {
            Err(Fault::new(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        other => Ok(other),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, Fault> {
    const CONTEXT: &str = "network address parse error during conversion from string: ";
    let error = |reason: &str| {
        Fault::new(format!("{CONTEXT}{CONTEXT}netip.ParsePrefix({text:?}): {reason}"))
    };
    let Some((address, bits)) = text.rsplit_once('/') else { return Err(error("no '/'")) };
    if address.contains('%') {
        return Err(error("IPv6 zones cannot be present in a prefix"));
    }
    let address: IpAddr = address
        .parse()
        .map_err(|_| error(&format!("ParseAddr({address:?}): unable to parse IP")))?;
    if matches!(address, IpAddr::V6(long) if long.to_ipv4_mapped().is_some()) {
        return Err(Fault::new(format!(
            "{CONTEXT}IPv4-mapped IPv6 address {text:?} is not allowed"
        )));
    }
    let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || (bits.len() > 1 && bits.starts_with('0')) {
        return Err(error(&format!("bad bits after slash: {bits:?}")));
    }
    match bits.parse() {
        Ok(bits) if bits <= width(&address) => Ok(Cidr { address, bits }),
        Ok(_) => Err(error("prefix length out of range")),
        Err(_) => Err(error(&format!("bad bits after slash: {bits:?}"))),
    }
}

fn width(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the address as one number, in the high bits.
fn number(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(short) => u128::from(short.to_bits()) << 96,
        IpAddr::V6(long) => long.to_bits(),
    }
}

fn mask(address: &IpAddr, bits: u8) -> IpAddr {
    let ones = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    let masked = number(address) & ones;
    match address {
        IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::from_bits((masked >> 96) as u32)),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::from_bits(masked)),
    }
}

fn covers(cidr: &Cidr, address: &IpAddr) -> bool {
    cidr.address.is_ipv4() == address.is_ipv4()
        && mask(&cidr.address, cidr.bits) == mask(address, cidr.bits)
}

fn is_link_local_multicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(ip: &IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(is_broadcast
        || ip.is_unspecified()
        || ip.is_loopback()
        || ip.is_multicast()
        || is_link_local_unicast(ip))
}

/// Prints a network.
pub(crate) fn print_cidr(cidr: &Cidr) -> String {
    format!("{}/{}", cidr.address, cidr.bits)
}

fn ip<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => parse_ip(text).map(Value::Ip),
        [Value::Cidr(cidr)] => Ok(Value::Ip(cidr.address)),
        _ => no_overload("ip", args),
    }
}

fn is_ip<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text).is_ok())),
        _ => no_overload("isIP", args),
    }
}

fn is_canonical<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text)?.to_string() == **text)),
        _ => no_overload("ip.isCanonical", args),
    }
}

fn family<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Ip(ip)] => Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        _ => no_overload("family", args),
    }
}

fn test<'a>(function: &str, args: &[Value<'a>], holds: fn(&IpAddr) -> bool) -> Outcome<'a> {
    match args {
        [Value::Ip(ip)] => Ok(Value::Bool(holds(ip))),
        _ => no_overload(function, args),
    }
}

fn cidr<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => parse_cidr(text).map(Value::Cidr),
        _ => no_overload("cidr", args),
    }
}

fn is_cidr<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse_cidr(text).is_ok())),
        _ => no_overload("isCIDR", args),
    }
}

fn contains_ip<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Cidr(cidr), Value::Ip(ip)] => Ok(Value::Bool(covers(cidr, ip))),
        [Value::Cidr(cidr), Value::String(text)] => Ok(Value::Bool(covers(cidr, &parse_ip(text)?))),
        _ => no_overload("containsIP", args),
    }
}

fn contains_cidr<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (outer, inner) = match args {
        [Value::Cidr(outer), Value::Cidr(inner)] => (outer, *inner),
        [Value::Cidr(outer), Value::String(text)] => (outer, parse_cidr(text)?),
        _ => return no_overload("containsCIDR", args),
    };
    Ok(Value::Bool(outer.bits <= inner.bits && covers(outer, &inner.address)))
}

fn prefix_length<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Cidr(cidr)] => Ok(Value::Int(i64::from(cidr.bits))),
        _ => no_overload("prefixLength", args),
    }
}

fn masked<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Cidr(Cidr { address, bits })] => {
            Ok(Value::Cidr(Cidr { address: mask(address, *bits), bits: *bits }))
        }
        _ => no_overload("masked", args),
    }
}
