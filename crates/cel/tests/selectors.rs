//! Selectors as users write them, their costs, and the texts of errors.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use framework::Quantity;
use loadmaster_cel::{AttributeValue, DeviceView, Read, Reads, Selector};

const DRIVER: &str = "dra.example.com";

/// A device with attributes of every type, some of another domain.
fn device(memory: &Quantity) -> DeviceView<'_> {
    let mut device = DeviceView::new(DRIVER);
    for (name, value) in [
        ("healthy", AttributeValue::Bool(true)),
        ("numa", AttributeValue::Int(1)),
        ("model", AttributeValue::String("a100")),
        ("services", AttributeValue::String("some_example_value")),
        ("version", AttributeValue::Version("1.2.3")),
        ("other.example.com/pcieRoot", AttributeValue::String("pci0000:00")),
        ("other.example.com/address", AttributeValue::String("10.1.2.3")),
    ] {
        device.add_attribute(name, value).unwrap();
    }
    device.add_capacity("memory", memory);
    device
}

fn evaluate(expression: &str) -> (Result<bool, String>, u64) {
    let memory = "40Gi".parse().unwrap();
    let selector = Selector::compile(expression)
        .unwrap_or_else(|error| panic!("{expression} does not compile: {error}"));
    let evaluation = selector.evaluate(&device(&memory));
    (evaluation.result.map_err(|error| error.to_string()), evaluation.cost)
}

fn compile_error(expression: &str) -> String {
    match Selector::compile(expression) {
        Ok(_) => panic!("{expression} compiles"),
        Err(error) => error.to_string(),
    }
}

/// Checks that all expressions are true.
fn all_true(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(evaluate(expression).0, Ok(true), "{expression}");
    }
}

/// Checks the errors of evaluations.
fn all_fail(expressions: &[(&str, &str)]) {
    for (expression, error) in expressions {
        assert_eq!(evaluate(expression).0, Err((*error).to_owned()), "{expression}");
    }
}

#[test]
fn selectors_with_their_costs() {
    for (expression, matches, cost) in [
        ("true", true, 0),
        ("false", false, 0),
        ("device.driver == 'dra.example.com'", true, 4),
        ("device.attributes['dra.example.com'].healthy", true, 4),
        ("device.attributes['dra.example.com']['healthy']", true, 4),
        ("device.attributes['dra.example.com'].numa > 0", true, 5),
        ("device.attributes['dra.example.com'].model == 'a100'", true, 5),
        ("device.attributes['other.example.com'].pcieRoot.startsWith('pci')", true, 5),
        ("'dra.example.com' in device.attributes", true, 3),
        ("'nosuch' in device.attributes", false, 3),
        ("'nosuch' in device.attributes['nosuch']", false, 4),
        ("cel.bind(d, device.attributes['dra.example.com'], d.healthy)", true, 5),
        ("has(device.attributes['dra.example.com'].healthy)", true, 3),
        ("has(device.attributes['nosuch'].healthy)", false, 3),
        ("device.allowMultipleAllocations == false", true, 3),
        ("device.attributes['dra.example.com'].version.isGreaterThan(semver('0.0.1'))", true, 6),
        (
            "device.attributes['dra.example.com'].version.isGreaterThan(semver('v0.0.1', true)) \
             && isSemver('v1.0.0', true)",
            true,
            7,
        ),
        ("device.capacity['dra.example.com'].memory.isGreaterThan(quantity('1Ki'))", true, 6),
        ("device.capacity['dra.example.com'].memory.compareTo(quantity('40Gi')) >= 0", true, 7),
        (
            "'memory' in device.capacity['dra.example.com'] && \
             device.capacity['dra.example.com'].memory.isGreaterThan(quantity('1Ki'))",
            true,
            10,
        ),
        ("device.attributes['dra.example.com'].services.split('example').size() >= 2", true, 10),
        ("device.attributes['dra.example.com'].model.matches('[^b]?100')", true, 6),
        ("device.attributes['dra.example.com'].model in ['h100', 'a100']", true, 4),
        ("device.attributes['dra.example.com'].model.includes('a100')", true, 5),
        ("device.attributes.exists(x, x == 'dra.example.com')", true, 13),
        ("device.attributes['nosuch'].all(x, false)", true, 4),
        ("1 == 1 || device.attributes['nosuch'].x", true, 1),
        ("int('7') == 7 && [1, 2].size() == 2", true, 3),
    ] {
        assert_eq!(evaluate(expression), (Ok(matches), cost), "{expression}");
    }
}

#[test]
fn errors_of_evaluations() {
    let same = "device.attributes['dra.example.com']";
    all_fail(&[
        (&format!("{same}.nosuch == 'x'"), "no such key: nosuch"),
        ("device.attributes['nosuch'].x.isGreaterThan(quantity('0'))", "no such key: x"),
        ("device.capacity['dra.example.com']['nosuch'].sign() > 0", "no such key: nosuch"),
        (&format!("{same}.model.exists(x, x > 0)"), "got 'types.String', expected iterable type"),
        (&format!("{same}.healthy.exists(x, x)"), "got 'types.Bool', expected iterable type"),
        (&format!("{same}.version.exists(x, x)"), "got 'cel.Semver', expected iterable type"),
        (
            &format!("{same}.model"),
            "CEL result of type string could not be converted to bool: type conversion error from \
             'string' to 'bool'",
        ),
        (
            &format!("{same}.model.isGreaterThan(quantity('1'))"),
            "no such overload: isGreaterThan(string, kubernetes.Quantity)",
        ),
        (&format!("{same}.model + 1 == 2"), "no such overload"),
        (&format!("{same}.healthy + 1 == 2"), "no such overload: _+_"),
        (&format!("{same}.model > 1"), "no such overload"),
        (&format!("!{same}.model"), "no such overload"),
        (&format!("{same}.version == {same}.model"), "no such overload"),
        (&format!("1 / ({same}.numa - 1) == 1"), "division by zero"),
        (&format!("1 % ({same}.numa - 1) == 1"), "modulus by zero"),
        (&format!("9223372036854775807 + {same}.numa == 1"), "integer overflow"),
        ("[1, 2][5] == 1", "index out of bounds: 5"),
        ("{'a': 1}['b'] == 1", "no such key: b"),
        ("semver('1.x.0').major() == 1", "Invalid character(s) found in minor number \"x\""),
        (
            "quantity('x').sign() == 1",
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "quantity('9999999999999999999999999G').asInteger() == 1",
            "cannot convert value to integer",
        ),
        (
            "lists.range(49).includes(60)",
            "'includes' function cannot be applied to lists longer than 48 values",
        ),
        ("[].max() == 1", "max called on empty list"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("false || device.attributes['nosuch'].x", "no such key: x"),
        ("device.attributes['nosuch'].x && true", "no such key: x"),
    ]);
}

#[test]
fn the_cost_limit_ends_an_evaluation() {
    const TOO_EXPENSIVE: &str = "operation cancelled: actual cost limit exceeded";
    let ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let mut nested = "int('1'.find('[0-9]*')) < 100".to_owned();
    for variable in ["a", "b", "c", "d", "e", "f", "g"] {
        nested = format!("{ten}.all({variable}, {nested})");
    }
    let mut doubled = "z.size() > 0".to_owned();
    for _ in 0..90 {
        doubled = format!("cel.bind(z, z + z, {doubled})");
    }
    let doubled = format!("cel.bind(z, lists.range(100), {doubled})");
    let text = doubled.replace("lists.range(100)", "'abcdefghijklmnop'");
    let mut shared = "z == z".to_owned();
    for _ in 0..60 {
        shared = format!("cel.bind(z, [dyn(z), dyn(z)], {shared})");
    }
    let shared = format!("cel.bind(z, [dyn(1)], cel.bind(y, [dyn(1)], {shared}))");
    for expression in [
        &nested,
        &doubled,
        &text,
        "lists.range(1000000).size() > 0",
        "lists.range(100000000).size() > 0",
        "true || lists.range(1000).all(x, lists.range(1000).all(y, y >= 0))",
        "lists.range(1000).all(x, lists.range(1000).all(y, y >= 0)) || true",
        "lists.range(20000).map(x, x).distinct().size() == 1",
        "lists.range(100000).exists(x, 'a'.matches(device.driver + string(x)))",
        "lists.range(3000).transformMap(i, v, v).size() == 3000",
    ] {
        let (result, _) = evaluate(expression);
        if expression.starts_with("true ||") {
            assert_eq!(result, Ok(true), "the right side is not evaluated");
        } else {
            assert_eq!(result, Err(TOO_EXPENSIVE.to_owned()), "{expression}");
        }
    }
    // Shared parts are compared once.
    assert_eq!(evaluate(&shared).0, Ok(true));
}

#[test]
fn errors_of_compilation() {
    for (expression, error) in [
        (
            "device.attributes[",
            "compilation failed: ERROR: <input>:1:19: Syntax error: mismatched input '<EOF>' \
             expecting {'[', '{', '(', '.', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, \
             NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | device.attributes[\n | \
             ..................^",
        ),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("[1]", "must evaluate to bool or the unknown type, not list(int)"),
        ("{'a': [1u]}", "must evaluate to bool or the unknown type, not map(string, list(uint))"),
        ("null", "must evaluate to bool or the unknown type, not null_type"),
        ("quantity('1')", "must evaluate to bool or the unknown type, not kubernetes.Quantity"),
        ("int", "must evaluate to bool or the unknown type, not type(int)"),
        (
            "optional.of('a')",
            "must evaluate to bool or the unknown type, not optional_type(string)",
        ),
        (
            "x",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' (in container \
             '')\n | x\n | ^",
        ),
        (
            "true &&\n foo(1)",
            "compilation failed: ERROR: <input>:2:5: undeclared reference to 'foo' (in container \
             '')\n |  foo(1)\n | ....^",
        ),
        (
            "device.nosuch == 1",
            "compilation failed: ERROR: <input>:1:7: undefined field 'nosuch'\n | device.nosuch == \
             1\n | ......^",
        ),
        (
            "'é' == 1",
            "compilation failed: ERROR: <input>:1:5: found no matching overload for '_==_' applied \
             to '(string, int)'\n | 'é' == 1\n | .．..^",
        ),
        (
            "'a'.matches('[')",
            "compilation failed: ERROR: <input>:1:13: invalid matches argument\n | \
             'a'.matches('[')\n | ............^",
        ),
        (
            "[1, 'a'].size() == 2",
            "compilation failed: ERROR: <input>:1:5: expected type 'int' but found 'string'\n | \
             [1, 'a'].size() == 2\n | ....^",
        ),
        (
            "[1, dyn(2)].size() == 2",
            "compilation failed: ERROR: <input>:1:8: expected type 'int' but found 'dyn'\n | [1, \
             dyn(2)].size() == 2\n | .......^",
        ),
        (
            "device.driver.startsWith(1)",
            "compilation failed: ERROR: <input>:1:25: found no matching overload for 'startsWith' \
             applied to 'string.(int)'\n | device.driver.startsWith(1)\n | \
             ........................^",
        ),
        (
            "device.driver.map(1, 2)",
            "compilation failed: ERROR: <input>:1:19: argument is not an identifier\n | \
             device.driver.map(1, 2)\n | ..................^",
        ),
        (
            "1.exists(x, true)",
            "compilation failed: ERROR: <input>:1:1: expression of type 'int' cannot be range of a \
             comprehension (must be list, map, or dynamic)\n | 1.exists(x, true)\n | ^",
        ),
        (
            "has(device)",
            "compilation failed: ERROR: <input>:1:5: invalid argument to has() macro\n | \
             has(device)\n | ....^",
        ),
        (
            "device.driver.foo == 1",
            "compilation failed: ERROR: <input>:1:14: type 'string' does not support field \
             selection\n | device.driver.foo == 1\n | .............^",
        ),
        (
            "int('x') == 1",
            "program instantiation failed: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
    ] {
        assert_eq!(compile_error(expression), error, "{expression}");
    }
}

#[test]
fn deep_expressions_are_refused() {
    const RULES: &str =
        "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
    const PARTS: &str = "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded";
    for (expression, error) in [
        ("(".repeat(5000), RULES),
        (format!("{}true{}", "(".repeat(5000), ")".repeat(5000)), RULES),
        (format!("{}true{}", "(".repeat(250), ")".repeat(250)), RULES),
        ("[".repeat(10_000), RULES),
        (format!("{}true", "!(".repeat(3000)), RULES),
        (format!("{}true", "true?true:".repeat(2500)), RULES),
        (format!("1{}", "+1".repeat(5000)), PARTS),
        // The relation is the 251st part.
        (format!("1{} == 251", " + 1".repeat(250)), PARTS),
        (format!("a{}", ".a".repeat(5000)), PARTS),
        (format!("a{}", ".a".repeat(251)), PARTS),
        (format!("a{}", "[0]".repeat(3000)), PARTS),
        (format!("a{}", "[0]".repeat(251)), PARTS),
        (format!("a{}", ".a()".repeat(2500)), PARTS),
    ] {
        assert_eq!(compile_error(&expression), error, "{expression}");
    }
}

/// The deepest expressions of the reference are evaluated, in a thread with the stack of the
/// scheduling loop.
#[test]
fn deep_expressions_are_evaluated() {
    for (open, close, levels) in [
        ("(", ")", 249),
        ("!(", ")", 248),
        ("dyn(", ")", 249),
        ("[1].all(x, ", ")", 249),
        ("{1: 2}.transformMap(k, v, ", ") != {}", 100),
        ("cel.bind(x, 1, ", ")", 249),
        ("(true && ", ")", 249),
        ("[false, ", "][1]", 200),
        ("false ? false : ", "", 249),
        ("optional.of(", ").hasValue()", 120),
    ] {
        let expression = format!("{}true{}", open.repeat(levels), close.repeat(levels));
        assert_eq!(evaluate(&expression).0, Ok(true), "{expression}");
    }
    for expression in
        [format!("true{}", " && true".repeat(1200)), format!("1{} == 250", " + 1".repeat(249))]
    {
        assert_eq!(evaluate(&expression).0, Ok(true), "{expression}");
    }
}

#[test]
fn time_zones_have_names() {
    all_true(&[
        "timestamp('2024-07-01T12:00:00Z').getHours('Europe/Berlin') == 14",
        "timestamp('2024-01-01T12:00:00Z').getHours('Europe/Berlin') == 13",
        "timestamp('2024-01-01T02:00:00Z').getDate('America/New_York') == 31",
        "timestamp('2024-01-01T02:00:00Z').getHours('US/Central') == 20",
        "timestamp('1883-11-18T12:00:00Z').getMinutes('America/New_York') == 3",
        "timestamp('2024-01-01T12:00:00Z').getMinutes('Asia/Kolkata') == 30",
        "timestamp('2050-07-01T12:00:00Z').getHours('Europe/Berlin') == 14",
        "timestamp('2024-07-01T12:00:00Z').getHours('UTC') == 12",
        "timestamp('2024-07-01T12:00:00Z').getHours('Local') == 12",
    ]);
    all_fail(&[
        (
            "timestamp('2024-07-01T12:00:00Z').getHours('Europe/Nowhere') == 1",
            "unknown time zone Europe/Nowhere",
        ),
        (
            "timestamp('2024-07-01T12:00:00Z').getHours('europe/berlin') == 1",
            "unknown time zone europe/berlin",
        ),
        (
            "timestamp('2024-07-01T12:00:00Z').getHours('Etc/Unknown') == 1",
            "unknown time zone Etc/Unknown",
        ),
        (
            "timestamp('2024-07-01T12:00:00Z').getHours('../etc/passwd') == 1",
            "time: invalid location name",
        ),
        (
            "timestamp('2024-07-01T12:00:00Z').getHours('a:b') == 1",
            "strconv.Atoi: parsing \"a\": invalid syntax",
        ),
    ]);
}

/// Texts of 10 KiB on which a parser could take long.
#[test]
fn hostile_texts_are_read_quickly() {
    for piece in [
        "a b ", "'", "a,", "]", "1 ? ", "[?", "{a:", "a.", "\\", "\"\"\"", "b'\\x", "!-", "💖",
        "a{", "&&", "in ",
    ] {
        let text = piece.repeat(10_240 / piece.len());
        assert!(Selector::compile(&text).is_err(), "{piece}");
    }
    for (first, piece, last) in [
        ("true", "||a==b&&c", ""),
        ("[1", ",1", "].size() > 0"),
        ("'", "é", "' != ''"),
        ("true", " || true", ""),
    ] {
        let text = format!("{first}{}{last}", piece.repeat(10_000 / piece.len()));
        let _ = Selector::compile(&text);
    }
}

#[test]
fn operators_and_conversions() {
    all_true(&[
        "1 + 2 * 3 - 4 / 2 % 3 == 5",
        "1u + 2u == 3u && 1.5 * 2.0 == 3.0 && -(-1) == 1",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && [1] + [2] == [1, 2]",
        "1 < 2u && 1 < 1.5 && 2u >= 1 && 1.0 == double(1) && dyn(1) == 1u && dyn(1) == 1.0",
        "'a' < 'b' && b'a' < b'b' && false < true",
        "[1, 2] == [1, 2] && {'a': 1, 'b': 2} == {'b': 2, 'a': 1} && [1] != [2]",
        "dyn('1') != 1 && null == null && dyn(null) != 1",
        "true ? true : false",
        "(true ? {'a': 1} : {'a': 2}).a == 1",
        "2 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1} && !(1 in [])",
        "size('été') == 3 && size([1]) == 1 && {'a': 1}.size() == 1 && b'abc'.size() == 3",
        "int('42') == 42 && int(4.9) == 4 && int(7u) == 7 && uint('3') == 3u && uint(3) == 3u",
        "string(1) == '1' && string(1.5) == '1.5' && string(true) == 'true' && string(b'a') == 'a'",
        "double('1.5') == 1.5 && bool('true') && bytes('a') == b'a'",
        "type(1) == int && type('a') == string && type([1]) == list && type(device.driver) == string",
        "duration('1h30m').getMinutes() == 90 && string(duration('1.5s')) == '1.5s'",
        "duration('1h') + duration('1m') == duration('61m') && duration('-1s') < duration('0')",
        "timestamp('2024-02-29T12:30:45Z').getFullYear() == 2024",
        "timestamp('2024-02-29T12:30:45Z').getDate() == 29",
        "timestamp('2024-02-29T23:30:45Z').getDate('+01:00') == 1",
        "timestamp('2024-02-29T00:00:00Z') + duration('24h') == timestamp('2024-03-01T00:00:00Z')",
        "timestamp('2024-02-29T00:00:00Z').getDayOfWeek() == 4",
    ]);
}

#[test]
fn macros() {
    all_true(&[
        "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x == 2)",
        "![1, 1].exists_one(x, x == 1) && [1, 2].existsOne(x, x == 1)",
        "[1, 2].map(x, x * 2) == [2, 4] && [1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x > 1) == [2, 3]",
        "{'a': 1}.all(k, k == 'a') && {'a': 1}.map(k, k) == ['a']",
        "[1, 2].all(i, v, v == i + 1) && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[5, 6].existsOne(i, v, v == 6) && [5, 6].transformList(i, v, v - i) == [5, 5]",
        "[5, 6].transformList(i, v, i > 0, v) == [6]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v + 1) == {'b': 3}",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        "cel.bind(x, 1, cel.bind(y, x + 1, x + y == 3))",
        // An error is hidden if another element decides.
        "[0, 1].exists(x, 1 / x == 1) && ![0, 1].all(x, 1 / x == 2)",
        "[[1, 2], [3]].map(l, l.map(x, x + 1)) == [[2, 3], [4]]",
    ]);
}

#[test]
fn optional_values() {
    all_true(&[
        "device.?attributes['dra.example.com'].?model.orValue('x') == 'a100'",
        "device.attributes['dra.example.com'].?nosuch.orValue('x') == 'x'",
        "device.attributes['dra.example.com'][?'nosuch'].orValue(true)",
        "!device.attributes['dra.example.com'].?nosuch.hasValue()",
        "{'a': 1}.?a.value() == 1 && [1][?5].or(optional.of(2)).value() == 2",
        "optional.of(1).optMap(x, x + 1).value() == 2",
        "!optional.none().optMap(x, x + 1).hasValue()",
        "optional.of(1).optFlatMap(x, optional.of(x + 1)).value() == 2",
        "[?optional.of(1), ?optional.none()] == [1] && {?'a': optional.none()}.size() == 0",
        "!optional.ofNonZeroValue('').hasValue() && optional.ofNonZeroValue(1).hasValue()",
        "optional.of(1) == optional.of(1) && optional.none() != optional.of(1)",
    ]);
}

#[test]
fn strings() {
    all_true(&[
        "'tacocat'.charAt(3) == 'o' && 'tacocat'.charAt(7) == ''",
        "'tacocat'.indexOf('ac') == 1 && 'tacocat'.indexOf('none') == -1",
        "'tacocat'.indexOf('a', 3) == 5 && 'tacocat'.lastIndexOf('at') == 5",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
        "'TacoCat'.lowerAscii() == 'tacocat' && 'a'.upperAscii() == 'A' && ' a '.trim() == 'a'",
        "'hello hello'.replace('he', 'we') == 'wello wello'",
        "'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'a b c'.split(' ') == ['a', 'b', 'c'] && 'a b c'.split(' ', 2) == ['a', 'b c']",
        "'abc'.split('') == ['a', 'b', 'c'] && 'a b'.split(' ', 0) == []",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "'%d %s %.2f %x %%'.format([dyn(1), dyn('a'), dyn(1.5), dyn(255)]) == '1 a 1.50 ff %'",
        "'%s and %d'.format([dyn('a'), dyn(3)]) == 'a and 3'",
        "'%s'.format([[1, 2]]) == '[1, 2]' && '%.3e'.format([1052.032911275]) == '1.052e+03'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')",
        "'abc'.matches('^a.c$') && matches('abc', 'b') && !'abc'.matches('^b')",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "'a1b2'.findAll('[0-9]', 1) == ['1']",
    ]);
    all_fail(&[
        ("'abc'.charAt(4) == ''", "index out of range: 4"),
        ("'abc'.substring(5) == ''", "index out of range: 5"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
    ]);
}

#[test]
fn lists_and_sets() {
    all_true(&[
        "[1, 2].isSorted() && ![2, 1].isSorted() && [1, 2].sum() == 3 && [1.5, 2.5].sum() == 4.0",
        "[1, 3, 2].max() == 3 && [1, 3, 2].min() == 1 && ['b', 'a'].min() == 'a'",
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(3) == -1",
        "[1, 2, 3].slice(1, 2) == [2] && [[1], [2, 3]].flatten() == [1, 2, 3]",
        "[3, 1, 2].sort() == [1, 2, 3] && ['bb', 'a'].sortBy(x, x.size()) == ['a', 'bb']",
        "lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1]",
        "[1, 2, 1].distinct() == [1, 2]",
        "sets.contains([1, 2], [1]) && !sets.contains([1], [2]) && sets.intersects([1, 2], [2])",
        "sets.equivalent([1, 2], [2, 1, 1]) && !sets.equivalent([1], [1, 2])",
        "[1, 2].includes(2) && 'a'.includes('a') && !'a'.includes('b')",
    ]);
    all_fail(&[("[1].slice(0, 2) == []", "cannot slice(0, 2), list is length 1")]);
}

#[test]
fn quantities_and_versions() {
    all_true(&[
        "isQuantity('1.3Gi') && !isQuantity('1.3GiB')",
        "quantity('1Gi').isGreaterThan(quantity('1000Mi')) && quantity('1').isLessThan(quantity('2'))",
        "quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('1k') == quantity('1000')",
        "quantity('50k').add(quantity('20k')) == quantity('70k')",
        "quantity('50k').add(20) == quantity('50020') && quantity('50k').sub(20000) == quantity('30k')",
        "quantity('-1').sign() == -1 && quantity('0').sign() == 0",
        "quantity('50M').isInteger() && quantity('50M').asInteger() == 50000000",
        "!quantity('1500m').isInteger() && quantity('1500m').asApproximateFloat() == 1.5",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "isSemver('1.0.0') && !isSemver('v1.0.0') && isSemver('v1.0', true)",
        "semver('1.0.0-rc1').isLessThan(semver('1.0.0')) && semver('1.0.0+a') == semver('1.0.0')",
        "semver('1.2.3').compareTo(semver('2.0.0')) == -1",
    ]);
}

#[test]
fn addresses_urls_and_formats() {
    all_true(&[
        "isIP(device.attributes['other.example.com'].address) && !isIP('a')",
        "ip('127.0.0.1').family() == 4 && ip('::1').family() == 6 && ip('::1').isLoopback()",
        "ip('0.0.0.0').isUnspecified() && ip('169.254.0.1').isLinkLocalUnicast()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('10.0.0.1').isGlobalUnicast()",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && string(ip('10.0.0.1')) == '10.0.0.1'",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').prefixLength() == 8",
        "cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
        "url('https://a.example:80/b c?x=1&x=2&y=').getHost() == 'a.example:80' && isURL('/a')",
        "url('https://a.example:80/b').getHostname() == 'a.example'",
        "url('https://a.example:80/b').getPort() == '80' && url('https://a/b').getScheme() == 'https'",
        "url('https://a/b c').getEscapedPath() == '/b%20c'",
        "url('https://a/b?x=1&x=2&y=%41').getQuery() == {'x': ['1', '2'], 'y': ['A']}",
        "!isURL('a') && !isURL('../a') && isURL('https://[::1]:80/')",
        "!format.dns1123Label().validate('my-name').hasValue()",
        "format.dns1123Label().validate('My').value().size() == 1",
        "!format.named('uuid').value().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "!format.named('nosuch').hasValue() && format.date().validate('2021-13-01').hasValue()",
        "!format.byte().validate('aGVsbG8=').hasValue() && format.uri().validate('a').hasValue()",
        "!format.dns1035LabelPrefix().validate('a-').hasValue()",
        "!format.qualifiedName().validate('a.b/c').hasValue() && !format.labelValue().validate('').hasValue()",
    ]);
    all_fail(&[(
        "ip('x').family() == 4",
        "IP Address \"x\" parse error during conversion from string: ParseAddr(\"x\"): unable to \
         parse IP",
    )]);
}

#[test]
fn bad_attributes_fail_before_the_evaluation() {
    let mut device = DeviceView::new(DRIVER);
    let error = device.add_attribute("a", AttributeValue::Unsupported).unwrap_err();
    assert_eq!(error.to_string(), "attribute a: unsupported attribute value");
    let error = device.add_attribute("b", AttributeValue::Version("1")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "attribute b: parse semantic version: No Major.Minor.Patch elements found"
    );
}

/// Adds attributes and capacities as a slice has them: some names have a domain.
fn fill<'a>(mut device: DeviceView<'a>, memory: &'a Quantity) -> DeviceView<'a> {
    for (name, value) in [
        ("a/x", AttributeValue::Int(1)),
        ("b/x", AttributeValue::String("b")),
        ("x", AttributeValue::Bool(true)),
        ("xx", AttributeValue::Version("1.2.3")),
        ("y", AttributeValue::Version("1.0.0-alpha")),
        ("dra.example.com/y", AttributeValue::String("later")),
    ] {
        device.add_attribute(name, value).unwrap();
    }
    device.add_capacity("memory", memory);
    device.add_capacity("a/memory", memory);
    device
}

#[test]
fn device_that_keeps_what_is_read_has_the_same_result_and_cost() {
    let memory: Quantity = "40Gi".parse().unwrap();
    let own = "device.attributes['dra.example.com']";
    let parts = [
        format!("{own}.x"),
        format!("{own}.y == 'later'"),
        format!("{own}.z == 'absent'"),
        format!("{own}.xx.isGreaterThan(semver('1.0.0'))"),
        format!("{own}.?z.orValue(1) == 1"),
        format!("has({own}.xx)"),
        format!("{own}.exists(name, name == 'y')"),
        format!("{own}.size() == 3"),
        "device.attributes['a'].x == 1".to_owned(),
        "device.attributes['b'].x == 1".to_owned(),
        "'x' in device.attributes['b']".to_owned(),
        "'b' in device.attributes".to_owned(),
        "'c' in device.attributes".to_owned(),
        "device.attributes['c'].x == 1".to_owned(),
        "device.attributes.size() == 3".to_owned(),
        "device.driver == 'dra.example.com'".to_owned(),
        "device.allowMultipleAllocations".to_owned(),
        "device.capacity['a'].memory.isGreaterThan(quantity('1Gi'))".to_owned(),
        "device.capacity['dra.example.com'].memory.sign() == 0".to_owned(),
        "device.capacity['a'].all(name, name == 'memory')".to_owned(),
        "'memory' in device.capacity['b']".to_owned(),
    ];
    for left in &parts {
        for right in &parts {
            for operator in ["&&", "||"] {
                let text = format!("({left}) {operator} ({right})");
                let selector = Selector::compile(&text).unwrap();
                let expected = selector.evaluate(&fill(DeviceView::new(DRIVER), &memory));
                let kept = fill(DeviceView::read_by(selector.reads(), DRIVER), &memory);
                assert_eq!(selector.evaluate(&kept), expected, "{text}");
            }
        }
    }
}

#[test]
fn reads_name_what_the_result_depends_on() {
    let attribute =
        |domain: &str, id: &str| Read::Attribute { domain: domain.into(), id: id.into() };
    for (expression, expected) in [
        ("true", vec![]),
        (
            "device.driver == 'a' && !device.allowMultipleAllocations",
            vec![Read::Driver, Read::AllowMultipleAllocations],
        ),
        (
            "device.attributes['a'].x == 1 || device.attributes['a']['x'] == 2",
            vec![attribute("a", "x")],
        ),
        (
            "has(device.attributes['a'].x) && 'y' in device.attributes['a']",
            vec![attribute("a", "x"), attribute("a", "y")],
        ),
        (
            "'a' in device.attributes && device.attributes['a'].x",
            vec![Read::AttributeDomain("a".into())],
        ),
        ("cel.bind(d, device.attributes['a'], d.x)", vec![Read::AttributeDomain("a".into())]),
        (
            "device.capacity['a'].m.sign() > 0",
            vec![Read::Capacity { domain: "a".into(), id: "m".into() }],
        ),
        ("device.capacity['a'].exists(x, x == 'm')", vec![Read::CapacityDomain("a".into())]),
    ] {
        let selector = Selector::compile(expression).unwrap();
        assert_eq!(*selector.reads(), Reads::Only(expected), "{expression}");
    }
    for expression in [
        "device.attributes.exists(x, x == 'a')",
        "device.attributes[device.driver].x",
        "device.capacity.size() == 1",
    ] {
        let selector = Selector::compile(expression).unwrap();
        assert_eq!(*selector.reads(), Reads::Everything, "{expression}");
    }
}

/// The estimates of Kubernetes for these expressions.
#[test]
fn worst_costs_are_those_of_the_api_server() {
    let quantity = "device.capacity[\"dra.example.com\"].name.isGreaterThan(quantity(\"1Ki\"))";
    let ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let mut expensive = "int('1'.find('[0-9]*')) < 100".to_owned();
    for variable in ["z5", "z4", "z3", "z2", "z", "y", "x"] {
        expensive = format!("{ten}.all({variable}, {expensive})");
    }
    for (expression, cost) in [
        ("true", 0),
        ("device.attributes['no-such-domain'].noSuchAttr.isGreaterThan(quantity('0'))", 6),
        ("device.attributes['no-such-domain']['noSuchAttr'].isGreaterThan(quantity('0'))", 6),
        ("'no-such-domain' in device.attributes", 3),
        ("device.driver == ''", 2),
        ("device.driver == 'dra.example.com'", 4),
        ("device.attributes['dra.example.com'].name", 4),
        ("device.attributes['dra.example.com']['name']", 4),
        ("cel.bind(dra, device.attributes['dra.example.com'], dra.name)", 15),
        ("device.attributes['dra.example.com'].name > 0", 5),
        ("device.attributes['dra.example.com'].name == 'fish'", 5),
        ("device.attributes['dra.example.com'].name.exists(x, x > 0)", 5 + 6 * 64),
        ("device.attributes['dra.example.com'].names.all(x, x != '')", 5 + 4 * 64),
        ("device.attributes['dra.example.com'].names.size() == 2", 6),
        ("1 in device.attributes['dra.example.com'].names", 4 + 64),
        ("device.attributes['dra.example.com'].name.isGreaterThan(semver('0.0.1'))", 6),
        (
            "device.attributes['dra.example.com'].name.isGreaterThan(semver('v0.0.1', true)) && \
             isSemver('v1.0.0', true)",
            7,
        ),
        (quantity, 6),
        (&format!("'name' in device.capacity['dra.example.com'] && {quantity}"), 10),
        (&format!("!('name' in device.capacity['dra.example.com']) || {quantity}"), 11),
        ("device.attributes.exists_one(x, x == 'dra.example.com')", 164),
        ("device.attributes['dra.example.com'].exists_one(x, x == 'services')", 133),
        ("device.attributes['dra.example.com'].services.split('example').size() >= 2", 19),
        ("device.attributes['dra.example.com'].services.matches('[^a]?sym')", 18),
        ("device.capacity.exists_one(x, x == 'dra.example.com')", 164),
        ("device.capacity['dra.example.com'].exists_one(x, x == 'memory')", 133),
        ("device.allowMultipleAllocations == true", 3),
        (&expensive, 85_555_551),
    ] {
        assert_eq!(Selector::worst_cost(expression), Ok(cost), "{expression}");
    }
}

/// A text of unknown length costs as much as the longest one.
#[test]
fn unknown_sizes_are_too_expensive() {
    for expression in [
        "device.attributes['dra.example.com'].?name.orValue('').matches('a+')",
        "device.attributes['dra.example.com'].names.map(x, x + x).exists(x, x.contains('a'))",
    ] {
        let cost = Selector::worst_cost(expression).unwrap();
        assert!(cost > 1_000_000, "{expression}: {cost}");
    }
}

#[test]
fn new_objects_may_not_use_functions_for_lists() {
    let expression = "device.attributes['dra.example.com'].model.includes('a100')";
    assert!(Selector::compile(expression).is_ok());
    let error = Selector::worst_cost(expression).unwrap_err().to_string();
    assert!(error.contains("undeclared reference to 'includes' (in container '')"), "{error}");
}

/// Lists that grow fourfold cost CEL one unit each.
#[test]
fn effort_counts_what_the_cost_does_not() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let bound = names.windows(2).rev().fold("f.size() > 0".to_owned(), |body, pair| {
        let [before, name] = pair else { return body };
        format!("cel.bind({name}, {before} + {before} + {before} + {before}, {body})")
    });
    let memory = "40Gi".parse().unwrap();
    let selector = Selector::compile(&format!("cel.bind(a, [0, 1, 2, 3, 4], {bound})")).unwrap();
    let evaluation = selector.evaluate(&device(&memory));
    assert_eq!(evaluation.result.as_ref().ok(), Some(&true));
    assert!(evaluation.cost < 100 && evaluation.effort > 5 * 1024, "{evaluation:?}");
}
