//! An API server that gives fixed answers, for commands that ask a cluster.

#![expect(clippy::disallowed_methods, reason = "the server is no part of the program")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

/// An answer: the beginning of the path, the status and the body.
pub(super) type Route = (&'static str, u16, Value);

/// Serves the answers until the process ends. Returns the path of a kubeconfig with a token.
pub(super) fn serve(name: &str, routes: &[Route]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let routes = routes.to_vec();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let routes = routes.clone();
            std::thread::spawn(move || stream.map(|stream| answer(stream, &routes)));
        }
    });
    super::written(name, kubeconfig(&address).to_string().as_bytes())
}

/// Returns a kubeconfig for this server.
pub(super) fn kubeconfig(server: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {"token": "t"}}]})
}

fn answer(stream: TcpStream, routes: &[Route]) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        while reader.read_line(&mut head).ok()? > 2 {}
        let path = head.split_whitespace().nth(1)?.to_owned();
        let route = routes.iter().find(|(prefix, ..)| path.starts_with(prefix));
        let absent = (404, json!({"message": format!("no {path}")}));
        let (status, body) = route.map_or(absent, |(_, status, body)| (*status, body.clone()));
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        let length = body.len();
        let text = format!("HTTP/1.1 {status} -\r\ncontent-length: {length}\r\n\r\n{body}");
        writer.write_all(text.as_bytes()).ok()?;
    }
}
