//! `/debug/pprof/`: CPU and heap profiles of the running scheduler.
//!
//! A build with the feature `profiling` samples all threads while a request asks for it, and
//! samples allocations from its start. Other builds answer how to obtain a profile.

use axum::Router;
use axum::http::{StatusCode, header};
#[cfg(feature = "profiling")]
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;

use super::App;
use super::router::plain;
use crate::config::without_user;

const INDEX: &str = "\
/debug/pprof/

profile?seconds=30  CPU profile in the format of pprof, one request at a time
heap                memory in use by the stacks that allocated it, in the format of pprof
cmdline             command line

Other profiles of Go programs do not exist here.
";

const ALLOCATIONS: &str = "\
No build of this program counts what was allocated and freed. /debug/pprof/heap has the memory in use.
";

#[cfg(not(feature = "profiling"))]
const BUILD: &str = "\
This binary was built without profiles. The image with the suffix `-debug` has them:
docker buildx build --build-arg VARIANT=debug --tag loadmaster:VERSION-debug .
A binary with them, without an image:
RUSTFLAGS='-C force-frame-pointers=yes' cargo build --release --features profiling
";

/// Adds the paths.
pub(super) fn with_profiling(router: Router<App>) -> Router<App> {
    let redirect = async || (StatusCode::FOUND, [(header::LOCATION, "/debug/pprof/")]);
    let index = async || plain(StatusCode::OK, INDEX.to_owned());
    router
        .route("/debug/pprof", get(redirect))
        .route("/debug/pprof/", get(index))
        .route("/debug/pprof/cmdline", get(command_line))
        .route("/debug/pprof/profile", get(cpu::profile))
        .route("/debug/pprof/heap", get(heap::profile))
        .route("/debug/pprof/allocs", get(allocations))
        .route("/debug/pprof/{name}", get(other))
}

/// Returns the arguments of the process, separated by NUL as in Go.
async fn command_line() -> Response {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let arguments: Vec<_> = arguments.map(without_user).collect();
    plain(StatusCode::OK, arguments.join("\0"))
}

async fn allocations() -> Response {
    plain(StatusCode::NOT_IMPLEMENTED, ALLOCATIONS.to_owned())
}

async fn other() -> Response {
    plain(StatusCode::NOT_FOUND, "Unknown profile\n".to_owned())
}

/// Answers with a profile under the name that Go servers give it.
#[cfg(feature = "profiling")]
fn attachment(name: &str, profile: Vec<u8>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, profile).into_response()
}

#[cfg(not(feature = "profiling"))]
mod cpu {
    use super::*;

    pub(super) async fn profile() -> Response {
        let text = format!("{BUILD}Or profile the process on its node: perf record -g -p PID\n");
        plain(StatusCode::NOT_IMPLEMENTED, text)
    }
}

#[cfg(not(feature = "profiling"))]
mod heap {
    use super::*;

    /// What an operator can do with the process that runs.
    const METRICS: &str = "\
The metrics process_resident_memory_bytes and scheduler_cache_size show the memory of this process and what it holds; \
`cargo bench --bench memory` measures the memory per node and pod.
";

    pub(super) async fn profile() -> Response {
        plain(StatusCode::NOT_IMPLEMENTED, format!("{BUILD}{METRICS}"))
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
            Ok(profile) => attachment("profile", profile),
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

#[cfg(feature = "profiling")]
mod heap {
    use std::sync::Arc;

    use anyhow::Context;
    use jemalloc_pprof::PROF_CTL;

    use super::*;

    /// The setting of the allocator is compiled in (`.cargo/config.toml`).
    const OFF: &str = "\
This process samples no allocations. Start it with the environment variable _RJEM_MALLOC_CONF=prof:true.
";

    /// Answers with the memory in use now, by the stacks that allocated it.
    pub(super) async fn profile() -> Response {
        let Some(sampling) = PROF_CTL.as_ref() else {
            return plain(StatusCode::NOT_IMPLEMENTED, OFF.to_owned());
        };
        let mut sampling = Arc::clone(sampling).lock_owned().await;
        // The allocator writes its own format to a temporary file, and the crate converts it.
        let dump = tokio::task::spawn_blocking(move || {
            sampling.dump_pprof().with_context(|| {
                let folder = std::env::temp_dir();
                format!("the profile is written through a file in {}", folder.display())
            })
        });
        match dump.await.map_err(anyhow::Error::from).flatten() {
            Ok(profile) => attachment("heap", profile),
            Err(error) => {
                let text = format!(
                    "Could not take a heap profile: {error:#}. Set TMPDIR to a folder that the process may write to.\n"
                );
                plain(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        }
    }
}
