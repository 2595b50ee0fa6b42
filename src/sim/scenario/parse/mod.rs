//! Reads a scenario from its file: everything is checked that can be checked before there is a cluster.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::document::{Fields, Mistake, Place, Tree};
use super::expectation::{Expectation, Selector};
use super::{Action, CloudFault, Crash, Machine, Offering, Scenario, Step, Target, known, placeholders};
use crate::operator::ConfigFile;
use crate::sim::ibm::{self, Class, FaultKind, HostFailure};

/// How long a story goes on after its last step, unless it says so itself: time for a machine to come and go.
const AFTERMATH: Duration = Duration::from_mins(10);

/// How many replicas of the operator there are in a world: as the chart has it.
const REPLICAS: usize = 2;

const STEP: &[&str] = &[
    "at",
    "apply",
    "delete",
    "scale",
    "preempt",
    "fail-host",
    "stop-machine",
    "drain",
    "refill",
    "fault",
    "crash",
    "configure",
    "bill",
    "say",
    "expect",
];
/// A step is one of these, at its time.
const ACTIONS: &[&str] = STEP.split_at(1).1;

/// Why there is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("cannot read {}: {problem}", path.display())]
    Unreadable {
        /// The file, or one that it refers to.
        path: PathBuf,
        /// Why not. It is told above, and must not be told again as a cause.
        problem: io::Error,
    },
    /// It says something that it must not.
    #[error(transparent)]
    Mistake(#[from] Mistake),
}

impl Scenario {
    /// Reads a file, and the manifests that it refers to, relative to itself.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        Self::load_in(path, None)
    }

    /// Like [`Scenario::load`], to be played in `region` in place of its own, if one is given.
    pub fn load_in(path: &Path, region: Option<&str>) -> Result<Self, LoadError> {
        let text = read(path)?;
        let file = path.display().to_string();
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::read(&file, &text, region, |name| manifests(&folder.join(name)))
    }

    /// Reads a text that refers to no files.
    pub fn parse(file: &str, text: &str) -> Result<Self, LoadError> {
        Self::parse_in(file, text, &[], None)
    }

    /// Reads a text that refers to no files but these (their names and texts), to be played in `region` in place of its own,
    /// if one is given.
    pub fn parse_in(
        file: &str,
        text: &str,
        files: &[(&str, &str)],
        region: Option<&str>,
    ) -> Result<Self, LoadError> {
        Self::read(file, text, region, |name| {
            if let Some((known, text)) = files.iter().find(|(known, _)| *known == name) {
                return Ok(manifests_in(known, text)?);
            }
            let path = PathBuf::from(name);
            let problem = io::Error::new(io::ErrorKind::NotFound, "this scenario is in no folder");
            Err(LoadError::Unreadable { path, problem })
        })
    }

    fn read(
        file: &str,
        text: &str,
        instead: Option<&str>,
        open: impl Fn(&str) -> Result<Vec<Value>, LoadError>,
    ) -> Result<Self, LoadError> {
        let tree = Tree::read(file, text)?;
        let root = tree.root(file);
        let fields = root.fields(&["name", "about", "region", "lasts", "files", "objects", "steps"])?;
        let mut objects = Vec::new();
        for place in fields.read("files", Place::items)?.unwrap_or_default() {
            objects.extend(opened(&place, &open)?);
        }
        for place in fields.read("objects", Place::items)?.unwrap_or_default() {
            objects.push(manifest(&place)?);
        }
        let own = fields.read("region", known::region)?;
        let region = instead.map(str::to_owned).or(own);
        let region = region.unwrap_or_else(|| "us-south".to_owned());
        let steps = steps(&fields.need("steps")?, &open, &region)?;
        let ends = ends(&steps);
        let last = steps.last().map_or(Duration::ZERO, |step| step.at);
        let lasts = fields.read("lasts", |place| lasts(place, last))?;
        Ok(Self {
            name: fields.need("name")?.words()?,
            about: fields.need("about")?.words()?,
            region,
            objects,
            lasts: lasts.unwrap_or(ends + AFTERMATH),
            steps,
        })
    }
}

/// How long the story lasts: what begins when it is over would not be played.
fn lasts(place: &Place<'_>, last: Duration) -> Result<Duration, Mistake> {
    let lasts = place.duration()?;
    if lasts < last {
        return Err(place.wrong(format!("is {lasts:?}, and a step begins after {last:?}")));
    }
    Ok(lasts)
}

/// When all of it is over at the latest: what is expected in vain holds up every step after it.
fn ends(steps: &[Step]) -> Duration {
    let (mut now, mut ends) = (Duration::ZERO, Duration::ZERO);
    for step in steps {
        now = now.max(step.at);
        let over = match &step.action {
            Action::Expect(expectation) => {
                now += expectation.within;
                now
            }
            Action::Fault(fault) => now + fault.lasts.unwrap_or_default(),
            _ => now,
        };
        ends = ends.max(over);
    }
    ends
}

fn read(path: &Path) -> Result<String, LoadError> {
    fs::read_to_string(path).map_err(|problem| LoadError::Unreadable {
        path: path.to_owned(),
        problem,
    })
}

fn manifests(path: &Path) -> Result<Vec<Value>, LoadError> {
    Ok(manifests_in(&path.display().to_string(), &read(path)?)?)
}

fn manifests_in(file: &str, text: &str) -> Result<Vec<Value>, Mistake> {
    let trees = Tree::read_all(file, text)?;
    trees.iter().map(|tree| manifest(&tree.root(file))).collect()
}

/// An object with a kind and a name, whose placeholders are all known.
fn manifest(place: &Place<'_>) -> Result<Value, Mistake> {
    for path in ["apiVersion", "kind", "metadata.name"] {
        let mut parts = path.split('.');
        let field = parts.try_fold(place.clone(), |place, part| place.field(part));
        let field = field.ok_or_else(|| place.wrong(format!("is no manifest: it has no `{path}`")))?;
        field.words()?;
    }
    for text in place.texts() {
        if let Some(word) = placeholders::unknown(text.text()?) {
            return Err(text.unknown("placeholder", word, placeholders::known()));
        }
    }
    Ok(place.value())
}

/// Reads the manifests of a file.
type Open<'a> = &'a dyn Fn(&str) -> Result<Vec<Value>, LoadError>;

fn steps(place: &Place<'_>, open: Open<'_>, region: &str) -> Result<Vec<Step>, LoadError> {
    let (mut steps, mut last) = (Vec::new(), Duration::ZERO);
    for place in place.items()? {
        let fields = place.fields(STEP)?;
        let at = fields.read("at", Place::duration)?.unwrap_or(last);
        if at < last {
            return Err(fields.need("at")?.wrong("is before the step above it").into());
        }
        last = at;
        let (name, what) = fields.one_of(ACTIONS)?;
        steps.push(Step {
            at,
            line: place.line(),
            action: match name {
                "apply" => Action::Apply(applied(&what, open)?),
                _ => action(name, &what, region)?,
            },
        });
    }
    Ok(steps)
}

/// The manifests of the file that is named here.
fn opened(place: &Place<'_>, open: Open<'_>) -> Result<Vec<Value>, LoadError> {
    open(&place.words()?).map_err(|error| match error {
        LoadError::Unreadable { path, problem } => place
            .wrong(format!("cannot read {}: {problem}", path.display()))
            .into(),
        LoadError::Mistake(_) => error,
    })
}

/// Manifests as they stand there, or `{file: web.yaml}` for those of a file.
fn applied(place: &Place<'_>, open: Open<'_>) -> Result<Vec<Value>, LoadError> {
    let mut manifests = Vec::new();
    for place in place.one_or_more()? {
        if place.value().get("file").is_some() {
            manifests.extend(opened(&place.fields(&["file"])?.need("file")?, open)?);
        } else {
            manifests.push(manifest(&place)?);
        }
    }
    Ok(manifests)
}

fn action(name: &str, place: &Place<'_>, region: &str) -> Result<Action, Mistake> {
    Ok(match name {
        "delete" => Action::Delete(target(&place.fields(&[
            "apiVersion",
            "kind",
            "namespace",
            "name",
        ])?)?),
        "scale" => {
            let fields = place.fields(&["apiVersion", "kind", "namespace", "name", "replicas"])?;
            Action::Scale {
                target: target(&fields)?,
                replicas: fields.need("replicas")?.number()?,
            }
        }
        "preempt" => Action::Preempt(machine(&place.fields(&["claim", "selector"])?)?),
        "fail-host" => {
            let fields = place.fields(&["claim", "selector", "outcome"])?;
            Action::FailHost {
                machine: machine(&fields)?,
                outcome: fields.read("outcome", outcome)?,
            }
        }
        "stop-machine" => Action::StopMachine(machine(&place.fields(&["claim", "selector"])?)?),
        "drain" => Action::Drain(offering(place, region)?),
        "refill" => Action::Refill(offering(place, region)?),
        "fault" => Action::Fault(fault(place)?),
        "crash" => Action::Crash(crash(place)?),
        "configure" => Action::Configure(configuration(place)?),
        "bill" => match place.text()? {
            "all" => Action::Bill,
            other => return Err(place.unknown("bill", other, &["all"])),
        },
        "say" => Action::Say(place.words()?),
        _ => Action::Expect(Expectation::read(place, region)?),
    })
}

fn target(fields: &Fields<'_>) -> Result<Target, Mistake> {
    Ok(Target {
        api_version: fields.read("apiVersion", Place::words)?,
        kind: fields.need("kind")?.words()?,
        namespace: fields.read("namespace", Place::words)?,
        name: fields.need("name")?.words()?,
    })
}

fn machine(fields: &Fields<'_>) -> Result<Machine, Mistake> {
    let (by, place) = fields.one_of(&["claim", "selector"])?;
    match by {
        "claim" => place.words().map(Machine::OfClaim),
        _ => Selector::read(&place, place.text()?).map(Machine::Selected),
    }
}

fn outcome(place: &Place<'_>) -> Result<HostFailure, Mistake> {
    match place.text()? {
        "restart" => Ok(HostFailure::Restart),
        "stop" => Ok(HostFailure::Stop),
        other => Err(place.unknown("outcome", other, &["restart", "stop"])),
    }
}

fn offering(place: &Place<'_>, region: &str) -> Result<Offering, Mistake> {
    let fields = place.fields(&["profile", "zone", "class"])?;
    let class = |place: &Place<'_>| {
        let word = place.text()?;
        Class::parse(word).ok_or_else(|| place.unknown("class", word, &["spot", "standard"]))
    };
    let profile = |place: &Place<'_>| {
        let name = place.words()?;
        known::profile(place, &name).map(|()| name)
    };
    let zone = |place: &Place<'_>| {
        let name = place.text()?;
        known::zone(place, name, region).map(|()| name.to_owned())
    };
    Ok(Offering {
        profile: profile(&fields.need("profile")?)?,
        zone: fields.read("zone", zone)?,
        class: fields.read("class", class)?,
    })
}

/// What a configuration file would say, which the operator must understand.
fn configuration(place: &Place<'_>) -> Result<String, Mistake> {
    let text = place.words()?;
    let read = ConfigFile::parse(&text);
    read.map_err(|problem| place.wrong(format!("{text:?} {problem}")))?;
    Ok(text)
}

fn fault(place: &Place<'_>) -> Result<CloudFault, Mistake> {
    let fields = place.fields(&["kind", "for", "times", "percent", "operation"])?;
    let kind = fields.need("kind")?;
    let word = kind.text()?;
    let known: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let fault = CloudFault {
        kind: FaultKind::parse(word).ok_or_else(|| kind.unknown("kind of fault", word, &known))?,
        lasts: fields.read("for", Place::duration)?,
        times: fields.read("times", Place::number)?,
        percent: fields.read("percent", percent)?.unwrap_or(100),
        operation: fields.read("operation", operation)?,
    };
    if fault.lasts.is_none() && fault.times.is_none() {
        return Err(place.wrong("never ends: say `for` how long, or how many `times`"));
    }
    Ok(fault)
}

/// An operation of the cloud, or the resource of several: `instances`.
fn operation(place: &Place<'_>) -> Result<String, Mistake> {
    let name = place.text()?;
    let known = ibm::operation_names();
    if known.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(place.unknown("operation of the cloud", name, &known))
    }
}

fn percent(place: &Place<'_>) -> Result<u32, Mistake> {
    match place.number()? {
        percent @ 1..=100 => Ok(percent),
        other => Err(place.wrong(format!("is {other}, and must be from 1 to 100"))),
    }
}

fn crash(place: &Place<'_>) -> Result<Crash, Mistake> {
    let fields = place.fields(&["replica", "after-effects"])?;
    Ok(Crash {
        replica: fields.read("replica", replica)?.unwrap_or(0),
        after_effects: fields.read("after-effects", Place::number)?.unwrap_or(0),
    })
}

fn replica(place: &Place<'_>) -> Result<usize, Mistake> {
    let number = place.number::<usize>()?;
    if number < REPLICAS {
        return Ok(number);
    }
    Err(place.wrong(format!(
        "is {number}, and there are {REPLICAS} replicas, counted from 0"
    )))
}

#[cfg(test)]
mod tests;
