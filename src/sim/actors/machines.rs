//! Machines: follows the instances of a cloud and keeps a kubelet on each that runs.
//!
//! A VM that runs boots after a while and then does what its user data says. One that is stopping has its power button
//! pressed, which is how a guest learns of a preemption. One that is off, restarting, deleted or failed takes its kubelet
//! with it at once; if it runs again, the kubelet finds the disk as it was.
//!
//! Every machine is a task, started in the order of instance ids; chance comes from the seed, the id and the number
//! of the boot. Dropping the future of [`run`] ends them all.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::kubelet::behavior::{Behavior, Oddities};
use super::kubelet::disk::Disk;
use super::kubelet::machine::{Consoles, Machine};
use super::kubelet::pods::{Pace, draw};
use super::kubelet::{self, Guest, Power};
use super::network::Network;
use crate::clock::{Clock, between};
use crate::hash::fnv1a;
use crate::ibm::builtin::find_profile;
use crate::sim::ibm::{Cloud, InstanceTruth, Span};
use crate::sim::kube::identity::Keys;

/// What machines are told beyond what the cloud says about them.
#[derive(Clone)]
pub struct MachineOptions {
    /// Everything random is drawn from it.
    pub seed: u64,
    /// Where kubelets get their keys from.
    pub keys: Keys,
    /// From `running` until user data is carried out.
    pub boot: Span,
    /// From registration until the network of pods is up.
    pub ready_after: Span,
    /// How long pods take to start.
    pub pace: Pace,
    /// What machines say.
    pub consoles: Consoles,
    /// What is odd about machines that come up.
    pub oddities: Oddities,
}

impl MachineOptions {
    /// Well-behaved machines. The times are those of a stock Ubuntu image with a small CNI plugin.
    pub fn new(seed: u64, keys: Keys) -> Self {
        Self {
            seed,
            keys,
            boot: Span::seconds(15, 40),
            ready_after: Span::seconds(3, 15),
            pace: Pace::default(),
            consoles: Consoles::default(),
            oddities: Oddities::default(),
        }
    }
}

/// Keeps a kubelet on each instance that runs, until dropped.
pub async fn run(cloud: Cloud, network: Arc<dyn Network>, clock: Clock, options: MachineOptions) {
    let mut moves = cloud.moves();
    let mut fleet = Fleet {
        network,
        clock: clock.clone(),
        options,
        vms: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    loop {
        cloud.advance();
        moves.borrow_and_update();
        fleet.follow(cloud.instances());
        let due = cloud.next_due();
        let wait = async {
            match due {
                Some(due) => clock.sleep(between(clock.now(), due)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = moves.changed() => {}
            () = wait => {}
        }
    }
}

struct Fleet {
    network: Arc<dyn Network>,
    clock: Clock,
    options: MachineOptions,
    vms: BTreeMap<String, Vm>,
    tasks: JoinSet<()>,
}

/// A VM that was seen to run at least once.
struct Vm {
    disk: Disk,
    boots: u32,
    behaviors: Vec<Behavior>,
    power: watch::Sender<Power>,
    kubelet: Option<AbortHandle>,
}

impl Vm {
    fn cut_power(&mut self) {
        if let Some(kubelet) = self.kubelet.take() {
            kubelet.abort();
        }
    }
}

impl Fleet {
    fn follow(&mut self, mut instances: Vec<InstanceTruth>) {
        while self.tasks.try_join_next().is_some() {}
        instances.sort_by(|a, b| a.id.cmp(&b.id));
        self.vms.retain(|id, vm| {
            let stays = instances.binary_search_by(|instance| instance.id.cmp(id)).is_ok();
            if !stays {
                vm.cut_power();
            }
            stays
        });
        for instance in instances {
            match instance.status {
                "running" => self.switch_on(instance),
                "stopping" => {
                    if let Some(vm) = self.vms.get(&instance.id) {
                        vm.power.send_replace(Power::ShuttingDown);
                    }
                }
                _ => {
                    if let Some(vm) = self.vms.get_mut(&instance.id) {
                        vm.cut_power();
                    }
                }
            }
        }
    }

    fn switch_on(&mut self, instance: InstanceTruth) {
        if self.vms.get(&instance.id).is_some_and(|vm| vm.kubelet.is_some()) {
            return;
        }
        let boots = self.vms.get(&instance.id).map_or(0, |vm| vm.boots + 1);
        let salt = fnv1a(format!("{}/{boots}", instance.id).as_bytes());
        let mut rng = Rng::with_seed(self.options.seed ^ salt);
        let wait = draw(self.options.boot, &mut rng);
        let oddities = &self.options.oddities;
        let vm = self.vms.entry(instance.id.clone()).or_insert_with(|| Vm {
            disk: Disk::default(),
            boots: 0,
            behaviors: match &instance.user_data {
                Some(_) => oddities.draw(&instance.name, &mut rng),
                // One that is told nothing joins nothing.
                None => Vec::new(),
            },
            power: watch::Sender::new(Power::On),
            kubelet: None,
        });
        vm.boots = boots;
        vm.power = watch::Sender::new(Power::On);
        let Some(machine) = machine(instance, boots) else {
            return;
        };
        let guest = Guest {
            machine,
            disk: vm.disk.clone(),
            network: Arc::clone(&self.network),
            clock: self.clock.clone(),
            power: vm.power.subscribe(),
            consoles: self.options.consoles.clone(),
            keys: self.options.keys,
            behaviors: vm.behaviors.clone(),
            oddities: self.options.oddities.clone(),
            pace: self.options.pace,
            ready_after: self.options.ready_after,
            rng,
        };
        let clock = self.clock.clone();
        vm.kubelet = Some(self.tasks.spawn(async move {
            clock.sleep(wait).await;
            kubelet::run(guest).await;
        }));
    }
}

/// The machine that an instance is; `None` if it has no address or no known profile, which one that runs has.
fn machine(instance: InstanceTruth, boots: u32) -> Option<Machine> {
    Some(Machine {
        profile: find_profile(instance.profile)?,
        address: instance.address?,
        id: instance.id,
        name: instance.name,
        zone: instance.zone,
        storage_gb: instance.boot_volume_gb,
        user_data: instance.user_data.unwrap_or_default(),
        metadata_service: instance.metadata_service,
        boots,
    })
}
