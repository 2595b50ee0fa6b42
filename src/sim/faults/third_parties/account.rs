//! What others do in the account: by the same API as everybody, with a key of their own session.

use fastrand::Rng;
use http::{Method, Request};
use serde_json::{Value, json};

use super::{Meddling, Undo};
use crate::cloud::{ClusterId, InstanceName};
use crate::ibm::http::ExchangeError;
use crate::sim::faults::desk::Desk;
use crate::sim::faults::names::{FaultName, MeddlingKind};
use crate::sim::history::CarriedOut;
use crate::sim::ibm::{Class, InstanceTruth};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::stored::ObjectKey;

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// No answer.
    #[error("no answer from the account")]
    Exchange(#[from] ExchangeError),
    /// Another answer than hoped for.
    #[error("{method} {path} was answered with {status}")]
    Refused {
        /// How it was asked.
        method: Method,
        /// What was asked.
        path: String,
        /// What was answered.
        status: u16,
    },
    /// There is nothing that it could be done to.
    #[error("there is nothing to do it to")]
    Nothing,
}

/// Does it, if it can be done.
pub(super) async fn meddle(desk: &Desk, meddling: &Meddling, rng: &mut Rng) -> Result<(), AccountError> {
    let cluster = cluster(desk).ok_or(AccountError::Nothing)?;
    let tell = |detail: &str| desk.strike(FaultName::Meddling(meddling.kind), detail);
    let stranger = Stranger { desk };
    let name = match meddling.kind {
        MeddlingKind::DeleteMachine => {
            let mut machines: Vec<InstanceTruth> = desk.parts().cloud.instances();
            let group = desk.parts().cloud.account().resource_group;
            machines.retain(|machine| {
                let here = machine.resource_group == group && machine.status != "deleting";
                here && ours(machine, cluster)
            });
            let picked = meddling.pick(&machines, |machine| machine.name.clone(), rng);
            let machine = picked.ok_or(AccountError::Nothing)?;
            tell(&machine.name);
            return stranger.delete(&machine.id).await;
        }
        MeddlingKind::PreemptedLeaving => {
            let leaving = leaving_spot(desk, cluster);
            let picked = meddling.pick(&leaving, |machine| machine.name.clone(), rng);
            let machine = picked.ok_or(AccountError::Nothing)?;
            tell(&machine.name);
            let cloud = &desk.parts().cloud;
            let taken = if rng.bool() {
                cloud.preempt(&machine.id)
            } else {
                cloud.preempt_for_good(&machine.id)
            };
            return taken.map_err(|_| AccountError::Nothing);
        }
        MeddlingKind::NameTaken => wanted_name(desk, meddling, cluster, rng).ok_or(AccountError::Nothing)?,
        kind => foreign_name(kind, cluster, rng),
    };
    tell(&name);
    // Another cluster follows the same rules, in the same group even.
    let group = if meddling.kind == MeddlingKind::TwinMachine {
        desk.parts().cloud.account().resource_group
    } else {
        stranger.other_group().await?
    };
    stranger.create(&name, &group).await
}

/// Gives the operator another key, and takes the old one and all that was got by it. Where it reads its key from, it finds the
/// new one when this is taken back.
pub(super) fn rotate_key(desk: &Desk, meddling: &Meddling, rng: &mut Rng) -> Option<Undo> {
    let parts = desk.parts();
    desk.strike(FaultName::Meddling(meddling.kind), "all tokens");
    parts.cloud.revoke_tokens();
    let file = parts.key_file.as_ref()?;
    let key = format!("rotated-{:032x}", rng.u128(..));
    parts.cloud.set_api_keys(&[&parts.api_key, &key]);
    file.rotate(&key);
    Some(Undo::Key)
}

pub(super) fn cluster(desk: &Desk) -> Option<ClusterId> {
    let state = desk.parts().server.state();
    let key = ObjectKey::new("", "kube-system");
    let namespace = state.store.get(&TableKey::of("", "namespaces"), &key)?.value();
    Some(ClusterId::from_kube_system_uid(object::uid(&namespace)))
}

fn ours(machine: &InstanceTruth, cluster: ClusterId) -> bool {
    let name = machine.name.parse::<InstanceName>();
    name.is_ok_and(|name| name.cluster() == cluster)
}

/// Spot machines of ours that run, and whose claims are being deleted.
fn leaving_spot(desk: &Desk, cluster: ClusterId) -> Vec<InstanceTruth> {
    let leaving: Vec<String> = {
        let state = desk.parts().server.state();
        let claims = state
            .store
            .list(&TableKey::of("karpenter.sh", "nodeclaims"), None);
        let leaving = claims
            .map(|stored| stored.shared())
            .filter(|claim| object::is_deleting(claim));
        leaving
            .filter_map(|claim| Some(InstanceName::new(cluster, object::uid(&claim))?.to_string()))
            .collect()
    };
    let mut machines = desk.parts().cloud.instances();
    machines.retain(|machine| {
        machine.class == Class::Spot && machine.status == "running" && leaving.contains(&machine.name)
    });
    machines
}

fn foreign_name(kind: MeddlingKind, cluster: ClusterId, rng: &mut Rng) -> String {
    let claim = rng.u128(..);
    match kind {
        MeddlingKind::TwinMachine => {
            let other = ClusterId::from_kube_system_uid(&format!("twin {claim}"));
            format!("kib-{other}-{claim:032x}")
        }
        MeddlingKind::ConfusingMachine => match rng.u8(..4) {
            0 => format!("kib-{cluster}-{:016x}", rng.u64(..)),
            1 => format!("kib-{cluster}-{claim:032x}-backup"),
            2 => format!("old-kib-{cluster}-{:08x}", rng.u32(..)),
            // Our very pattern, in somebody else's resource group.
            _ => format!("kib-{cluster}-{claim:032x}"),
        },
        _ => format!("billing-{:08x}", rng.u32(..)),
    }
}

/// The name of a claim whose machine is not there.
fn wanted_name(desk: &Desk, meddling: &Meddling, cluster: ClusterId, rng: &mut Rng) -> Option<String> {
    let claims: Vec<(String, String)> = {
        let state = desk.parts().server.state();
        let claims = state
            .store
            .list(&TableKey::of("karpenter.sh", "nodeclaims"), None);
        claims
            .map(|stored| stored.value())
            .map(|claim| (object::name(&claim).to_owned(), object::uid(&claim).to_owned()))
            .collect()
    };
    let free: Vec<(String, String)> = claims
        .into_iter()
        .filter_map(|(claim, uid)| Some((claim, InstanceName::new(cluster, &uid)?.to_string())))
        .filter(|(_, name)| desk.parts().cloud.instance(name).is_none())
        .collect();
    meddling
        .pick(&free, |(claim, _)| claim.clone(), rng)
        .map(|(_, name)| name)
}

/// Somebody with access to the account.
pub(super) struct Stranger<'a> {
    pub(super) desk: &'a Desk,
}

impl Stranger<'_> {
    async fn create(&self, name: &str, group: &str) -> Result<(), AccountError> {
        let account = self.desk.parts().cloud.account();
        let (Some(zone), Some(subnet)) = (account.zones.first(), account.subnets.first()) else {
            return Err(AccountError::Nothing);
        };
        let prototype = json!({
            "name": name,
            "profile": {"name": "bxf-2x8"},
            "image": {"id": account.image},
            "zone": {"name": zone},
            "vpc": {"id": account.vpc},
            "resource_group": {"id": group},
            "primary_network_attachment": {
                "name": "eth0",
                "virtual_network_interface": {"subnet": {"id": subnet}, "auto_delete": true},
            },
        });
        self.send(Method::POST, "/v1/instances", Some(&prototype))
            .await
            .map(drop)
    }

    async fn delete(&self, id: &str) -> Result<(), AccountError> {
        let path = format!("/v1/instances/{id}");
        self.send(Method::DELETE, &path, None).await.map(drop)
    }

    /// A resource group that is not the operator's.
    async fn other_group(&self) -> Result<String, AccountError> {
        let ours = self.desk.parts().cloud.account().resource_group;
        let groups = self.send(Method::GET, "/v2/resource_groups", None).await?;
        let groups = groups["resources"].as_array().cloned().unwrap_or_default();
        let mut ids = groups.iter().filter_map(|group| group["id"].as_str());
        let other = ids.find(|id| *id != ours);
        other.map(str::to_owned).ok_or(AccountError::Nothing)
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, AccountError> {
        let token = self.token().await?;
        let request = Request::builder()
            .method(method.clone())
            .uri(format!("https://account{path}?version=2026-06-30&generation=2"))
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        self.exchange(request, path, body.map(Value::to_string).unwrap_or_default())
            .await
    }

    async fn token(&self) -> Result<String, AccountError> {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "urn:ibm:params:oauth:grant-type:apikey")
            .append_pair("apikey", &self.desk.parts().api_key)
            .finish();
        let path = "/identity/token";
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("https://iam{path}"))
            .header("content-type", "application/x-www-form-urlencoded");
        let answer = self.exchange(request, path, form).await?;
        let token = answer["access_token"].as_str();
        token.map(str::to_owned).ok_or(AccountError::Nothing)
    }

    async fn exchange(
        &self,
        request: http::request::Builder,
        path: &str,
        body: String,
    ) -> Result<Value, AccountError> {
        let request = request.body(body.into()).map_err(|_| AccountError::Nothing)?;
        let method = request.method().clone();
        let testify = (self.desk.parts().witness)(&request);
        let (served, answer) = self.desk.parts().cloud.exchange().witness(request).await;
        self.desk.gather();
        let told = answer.as_ref().ok();
        let told = told.map(|answer| (answer.status().as_u16(), answer.body().clone()));
        testify(told, served.map_or(CarriedOut::No, |_| CarriedOut::Yes));
        let answer = answer?;
        if !answer.status().is_success() {
            return Err(AccountError::Refused {
                method,
                path: path.to_owned(),
                status: answer.status().as_u16(),
            });
        }
        Ok(serde_json::from_slice(answer.body()).unwrap_or_default())
    }
}
