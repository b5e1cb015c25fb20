//! The text format of Prometheus, version 0.0.4, with numbers in the notation of Go.

use std::fmt::Write;

use prometheus::proto::{Histogram, LabelPair, Metric, MetricFamily, MetricType};

/// Content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Renders metric families in this format.
pub(super) fn render(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    families.iter().for_each(|family| write_family(&mut text, family));
    text
}

fn write_family(text: &mut String, family: &MetricFamily) {
    let name = family.name();
    let kind = match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY | MetricType::UNTYPED => "untyped",
    };
    let help = escape(family.help(), false);
    push(text, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    for metric in family.get_metric() {
        match family.get_field_type() {
            MetricType::HISTOGRAM => write_histogram(text, name, metric),
            MetricType::COUNTER => {
                write_sample(text, name, metric, metric.get_counter().get_value())
            }
            _ => write_sample(text, name, metric, metric.get_gauge().get_value()),
        }
    }
}

fn write_sample(text: &mut String, name: &str, metric: &Metric, value: f64) {
    let labels = labels(metric.get_label(), None);
    push(text, format_args!("{name}{labels} {}\n", number(value)));
}

fn write_histogram(text: &mut String, name: &str, metric: &Metric) {
    let histogram: &Histogram = metric.get_histogram();
    let buckets = histogram.get_bucket().iter();
    let finite = buckets.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
    let all = (f64::INFINITY, histogram.get_sample_count());
    for (bound, count) in finite.filter(|(bound, _)| bound.is_finite()).chain([all]) {
        let labels = labels(metric.get_label(), Some(bound));
        push(text, format_args!("{name}_bucket{labels} {}\n", number(count as f64)));
    }
    let labels = labels(metric.get_label(), None);
    let (sum, count) = (histogram.get_sample_sum(), histogram.get_sample_count() as f64);
    let (sum, count) = (number(sum), number(count));
    push(text, format_args!("{name}_sum{labels} {sum}\n{name}_count{labels} {count}\n"));
}

/// Renders `{name="value",…}`, with the bound of a bucket last; empty without labels.
fn labels(pairs: &[LabelPair], bound: Option<f64>) -> String {
    let pairs = pairs.iter().map(|pair| (pair.name(), escape(pair.value(), true)));
    let bound = bound.map(|bound| ("le", number(bound)));
    let list: Vec<_> =
        pairs.chain(bound).map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    if list.is_empty() { String::new() } else { format!("{{{}}}", list.join(",")) }
}

/// Escapes a help text or, with `quotes`, the value of a label.
pub(super) fn escape(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}

/// Renders the shortest text that parses as the same number, with an exponent below 1e-4 and from
/// 1e6 on, like `%g` of Go.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        }
        .into();
    }
    let scientific = format!("{value:e}");
    let parts = scientific.split_once('e');
    let parts = parts.and_then(|(digits, power)| Some((digits, power.parse::<i32>().ok()?)));
    match parts {
        Some((digits, power)) if value != 0.0 && !(-4..6).contains(&power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.unsigned_abs())
        }
        _ => value.to_string(),
    }
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(line);
}

#[cfg(test)]
mod tests {
    use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

    use super::*;

    #[test]
    fn numbers_print_as_in_go() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.500_000_000_000_000_2e-5, "1.5000000000000002e-05"),
            (0.022_168_378_200_531_01, "0.02216837820053101"),
            (65_536.0, "65536"),
            (999_999.0, "999999"),
            (1_048_576.0, "1.048576e+06"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn families_have_help_type_and_escaped_labels() {
        let registry = Registry::new();
        let counter = IntCounterVec::new(Opts::new("a_total", "Back\\slash\nline"), &["l"]);
        let counter = counter.unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        counter.with_label_values(&["say \"hi\"\n\\"]).inc_by(2);
        let opts = HistogramOpts::new("b_seconds", "Time.").buckets(vec![0.00001, 1.0]);
        let histogram = HistogramVec::new(opts, &["z", "a"]).unwrap();
        registry.register(Box::new(histogram.clone())).unwrap();
        histogram.with_label_values(&["1", "2"]).observe(0.5);
        let expected = r#"# HELP a_total Back\\slash\nline
# TYPE a_total counter
a_total{l="say \"hi\"\n\\"} 2
# HELP b_seconds Time.
# TYPE b_seconds histogram
b_seconds_bucket{a="2",z="1",le="1e-05"} 0
b_seconds_bucket{a="2",z="1",le="1"} 1
b_seconds_bucket{a="2",z="1",le="+Inf"} 1
b_seconds_sum{a="2",z="1"} 0.5
b_seconds_count{a="2",z="1"} 1
"#;
        assert_eq!(render(&registry.gather()), expected);
    }
}
