//! The simulated cloud, seen through the requests that a provisioner makes.

mod catalog;
mod command;
mod constraints;
mod faults;
mod history;
mod lifecycle;
mod protocol;
mod tagging;
mod withdrawal;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use jiff::Timestamp;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::ibm::http::{Exchange, ExchangeError};
use karpenter_ibm::sim::ibm::{Cloud, InProcess, Options};
use serde_json::{Value, json};

const VERSION: &str = "version=2026-10-06&generation=2";

/// A client with a token, and the cloud it talks to.
struct Api {
    cloud: Cloud,
    exchange: InProcess,
    clock: Clock,
    token: String,
}

/// An answer: status, headers, body.
#[derive(Debug)]
struct Said {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Said {
    /// The code of the first error.
    fn code(&self) -> &str {
        self.body["errors"][0]["code"].as_str().unwrap_or_default()
    }

    fn target(&self) -> &str {
        self.body["errors"][0]["target"]["name"]
            .as_str()
            .unwrap_or_default()
    }
}

fn options(seed: u64) -> Options {
    let epoch: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
    Options::new("us-south", seed, Clock::simulated(epoch))
}

async fn api() -> Api {
    Api::to(options(1)).await
}

impl Api {
    async fn to(options: Options) -> Self {
        let clock = options.clock.clone();
        let cloud = Cloud::new(options);
        let mut api = Self {
            exchange: cloud.exchange(),
            cloud,
            clock,
            token: String::new(),
        };
        api.log_in().await;
        api
    }

    async fn log_in(&mut self) {
        let said = self
            .token("grant_type=urn:ibm:params:oauth:grant-type:apikey&apikey=demo-api-key")
            .await;
        self.token = said.body["access_token"].as_str().unwrap_or_default().to_owned();
    }

    async fn token(&self, form: &str) -> Said {
        let request = Request::post("https://iam.cloud.ibm.com/identity/token")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Bytes::from(form.to_owned()));
        self.send(request.unwrap()).await.unwrap()
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Said, ExchangeError> {
        let (parts, body) = self.exchange.exchange(request).await?.into_parts();
        let text = String::from_utf8_lossy(&body).into_owned();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Said {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }

    fn request(&self, method: &str, path: &str, body: Option<Value>) -> Request<Bytes> {
        let vpc = path.starts_with("/v1/");
        let join = if path.contains('?') { '&' } else { '?' };
        let uri = if vpc && !path.contains("version=") {
            format!("{path}{join}{VERSION}")
        } else {
            path.to_owned()
        };
        let media_type = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        Request::builder()
            .method(method)
            .uri(format!("https://us-south.iaas.cloud.ibm.com{uri}"))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", media_type)
            .body(body.map(|body| Bytes::from(body.to_string())).unwrap_or_default())
            .unwrap()
    }

    async fn try_call(&self, method: &str, path: &str, body: Option<Value>) -> Result<Said, ExchangeError> {
        self.send(self.request(method, path, body)).await
    }

    async fn get(&self, path: &str) -> Said {
        self.try_call("GET", path, None).await.unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> Said {
        self.try_call("POST", path, Some(body)).await.unwrap()
    }

    async fn patch(&self, path: &str, body: Value) -> Said {
        self.try_call("PATCH", path, Some(body)).await.unwrap()
    }

    async fn delete(&self, path: &str) -> Said {
        self.try_call("DELETE", path, None).await.unwrap()
    }

    /// A legal prototype in the first zone.
    fn prototype(&self, name: &str) -> Value {
        let account = self.cloud.account();
        json!({
            "name": name,
            "profile": { "name": "bxf-2x8" },
            "image": { "id": account.image },
            "zone": { "name": "us-south-1" },
            "vpc": { "id": account.vpc },
            "primary_network_attachment": {
                "name": "eth0",
                "virtual_network_interface": { "subnet": { "id": account.subnets[0] }, "auto_delete": true },
            },
        })
    }

    fn spot(&self, name: &str) -> Value {
        let mut prototype = self.prototype(name);
        prototype["availability"] = json!({ "class": "spot" });
        prototype["availability_policy"] = json!({ "preemption": "stop" });
        prototype
    }

    /// Creates an instance and gives its id.
    async fn create(&self, prototype: Value) -> String {
        let said = self.post("/v1/instances", prototype).await;
        assert_eq!(said.status, StatusCode::CREATED, "{}", said.body);
        said.body["id"].as_str().unwrap().to_owned()
    }

    async fn create_running(&self, prototype: Value) -> String {
        let id = self.create(prototype).await;
        self.wait_for(&id, "running").await;
        id
    }

    /// Waits until the instance has the status; more than an hour is too long.
    async fn wait_for(&self, id: &str, status: &str) -> Value {
        for _ in 0..3600 {
            let said = self.get(&format!("/v1/instances/{id}")).await;
            if said.body["status"] == status {
                return said.body;
            }
            self.pass(1).await;
        }
        panic!("{id} is never {status}");
    }

    /// Waits until the instance is gone; the seconds it took.
    async fn wait_until_gone(&self, id: &str) -> u64 {
        for seconds in 0..3600 {
            if self.get(&format!("/v1/instances/{id}")).await.status == StatusCode::NOT_FOUND {
                return seconds;
            }
            self.pass(1).await;
        }
        panic!("{id} is never gone");
    }

    /// Lets seconds pass.
    async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }
}
