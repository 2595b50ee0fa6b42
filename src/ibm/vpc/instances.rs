//! Instances: list, create, get, patch, delete, actions, initialization.

use http::Method;
use serde_json::json;

use super::types::{Action, AvailabilityClass, Initialization, Instance, InstancePatch, InstancePrototype};
use super::{Vpc, list, on};
use crate::cloud::Error;
use crate::ibm::http::{Operation, SendBy, Service};

const LIST: Operation = list("list instances");
const CREATE: Operation = Operation::create(Service::Vpc, "create instance");
const GET: Operation = on("get instance", "instance");
const PATCH: Operation = on("patch instance", "instance");
const DELETE: Operation = on("delete instance", "instance");
const INITIALIZATION: Operation = on("get instance initialization", "instance");
// Actions queue up on the server, so a second one is not the same as one.
const ACTION: Operation = Operation {
    name: "order instance action",
    service: Service::Vpc,
    resource: Some("instance"),
    repeat: crate::ibm::http::Repeat::IfNotCarriedOut,
};

/// Which instances to list. There is no filter for zone, profile, status or tag.
#[derive(Clone, Debug, Default)]
pub struct InstanceFilter {
    /// Exactly this name.
    pub name: Option<String>,
    /// Only this class.
    pub class: Option<AvailabilityClass>,
    /// Only in this VPC, by id.
    pub vpc: Option<String>,
    /// Only in this resource group, by id.
    pub resource_group: Option<String>,
}

impl InstanceFilter {
    fn query(&self) -> Vec<(&'static str, &str)> {
        [
            ("name", self.name.as_deref()),
            // With a dot on the wire; the SDKs call it availability_class.
            (
                "availability.class",
                self.class.as_ref().map(AvailabilityClass::as_str),
            ),
            ("vpc.id", self.vpc.as_deref()),
            ("resource_group.id", self.resource_group.as_deref()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

impl Vpc {
    /// Every instance that passes the filter.
    pub async fn list_instances(&self, filter: &InstanceFilter) -> Result<Vec<Instance>, Error> {
        self.list(
            LIST,
            &["instances"],
            "instances",
            |instance: &Instance| &instance.id,
            &filter.query(),
        )
        .await
    }

    /// Orders a machine. Success means that it will be tried: a shortage shows later, in its status reasons. An error
    /// whose [`Error::effect`] is unknown must be settled by looking the name up.
    pub async fn create_instance(&self, prototype: &InstancePrototype) -> Result<Instance, Error> {
        self.create_instance_by(prototype, None).await
    }

    /// Like [`Vpc::create_instance`], but nothing is sent after `send_by`.
    pub async fn create_instance_by(
        &self,
        prototype: &InstancePrototype,
        send_by: Option<SendBy>,
    ) -> Result<Instance, Error> {
        let call = Self::call(CREATE, Method::POST, &["instances"])
            .about(&prototype.name)
            .send_by(send_by)
            .json(prototype);
        self.api.fetch(call).await
    }

    /// One instance.
    pub async fn get_instance(&self, id: &str) -> Result<Instance, Error> {
        self.get(GET, &["instances", id], id).await
    }

    /// Changes an instance, e.g. its name.
    pub async fn patch_instance(&self, id: &str, patch: &InstancePatch) -> Result<Instance, Error> {
        let call = Self::call(PATCH, Method::PATCH, &["instances", id])
            .about(id)
            .merge_patch(patch);
        self.api.fetch(call).await
    }

    /// Asks for deletion. It is gone when [`Vpc::get_instance`] says not found; a conflict means "later".
    pub async fn delete_instance(&self, id: &str) -> Result<(), Error> {
        self.delete(DELETE, &["instances", id], id).await
    }

    /// Orders the machine to start, stop or reboot.
    pub async fn order_action(&self, id: &str, action: Action) -> Result<(), Error> {
        let call = Self::call(ACTION, Method::POST, &["instances", id, "actions"]);
        self.api
            .perform(call.about(id).json(&json!({"type": action})))
            .await
    }

    /// What the machine was initialized with.
    pub async fn get_initialization(&self, id: &str) -> Result<Initialization, Error> {
        self.get(INITIALIZATION, &["instances", id, "initialization"], id)
            .await
    }
}
