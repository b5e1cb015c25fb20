//! Requests: authorization, execution, answers.

use std::sync::Arc;

use bytes::Bytes;
use framework::Time;
use serde_json::{Value, json};

use super::Store;
use super::collection::{Stored, key};
use super::decode::{self, Decoded};
use super::list::{ListOptions, Page};
use super::representation::Representation;
use super::write::{self, Part, Target};
use crate::api::{Answer, Request, Response};
use crate::authorization::{self, Attributes};
use crate::claim_status::Writer;
use crate::metadata;
use crate::patch;
use crate::protobuf;
use crate::resources::{LEASES, NAMESPACES, Resource};
use crate::route::Route;
use crate::selector::selected_name;
use crate::status::{Cause, Status};
use crate::{conversion, discovery, subresources};

const APPLY: &str = "application/apply-patch+yaml";

/// An authorized request for a resource.
struct Call<'a> {
    route: Route,
    verb: &'static str,
    request: &'a Request,
    /// The version that the watch cache shows.
    cached: u64,
    now: Time,
}

impl Store {
    /// Answers a request like an API server.
    pub fn serve(&mut self, request: &Request, now: Time) -> Answer {
        self.serve_with_cache(request, self.version, now)
    }

    /// Answers a request like an API server whose watch cache shows the version `cached`. Lists for
    /// which any version is good enough, and watches, come from the cache; writes and all other
    /// reads do not.
    pub fn serve_with_cache(&mut self, request: &Request, cached: u64, now: Time) -> Answer {
        let answer = match Route::of(&request.path, &self.custom) {
            Some(route) => {
                let representation = Representation::negotiate(route.resource, request);
                let answer = self.serve_resource(route, request, cached, now);
                answer.or_else(|status| Ok(Answer::Whole(representation?.refusal(&status))))
            }
            None => self.serve_path(request).map(Answer::Whole),
        };
        answer.unwrap_or_else(|status| Answer::Whole(status.response()))
    }

    fn serve_path(&self, request: &Request) -> Result<Response, Status> {
        let verb = request.method.to_ascii_lowercase();
        let target = authorization::Target::Path(&request.path);
        authorization::check(self, &request.user, &Attributes { verb: &verb, target })?;
        discovery::serve(request, &self.resources().collect::<Vec<_>>())
    }

    fn serve_resource(
        &mut self,
        route: Route,
        request: &Request,
        cached: u64,
        now: Time,
    ) -> Result<Answer, Status> {
        let verb = route.verb(&request.method, request.flag("watch"));
        let verb = verb.ok_or_else(Status::method_not_allowed)?;
        self.authorize(&route, verb, request)?;
        let request = &*protobuf::with_json_body(request)?;
        let call = Call { route, verb, request, cached, now };
        if verb == "watch" {
            let Route { resource, namespace, .. } = &call.route;
            return self.watch(resource, namespace, request, cached, now).map(Answer::Watch);
        }
        self.serve_call(&call).map(Answer::Whole)
    }

    fn authorize(&self, route: &Route, verb: &str, request: &Request) -> Result<(), Status> {
        let Route { resource, namespace, name, subresource } = route;
        // A list or watch of one name needs the permission for that name only.
        let selected = match verb {
            "list" | "watch" => request.parameter("fieldSelector").and_then(selected_name),
            _ => None,
        };
        let target = authorization::Target::Resource {
            group: resource.group,
            resource: resource.plural,
            subresource,
            namespace: if *resource == NAMESPACES { name } else { namespace },
            name: selected.as_deref().unwrap_or(name),
        };
        authorization::check(self, &request.user, &Attributes { verb, target })
    }

    fn serve_call(&mut self, call: &Call<'_>) -> Result<Response, Status> {
        match (call.route.subresource.as_str(), call.route.resource.stored) {
            ("", true) => {}
            ("status", true) => return self.serve_part(call, Part::Status),
            ("resize", true) => return self.serve_part(call, Part::Resources),
            _ => return subresources::serve(self, &call.route, call.request, call.now),
        }
        match call.verb {
            "get" => self.serve_get(call),
            "list" => self.serve_list(call),
            "create" => self.serve_create(call),
            "update" => self.serve_update(call, Part::Main),
            "patch" => self.serve_patch(call, Part::Main),
            "delete" => self.serve_delete(call),
            "deletecollection" => self.serve_delete_collection(call),
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// Serves a subresource that is a part of the object.
    fn serve_part(&mut self, call: &Call<'_>, part: Part) -> Result<Response, Status> {
        match call.verb {
            "get" => self.serve_get(call),
            "update" => self.serve_update(call, part),
            "patch" => self.serve_patch(call, part),
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn serve_get(&self, call: &Call<'_>) -> Result<Response, Status> {
        let Route { resource, namespace, name, .. } = &call.route;
        let object = self.get(resource, namespace, name);
        let object = object.ok_or_else(|| Status::not_found(resource, name))?;
        self.answer(call, 200, object)
    }

    fn serve_list(&self, call: &Call<'_>) -> Result<Response, Status> {
        let Route { resource, namespace, .. } = &call.route;
        let representation = Representation::negotiate(resource, call.request)?;
        let options = ListOptions::of(resource, call.request)?;
        let page = self.list(resource, namespace, &options, call.cached)?;
        Ok(whole(200, representation, representation.list(resource, &page, call.now)))
    }

    fn serve_create(&mut self, call: &Call<'_>) -> Result<Response, Status> {
        let Route { resource, namespace, .. } = &call.route;
        let (resource, request) = (*resource, call.request);
        if resource.namespaced && namespace.is_empty() {
            return Err(Status::method_not_allowed());
        }
        let Decoded { mut object, warnings } = decode::object(resource, request)?;
        place(resource, namespace, &mut object)?;
        let created = self.create_for(call, object)?;
        Ok(Response { warnings, ..self.answer(call, 201, &created)? })
    }

    /// Creates an object, unless the request is a dry run.
    fn create_for(&mut self, call: &Call<'_>, object: Value) -> Result<Arc<Value>, Status> {
        match call.is_dry_run() {
            true => self.admit(call.route.resource, object, call.now).map(Arc::new),
            false => self.create(call.route.resource, object, call.now),
        }
    }

    fn serve_update(&mut self, call: &Call<'_>, part: Part) -> Result<Response, Status> {
        let resource = call.route.resource;
        let Decoded { object, warnings } = decode::object(resource, call.request)?;
        self.check_lease_exists(&call.route, &object)?;
        let updated = self.update(call.target(part), call.is_dry_run(), |_| {
            Ok(conversion::stored(resource, object))
        })?;
        Ok(Response { warnings, ..self.answer(call, 200, &updated)? })
    }

    /// Checks that a Lease with a UID in the body exists. The API server would create a missing
    /// one, for which the UID is a precondition that fails.
    fn check_lease_exists(&self, route: &Route, object: &Value) -> Result<(), Status> {
        let Route { resource, namespace, name, .. } = route;
        let uid = metadata::uid(object);
        if *resource == LEASES && !uid.is_empty() && self.get(resource, namespace, name).is_none() {
            return Err(Status::uid_mismatch(resource, namespace, name, uid, ""));
        }
        Ok(())
    }

    fn serve_patch(&mut self, call: &Call<'_>, part: Part) -> Result<Response, Status> {
        let (resource, request) = (call.route.resource, call.request);
        if decode::media_type(&request.content_type) == APPLY {
            return self.serve_apply(call, part);
        }
        let mut warnings = Vec::new();
        let patched = self.update(call.target(part), call.is_dry_run(), |current| {
            check_patch_type(resource, &request.content_type)?;
            let served = conversion::served(resource, current).into_owned();
            let mut patched = patch::apply_patch(served, &request.content_type, &request.body)?;
            warnings = decode::check_fields(resource, request, Some(current), &mut patched, &[])?;
            write::check_patched(resource, current, &patched)?;
            Ok(conversion::stored(resource, patched))
        })?;
        Ok(Response { warnings, ..self.answer(call, 200, &patched)? })
    }

    /// Serves server-side apply, which creates missing objects.
    fn serve_apply(&mut self, call: &Call<'_>, part: Part) -> Result<Response, Status> {
        let Route { resource, namespace, name, .. } = &call.route;
        let resource = *resource;
        let Decoded { object: applied, warnings } = decode::applied(resource, call.request)?;
        let manager = call.request.parameter("fieldManager").unwrap_or_default();
        if manager.is_empty() {
            let why = "is required for apply patch";
            return Err(Status::invalid_options(
                "PatchOptions",
                Cause::required("fieldManager", why),
            ));
        }
        let force = call.request.flag("force");
        if self.get(resource, namespace, name).is_none() && part == Part::Main {
            let mut object = patch::apply::apply(None, &applied, manager, force)?;
            place(resource, namespace, &mut object)?;
            metadata::set(&mut object, "name", name.as_str());
            let created = self.create_for(call, object)?;
            return Ok(Response { warnings, ..self.answer(call, 201, &created)? });
        }
        let updated = self.update(call.target(part), call.is_dry_run(), |current| {
            let current = conversion::served(resource, current);
            let wanted = patch::apply::apply(Some(&current), &applied, manager, force)?;
            write::check_patched(resource, &current, &wanted)?;
            Ok(conversion::stored(resource, wanted))
        })?;
        Ok(Response { warnings, ..self.answer(call, 200, &updated)? })
    }

    fn serve_delete(&mut self, call: &Call<'_>) -> Result<Response, Status> {
        let Route { resource, namespace, name, .. } = &call.route;
        let options = decode::delete_options(call.request)?;
        let last = self.delete(resource, namespace, name, &options, call.now)?;
        if resource.returns_deleted || self.get(resource, namespace, name).is_some() {
            return self.answer(call, 200, &last);
        }
        let representation = Representation::negotiate(resource, call.request)?;
        let mut details = json!({
            "name": name, "kind": resource.plural, "uid": metadata::uid(&last),
        });
        if !resource.group.is_empty() {
            details["group"] = resource.group.into();
        }
        let success = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": details,
        });
        Ok(whole(200, representation, representation.value(&success)))
    }

    fn serve_delete_collection(&mut self, call: &Call<'_>) -> Result<Response, Status> {
        let Route { resource, namespace, .. } = &call.route;
        let representation = Representation::negotiate(resource, call.request)?;
        let options = decode::delete_options(call.request)?;
        let options_of_list = ListOptions::of(resource, call.request)?;
        let page = self.list(resource, namespace, &options_of_list, call.cached)?;
        for stored in &page.items {
            let (namespace, name) =
                (metadata::namespace(&stored.object), metadata::name(&stored.object));
            self.delete(resource, namespace, name, &options, call.now)?;
        }
        Ok(whole(200, representation, representation.list(resource, &page, call.now)))
    }

    /// Returns the answer with an object, in the requested representation.
    fn answer(&self, call: &Call<'_>, code: u16, object: &Arc<Value>) -> Result<Response, Status> {
        let resource = call.route.resource;
        let representation = Representation::negotiate(resource, call.request)?;
        let stored = self.stored(resource, object);
        Ok(whole(code, representation, representation.object(resource, &stored, call.now)))
    }

    /// Returns the object with its encoding, which is shared if it is the current version.
    fn stored(&self, resource: &'static Resource, object: &Arc<Value>) -> Stored {
        let key = key(metadata::namespace(object), metadata::name(object));
        let current = self.collection(resource).and_then(|collection| collection.get(&key));
        match current.filter(|stored| Arc::ptr_eq(&stored.object, object)) {
            Some(stored) => stored.clone(),
            None => Stored::new(object.clone()),
        }
    }
}

impl Call<'_> {
    fn target(&self, part: Part) -> Target<'_> {
        let Route { resource, namespace, name, .. } = &self.route;
        let by = Writer { user: &self.request.user, verb: self.verb };
        Target { resource, namespace, name, part, by }
    }

    fn is_dry_run(&self) -> bool {
        decode::is_dry_run(self.request)
    }
}

impl Page {
    /// Returns `metadata` of the list.
    pub(super) fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if !self.next.is_empty() {
            metadata["continue"] = self.next.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }
}

/// Sets the namespace of an object to the namespace of the path.
fn place(resource: &Resource, namespace: &str, object: &mut Value) -> Result<(), Status> {
    let own = metadata::namespace(object);
    if !own.is_empty() && own != namespace {
        let why = "the namespace of the provided object does not match the namespace sent on the \
                   request";
        return Err(Status::bad_request(why));
    }
    if resource.namespaced {
        metadata::set(object, "namespace", namespace);
    }
    Ok(())
}

/// Refuses patches of custom resources that are neither merge nor JSON patches: without a built-in
/// type there are no strategies to merge by.
fn check_patch_type(resource: &Resource, content_type: &str) -> Result<(), Status> {
    let known = ["application/json-patch+json", "application/merge-patch+json"];
    if resource.custom.is_some() && !known.contains(&decode::media_type(content_type)) {
        return Err(Status::unknown_patch_format());
    }
    Ok(())
}

fn whole(status: u16, representation: Representation, body: Bytes) -> Response {
    Response {
        status,
        content_type: representation.content_type(),
        retry_after: None,
        warnings: Vec::new(),
        body,
    }
}
