//! The cluster of a test: an API server with a namespace of its own.
//!
//! | Set | API server |
//! |---|---|
//! | `KUBECONFIG` | that one |
//! | `KUBEBUILDER_ASSETS` | kube-apiserver of that folder, started for all tests |
//! | neither | a sandbox for each test, without kubelets, and without controllers if asked |
//!
//! Tests may share a cluster with each other and with other users. Each test has a namespace, a
//! service account, roles, a scheduler name and nodes with unique names, and its pods select its
//! nodes.

mod callers;
mod devices;
mod installation;
mod leases;
mod nodes;
mod pod_groups;
mod pods;
mod storage;

use std::env;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use framework::Level;
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Resource, ResourceExt};
use sandbox::http::{Identity, Options, Server};
use serde_json::{Value, json};

pub(super) use self::devices::{devices_of, users_of};
pub(super) use self::leases::holder;
pub(super) use self::pod_groups::chart_rules_without_pod_groups;
pub(super) use self::pods::{node_of, uid};
pub(super) use self::storage::{Kind, claim_of, is_bound, with_claims};
use super::control_plane;
use super::wait::eventually;
use crate::manifests::{DEFAULT, EVERYTHING, find, find_all};

/// Label of the nodes of a test, which its pods select, and of its other cluster-scoped objects.
const LABEL: &str = "loadmaster.e2e/cluster";

/// A cluster, with the rights of its administrator.
pub(super) struct Cluster {
    /// A unique name: of the namespace, the scheduler and so on.
    pub(super) name: String,
    /// Pods of the namespace.
    pub(super) pods: Api<Pod>,
    client: kube::Client,
    nodes: Api<Node>,
    admin: Kubeconfig,
    sandbox: Option<Server>,
    runs_controllers: bool,
}

/// Runs a test in a cluster, and shuts the cluster down in any case.
pub(super) fn run(test: impl AsyncFnOnce(&Cluster)) {
    run_with(true, test);
}

/// Runs a test in a cluster without controllers that create Pods or bind volumes.
pub(super) fn run_without_controllers(test: impl AsyncFnOnce(&Cluster)) {
    match env::var_os("KUBECONFIG") {
        Some(_) => eprintln!("skipped: a cluster that is in use has controllers"),
        None => run_with(false, test),
    }
}

fn run_with(controllers: bool, test: impl AsyncFnOnce(&Cluster)) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let cluster = Cluster::start(controllers).await;
        let outcome = AssertUnwindSafe(test(&cluster)).catch_unwind().await;
        cluster.stop().await;
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

impl Cluster {
    /// Returns the level that the API server chooses.
    pub(super) async fn level(&self) -> Level {
        let version = self.client.apiserver_version().await.unwrap();
        Level::of_server(version.minor.trim_end_matches('+').parse().unwrap())
    }

    async fn start(controllers: bool) -> Self {
        let (admin, sandbox) = find_api_server(controllers).await;
        // A bare kube-apiserver has no controllers.
        let runs_controllers =
            controllers && (sandbox.is_some() || env::var_os("KUBECONFIG").is_some());
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(admin.clone(), &options).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let name = unique_name();
        let pods = Api::namespaced(client.clone(), &name);
        let nodes = Api::all(client.clone());
        let cluster = Self { name, pods, client, nodes, admin, sandbox, runs_controllers };
        cluster.prepare().await;
        cluster
    }

    /// Creates the namespace, and the service account with exactly the permissions of the chart.
    async fn prepare(&self) {
        let namespaces = Api::all(self.client.clone());
        create(&namespaces, &named::<Namespace>(&self.name)).await;
        let accounts = self.service_accounts();
        create(&accounts, &named::<ServiceAccount>(&self.name)).await;
        // Pods are admitted only if it exists; in a full cluster a controller creates it.
        let default = named::<ServiceAccount>("default");
        let _ = accounts.create(&PostParams::default(), &default).await;
        self.install_permissions().await;
        self.permissions_are_in_force(&chart_rules()).await;
    }

    async fn stop(self) {
        if let Some(server) = self.sandbox {
            return server.stop().await;
        }
        let (now, mine) = (DeleteParams::default().grace_period(0), self.labelled());
        // The API server may not serve them.
        let _ = self.device_taint_rules().delete_collection(&now, &mine).await;
        let outcomes = [
            self.pods.delete_collection(&now, &ListParams::default()).await.err(),
            self.nodes.delete_collection(&now, &mine).await.err(),
            self.claims().delete_collection(&now, &ListParams::default()).await.err(),
            self.volumes().delete_collection(&now, &mine).await.err(),
            self.classes().delete_collection(&now, &mine).await.err(),
            self.csi_nodes().delete_collection(&now, &mine).await.err(),
            self.csi_drivers().delete_collection(&now, &mine).await.err(),
            self.slices().delete_collection(&now, &mine).await.err(),
            self.device_classes().delete_collection(&now, &mine).await.err(),
            self.priority_classes().delete_collection(&now, &mine).await.err(),
            self.system_bindings().delete_collection(&now, &mine).await.err(),
            self.role_bindings().delete_collection(&now, &mine).await.err(),
            self.roles().delete_collection(&now, &mine).await.err(),
            Api::<Namespace>::all(self.client.clone()).delete(&self.name, &now).await.err(),
        ];
        for error in outcomes.into_iter().flatten() {
            eprintln!("something of {} is left behind: {error}", self.name);
        }
    }

    /// Returns the sandbox, if it is the API server.
    pub(super) fn sandbox(&self) -> Option<&Server> {
        self.sandbox.as_ref()
    }

    /// Whether controllers create the Pods of Deployments, bind volumes, and so on.
    pub(super) fn runs_controllers(&self) -> bool {
        self.runs_controllers
    }

    /// Creates an object in the namespace.
    pub(super) async fn create<K>(&self, object: &K)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    {
        create(&Api::namespaced(self.client.clone(), &self.name), object).await;
    }

    /// Creates another namespace, and returns its Pods.
    pub(super) async fn pods_in_new_namespace(&self, name: &str) -> Api<Pod> {
        let name = format!("{}-{name}", self.name);
        create(&Api::all(self.client.clone()), &named::<Namespace>(&name)).await;
        let accounts = Api::namespaced(self.client.clone(), &name);
        // A controller may have created it.
        let default = named::<ServiceAccount>("default");
        let _ = accounts.create(&PostParams::default(), &default).await;
        Api::namespaced(self.client.clone(), &name)
    }

    /// Adds labels to the namespace.
    pub(super) async fn label_namespace(&self, labels: &Value) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        namespaces.patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    fn roles(&self) -> Api<ClusterRole> {
        Api::all(self.client.clone())
    }

    fn role_bindings(&self) -> Api<ClusterRoleBinding> {
        Api::all(self.client.clone())
    }

    fn priority_classes(&self) -> Api<PriorityClass> {
        Api::all(self.client.clone())
    }

    /// Selects the cluster-scoped objects of the test.
    fn labelled(&self) -> ListParams {
        ListParams::default().labels(&format!("{LABEL}={}", self.name))
    }

    /// Returns the user name of the scheduler's service account.
    pub(super) fn scheduler_user(&self) -> String {
        format!("system:serviceaccount:{0}:{0}", self.name)
    }

    /// Replaces the scheduler's service account by another of its name, which ends its tokens.
    pub(super) async fn recreate_scheduler_account(&self) {
        let accounts = self.service_accounts();
        accounts.delete(&self.name, &DeleteParams::default()).await.unwrap();
        create(&accounts, &named::<ServiceAccount>(&self.name)).await;
    }

    /// Returns a new token of the scheduler's service account.
    pub(super) async fn scheduler_token(&self) -> String {
        self.token_of(&self.name).await
    }

    /// Returns a new token of a service account.
    pub(super) async fn token_of(&self, account: &str) -> String {
        let (post, request) = (PostParams::default(), TokenRequest::default());
        let granted: TokenRequest = self
            .service_accounts()
            .create_subresource("token", account, &post, &request)
            .await
            .unwrap();
        granted.status.unwrap().token.unwrap()
    }

    /// Returns a client certificate with the rights of the scheduler's service account; none of a
    /// cluster that is in use.
    pub(super) async fn scheduler_certificate(&self) -> Option<Identity> {
        let user = self.scheduler_user();
        if let Some(server) = &self.sandbox {
            return Some(server.client_certificate(&user, None, None).unwrap());
        }
        let assets =
            env::var_os("KUBEBUILDER_ASSETS").filter(|_| env::var_os("KUBECONFIG").is_none());
        Some(control_plane::client_certificate(Path::new(&assets?), &user).await)
    }

    /// Returns the kubeconfig of the scheduler.
    pub(super) async fn scheduler_kubeconfig(&self) -> Kubeconfig {
        self.kubeconfig_of(json!({"token": self.scheduler_token().await}))
    }

    /// Returns a kubeconfig with these credentials, in the notation of a kubeconfig.
    pub(super) fn kubeconfig_of(&self, user: Value) -> Kubeconfig {
        let user: AuthInfo = serde_json::from_value(user).unwrap();
        let mut kubeconfig = self.admin.clone();
        kubeconfig.auth_infos.iter_mut().for_each(|entry| entry.auth_info = Some(user.clone()));
        kubeconfig
    }

    /// Replaces the permissions of the scheduler.
    pub(super) async fn permit(&self, rules: &[PolicyRule]) {
        let patch = Patch::Merge(json!({"rules": rules}));
        self.roles().patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
        self.permissions_are_in_force(rules).await;
    }

    /// Waits until the API server applies these rules; it watches roles asynchronously.
    async fn permissions_are_in_force(&self, rules: &[PolicyRule]) {
        let names_pods = |rule: &PolicyRule| {
            rule.resources.as_ref().is_some_and(|names| names.iter().any(|name| name == "pods"))
        };
        let expected = rules.iter().any(names_pods);
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let question: SubjectAccessReview = serde_json::from_value(json!({"spec": {
            "user": self.scheduler_user(),
            "resourceAttributes": {"verb": "list", "resource": "pods"},
        }}))
        .unwrap();
        eventually("roles are in force", async || {
            let answer = create(&reviews, &question).await;
            (answer.status?.allowed == expected).then_some(())
        })
        .await;
    }
}

/// Returns the permissions that the chart grants.
pub(super) fn chart_rules() -> Vec<PolicyRule> {
    find::<ClusterRole>(DEFAULT).unwrap().rules.unwrap()
}

/// Returns the permissions that the chart grants with the gate `DRADeviceTaintRules`.
pub(super) fn chart_rules_with_device_taint_rules() -> Vec<PolicyRule> {
    let mut rules = chart_rules();
    let text = |text: &str| vec![text.to_owned()];
    rules.push(PolicyRule {
        api_groups: Some(text("resource.k8s.io")),
        resources: Some(text("devicetaintrules")),
        verbs: vec!["list".to_owned(), "watch".to_owned()],
        ..PolicyRule::default()
    });
    rules
}

/// Returns the permissions that the chart grants with extenders.
pub(super) fn chart_rules_with_extenders() -> Vec<PolicyRule> {
    let of_groups = |role: &ClusterRole| {
        let name = role.name_any();
        name.ends_with("-explain-reader") || name.ends_with("-whatif-caller")
    };
    let mut roles = find_all::<ClusterRole>(EVERYTHING);
    roles.retain(|role| !of_groups(role));
    assert_eq!(roles.len(), 1, "{EVERYTHING} has several ClusterRoles for the scheduler");
    roles.remove(0).rules.unwrap()
}

/// Returns the administrator's kubeconfig, and the sandbox if it is one.
async fn find_api_server(controllers: bool) -> (Kubeconfig, Option<Server>) {
    if env::var_os("KUBECONFIG").is_some() {
        let kubeconfig = Kubeconfig::read();
        return (kubeconfig.unwrap_or_else(|error| panic!("KUBECONFIG: {error}")), None);
    }
    if let Some(assets) = env::var_os("KUBEBUILDER_ASSETS") {
        return (control_plane::kubeconfig(Path::new(&assets)).await, None);
    }
    let options = Options { controllers, kubelets: None, ..Options::default() };
    let server = Server::start(options).await.unwrap();
    (Kubeconfig::from_yaml(&server.kubeconfig()).unwrap(), Some(server))
}

fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = Timestamp::now().as_millisecond();
    format!("loadmaster-e2e-{now:x}-{:x}-{next}", std::process::id())
}

/// An object with this name and no other fields.
fn named<K>(name: &str) -> K
where
    K: Default
        + k8s_openapi::Metadata<Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>,
{
    let mut object = K::default();
    object.metadata_mut().name = Some(name.to_owned());
    object
}

async fn create<K>(api: &Api<K>, object: &K) -> K
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    api.create(&PostParams::default(), object).await.unwrap()
}
