//! The extender of docs/plugins.md, in a sandbox with its configuration.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::e2e::process::free_port;
use crate::e2e::wait::eventually;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> Running {
    Running(command.stdout(Stdio::null()).spawn().unwrap())
}

#[test]
fn extender_of_the_guide_chooses_nodes_in_a_sandbox_with_its_configuration() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: python3 is not installed");
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/extender");
    let guide = include_str!("../../../docs/plugins.md");
    let script = fs::read_to_string(example.join("extender.py")).unwrap();
    assert!(guide.contains(&script), "the guide shows another extender");
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let config = fs::read_to_string(example.join("config.yaml")).unwrap();
    let path = folder.path().join("config.yaml");
    fs::write(&path, config.replace("8888", &port.to_string())).unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let script = example.join("extender.py");
    let _extender = start(Command::new("python3").arg(script).env("PORT", port.to_string()));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        eventually("the extender listens", async || TcpStream::connect(("127.0.0.1", port)).ok())
            .await;
        let _sandbox = start(
            Command::new(env!("CARGO_BIN_EXE_loadmaster"))
                .args(["sandbox", "--config"])
                .arg(&path)
                .arg("--write-kubeconfig")
                .arg(&kubeconfig)
                .arg("-f")
                .arg(example.join("cluster.yaml")),
        );
        let read = eventually("there is a whole kubeconfig", async || {
            let read = Kubeconfig::read_from(&kubeconfig).ok()?;
            read.current_context.is_some().then_some(read)
        });
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(read.await, &options).await.unwrap();
        let pods: Api<Pod> = Api::default_namespaced(Client::try_from(config).unwrap());
        let node =
            eventually("web has a node", async || pods.get("web").await.ok()?.spec?.node_name);
        assert_eq!(node.await, "red-1");
        let message = eventually("cart is rejected", async || {
            pods.get("cart").await.ok()?.status?.conditions?.into_iter().find_map(|own| own.message)
        });
        let message = message.await;
        assert!(
            message.starts_with("0/2 nodes are available: 2 the node is not of team green."),
            "{message}"
        );
    });
}
