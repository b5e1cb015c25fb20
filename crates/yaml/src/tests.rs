use serde_json::json;

use super::*;

fn value(text: &str) -> Value {
    read(text).unwrap().value
}

#[test]
fn scalars_have_the_types_of_kubectl() {
    let rows = [
        ("yes", json!(true)),
        ("'yes'", json!("yes")),
        ("\"no\"", json!("no")),
        ("off", json!(false)),
        ("y", json!("y")),
        ("!!str yes", json!("yes")),
        ("!!str 010", json!("010")),
        ("|\n  on", json!("on\n")),
        (">-\n  on", json!("on")),
        ("~", json!(null)),
        ("", json!(null)),
        ("1.0", json!(1)),
        ("1.5", json!(1.5)),
        ("0x10", json!(16)),
        ("0o10", json!(8)),
        ("0b11", json!(3)),
        ("010", json!(8)),
        ("-010", json!(-8)),
        ("'010'", json!("010")),
        ("089", json!(89)),
        ("00", json!(0)),
        ("1_000", json!(1000)),
        ("1e3", json!(1000)),
        ("2026-01-01", json!("2026-01-01")),
        ("1.2.3", json!("1.2.3")),
        ("010m", json!("010m")),
        ("0x", json!("0x")),
        ("12e", json!("12e")),
        ("12:30:45", json!("12:30:45")),
        ("_1", json!("_1")),
        ("18446744073709551616", json!(18_446_744_073_709_551_616_f64)),
    ];
    for (scalar, expected) in rows {
        assert_eq!(value(&format!("a: {scalar}\n")), json!({"a": expected}), "{scalar}");
        if !scalar.is_empty() && !scalar.contains('\n') {
            assert_eq!(value(&format!("[{scalar}, x]"))[0], expected, "{scalar}");
        }
    }
    let error = read("a: .inf\n").unwrap_err().to_string();
    assert!(error.contains("json: unsupported value: inf"), "{error}");
}

#[test]
fn single_letters_are_booleans_where_a_boolean_is_expected() {
    assert_eq!(
        value("{name: n, hostNetwork: y, suspend: N, unschedulable: 'y'}"),
        json!({"name": "n", "hostNetwork": true, "suspend": false, "unschedulable": "y"})
    );
}

#[test]
fn keys_are_texts() {
    assert_eq!(
        value("2: a\ntrue: b\n\"on\": c\noff: d\n010: e\n"),
        json!({"2": "a", "true": "b", "on": "c", "false": "d", "8": "e"})
    );
}

#[test]
fn json_keeps_its_scalars() {
    let parsed = read_json("{\"on\": \"yes\", \"<<\": {\"a\": 1}, \"b\": \"010\"}").unwrap();
    assert_eq!(parsed.value, json!({"on": "yes", "<<": {"a": 1}, "b": "010"}));
    assert!(read_json("{} {}").is_err());
}

#[test]
fn anchors_and_merges_are_followed() {
    let base = "x: &x {a: 1, b: 2}\nz: &z {b: 4, c: 5}\n";
    for (merging, expected) in [
        ("{<<: *x, b: 3}", json!({"a": 1, "b": 3})),
        ("{<<: [*x, *z]}", json!({"a": 1, "b": 2, "c": 5})),
        ("{<<: [*z, *x], c: 0}", json!({"a": 1, "b": 4, "c": 0})),
        ("{<<: {a: {d: 1}}}", json!({"a": {"d": 1}})),
        ("{'<<': *x}", json!({"<<": {"a": 1, "b": 2}})),
        ("[*x, {<<: *z}]", json!([{"a": 1, "b": 2}, {"b": 4, "c": 5}])),
    ] {
        let parsed = read(&format!("{base}w: {merging}\n")).unwrap();
        assert_eq!(parsed.value["w"], expected, "{merging}");
        assert!(parsed.repeated.is_empty(), "{merging}: {:?}", parsed.repeated);
    }
    let error = read(&format!("{base}w: {{<<: 3}}\n")).unwrap_err().to_string();
    assert!(error.contains("map merge requires map or sequence of maps"), "{error}");
}

#[test]
fn aliases_do_not_grow_without_a_bound() {
    let list = vec!["x"; 2000].join(", ");
    let mut text = format!("a: &a [{list}]\n");
    for (before, name) in ["a", "b", "c", "d"].into_iter().zip(["b", "c", "d", "e"]) {
        let aliases = vec![format!("*{before}"); 9].join(", ");
        text += &format!("{name}: &{name} [{aliases}]\n");
    }
    let (long, key) = ("x".repeat(10_000), "x".repeat(1000));
    let aliases = vec!["*a"; 1000].join(", ");
    let texts = [
        text,
        format!("a: &a {long}\nb: [{aliases}]\n"),
        format!("a: &a {{{key}: 1}}\nb: [{aliases}]\n"),
    ];
    for text in texts {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains("document contains excessive aliasing"), "{error}");
    }
    assert_eq!(value("a: &a [1, 2]\nb: [*a, *a]\n")["b"], json!([[1, 2], [1, 2]]));
}

#[test]
fn fields_that_are_given_twice_are_found_at_every_depth() {
    let text = "a: {b: 1, b: 2}\nc:\n- {d: null}\n- {d: 1, d: true}\na: 3\n\"a\":\n- 4\n";
    let parsed = read(text).unwrap();
    assert_eq!(parsed.repeated, ["a.b", "c[1].d", "a", "a"]);
    assert_eq!(parsed.value, json!({"a": [4], "c": [{"d": null}, {"d": true}]}));
    let lines: Vec<_> = (0..5).map_while(|index| repeated(text, index)).collect();
    let found: Vec<_> = lines.iter().map(|own| (own.line, own.key.as_str())).collect();
    assert_eq!(found, [(1, "b"), (4, "d"), (5, "a"), (7, "a")]);
}

#[test]
fn a_byte_order_mark_means_nothing() {
    assert_eq!(value("\u{feff}a: yes\n"), json!({"a": true}));
    let error = read_at("\u{feff}a: 1\n- b\n", 5).unwrap_err();
    assert_eq!(error.line(), Some(6));
}

#[test]
fn text_after_the_only_document_is_an_error() {
    for text in ["{a: 1}\n{b: }\n", "{a: 1}\n{b: 2}\n", "a: 1\n...\nb: 2\n"] {
        assert!(read(text).is_ok() && read_at(text, 1).is_err(), "{text}");
    }
    assert_eq!(read_at("a: 1\n...\n", 3).unwrap().value, json!({"a": 1}));
}

#[test]
fn first_document_counts() {
    assert_eq!(value("# comment\n---\na: 1\n---\nb: [\n"), json!({"a": 1}));
    assert_eq!(value("# nothing\n"), json!(null));
}

#[test]
fn types_are_decoded_with_the_path_of_an_error() {
    #[derive(Debug, serde::Deserialize)]
    struct Clusters {
        #[serde(rename = "clusters")]
        _clusters: Vec<Cluster>,
    }
    #[derive(Debug, serde::Deserialize)]
    struct Cluster {
        #[serde(rename = "on")]
        _on: bool,
    }
    decode::<Clusters>("clusters:\n- \"on\": yes\n").unwrap();
    let error = decode::<Clusters>("clusters:\n- \"on\": maybe\n").unwrap_err();
    assert!(error.starts_with("clusters[0].on: "), "{error}");
    let error = decode::<Clusters>("clusters: []\nclusters: []\n").unwrap_err();
    assert_eq!(error, "duplicate field \"clusters\"");
}
