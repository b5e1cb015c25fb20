//! Nodes with too few devices are rejected by counting them.

use framework::EventResource;
use serde_json::{Value, json};

use crate::counting::Counting;
use crate::simulation::toy::Toys;
use crate::simulation::world::{World, claim};
use crate::steps::StepsLeft;
use crate::{Allocated, Allocator, Budget, Claims, Gates};

/// Returns a cluster in which node n1 has eight devices with these boards, of which some are
/// allocated.
fn world(boards: [&str; 8], allocated: &[usize]) -> World {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let devices: Vec<_> = boards
        .iter()
        .enumerate()
        .map(|(number, board)| {
            json!({"name": number.to_string(), "attributes": {
                "board": {"string": board}, "uuid": {"string": number.to_string()}}})
        })
        .collect();
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices});
    world.slice("s", spec);
    let results = allocated.iter().map(|number| {
        json!({"request": "r", "driver": "a.com", "pool": "p", "device": number.to_string()})
    });
    let status = json!({"allocation": {"devices": {"results": results.collect::<Value>()}}});
    let object = json!({"metadata": {"name": "old", "uid": "old"}, "status": status});
    world.set(&EventResource::ResourceClaim, object);
    world
}

/// Returns devices on one board that a selector selects.
fn on_one_board(count: usize, selector: &str) -> Value {
    let body = json!({"deviceClassName": "any", "count": count,
        "selectors": [{"cel": {"expression": selector}}]});
    json!({"requests": [{"name": "r", "exactly": body}],
        "constraints": [{"matchAttribute": "a.com/board"}]})
}

/// Returns whether node n1 is rejected for a claim without a search; `None` if it cannot be.
fn lacks_devices(world: &mut World, devices: &Value) -> Option<bool> {
    let object = json!({"metadata": {"name": "new", "uid": "new"}, "spec": {"devices": devices}});
    world.set(&EventResource::ResourceClaim, object);
    let claims = Claims::new(&[claim("new", devices)], &world.cluster, &mut Toys);
    let allocated = Allocated { base: world.cluster.allocated_devices(), overlay: None };
    let allocator = Allocator::new(&world.cluster, Gates::default(), allocated);
    let shapes = allocator.nodes_by_shape().shapes.unwrap();
    let (place, _) = shapes.of(world.cluster.node_named("n1").unwrap()).unwrap();
    let mut counting = Counting::of(&claims)?;
    let mut steps = StepsLeft::of(Budget::UNLIMITED);
    Some(counting.lacks_devices(&claims, shapes.devices(place), &mut steps))
}

const ONE_APART: [&str; 8] = ["0", "0", "0", "0", "0", "0", "0", "1"];

#[test]
fn node_without_enough_devices_of_one_value_is_rejected_without_a_search() {
    let mut world = world(ONE_APART, &[]);
    // Whatever the selector selects.
    assert_eq!(lacks_devices(&mut world, &on_one_board(8, "a.com/uuid=3")), Some(true));
    assert_eq!(lacks_devices(&mut world, &on_one_board(7, "a.com/uuid=3")), Some(false));
    let mut devices = on_one_board(8, "a.com/uuid=3");
    devices["constraints"] = json!([]);
    assert_eq!(lacks_devices(&mut world, &devices), Some(false));
    devices["requests"][0]["exactly"]["count"] = json!(9);
    assert_eq!(lacks_devices(&mut world, &devices), Some(true));
}

#[test]
fn allocated_devices_do_not_count() {
    let mut world = world(ONE_APART, &[2, 7]);
    assert_eq!(lacks_devices(&mut world, &on_one_board(6, "a.com/uuid=3")), Some(false));
    assert_eq!(lacks_devices(&mut world, &on_one_board(7, "a.com/uuid=3")), Some(true));
}

#[test]
fn node_is_searched_if_a_selector_fails_for_a_free_device() {
    let mut world = world(ONE_APART, &[0]);
    for (selector, lacks) in [
        ("a.com/model!3", false),
        ("a.com/uuid!3", true),
        // It is known only by an evaluation that it does not fail.
        ("a.com/board?1", true),
        // It fails for device 7.
        ("a.com/board?0", false),
    ] {
        let rejected = lacks_devices(&mut world, &on_one_board(8, selector));
        assert_eq!(rejected, Some(lacks), "{selector}");
    }
}

#[test]
fn many_values_are_not_counted() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let devices = (0..40).map(|number| {
        let attributes = json!({"board": {"string": number.to_string()}});
        json!({"name": number.to_string(), "attributes": attributes})
    });
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let devices: Value = devices.collect();
    let spec = json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices});
    world.slice("s", spec);
    assert_eq!(lacks_devices(&mut world, &on_one_board(2, "a.com/board=3")), Some(false));
}

#[test]
fn requests_other_than_plain_numbers_are_searched() {
    let mut world = world(ONE_APART, &[]);
    let body = |more: Value| {
        let mut devices = on_one_board(8, "a.com/uuid=3");
        let body = devices["requests"][0]["exactly"].as_object_mut().unwrap();
        body.extend(more.as_object().unwrap().clone());
        devices
    };
    let huge = ["a", "b", "c"].map(
        |name| json!({"name": name, "exactly": {"deviceClassName": "any", "count": i64::MAX}}),
    );
    for devices in [
        body(json!({"allocationMode": "All"})),
        body(json!({"adminAccess": true})),
        body(json!({"deviceClassName": "missing"})),
        body(json!({"selectors": [{}]})),
        body(json!({"count": 33})),
        json!({"requests": huge}),
        json!({"requests": [{"name": "r"}]}),
        json!({"requests": [{"name": "r", "firstAvailable": [
            {"name": "a", "deviceClassName": "any", "count": 9}]}]}),
    ] {
        let rejected = lacks_devices(&mut world, &devices);
        assert!(matches!(rejected, None | Some(false)), "{devices}");
    }
}

#[test]
fn selector_of_an_unknown_kind_is_an_error_also_on_a_node_without_devices() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    world.slice("s", json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": []}));
    let body = json!({"deviceClassName": "any", "selectors": [{}]});
    let devices = json!({"requests": [{"name": "r", "exactly": body}]});
    assert_eq!(lacks_devices(&mut world, &devices), None);
}
