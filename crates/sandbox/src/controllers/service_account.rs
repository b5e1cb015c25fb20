//! The ServiceAccount controller: every namespace has a ServiceAccount `default`.

use framework::Time;
use serde_json::json;

use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{name, namespace};
use crate::object::is_terminating;
use crate::resources::{NAMESPACES, SERVICEACCOUNTS};
use crate::store::Store;

const DEFAULT: &str = "default";

#[derive(Debug)]
pub(super) struct ServiceAccountController {
    namespaces: Informer,
    accounts: Informer,
}

impl ServiceAccountController {
    pub(super) fn new() -> Self {
        Self { namespaces: Informer::new(NAMESPACES), accounts: Informer::new(SERVICEACCOUNTS) }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        for event in self.namespaces.events(store) {
            if let ObjectEvent::Present(home) = event
                && !is_terminating(&home)
            {
                ensure(store, name(&home), now);
            }
        }
        for event in self.accounts.events(store) {
            if let ObjectEvent::Removed(account) = event
                && name(&account) == DEFAULT
            {
                ensure(store, namespace(&account), now);
            }
        }
    }
}

fn ensure(store: &mut Store, namespace: &str, now: Time) {
    if store.get(SERVICEACCOUNTS, namespace, DEFAULT).is_none() {
        let account = json!({"metadata": {"name": DEFAULT, "namespace": namespace}});
        // A namespace that terminates admits none and needs none.
        store.create(SERVICEACCOUNTS, account, now).ok();
    }
}
