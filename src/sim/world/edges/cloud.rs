//! The IBM Cloud edge of a replica.

use async_trait::async_trait;
use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Method, Request, Response};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{carried_out, is_awaited};
use crate::cloud::InstanceName;
use crate::ibm::http::{Exchange, ExchangeError};
use crate::sim::faults::{Desk, FaultName, Upon};
use crate::sim::history::Edge;
use crate::sim::ibm::InProcess;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::world::effects::effect;
use crate::sim::world::life::Life;
use crate::sim::world::recorder::{Recorder, Sent, Worth};

/// How one life of a replica reaches IBM Cloud.
#[derive(Clone)]
pub struct CloudEdge {
    /// The cloud, with its own faults in front of it.
    pub cloud: InProcess,
    /// Where its faults are turned on: they are told before the answer that they spoilt.
    pub desk: Desk,
    /// Whose edge it is.
    pub life: Life,
    /// Where everything is written.
    pub recorder: Recorder,
}

#[async_trait]
impl Exchange for CloudEdge {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let (to, answer) = oneshot::channel();
        tokio::spawn(Box::pin(carry(self.clone(), request, to)));
        let lost = |_| Err(ExchangeError::Lost("the connection was lost".to_owned()));
        answer.await.unwrap_or_else(lost)
    }
}

/// The name of the claim whose machine a request is about.
fn claim_of(desk: &Desk, sent: &Sent) -> Option<String> {
    effect(sent.edge, &sent.method, sent.uri.path())?;
    let machine = if is_order(sent) {
        let order: Value = serde_json::from_slice(&sent.body).ok()?;
        order["name"].as_str()?.to_owned()
    } else {
        let id = sent.uri.path().split('/').nth(3)?;
        desk.parts().cloud.instance(id)?.name
    };
    let uid = InstanceName::of_machine(&machine)?.claim_uid();
    let state = desk.parts().server.state();
    let mut claims = state
        .store
        .list(&TableKey::of("karpenter.sh", "nodeclaims"), None)
        .map(|stored| stored.shared());
    let claim = claims.find(|claim| object::uid(claim) == uid)?;
    Some(object::name(&claim).to_owned())
}

fn is_order(sent: &Sent) -> bool {
    sent.method == Method::POST && sent.uri.path().ends_with("/instances")
}

type Answered = oneshot::Sender<Result<Response<Bytes>, ExchangeError>>;

/// Carries a request to the cloud and its answer back, whoever still waits for it: a client that gave up at its
/// deadline has lost the answer, not the effect.
async fn carry(edge: CloudEdge, request: Request<Bytes>, to: Answered) {
    let sent = Sent {
        who: edge.life.who(),
        edge: Edge::Cloud,
        method: request.method().clone(),
        uri: request.uri().clone(),
        body: request.body().clone(),
        worth: Worth::Kept,
    };
    // Before it is carried out: the claim may be gone when a slow answer comes.
    let claim = claim_of(&edge.desk, &sent).unwrap_or_default();
    let number = edge.recorder.request(&sent);
    if is_order(&sent) && edge.life.has_sent(Upon::Order) {
        edge.desk.strike(FaultName::Pause, "upon an order");
        edge.recorder.turn(edge.life.who(), "paused");
    }
    if is_order(&sent) && edge.life.must_stop(Upon::Order) {
        edge.desk.strike(FaultName::Handover, "upon an order");
        edge.recorder.turn(edge.life.who(), "asked to stop");
        edge.life.stop().cancel();
    }
    let (served, answer) = edge.cloud.witness(request).await;
    edge.desk.gather();
    if served.is_some_and(|status| status.is_success())
        && let Some(deed) = effect(Edge::Cloud, &sent.method, sent.uri.path())
    {
        edge.recorder.effect(deed.to(claim));
        edge.life.landed();
        if is_order(&sent) {
            edge.life.has_landed(Upon::Order);
        }
        if edge.life.has_sent(Upon::Effects(0)) {
            edge.desk.strike(FaultName::Pause, "upon an effect");
            edge.recorder.turn(edge.life.who(), "paused");
        }
    }
    let told = match &answer {
        Ok(response) if is_awaited(&edge.life, &to) => {
            Some((response.status().as_u16(), response.body().clone()))
        }
        _ => None,
    };
    let header = answer
        .as_ref()
        .ok()
        .and_then(|response| response.headers().get(RETRY_AFTER));
    let asks = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
    edge.recorder
        .answer_asking(&sent, number, told, carried_out(served), asks);
    if is_awaited(&edge.life, &to) {
        // A sender that went away in between no longer wants it.
        let _ = to.send(answer);
    }
}
