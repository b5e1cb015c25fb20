//! `/debug/pprof/`: CPU profiles of the running scheduler.
//!
//! A build with the feature `profiling` samples all threads while a request asks for it. Other builds
//! answer how to obtain a profile.

use axum::Router;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::App;
use super::router::plain;
use crate::config::without_user;

const INDEX: &str = "\
/debug/pprof/

profile?seconds=30  CPU profile in the format of pprof, one request at a time
cmdline             command line

Other profiles of Go programs do not exist here.
";

const HEAP: &str = "\
No build of this program has heap profiles. `cargo bench --bench memory` measures the memory per node and pod; \
metrics process_resident_memory_bytes and scheduler_cache_size show both for this process. To profile a \
process, run a dynamically linked build under heaptrack.
";

/// The profiles of Go that describe memory.
const MEMORY_PROFILES: [&str; 2] = ["heap", "allocs"];

/// Adds the paths.
pub(super) fn with_profiling(router: Router<App>) -> Router<App> {
    let redirect = async || (StatusCode::FOUND, [(header::LOCATION, "/debug/pprof/")]);
    let index = async || plain(StatusCode::OK, INDEX.to_owned());
    router
        .route("/debug/pprof", get(redirect))
        .route("/debug/pprof/", get(index))
        .route("/debug/pprof/cmdline", get(command_line))
        .route("/debug/pprof/profile", get(cpu::profile))
        .route("/debug/pprof/{name}", get(other))
}

/// Returns the arguments of the process, separated by NUL as in Go.
async fn command_line() -> Response {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let arguments: Vec<_> = arguments.map(without_user).collect();
    plain(StatusCode::OK, arguments.join("\0"))
}

async fn other(Path(name): Path<String>) -> Response {
    match MEMORY_PROFILES.contains(&name.as_str()) {
        true => plain(StatusCode::NOT_IMPLEMENTED, HEAP.to_owned()),
        false => plain(StatusCode::NOT_FOUND, "Unknown profile\n".to_owned()),
    }
    .into_response()
}

#[cfg(not(feature = "profiling"))]
mod cpu {
    use super::*;

    const BUILD: &str = "\
This binary was built without CPU profiles. The image with the suffix `-debug` has them:
docker buildx build --build-arg VARIANT=debug --tag loadmaster:VERSION-debug .
A binary with them, without an image:
RUSTFLAGS='-C force-frame-pointers=yes' cargo build --release --features profiling
Or profile the process on its node: perf record -g -p PID
";

    pub(super) async fn profile() -> Response {
        plain(StatusCode::NOT_IMPLEMENTED, BUILD.to_owned())
    }
}

#[cfg(feature = "profiling")]
mod cpu {
    use std::time::Duration;

    use axum::extract::Query;
    use pprof::ProfilerGuardBuilder;
    use pprof::protos::Message;

    use super::*;

    /// Samples per second and thread at work.
    const FREQUENCY: i32 = 100;
    /// Duration of a profile in seconds, unless the request sets it.
    const DEFAULT_SECONDS: u64 = 30;
    /// Maximum duration of a profile in seconds.
    const MAX_SECONDS: u64 = 600;

    /// Samples for the given time, then answers with the profile.
    pub(super) async fn profile(Query(query): Query<Vec<(String, String)>>) -> Response {
        let seconds = query.iter().find(|(key, _)| key == "seconds");
        let seconds = seconds.and_then(|(_, seconds)| seconds.parse().ok());
        let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_SECONDS);
        match sample(Duration::from_secs(seconds.min(MAX_SECONDS))).await {
            Ok(profile) => {
                let headers = [
                    (header::CONTENT_TYPE, "application/octet-stream"),
                    (header::CONTENT_DISPOSITION, "attachment; filename=\"profile\""),
                    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                ];
                (headers, profile).into_response()
            }
            Err(error) => {
                let text = format!("Could not enable CPU profiling: {error}\n");
                plain(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        }
    }

    async fn sample(duration: Duration) -> anyhow::Result<Vec<u8>> {
        // Fails while another request samples.
        let sampling = ProfilerGuardBuilder::default().frequency(FREQUENCY).build()?;
        tokio::time::sleep(duration).await;
        let encode = move || {
            let profile = sampling.report().build()?.pprof()?;
            Ok(profile.write_to_bytes()?)
        };
        tokio::task::spawn_blocking(encode).await?
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[tokio::test]
        async fn profile_has_samples_and_only_one_is_taken_at_a_time() {
            let busy =
                tokio::task::spawn_blocking(|| (0..200_000_000_u64).fold(0, u64::wrapping_add));
            let first = sample(Duration::from_millis(300));
            let second = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                sample(Duration::from_millis(1)).await
            };
            let (first, second) = tokio::join!(first, second);
            busy.await.unwrap();
            assert!(second.is_err());
            let profile = pprof::protos::Profile::parse_from_bytes(&first.unwrap()).unwrap();
            assert!(!profile.sample.is_empty() && !profile.function.is_empty());
        }
    }
}
