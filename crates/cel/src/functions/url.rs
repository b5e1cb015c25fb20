//! URLs.

use std::sync::Arc;

use super::{Library, no_overload};
use crate::meter::Meter;
use crate::value::{Fault, Outcome, Value};

/// The functions of URLs.
pub(crate) const LIBRARY: &Library = &[
    ("url", url, &["string_to_url (string) -> url"]),
    ("isURL", is_url, &["is_url_string (string) -> bool"]),
    (
        "getScheme",
        |_, args| part("getScheme", args, |url| url.scheme.clone()),
        &["url_get_scheme url.() -> string"],
    ),
    (
        "getHost",
        |_, args| part("getHost", args, |url| url.host.clone()),
        &["url_get_host url.() -> string"],
    ),
    (
        "getHostname",
        |_, args| part("getHostname", args, |url| url.hostname().to_owned()),
        &["url_get_hostname url.() -> string"],
    ),
    (
        "getPort",
        |_, args| part("getPort", args, |url| url.port().to_owned()),
        &["url_get_port url.() -> string"],
    ),
    (
        "getEscapedPath",
        |_, args| part("getEscapedPath", args, Url::escaped_path),
        &["url_get_escaped_path url.() -> string"],
    ),
    ("getQuery", query, &["url_get_query url.() -> map(string, list(string))"]),
];

/// An absolute URL, or an absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    /// Host and port.
    host: String,
    /// As written.
    path: String,
    query: String,
    /// The rest behind the parts above, which is not looked at.
    rest: String,
}

impl Url {
    /// Parses a URL. The error is a reason in the words of the reference.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let error = |reason: &str| Err(format!("parse {text:?}: {reason}"));
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return error("net/url: invalid control character in URL");
        }
        if text.is_empty() {
            return error("empty url");
        }
        let (scheme, rest) = match scheme(text) {
            Scheme::Found(scheme, rest) => (scheme.to_ascii_lowercase(), rest),
            Scheme::Absent => (String::new(), text),
            Scheme::Missing => return error("missing protocol scheme"),
            Scheme::Colon => return error("first path segment in URL cannot contain colon"),
        };
        if !rest.starts_with('/') {
            // `mailto:a@b` has a scheme, and the rest is opaque.
            if scheme.is_empty() {
                return error("invalid URI for request");
            }
            let (path, query, host) = (String::new(), String::new(), String::new());
            return Ok(Self { scheme, host, path, query, rest: rest.to_owned() });
        }
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let has_authority =
            rest.starts_with("//") && (!scheme.is_empty() || !rest.starts_with("///"));
        let (authority, path) = match rest.strip_prefix("//").filter(|_| has_authority) {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (user, host),
            None => ("", authority),
        };
        if let Some(reason) = invalid_host(host) {
            return error(&reason);
        }
        for part in [path, user] {
            if let Some(escape) = invalid_escape(part) {
                return error(&format!("invalid URL escape {escape:?}"));
            }
        }
        Ok(Self {
            scheme,
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            rest: format!("{user}#{fragment}"),
        })
    }

    fn hostname(&self) -> &str {
        let host = self.split_port().0;
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
            _ => (&self.host, ""),
        }
    }

    fn escaped_path(&self) -> String {
        let mut escaped = String::new();
        for byte in self.path.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/[]%".contains(&byte) {
                escaped.push(char::from(byte));
            } else {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        }
        escaped
    }
}

enum Scheme<'a> {
    Found(&'a str, &'a str),
    Absent,
    /// The text begins with a colon.
    Missing,
    /// The text before the first colon is not a scheme.
    Colon,
}

fn scheme(text: &str) -> Scheme<'_> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Scheme::Missing,
            b':' => return Scheme::Found(&text[..index], &text[index + 1..]),
            _ => {
                let segment = text.split('/').next().unwrap_or_default();
                return if segment.contains(':') { Scheme::Colon } else { Scheme::Absent };
            }
        }
    }
    Scheme::Absent
}

fn invalid_host(host: &str) -> Option<String> {
    if let Some(bracketed) = host.strip_prefix('[') {
        let Some((_, rest)) = bracketed.split_once(']') else {
            return Some("missing ']' in host".to_owned());
        };
        return invalid_port(rest);
    }
    if let Some(bad) = host.chars().find(|it| " \"<>\\^`{|}".contains(*it)) {
        return Some(format!("invalid character {:?} in host name", bad.to_string()));
    }
    match host.rfind(':') {
        Some(colon) => invalid_port(&host[colon..]),
        None => None,
    }
}

fn invalid_port(port: &str) -> Option<String> {
    let digits = port.strip_prefix(':').unwrap_or(port);
    let is_valid = port.is_empty()
        || (port.starts_with(':') && digits.bytes().all(|byte| byte.is_ascii_digit()));
    (!is_valid).then(|| format!("invalid port {port:?} after host"))
}

fn invalid_escape(text: &str) -> Option<&str> {
    text.match_indices('%').map(|(index, _)| &text[index..]).find_map(|escape| {
        let digits = escape.as_bytes().get(1..3);
        let is_valid = digits.is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit));
        (!is_valid).then(|| escape.char_indices().nth(3).map_or(escape, |(end, _)| &escape[..end]))
    })
}

/// Decodes a key or value of a query; `None` if an escape is wrong.
fn unescape(text: &str) -> Option<String> {
    if invalid_escape(text).is_some() {
        return None;
    }
    let mut decoded = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => decoded.push(b' '),
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?].map(char::from);
                let [high, low] = digits.map(|digit| digit.to_digit(16).unwrap_or(0));
                decoded.push((high * 16 + low) as u8);
            }
            other => decoded.push(other),
        }
    }
    Some(String::from_utf8_lossy(&decoded).into_owned())
}

fn url<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return no_overload("url", args) };
    meter.text(text.len())?;
    match Url::parse(text) {
        Ok(url) => Ok(Value::Url(Arc::new(url))),
        Err(error) => {
            Err(Fault::new(format!("URL parse error during conversion from string: {error}")))
        }
    }
}

fn is_url<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_ok())),
        _ => no_overload("isURL", args),
    }
}

fn part<'a>(function: &str, args: &[Value<'a>], part: fn(&Url) -> String) -> Outcome<'a> {
    match args {
        [Value::Url(url)] => Ok(Value::string(part(url))),
        _ => no_overload(function, args),
    }
}

fn query<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Url(url)] = args else { return no_overload("getQuery", args) };
    let mut found: Vec<(String, Vec<Value<'a>>)> = Vec::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(key), Some(value)) = (unescape(key), unescape(value)) else { continue };
        meter.work(found.len() + 1)?;
        match found.iter_mut().find(|(other, _)| *other == key) {
            Some((_, values)) => values.push(Value::string(value)),
            None => found.push((key, vec![Value::string(value)])),
        }
    }
    let entries = found.into_iter().map(|(key, values)| (Value::string(key), Value::list(values)));
    Ok(Value::Map(Arc::new(entries.collect())))
}
