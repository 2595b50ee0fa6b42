//! Watch: what is there, then what happens, as a stream of JSON lines.

mod backlog;
mod control;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;

pub use control::{Control, Delivery, Ending, Forgetting, Hold, Reads, RuleId, Who};

use super::identity::User;
use super::kind::Kind;
use super::read;
use super::refusal::Refusal;
use super::request::{Ask, Options};
use super::server::{ApiServer, body_response};
use stream::Stream;

/// How long a stream lasts when the client does not say; a real server draws 30 to 60 minutes.
const LASTS: Duration = Duration::from_mins(45);

/// Opens a stream.
pub fn watch(server: &ApiServer, user: &User, kind: &Arc<Kind>, ask: &Ask) -> Result<Response, Refusal> {
    read::check_fields(kind, ask)?;
    read::check_options(ask)?;
    let lasts = ask.options.timeout_seconds.filter(|seconds| *seconds > 0);
    let lasts = lasts.map_or(LASTS, Duration::from_secs);
    let stream = Stream::open(server, user, kind, ask, lasts)?;
    let body = Body::from_stream(futures::stream::unfold(stream, |mut stream| async move {
        let line = stream.next().await?;
        Some((Ok::<Bytes, std::convert::Infallible>(line), stream))
    }));
    Ok(body_response(StatusCode::OK, body))
}

/// Whether the stream begins with what is there.
fn begins_with_all(options: &Options) -> bool {
    let anything = matches!(options.resource_version.as_deref(), None | Some("0"));
    options.send_initial_events.unwrap_or(anything)
}
