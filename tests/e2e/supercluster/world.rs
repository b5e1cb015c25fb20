//! A management cluster, member clusters with agents, and schedulers over them, as processes that
//! speak HTTPS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use sandbox::http::{Options, Server};
use sandbox::kubelet;
use serde_json::{Value, json};

use super::super::authentication::{Authority, authority};
use super::super::daemon::Log;
use super::super::endpoints::Endpoints;
use super::super::process::free_port;
use super::super::wait::eventually;
use crate::manifests::find_all;

/// Namespace and name of the accounts of the roles, as the chart names them.
const SYSTEM: &str = "kube-system";
const SYSTEM_NAME: &str = "loadmaster";
/// The namespace of all pods.
pub(super) const NAMESPACE: &str = "shop";
/// Annotation with the placement of a pod.
pub(super) const PLACEMENT: &str = "supercluster.loadmaster.io/placement";

/// A daemon. It is killed when dropped; if the test fails, its log is shown.
pub(super) struct Process {
    child: Child,
    name: String,
    pub(super) log: Log,
    pub(super) port: u16,
    pub(super) probes: Endpoints,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.log.lines("").iter().for_each(|line| eprintln!("{}: {line}", self.name));
        }
    }
}

impl Process {
    fn start(name: &str, port: u16, args: &[String]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loadmaster"))
            .args(args)
            .arg(format!("--secure-port={port}"))
            .args(["--bind-address=127.0.0.1", "--v=2"])
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Log::of(&mut child);
        let probes = Endpoints::at(port, AuthInfo::default());
        Self { child, name: name.to_owned(), log, port, probes }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) async fn ready(&self) {
        let what = format!("{} is ready", self.name);
        eventually(&what, async || self.probes.is_ready().await.then_some(())).await;
    }
}

/// A member cluster and its agent.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) cluster: ApiServer,
    pub(super) agent: Option<Process>,
    pub(super) port: u16,
}

/// An API server in this process.
pub(super) struct ApiServer {
    pub(super) server: Server,
    pub(super) pods: Api<Pod>,
    pub(super) client: kube::Client,
    /// The kubeconfig of the role, with the permissions of the chart.
    kubeconfig: PathBuf,
}

impl ApiServer {
    async fn start(folder: &Path, name: &str, seed: u64, role: &str) -> Self {
        let kubelets = (role == "agent").then(kubelet::Settings::default);
        let options = Options { kubelets, seed, ..Options::default() };
        let server = Server::start(options).await.unwrap();
        let config = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let pods = Api::namespaced(client.clone(), NAMESPACE);
        let mut own = Self { server, pods, client, kubeconfig: PathBuf::new() };
        let post = PostParams::default();
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        Api::all(own.client.clone()).create(&post, &namespace).await.unwrap();
        let account: ServiceAccount =
            serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        // A controller may have created it.
        let accounts = Api::namespaced(own.client.clone(), NAMESPACE);
        let _ = accounts.create(&post, &account).await;
        own.kubeconfig = own.install(folder, name, role).await;
        own
    }

    /// Creates a service account with the ClusterRole of the chart in this rendering, and returns
    /// its kubeconfig.
    async fn install(&self, folder: &Path, name: &str, rendering: &str) -> PathBuf {
        let file = format!("tests/manifests/rendered/{rendering}.yaml");
        let roles: Vec<ClusterRole> = find_all(&file);
        let role =
            roles.into_iter().find(|role| role.metadata.name.as_deref() == Some(SYSTEM_NAME));
        self.permit(SYSTEM_NAME, role.unwrap().rules.unwrap()).await;
        // The names of its Leases are those of the members of the rendering.
        let roles: Vec<Role> = find_all(&file);
        let is_leases = |role: &&Role| role.metadata.name.as_deref() == Some("loadmaster-leases");
        let mut rules = roles.iter().find(is_leases).unwrap().rules.clone().unwrap();
        if rendering == "supercluster" {
            rules[1].resource_names =
                Some((0..4).map(|number| format!("loadmaster-member-m{number}")).collect());
        }
        let is_election =
            |role: &&Role| role.metadata.name.as_deref() == Some("loadmaster-leader-election");
        rules.extend(roles.iter().find(is_election).unwrap().rules.clone().unwrap());
        self.permit_in(SYSTEM, rules).await;
        let is_copies = |role: &&Role| role.metadata.name.as_deref() == Some("loadmaster-copies");
        if let Some(role) = roles.iter().find(is_copies) {
            self.permit_in(NAMESPACE, role.rules.clone().unwrap()).await;
        }
        let token = self.token(SYSTEM_NAME);
        let kubeconfig = folder.join(format!("{name}-{rendering}.kubeconfig"));
        fs::write(&kubeconfig, self.server.kubeconfig_for(&token)).unwrap();
        kubeconfig
    }

    /// Creates a service account with these permissions.
    pub(super) async fn permit(&self, name: &str, rules: Vec<PolicyRule>) {
        let post = PostParams::default();
        let object = json!({"metadata": {"name": name}});
        let account: ServiceAccount = serde_json::from_value(object.clone()).unwrap();
        let accounts = Api::namespaced(self.client.clone(), SYSTEM);
        accounts.create(&post, &account).await.unwrap();
        let role: ClusterRole = serde_json::from_value(object).unwrap();
        let role = ClusterRole { rules: Some(rules), ..role };
        Api::all(self.client.clone()).create(&post, &role).await.unwrap();
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": SYSTEM, "name": name}]});
        let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
        Api::all(self.client.clone()).create(&post, &binding).await.unwrap();
    }

    /// Gives the account of the role these permissions in a namespace.
    pub(super) async fn permit_in(&self, namespace: &str, rules: Vec<PolicyRule>) {
        let post = PostParams::default();
        let object = json!({"metadata": {"name": "loadmaster-leases"}});
        let role: Role = serde_json::from_value(object).unwrap();
        let role = Role { rules: Some(rules), ..role };
        Api::namespaced(self.client.clone(), namespace).create(&post, &role).await.unwrap();
        let binding = json!({"metadata": {"name": "loadmaster-leases"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
                "name": "loadmaster-leases"},
            "subjects": [{"kind": "ServiceAccount", "namespace": SYSTEM, "name": SYSTEM_NAME}]});
        let binding: RoleBinding = serde_json::from_value(binding).unwrap();
        Api::namespaced(self.client.clone(), namespace).create(&post, &binding).await.unwrap();
    }

    /// Returns a token of a service account that [`permit`](Self::permit) has created.
    pub(super) fn token(&self, name: &str) -> String {
        self.server.token(SYSTEM, name, Duration::from_hours(1)).unwrap()
    }

    pub(super) async fn add_node(&self, name: &str, cpus: u32) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = json!({"metadata": {"name": name,
            "labels": {"kubernetes.io/hostname": name}}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        let patch = PatchParams::default();
        let spec = Patch::Merge(json!({"spec": {"taints": null}}));
        nodes.patch(name, &patch, &spec).await.unwrap();
        let room = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": "110"});
        let ready = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady"}]);
        let status = Patch::Merge(
            json!({"status": {"capacity": room, "allocatable": room, "conditions": ready}}),
        );
        nodes.patch_status(name, &patch, &status).await.unwrap();
    }

    pub(super) async fn create_pod(&self, name: &str, cpus: &str, scheduler: &str) -> Pod {
        self.create_with(json!({"name": name}), cpus, scheduler).await
    }

    /// Creates a pod for the scheduler over the clusters with these annotations.
    pub(super) async fn create_annotated(&self, name: &str, cpus: &str, annotations: Value) -> Pod {
        let metadata = json!({"name": name, "annotations": annotations});
        self.create_with(metadata, cpus, "supercluster").await
    }

    /// Creates a pod for the scheduler over the clusters with these volumes.
    pub(super) async fn create_with_volumes(&self, name: &str, volumes: Value) {
        let pod = json!({"metadata": {"name": name}, "spec": {"schedulerName": "supercluster",
            "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
            "volumes": volumes, "containers": [{"name": "c", "image": "pause",
                "resources": {"requests": {"cpu": "1"}}}]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods.create(&PostParams::default(), &pod).await.unwrap();
    }

    async fn create_with(&self, mut metadata: Value, cpus: &str, scheduler: &str) -> Pod {
        metadata["labels"] = json!({"app": "web"});
        let pod = json!({"metadata": metadata, "spec": {
            "schedulerName": scheduler, "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "pause",
                "resources": {"requests": {"cpu": cpus}}}]}});
        let pod = serde_json::from_value(pod).unwrap();
        self.pods.create(&PostParams::default(), &pod).await.unwrap()
    }

    /// Creates a pod that another scheduler has put on a node.
    pub(super) async fn create_pod_on(&self, name: &str, cpus: &str, node: &str) {
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node,
            "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "pause",
                "resources": {"requests": {"cpu": cpus}}}]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods.create(&PostParams::default(), &pod).await.unwrap();
    }

    pub(super) async fn list(&self) -> Vec<Pod> {
        self.pods.list(&ListParams::default()).await.unwrap().items
    }

    pub(super) async fn delete(&self, name: &str) {
        self.pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

/// All clusters and the scheduler over them.
pub(super) struct World {
    pub(super) management: ApiServer,
    pub(super) members: Vec<Member>,
    pub(super) scheduler: Option<Process>,
    folder: PathBuf,
    authority: Authority,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs a test with this number of members, each with an agent.
pub(super) fn run(members: usize, test: impl AsyncFnOnce(&mut World)) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut world = World::start(members).await;
        test(&mut world).await;
    });
}

impl World {
    async fn start(members: usize) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("supercluster/{}-{next}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
        fs::create_dir_all(&folder).unwrap();
        let authority = authority();
        fs::write(folder.join("ca.crt"), authority.pem()).unwrap();
        let management = ApiServer::start(&folder, "management", 1, "supercluster").await;
        let mut world =
            Self { management, members: Vec::new(), scheduler: None, folder, authority };
        world.write_identity("server", &["127.0.0.1"], "agents");
        world.write_identity("client", &[], "system:masters");
        for number in 0..members {
            let name = format!("m{number}");
            let seed = 10 + u64::try_from(number).unwrap();
            let cluster = ApiServer::start(&world.folder, &name, seed, "agent").await;
            let port = free_port();
            world.members.push(Member { name, cluster, agent: None, port });
            world.start_agent(number).await;
        }
        world
    }

    /// Writes certificate and key of a server, or of a client in a group.
    fn write_identity(&self, name: &str, addresses: &[&str], group: &str) {
        let addresses: Vec<String> = addresses.iter().map(|own| (*own).to_owned()).collect();
        let mut params = CertificateParams::new(addresses).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        fs::write(self.file(name, "crt"), certificate.pem()).unwrap();
        fs::write(self.file(name, "key"), key.serialize_pem()).unwrap();
    }

    pub(super) fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{name}.{extension}"))
    }

    /// Starts the agent of a member, and waits until it is ready.
    pub(super) async fn start_agent(&mut self, member: usize) {
        let file = |name: &str, extension: &str| self.file(name, extension).display().to_string();
        let own = &self.members[member];
        let pipelines = self.file("agent", "yaml");
        let copies = json!({"apiVersion": "supercluster.loadmaster.io/v1alpha1",
            "kind": "AgentConfiguration", "copies": ["configmaps", "secrets"]});
        fs::write(&pipelines, copies.to_string()).unwrap();
        let args = [
            "agent".to_owned(),
            format!("--agent-config={}", pipelines.display()),
            format!("--kubeconfig={}", own.cluster.kubeconfig.display()),
            format!("--client-ca-file={}", file("ca", "crt")),
            format!("--tls-cert-file={}", file("server", "crt")),
            format!("--tls-private-key-file={}", file("server", "key")),
            "--leader-elect=false".to_owned(),
        ];
        let agent = Process::start(&own.name, own.port, &args);
        agent.ready().await;
        self.members[member].agent = Some(agent);
    }

    /// Starts the scheduler, and waits until it is ready.
    pub(super) async fn start_scheduler(&mut self, settings: Value) {
        self.start_scheduler_of(self.clusters_file(), settings).await;
    }

    /// Starts the scheduler with this file, in which these settings are replaced.
    pub(super) async fn start_scheduler_of(&mut self, file: Value, settings: Value) {
        let scheduler = self.run_scheduler(file, settings, &["--leader-elect=false"]);
        scheduler.ready().await;
        self.scheduler = Some(scheduler);
    }

    /// Returns the file of clusters with all members.
    pub(super) fn clusters_file(&self) -> Value {
        let clusters = self.members.iter().map(|member| {
            json!({"name": member.name, "server": format!("https://127.0.0.1:{}", member.port),
                "certificateAuthority": self.file("ca", "crt"),
                "clientCertificate": self.file("client", "crt"),
                "clientKey": self.file("client", "key")})
        });
        let clusters: Vec<Value> = clusters.collect();
        json!({"apiVersion": "supercluster.loadmaster.io/v1alpha1",
            "kind": "SuperclusterConfiguration", "clustersToSampleBp": 10000,
            "nodesToSampleBp": 10000, "clusters": clusters})
    }

    /// Starts a scheduler with further flags.
    pub(super) fn run_scheduler(
        &self,
        mut file: Value,
        settings: Value,
        flags: &[&str],
    ) -> Process {
        for (field, value) in settings.as_object().unwrap() {
            file[field] = value.clone();
        }
        let (path, written) = (self.file("clusters", "yaml"), self.file("clusters", "new"));
        // Another scheduler may be reading the file.
        fs::write(&written, file.to_string()).unwrap();
        fs::rename(&written, &path).unwrap();
        let mut args = vec![
            "run".to_owned(),
            format!("--kubeconfig={}", self.management.kubeconfig.display()),
            format!("--clusters={}", path.display()),
        ];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        Process::start("scheduler", free_port(), &args)
    }

    /// Waits until a pod and its delegates are gone.
    pub(super) async fn gone(&self, name: &str) {
        eventually(&format!("{name} and its delegate are gone"), async || {
            let mut left = usize::from(self.management.pods.get_opt(name).await.unwrap().is_some());
            for member in &self.members {
                let delegate = member.cluster.pods.get_opt(name).await.unwrap();
                left += usize::from(delegate.is_some());
            }
            (left == 0).then_some(())
        })
        .await;
    }

    /// Waits until a pod is Unschedulable, and returns the message.
    pub(super) async fn rejected(&self, name: &str) -> String {
        eventually(&format!("{name} is rejected"), async || {
            let status = self.management.pods.get(name).await.unwrap().status?;
            let conditions = status.conditions.unwrap_or_default().into_iter();
            let mut rejected =
                conditions.filter(|own| own.reason.as_deref() == Some("Unschedulable"));
            rejected.next()?.message
        })
        .await
    }

    /// Waits until this number of pods is placed and Running, as their originals show.
    pub(super) async fn running(&self, count: usize) -> Vec<Pod> {
        eventually(&format!("{count} pods run"), async || {
            let mut pods = self.management.list().await;
            pods.retain(|pod| phase_of(pod) == "Running" && placement_of(pod).is_some());
            (pods.len() >= count).then_some(pods)
        })
        .await
    }
}

/// Returns the whole CPUs that a pod requests.
pub(super) fn cpus_of(pod: &Pod) -> u32 {
    let containers = &pod.spec.as_ref().unwrap().containers;
    let requests = containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap();
    requests["cpu"].0.parse().unwrap()
}

/// Returns the cluster and the node of a pod.
pub(super) fn placement_of(pod: &Pod) -> Option<(String, String)> {
    let placement = pod.metadata.annotations.as_ref()?.get(PLACEMENT)?;
    let placement: Value = serde_json::from_str(placement).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Some((text(&placement["cluster"]), text(&placement["committed"]["node"])))
}

pub(super) fn phase_of(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}
