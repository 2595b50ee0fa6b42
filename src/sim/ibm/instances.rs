//! Instances: the record, and the life it leads.
//!
//! ```text
//! create ─► pending ─► starting ─► running ─► stopping ─► stopped ─► (start) starting …
//!              └─► stopped | failed + a reason (no capacity, …): holds address, volumes and quota until deleted
//! delete ─► deleting ─► gone (404): only now are name, address and quota free
//! ```
//!
//! Each step schedules the next; `turn` counts changes of course, so that a step scheduled before one is void.

use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;

use super::capacity::{Host, Offering};
use super::faults::FaultKind;
use super::ids;
use super::options::Class;
use super::state::{Event, State};
use crate::ibm::builtin::Profile;

/// Reasons why a start fails, with IBM's documented texts.
pub const START_FAILURES: [(&str, &str); 10] = [
    ("cannot_start", "Can't start instance because provisioning failed"),
    (
        "cannot_start_capacity",
        "Can't start instance because resource capacity is unavailable.",
    ),
    (
        "cannot_start_compute",
        "Can't start instance because compute resources can't be provisioned",
    ),
    (
        "cannot_start_ip_address",
        "Can't start instance because the network interface IP address isn't available",
    ),
    (
        "cannot_start_network",
        "Can't start instance because network resources can't be provisioned",
    ),
    (
        "cannot_start_placement_group",
        "Can't start instance in the placement group",
    ),
    (
        "cannot_start_reservation_capacity",
        "Can't start instance because the reservation has no capacity left",
    ),
    (
        "cannot_start_reservation_expired",
        "Can't start instance because the reservation has expired",
    ),
    (
        "cannot_start_storage",
        "Can't start instance because storage wasn't provisioned",
    ),
    (
        "encryption_key_deleted",
        "Can't start instance because its encryption key was deleted",
    ),
];

/// The status of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Pending,
    Starting,
    Running,
    Stopping,
    Stopped,
    Restarting,
    Deleting,
    Failed,
}

impl Status {
    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Restarting => "restarting",
            Self::Deleting => "deleting",
            Self::Failed => "failed",
        }
    }
}

/// What happens to a VM whose host fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFailure {
    /// It starts again on another host.
    Restart,
    /// It stays `stopped`, with `stopped_by_host_failure`.
    Stop,
}

/// What happens to a spot VM that is preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// It stays `stopped`, with `stopped_by_preemption`.
    Stop,
    /// It vanishes.
    Delete,
}

/// One instance.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) sequence: u64,
    pub(super) revision: u32,
    pub(super) turn: u32,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) created_at: Timestamp,
    pub(super) status: Status,
    pub(super) reason: Option<String>,
    pub(super) profile: &'static Profile,
    pub(super) zone: String,
    pub(super) class: Class,
    pub(super) host: Host,
    /// Whether it occupies a machine: from `starting` until it is off.
    pub(super) holds_host: bool,
    /// Whether it has ever got its address and its boot volume.
    pub(super) provisioned: bool,
    /// Whether its deletion is stuck.
    pub(super) stuck: bool,
    pub(super) host_failure: HostFailure,
    pub(super) preemption: Preemption,
    pub(super) vpc: String,
    pub(super) image: String,
    pub(super) keys: Vec<String>,
    pub(super) resource_group: String,
    pub(super) user_data: Option<String>,
    /// The first is the primary one.
    pub(super) attachments: Vec<Attachment>,
    pub(super) network_style: NetworkStyle,
    /// The first is the boot volume.
    pub(super) volumes: Vec<VolumeAttachment>,
    pub(super) placement_target: Option<String>,
    pub(super) reservation_policy: String,
    pub(super) trusted_profile: Option<(String, bool)>,
    pub(super) metadata: MetadataService,
    pub(super) vcpu_percentage: u64,
    pub(super) volume_bandwidth: u64,
    pub(super) qos_mode: String,
    pub(super) secure_boot: bool,
}

/// A network attachment and the interface behind it.
#[derive(Clone, Debug)]
pub(super) struct Attachment {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) interface: String,
}

/// Which of the two forms an instance was created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkStyle {
    Attachments,
    /// The older form; the interfaces behind it are not visible as virtual network interfaces.
    Interfaces,
}

/// A volume attachment.
#[derive(Clone, Debug)]
pub(super) struct VolumeAttachment {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) volume: String,
    pub(super) delete_with_instance: bool,
}

/// The metadata service as the guest sees it. IBM's default is off.
#[derive(Clone, Debug)]
pub(super) struct MetadataService {
    pub(super) enabled: bool,
    pub(super) protocol: String,
    pub(super) response_hop_limit: u64,
}

/// A step of an instance's life.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Start,
    Run,
    Off(Option<String>),
    /// By that fault.
    Preempt(FaultKind),
    HostFails(Aftermath),
    /// Somebody, or something, starts it again.
    Back,
    Delete,
    Gone,
}

/// What comes after the failure of a host by chance, for a machine that is to be restarted: it is; or for want of another host
/// it is off, for good or until there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aftermath {
    Restart,
    Off,
    OffFor(Duration),
}

impl Aftermath {
    /// By when the host fails, which is chance already: no other draw of the fault depends on it.
    fn draw(after: Duration) -> Self {
        let mut own = Rng::with_seed(after.as_secs());
        match own.u8(..3) {
            0 => Self::Restart,
            1 => Self::Off,
            _ => Self::OffFor(Duration::from_secs(own.u64(30..=300))),
        }
    }
}

impl Instance {
    pub(super) fn offering(&self) -> Offering {
        Offering {
            profile: self.profile.name,
            zone: self.zone.clone(),
            class: self.class,
        }
    }

    pub(super) fn crn(&self) -> String {
        ids::crn(&self.zone, "instance", &self.id)
    }

    pub(super) fn etag(&self) -> String {
        format!("W/\"{}-{}\"", self.revision, self.status.as_str())
    }
}

impl State {
    /// The instance with that id or name. Names are unique, but a name may look like an id, so ids go first.
    pub(super) fn find_instance(&self, id_or_name: &str) -> Option<&Instance> {
        self.instances
            .get(id_or_name)
            .or_else(|| self.instances.values().find(|i| i.name == id_or_name))
    }

    /// Lets a step happen after a while, unless the instance changes course before.
    pub(super) fn then(&mut self, id: &str, delay: Duration, step: Step) {
        let Some(instance) = self.instances.get(id) else {
            return;
        };
        let event = Event::Instance {
            id: id.to_owned(),
            turn: instance.turn,
            step,
        };
        self.after(delay, event);
    }

    /// Changes course: what was scheduled is void.
    fn turn_to(&mut self, id: &str, status: Status) {
        self.moves += 1;
        if let Some(instance) = self.instances.get_mut(id) {
            instance.turn += 1;
            instance.revision += 1;
            instance.status = status;
            instance.reason = None;
        }
    }

    /// Carries out a step that is due.
    pub(super) fn step(&mut self, id: &str, turn: u32, step: Step) {
        if self
            .instances
            .get(id)
            .is_none_or(|instance| instance.turn != turn)
        {
            return;
        }
        match step {
            Step::Start => self.try_start(id),
            Step::Run => self.run(id),
            Step::Off(reason) => self.off(id, reason),
            // Only now: a machine that was given back by then never saw anything of it.
            Step::Preempt(fault) => {
                self.faults.note(fault, "instances.run");
                self.preempt_now(id);
            }
            Step::HostFails(aftermath) => {
                self.faults.note(FaultKind::HostFailure, "instances.run");
                self.fail_host_by_chance(id, aftermath);
            }
            Step::Back => self.start(id),
            Step::Delete => self.delete(id),
            Step::Gone => self.gone(id),
        }
    }

    /// A new instance begins its life.
    pub(super) fn launch(&mut self, id: &str) {
        self.moves += 1;
        let pending = self.draw(self.options.timings.pending);
        self.then(id, pending, Step::Start);
    }

    /// `pending` ends: a machine is taken, or there is none. Shortage is no HTTP error, it shows up here.
    fn try_start(&mut self, id: &str) {
        let Some(instance) = self.instances.get(id) else {
            return;
        };
        let (offering, gpu) = (instance.offering(), instance.profile.gpu.is_some());
        let local_disks = instance.profile.disks.is_some();
        let doom = self
            .doomed
            .remove(id)
            .or_else(|| self.doomed.remove(&self.instances[id].name.clone()));
        let doom = doom.or_else(|| self.drawn_start_failure());
        if let Some(reason) = doom {
            return self.fail_start(id, reason);
        }
        if !self.placement_allows(id) {
            return self.fail_start(id, "cannot_start_placement_group".into());
        }
        if self.free(&offering) == 0 {
            return self.fail_start(id, "cannot_start_capacity".into());
        }
        self.turn_to(id, Status::Starting);
        if let Some(instance) = self.instances.get_mut(id) {
            (instance.holds_host, instance.provisioned) = (true, true);
        }
        let timings = self.options.timings;
        let tail = self.chance.u8(..30) == 0;
        let span = match (gpu && local_disks, tail) {
            (true, _) => timings.starting_gpu,
            (false, true) => timings.starting_tail,
            (false, false) => timings.starting,
        };
        let starting = self.draw(span);
        self.then(id, starting, Step::Run);
    }

    fn drawn_start_failure(&mut self) -> Option<String> {
        let fault = self.faults.strike(FaultKind::StartFails, "instances.start")?;
        Some(
            fault
                .reason
                .unwrap_or_else(|| START_FAILURES[self.faults.pick(START_FAILURES.len())].0.into()),
        )
    }

    /// The instance stays, mostly `stopped`, one time in eight `failed`: the documentation leaves both open.
    fn fail_start(&mut self, id: &str, reason: String) {
        let status = if self.chance.u8(..8) == 0 {
            Status::Failed
        } else {
            Status::Stopped
        };
        self.turn_to(id, status);
        if let Some(instance) = self.instances.get_mut(id) {
            (instance.holds_host, instance.reason) = (false, Some(reason));
        }
    }

    fn run(&mut self, id: &str) {
        self.turn_to(id, Status::Running);
        let spot = self
            .instances
            .get(id)
            .is_some_and(|instance| instance.class == Class::Spot);
        if spot && self.faults.may_hit(FaultKind::Preemption, "instances.run") {
            let delay = self.until_preempted();
            self.then(id, delay, Step::Preempt(FaultKind::Preemption));
        }
        if spot && self.faults.may_hit(FaultKind::PreemptionDeletes, "instances.run") {
            // As where somebody with a console has changed the policy.
            if let Some(instance) = self.instances.get_mut(id) {
                instance.preemption = Preemption::Delete;
            }
            let delay = self.until_preempted();
            self.then(id, delay, Step::Preempt(FaultKind::PreemptionDeletes));
        }
        if self.faults.may_hit(FaultKind::HostFailure, "instances.run") {
            let delay = self.faults.delay(Duration::from_hours(1));
            self.then(id, delay, Step::HostFails(Aftermath::draw(delay)));
        }
    }

    /// How long a machine is left to its owner: where spot capacity runs dry, it may be taken back before it has booted.
    fn until_preempted(&mut self) -> Duration {
        let soon = self.faults.pick(3) == 0;
        let within = if soon {
            Duration::from_secs(20)
        } else {
            Duration::from_hours(1)
        };
        self.faults.delay(within)
    }

    fn off(&mut self, id: &str, reason: Option<String>) {
        self.turn_to(id, Status::Stopped);
        if let Some(instance) = self.instances.get_mut(id) {
            (instance.holds_host, instance.reason) = (false, reason);
        }
    }

    /// The notice of a preemption: by policy the VM is off after 30 seconds, or gone a little later.
    pub(super) fn preempt_now(&mut self, id: &str) {
        let Some(policy) = self.instances.get(id).map(|instance| instance.preemption) else {
            return;
        };
        let notice = self.options.timings.preemption_notice;
        self.turn_to(id, Status::Stopping);
        match policy {
            Preemption::Stop => self.then(id, notice, Step::Off(Some("stopped_by_preemption".into()))),
            Preemption::Delete => self.then(id, notice, Step::Delete),
        }
    }

    /// The host fails; `outcome` overrules the instance's own policy.
    pub(super) fn fail_host(&mut self, id: &str, outcome: Option<HostFailure>) {
        let Some(instance) = self.instances.get_mut(id) else {
            return;
        };
        instance.holds_host = false;
        match outcome.unwrap_or(instance.host_failure) {
            HostFailure::Stop => self.off(id, Some("stopped_by_host_failure".into())),
            HostFailure::Restart => {
                self.turn_to(id, Status::Restarting);
                self.try_restart(id);
            }
        }
    }

    /// The host fails by chance. A machine that is not to be restarted is off for good.
    fn fail_host_by_chance(&mut self, id: &str, aftermath: Aftermath) {
        match aftermath {
            Aftermath::Restart => self.fail_host(id, None),
            Aftermath::Off => self.fail_host(id, Some(HostFailure::Stop)),
            Aftermath::OffFor(span) => {
                self.fail_host(id, Some(HostFailure::Stop));
                let restarts = |it: &Instance| it.host_failure == HostFailure::Restart;
                if self.instances.get(id).is_some_and(restarts) {
                    self.then(id, span, Step::Back);
                }
            }
        }
    }

    /// Another host takes the VM over, if there is one.
    fn try_restart(&mut self, id: &str) {
        let Some(offering) = self.instances.get(id).map(Instance::offering) else {
            return;
        };
        if self.free(&offering) == 0 {
            return self.off(id, Some("stopped_by_host_failure".into()));
        }
        if let Some(instance) = self.instances.get_mut(id) {
            instance.holds_host = true;
        }
        let restarting = self.draw(self.options.timings.restarting);
        self.then(id, restarting, Step::Run);
    }

    /// The `stop` action.
    pub(super) fn stop(&mut self, id: &str) {
        self.turn_to(id, Status::Stopping);
        let stopping = self.draw(self.options.timings.stopping);
        self.then(id, stopping, Step::Off(None));
    }

    /// The `start` action: a machine must be found anew.
    pub(super) fn start(&mut self, id: &str) {
        self.turn_to(id, Status::Starting);
        self.then(id, Duration::from_secs(2), Step::Start);
    }

    /// The `reboot` action: the machine is kept.
    pub(super) fn reboot(&mut self, id: &str) {
        self.turn_to(id, Status::Restarting);
        let restarting = self.draw(self.options.timings.restarting);
        self.then(id, restarting, Step::Run);
    }

    /// The instance is being deleted; its name, address and quota stay taken until it is gone.
    pub(super) fn delete(&mut self, id: &str) {
        let stuck = self.faults.hits(FaultKind::DeleteStuck, "instances.delete");
        self.turn_to(id, Status::Deleting);
        if let Some(instance) = self.instances.get_mut(id) {
            instance.stuck = stuck;
        }
        let deleting = self.draw(self.options.timings.deleting);
        self.then(id, deleting, Step::Gone);
    }

    /// The end: what was to go with the instance goes, unless that is forgotten.
    fn gone(&mut self, id: &str) {
        /// How soon a stuck deletion is looked at again.
        const STUCK: Duration = Duration::from_secs(30);
        if self.instances.get(id).is_some_and(|i| i.stuck) && self.faults.is_on(FaultKind::DeleteStuck) {
            return self.then(id, STUCK, Step::Gone);
        }
        let Some(mut instance) = self.instances.remove(id) else {
            return;
        };
        self.moves += 1;
        let forgotten = self.faults.hits(FaultKind::AutoDeleteIgnored, "instances.delete");
        for attachment in &instance.attachments {
            self.release_interface(&attachment.interface, forgotten);
        }
        for attachment in &instance.volumes {
            self.release_volume(attachment, forgotten);
        }
        let crn = instance.crn();
        self.tags.remove(&crn);
        self.reindex(&crn);
        instance.status = Status::Deleting;
        self.departed.insert(id.to_owned(), (self.now, instance));
    }
}

/// The documented text for a reason.
pub(super) fn reason_text(code: &str) -> &'static str {
    match code {
        "stopped_by_preemption" => "The virtual server instance was stopped due to preemption.",
        "stopped_by_host_failure" => "Host not responding: instance stopped",
        _ => START_FAILURES
            .iter()
            .find(|(known, _)| *known == code)
            .map_or("Can't start instance", |(_, text)| text),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::sim::ibm::{Fault, FaultKind};
    use crate::sim::invariants::stage::Stage;

    #[tokio::test(start_paused = true)]
    async fn a_machine_whose_host_fails_by_chance_restarts_or_is_off_for_good_or_for_minutes() {
        let mut stage = Stage::new().await;
        stage.cloud.faults().start(Fault::new(FaultKind::HostFailure));
        for number in 0..12 {
            stage.machine(&format!("m{number}")).await;
        }
        stage.pass(300).await;
        // One that has come back is spared.
        stage.cloud.faults().clear();
        let (mut restarted, mut off) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..410 {
            stage.pass(10).await;
            for machine in stage.cloud.instances() {
                match machine.status {
                    "restarting" => restarted.insert(machine.name),
                    "stopped" => off.insert(machine.name),
                    _ => false,
                };
            }
        }
        let runs = |name: &&String| stage.cloud.instance(name).unwrap().status == "running";
        assert!(restarted.iter().any(|name| runs(&name)), "{restarted:?}");
        let (back, gone): (Vec<&String>, Vec<&String>) = off.iter().partition(runs);
        assert!(!back.is_empty() && !gone.is_empty(), "{back:?} {gone:?}");
        for name in gone {
            let reason = stage.cloud.instance(name).unwrap().reason;
            assert_eq!(reason.as_deref(), Some("stopped_by_host_failure"));
        }
    }
}
