//! Defaults of flow schemas and priority levels.

use super::fill::{Object, default, defaults, ensure, get};

/// Sets the defaults of FlowSchemas.
pub(super) fn schema(object: &mut Object) {
    if let Some(spec) = ensure(object, "spec") {
        default(spec, "matchingPrecedence", 1000);
    }
    ensure(object, "status");
}

/// Sets the defaults of PriorityLevelConfigurations.
pub(super) fn priority_level(object: &mut Object) {
    if let Some(spec) = ensure(object, "spec") {
        if let Some(exempt) = get(spec, "exempt") {
            defaults(
                exempt,
                [("nominalConcurrencyShares", 0.into()), ("lendablePercent", 0.into())],
            );
        }
        if let Some(limited) = get(spec, "limited") {
            defaults(
                limited,
                [("nominalConcurrencyShares", 30.into()), ("lendablePercent", 0.into())],
            );
            if let Some(queuing) =
                get(limited, "limitResponse").and_then(|response| get(response, "queuing"))
            {
                defaults(
                    queuing,
                    [
                        ("queues", 64.into()),
                        ("handSize", 8.into()),
                        ("queueLengthLimit", 50.into()),
                    ],
                );
            }
        }
    }
    ensure(object, "status");
}
