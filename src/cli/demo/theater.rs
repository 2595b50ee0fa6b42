//! The performance: two runtimes, one world.
//!
//! *Inside*, a current-thread runtime with paused time holds the servers, the operator, the machines and everybody
//! else, paced by the wall clock. *Outside*, a normal runtime has the sockets and the signals. Requests cross on a
//! [`bridge`](super::bridge). When this returns, for whatever reason, both are gone.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::SignalKind;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::bridge::{self, Inside};
use super::pace;
use super::screen::Screen;
use super::show::{Afterwards, Show, Tempo};
use super::story;
use crate::cli::cloud::running::{Announcement, make_folder};
use crate::cli::signals::stop_on_signal;
use crate::cli::{BadInput, Interrupted, draft, kubeconfig, output};
use crate::clock::Clock;
use crate::sim::ibm::{self, Answers, Cloud, Server};
use crate::sim::kube::identity::Keys;
use crate::sim::kube::{ApiServer, Options, serve};
use crate::sim::scenario::picture::Picture;
use crate::sim::scenario::{Audience, Failure, Line, Scene, Voice, stage};
use crate::sim::signals;
use crate::sim::world::cluster::{API_KEY, Cluster};
use crate::sim::world::product::product;
use crate::sim::world::replica::Replica;

/// How long the outside may take to end: what it has left to do is to close sockets.
const CURTAIN: Duration = Duration::from_secs(3);
/// What helps where there is no place for what the demo and other commands know of each other.
const ELSEWHERE: &str = "--kubeconfig PATH names another place for the kubeconfig, and XDG_RUNTIME_DIR in the environment another \
                         folder for everything";

/// Plays the show to its end, or until the user ends it.
pub(super) fn perform(show: Show) -> anyhow::Result<()> {
    let outside = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let inside = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("starting the runtime of the simulated time")?;
    let stop = CancellationToken::new();
    let doors = outside.block_on(Doors::open(&show, &stop))?;
    let outcome = inside.block_on(play(show, doors, outside.handle(), &stop));
    stop.cancel();
    drop(inside);
    outside.shutdown_timeout(CURTAIN);
    outcome
}

/// What the world is reached through from outside.
struct Doors {
    kube: TcpListener,
    kube_router: axum::Router,
    kube_inside: Inside,
    cloud: Server,
    cloud_inside: Inside,
    /// Set when the process was stopped and goes on.
    went_on: Arc<AtomicBool>,
    /// The signal by which the user has ended the demo.
    ended_by: Arc<OnceLock<i32>>,
}

impl Doors {
    /// Takes the ports, and listens for signals from then on.
    async fn open(show: &Show, stop: &CancellationToken) -> anyhow::Result<Self> {
        let ended_by = stop_on_signal(stop)?;
        let went_on = signals::continuation().context("listening for signals")?;
        let kube = serve::listen(show.listen)
            .await
            .map_err(|error| unusable("--listen", error))?;
        let (cloud_router, cloud_inside) = bridge::bridge();
        let cloud = Server::bind_router(cloud_router, show.cloud_listen)
            .await
            .map_err(|error| unusable("--cloud-listen", error))?;
        let (kube_router, kube_inside) = bridge::bridge();
        Ok(Self {
            kube,
            kube_router,
            kube_inside,
            cloud,
            cloud_inside,
            went_on,
            ended_by,
        })
    }
}

fn unusable(flag: &str, error: impl Error + Send + Sync + 'static) -> anyhow::Error {
    BadInput::new(format!("{flag}: {:#}", anyhow::Error::new(error)))
        .hint("choose a port of 127.0.0.1 or [::1] that is free; port 0 takes any")
        .into()
}

/// An empty cluster whose time begins now: clients compare its certificates with their own clocks.
fn cluster(show: &Show) -> Cluster {
    let now = Clock::system().now();
    // Times in objects are whole seconds: begun at a fraction of one, things would differ by a second from show to show.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let clock = Clock::simulated(now);
    let server = ApiServer::new(Options {
        clock: clock.clone(),
        seed: show.seed,
        keys: Keys::Fresh,
    });
    let mut options = ibm::Options::new(&show.scenario.region, show.seed, clock.clone());
    options.answers = Answers::Realistic;
    options.api_keys = vec![API_KEY.to_owned()];
    Cluster {
        server,
        cloud: Cloud::new(options),
        clock,
    }
}

async fn play(show: Show, doors: Doors, outside: &Handle, stop: &CancellationToken) -> anyhow::Result<()> {
    // kube draws the jitter of its back-offs from this thread's generator.
    fastrand::seed(show.seed);
    let cluster = cluster(&show);
    let addresses = Addresses::of(&show, &doors)?;
    addresses.write_kubeconfig(&cluster.server)?;
    let (went_on, ended_by) = (doors.went_on.clone(), doors.ended_by.clone());
    let served = admit(&cluster, doors, outside, stop);
    let region = &show.scenario.region;
    let stage = stage::open(&cluster, region, show.seed, &product())
        .await
        .context("setting the stage")?;
    let _announcement = Announcement::publish(&addresses.cloud);
    addresses.introduce(&show);
    let operator = stage.replica.clone();
    let spare = move || operator.life().spare().is_some();
    let mut house = House {
        screen: match show.tempo {
            Tempo::Times(speed) => Screen::live(stop.clone(), speed, quoted(&addresses.kubeconfig), went_on),
            Tempo::Unbounded => Screen::of_script(stop.clone()),
        },
        picture: Picture::new(&show.scenario.about),
        operator: stage.replica,
        lives: 0,
    };
    let outcome = tokio::select! {
        biased;
        () = stop.cancelled() => Ended::Early(ended_by.get().copied()),
        played = story::tell(&show, &stage.hands, &spare, &mut house) => Ended::Played(played),
        () = time_passes(&show, &cluster.clock, outside) => Ended::Early(None),
    };
    house.screen.end()?;
    if let (Some(canvas), Ended::Played(Ok(()))) = (&show.picture, &outcome) {
        draft::put(&canvas.path, &house.picture.svg(), 0o666)
            .with_context(|| format!("drawing {}", canvas.path.display()))?;
    }
    stop.cancel();
    for served in served {
        served.abort();
    }
    outcome.conclude(&show)
}

/// Serves both servers on their ports.
fn admit(cluster: &Cluster, doors: Doors, outside: &Handle, stop: &CancellationToken) -> [JoinHandle<()>; 2] {
    tokio::spawn(doors.kube_inside.answer_with(cluster.server.router()));
    tokio::spawn(doors.cloud_inside.answer_with(cluster.cloud.router()));
    let (server, told) = (cluster.server.clone(), stop.clone());
    let kube = outside.spawn(async move {
        if let Err(error) = serve::serve_through(&server, doors.kube_router, doors.kube, told).await {
            let error = anyhow::Error::new(error);
            output::talk(format_args!("the Kubernetes API cannot be reached: {error:#}"));
        }
    });
    [kube, outside.spawn(doors.cloud.run(stop.clone()))]
}

/// All who watch.
struct House {
    screen: Screen,
    picture: Picture,
    operator: Replica,
    /// How many of the operator's lives were over when that was last told.
    lives: u64,
}

impl Audience for House {
    fn hear(&mut self, line: Line) {
        self.picture.hear(line.clone());
        self.screen.hear(line);
    }

    fn see(&mut self, at: Duration, scene: &Scene) {
        let lives = self.operator.life().ordinal();
        if lives > self.lives {
            self.lives = lives;
            // No golden transcript has it: only here is the operator itself in sight.
            self.screen.hear(Line {
                at,
                voice: Voice::Stage,
                text: "the operator crashed, and is started again with empty memory".to_owned(),
            });
        }
        self.picture.see(at, scene);
        self.screen.see(at, scene);
    }
}

async fn time_passes(show: &Show, clock: &Clock, outside: &Handle) {
    match show.tempo {
        Tempo::Times(speed) => pace::follow(pace::metronome(outside), clock, speed).await,
        Tempo::Unbounded => std::future::pending().await,
    }
}

/// How a performance ended.
enum Ended {
    /// The user ended it, by this signal.
    Early(Option<i32>),
    /// The scenario was played, or failed.
    Played(Result<(), Failure>),
}

impl Ended {
    fn conclude(self, show: &Show) -> anyhow::Result<()> {
        match (self, show.afterwards) {
            (Self::Played(Err(failure)), _) => {
                Err(anyhow::Error::new(failure)
                    .context(format!("the scenario {} failed", show.scenario.name)))
            }
            (Self::Early(signal), Afterwards::Over) => {
                Err(Interrupted(signal.unwrap_or(SignalKind::interrupt().as_raw_value())).into())
            }
            (Self::Early(_), Afterwards::Open) => {
                output::talk("the demo has ended; nothing is left running");
                Ok(())
            }
            (Self::Played(Ok(())), _) => Ok(()),
        }
    }
}

/// Where everything is, for the user.
struct Addresses {
    kube: String,
    cloud: String,
    kubeconfig: PathBuf,
    /// The kubeconfig is ours to remove.
    temporary: Option<Temporary>,
}

/// A file that goes away with this.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // What stays is worthless.
        let _ = fs::remove_file(&self.0);
    }
}

impl Addresses {
    fn of(show: &Show, doors: &Doors) -> anyhow::Result<Self> {
        let kube = format!("https://{}", doors.kube.local_addr()?);
        let cloud = format!("http://{}", doors.cloud.address());
        let (kubeconfig, temporary) = if let Some(path) = &show.kubeconfig {
            // Whoever reads it may be in another folder.
            (std::path::absolute(path).unwrap_or_else(|_| path.clone()), None)
        } else {
            let folder =
                make_folder().map_err(|error| BadInput::new(format!("{error:#}")).hint(ELSEWHERE))?;
            let path = folder.join(format!("demo-{}.kubeconfig", std::process::id()));
            (path.clone(), Some(Temporary(path)))
        };
        Ok(Self {
            kube,
            cloud,
            kubeconfig,
            temporary,
        })
    }

    fn write_kubeconfig(&self, server: &ApiServer) -> Result<(), BadInput> {
        let written = kubeconfig::write("demo", &self.kubeconfig, &serve::kubeconfig(server, &self.kube));
        written.map_err(|problem| match self.temporary {
            Some(_) => problem.hint(ELSEWHERE),
            None => problem,
        })
    }

    /// Says how to look at the stage and meddle.
    fn introduce(&self, show: &Show) {
        let kept = match self.temporary {
            Some(_) => "",
            None => "  # worthless once the demo has ended",
        };
        output::talk(format_args!("{}", show.scenario.about));
        output::talk(
            "Time is simulated and does not follow your clock: the ages that kubectl shows are not to be trusted.",
        );
        output::talk(format_args!(
            "\n  export KUBECONFIG={}{kept}\n  kubectl get nodeclaims,nodes,pods -w\n  karpenter-ibm cloud ls --endpoint {}\n",
            quoted(&self.kubeconfig),
            self.cloud
        ));
    }
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/.-_+:@%,=~".contains(letter);
    if text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_a_shell_reads_it() {
        let table = [
            ("/tmp/demo-1.kubeconfig", "/tmp/demo-1.kubeconfig"),
            ("/home/ann lee/kc", "'/home/ann lee/kc'"),
            ("/o'neil/$x", r"'/o'\''neil/$x'"),
        ];
        for (path, written) in table {
            assert_eq!(quoted(Path::new(path)), written);
        }
    }
}
