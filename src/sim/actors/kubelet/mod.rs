//! A kubelet that knows nothing but what its machine was told: it carries out the user data, builds its client from
//! the files written there, asks for a certificate, registers its Node once it has one, and then shows that it lives,
//! runs pods and obeys the power button.
//!
//! One kubelet is one future. Dropping it is cutting the power: nothing is said any more.

pub mod behavior;
pub mod cloud_init;
pub mod disk;
pub mod flags;
pub mod heartbeat;
pub mod join;
pub mod machine;
pub mod node;
pub mod pods;
mod serve;
pub mod settings;
pub mod shell;
pub mod shutdown;
pub mod systemd;
pub mod volumes;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::sim::actors::network::Network;
use crate::sim::ibm::Span;
use crate::sim::kube::identity::Keys;
use behavior::{Behavior, Oddities, joins_after};
use cloud_init::Placement;
use disk::Disk;
use join::Credential;
use machine::{Consoles, Machine};
use pods::Pace;
use settings::Settings;
use shell::{Shell, Started};

/// How soon a kubelet that failed is started again by its service, and how late at most. systemd itself would not
/// wait longer each time.
const RESTART_MIN: Duration = Duration::from_secs(10);
const RESTART_MAX: Duration = Duration::from_mins(2);

/// What somebody at the power button wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Power {
    /// Go on.
    #[default]
    On,
    /// The button was pressed: the power goes soon.
    ShuttingDown,
}

/// A machine with everything that a kubelet on it needs.
pub struct Guest {
    /// The machine.
    pub machine: Machine,
    /// Its files.
    pub disk: Disk,
    /// What it is connected to.
    pub network: Arc<dyn Network>,
    /// Its clock.
    pub clock: Clock,
    /// Its power button.
    pub power: watch::Receiver<Power>,
    /// Where it says what it does.
    pub consoles: Consoles,
    /// Where its keys come from.
    pub keys: Keys,
    /// What is odd about it.
    pub behaviors: Vec<Behavior>,
    /// Whether what comes and goes of that is on.
    pub oddities: Oddities,
    /// How long pods take to start.
    pub pace: Pace,
    /// From registration until the network of pods is up.
    pub ready_after: Span,
    /// Where its chance comes from.
    pub rng: Rng,
}

impl Guest {
    fn say(&self, text: &str) {
        self.consoles.say(&self.machine.id, self.clock.now(), text);
    }

    /// Waits until the power button is pressed.
    async fn shutting_down(power: &mut watch::Receiver<Power>) {
        if power
            .wait_for(|power| *power == Power::ShuttingDown)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }
}

/// Runs a machine from the moment that its operating system is up. Ends when nothing more can come of it.
pub async fn run(mut guest: Guest) {
    let Some(settings) = start(&guest) else {
        return;
    };
    match joins_after(&guest.behaviors) {
        Some(wait) => guest.clock.sleep(wait).await,
        None => return,
    }
    let mut power = guest.power.clone();
    let credential = tokio::select! {
        biased;
        // Nobody waits for a kubelet that has no pods yet: it goes with the other services.
        () = Guest::shutting_down(&mut power) => return,
        credential = credential(&guest, &settings) => credential,
    };
    serve::serve(&mut guest, &settings, credential).await;
}

/// Everything up to the start of the kubelet, and what it then knows.
fn start(guest: &Guest) -> Option<Settings> {
    let started = boot(guest).or_else(|| {
        guest.say("nothing starts a kubelet");
        None
    })?;
    let read = arguments(guest, started.1).and_then(|arguments| {
        guest.say(&format!("kubelet {}", arguments.join(" ")));
        Settings::read(&arguments, &guest.disk, &started.0, guest.machine.profile.vcpu)
            .map_err(|error| error.to_string())
    });
    match read {
        Ok(settings) => Some(settings),
        Err(why) => {
            guest.say(&format!("kubelet: {why}"));
            None
        }
    }
}

fn arguments(guest: &Guest, started: Started) -> Result<Vec<String>, String> {
    match started {
        Started::Command(arguments) => Ok(arguments),
        Started::Service => systemd::arguments(&guest.disk).map_err(|error| error.to_string()),
    }
}

/// Carries out the user data at the first boot. Later ones find the files as they were left and the service enabled.
fn boot(guest: &Guest) -> Option<(String, Started)> {
    const DONE: &str = "/var/lib/cloud/instance/boot-finished";
    const HOSTNAME: &str = "/etc/hostname";
    if guest.disk.read(DONE).is_some() {
        let hostname = guest.disk.text(HOSTNAME)?;
        // What was started by hand at the first boot is not started again.
        return Some((hostname, Started::Service)).filter(|_| guest.disk.read(ENABLED).is_some());
    }
    let instructions = match cloud_init::parse(&guest.machine.user_data) {
        Ok(instructions) => instructions,
        Err(error) => {
            guest.say(&format!("cloud-init: {error}"));
            return None;
        }
    };
    let metadata = guest.machine.metadata();
    let hostname = instructions
        .hostname
        .unwrap_or_else(|| guest.machine.name.clone());
    let mut shell = Shell::new(&guest.disk, &metadata, &hostname);
    for script in &instructions.early_scripts {
        shell.run(script);
    }
    for file in &instructions.files {
        match file.placement {
            Placement::Replace => guest.disk.write(&file.path, file.content.clone()),
            Placement::Append => guest.disk.append(&file.path, &file.content),
        }
    }
    for script in &instructions.scripts {
        shell.run(script);
    }
    for line in &shell.said {
        guest.say(&format!("cloud-init: {line}"));
    }
    guest.disk.write(HOSTNAME, shell.hostname.clone());
    guest.disk.write(DONE, "");
    if shell.started == Some(Started::Service) {
        guest.disk.write(ENABLED, "");
    }
    shell.started.map(|started| (shell.hostname, started))
}

/// There if the service starts with the machine.
const ENABLED: &str = "/etc/systemd/system/multi-user.target.wants/kubelet.service";

/// The credential on the disk, or a new one, however often that takes.
async fn credential(guest: &Guest, settings: &Settings) -> Credential {
    if let Some(credential) = join::stored(guest, settings) {
        return credential;
    }
    let mut wait = RESTART_MIN;
    for attempt in 0.. {
        match join::bootstrap(guest, settings, attempt).await {
            Ok(credential) => return credential,
            Err(error) => guest.say(&format!("kubelet: failed to run: {error}")),
        }
        guest.clock.sleep(wait).await;
        wait = (wait * 2).min(RESTART_MAX);
    }
    std::future::pending().await
}

/// A time as metadata and conditions have it: whole seconds.
fn stamp(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
