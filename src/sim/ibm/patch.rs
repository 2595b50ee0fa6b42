//! `PATCH /v1/instances/{id}`, a merge patch: everything is checked before anything changes.

use http::StatusCode;

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::faults::FaultKind;
use super::fields::{self, Fields};
use super::instances::{HostFailure, MetadataService, Preemption, Status};
use super::options::{Class, Rename};
use super::state::{Event, State};
use super::{operations, profiles, prototype, view};
use crate::ibm::builtin::Profile;

/// The changes a patch asks for.
#[derive(Default)]
struct Changes {
    name: Option<String>,
    class: Option<Class>,
    host_failure: Option<HostFailure>,
    preemption: Option<Preemption>,
    profile: Option<&'static Profile>,
    placement_target: Option<Target>,
    reservation_policy: Option<String>,
    metadata: Option<MetadataService>,
    qos_mode: Option<String>,
    volume_bandwidth: Option<u64>,
    vcpu_percentage: Option<u64>,
    secure_boot: Option<bool>,
}

/// Where an instance is to be placed.
enum Target {
    Anywhere,
    On(String),
}

/// Changes an instance.
pub(super) fn patch(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    check_media_type(ask)?;
    let sent = fields::parse(&ask.body)?;
    let body = Fields::of(&sent)?;
    let instance = operations::find(state, ask)?;
    let (id, name, status) = (instance.id.clone(), instance.name.clone(), instance.status);
    ask.if_match(&instance.etag())?;
    let mut changes = read(state, ask, &body, status)?;
    if status == Status::Deleting {
        return Err(Refusal::conflict(
            "invalid_state",
            format!("The instance '{id}' is being deleted"),
        ));
    }
    if changes.name.as_ref() == Some(&name) {
        changes.name = None;
    }
    if let Some(new) = &changes.name {
        state.check_instance_name(new)?;
        release_name(state, ask, &name)?;
    }
    apply(state, &id, changes);
    let instance = state
        .instances
        .get(&id)
        .ok_or_else(|| operations::not_found(&id))?;
    let (etag, crn) = (instance.etag(), instance.crn());
    let body = view::body(state, instance);
    state.reindex(&crn);
    Ok(Answer::ok(body).with_etag(etag))
}

fn check_media_type(ask: &Ask) -> Result<(), Refusal> {
    let media_type = ask.header("content-type").unwrap_or_default();
    if media_type.starts_with("application/merge-patch+json") {
        return Ok(());
    }
    let message = "The Content-Type of a PATCH must be application/merge-patch+json";
    Err(
        Refusal::status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_request", message).blames(
            "header",
            "Content-Type",
            Some(media_type),
        ),
    )
}

fn read(state: &State, ask: &Ask, body: &Fields<'_>, status: Status) -> Result<Changes, Refusal> {
    let mut changes = Changes {
        name: body.text("name")?,
        ..Changes::default()
    };
    if let Some(availability) = body.object("availability")? {
        changes.class = prototype::read_class(&availability)?;
    }
    (changes.host_failure, changes.preemption) = prototype::read_policy(body)?.unwrap_or((None, None));
    let profile = body.reference("profile", &["name"])?;
    changes.profile = profile.map(|name| profiles::find(state, &name)).transpose()?;
    if body.is_null("placement_target") {
        changes.placement_target = Some(Target::Anywhere);
    } else if let Some(target) = body.reference("placement_target", &[])? {
        if !state.placement.contains_key(&target) {
            let refusal = Refusal::not_found("placement target", &target);
            return Err(refusal.blames("field", "placement_target", Some(&target)));
        }
        changes.placement_target = Some(Target::On(target));
    }
    changes.reservation_policy = read_reservation(ask, body)?;
    if body.has("metadata_service") {
        changes.metadata = Some(prototype::read_metadata(body)?);
    }
    if let Some(vcpu) = body.object("vcpu")? {
        changes.vcpu_percentage = vcpu.number("percentage")?;
        vcpu.done()?;
    }
    changes.qos_mode = body.word("volume_bandwidth_qos_mode", &["pooled", "weighted"])?;
    changes.volume_bandwidth = body.number("total_volume_bandwidth")?;
    changes.secure_boot = body.flag("enable_secure_boot")?;
    body.word("confidential_compute_mode", &["disabled", "sgx", "tdx"])?;
    body.number("threads_per_core")?;
    body.done()?;
    check_stopped(body, status)?;
    Ok(changes)
}

/// An array in a merge patch replaces the whole one, so IBM wants to know which one the caller had seen.
fn read_reservation(ask: &Ask, body: &Fields<'_>) -> Result<Option<String>, Refusal> {
    let Some(affinity) = body.object("reservation_affinity")? else {
        return Ok(None);
    };
    if affinity.has("pool") && ask.header("if-match").is_none() {
        return Err(Refusal::header(
            "bad_request",
            "If-Match",
            "If-Match is required when an array is changed",
        ));
    }
    affinity.objects("pool")?;
    let policy = affinity.word("policy", &["automatic", "disabled", "manual"])?;
    affinity.done()?;
    Ok(policy)
}

/// Some things change only while the instance is off.
fn check_stopped(body: &Fields<'_>, status: Status) -> Result<(), Refusal> {
    let stopped = status == Status::Stopped;
    let refuse = |field: &str| {
        let message = format!(
            "{field} cannot be changed while the status is '{}'",
            status.as_str()
        );
        Err(Refusal::conflict("invalid_state", message).blames("field", field, None))
    };
    if body.has("availability") && !stopped && status != Status::Stopping {
        return refuse("availability.class");
    }
    let needs_stop = [
        "profile",
        "placement_target",
        "confidential_compute_mode",
        "enable_secure_boot",
    ];
    let also = ["threads_per_core", "volume_bandwidth_qos_mode"];
    match needs_stop
        .iter()
        .chain(&also)
        .find(|field| body.has(field) && !stopped)
    {
        Some(field) => refuse(field),
        None => Ok(()),
    }
}

/// The old name: free at once, or after a while, or the rename is refused.
fn release_name(state: &mut State, ask: &Ask, old: &str) -> Result<(), Refusal> {
    let mode = if state.faults.hits(FaultKind::RenameRefused, ask.operation) {
        Rename::Refused
    } else if state.faults.hits(FaultKind::RenameSlow, ask.operation) {
        Rename::Slow
    } else {
        state.options.rename
    };
    match mode {
        Rename::AtOnce => Ok(()),
        Rename::Refused => Err(Refusal::conflict(
            "invalid_state",
            format!("The instance '{old}' cannot be renamed in its state"),
        )),
        Rename::Slow => {
            state.held_names.insert(old.to_owned());
            state.after(state.options.timings.rename, Event::NameFreed(old.to_owned()));
            Ok(())
        }
    }
}

fn apply(state: &mut State, id: &str, changes: Changes) {
    let Some(instance) = state.instances.get_mut(id) else {
        return;
    };
    instance.revision += 1;
    set(&mut instance.name, changes.name);
    set(&mut instance.class, changes.class);
    set(&mut instance.host_failure, changes.host_failure);
    set(&mut instance.preemption, changes.preemption);
    set(&mut instance.profile, changes.profile);
    match changes.placement_target {
        None => {}
        Some(Target::Anywhere) => instance.placement_target = None,
        Some(Target::On(target)) => instance.placement_target = Some(target),
    }
    set(&mut instance.reservation_policy, changes.reservation_policy);
    set(&mut instance.metadata, changes.metadata);
    set(&mut instance.qos_mode, changes.qos_mode);
    set(&mut instance.volume_bandwidth, changes.volume_bandwidth);
    set(&mut instance.vcpu_percentage, changes.vcpu_percentage);
    set(&mut instance.secure_boot, changes.secure_boot);
}

fn set<T>(slot: &mut T, change: Option<T>) {
    if let Some(value) = change {
        *slot = value;
    }
}
