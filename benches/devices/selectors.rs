//! The time to evaluate a selector for a device.

use std::hint::black_box;
use std::time::Instant;

use cel::{AttributeValue, DeviceView, Selector};
use framework::Quantity;

use crate::text::text;
use crate::workload::DRIVER;

/// Number of evaluations of each selector.
const EVALUATIONS: u32 = 200_000;

/// Prints the time of an evaluation, with the making of the view of a device, for each kind of
/// selector.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn print() {
    let own = format!("device.attributes['{DRIVER}']");
    let capacity = format!("device.capacity['{DRIVER}']");
    let memory: Quantity = "80Gi".parse().expect("a quantity");
    println!("\nselector                        per device");
    for (name, expression) in [
        ("driver", format!("device.driver == '{DRIVER}'")),
        ("attribute", format!("{own}.model == 'a100'")),
        (
            "attribute and capacity",
            format!("{own}.model == 'a100' && {capacity}.memory.compareTo(quantity('40Gi')) >= 0"),
        ),
        ("version", format!("{own}.driverVersion.isGreaterThan(semver('550.0.0'))")),
        ("regular expression", format!("{own}.uuid.matches('^gpu-[0-9]+-[0-7]$')")),
        ("all attributes", format!("{own}.exists(name, name == 'uuid')")),
    ] {
        let selector = Selector::compile(&expression).expect("it compiles");
        let start = Instant::now();
        for _ in 0..EVALUATIONS {
            let view = black_box(device(&selector, &memory));
            assert_eq!(black_box(selector.matches(&view)), Ok(true), "{expression}");
        }
        println!("{name:<30} {:>11}", text(start.elapsed() / EVALUATIONS));
    }
}

/// Returns a device as the allocator shows it to a selector.
fn device<'a>(selector: &'a Selector, memory: &'a Quantity) -> DeviceView<'a> {
    let mut view = DeviceView::read_by(selector.reads(), DRIVER);
    for (name, value) in [
        ("board", AttributeValue::Int(0)),
        ("driverVersion", AttributeValue::Version("570.86.15")),
        ("index", AttributeValue::Int(3)),
        ("model", AttributeValue::String("a100")),
        ("uuid", AttributeValue::String("gpu-1234-3")),
    ] {
        view.add_attribute(name, value).expect("it has a value");
    }
    view.add_capacity("memory", memory);
    view
}
