//! What goes wrong: kinds of faults, which of them are on, and whether one strikes now.
//!
//! Whether a fault strikes is drawn from a stream of its own, and only while its kind is on; so a fault that is off
//! changes nothing, and one that is on changes no id and no latency.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock::later;

/// Declares the kinds once: variant, name on the command line, description.
macro_rules! fault_kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $what:literal;)*) => {
        /// A kind of fault. Each stands for an entry (C1 to C18) of the list of cloud faults it was taken from.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum FaultKind {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl FaultKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name used on the command line.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// One sentence about what happens.
            pub fn description(self) -> &'static str {
                match self { $(Self::$variant => $what,)* }
            }
        }
    };
}

fault_kinds! {
    /// Stands for C1 of the fault list.
    LostCreate = "lost-create", "an instance is created, and the connection lost before the answer";
    /// Stands for C1 of the fault list.
    LateCreate = "late-create", "an instance is created up to a minute after the request, and no answer given";
    /// Stands for C7 of the fault list.
    RateLimit = "rate-limit", "429, with a Retry-After in seconds, as a date, absurd, or missing";
    /// Stands for C12 of the fault list.
    ServerError = "server-error", "5xx, and nothing was done";
    /// Stands for C1 of the fault list.
    ServerErrorAfter = "server-error-after", "5xx, although the write was carried out";
    /// Stands for C18 of the fault list.
    HtmlError = "html-error", "502 with an HTML page in place of JSON";
    /// Stands for C18 of the fault list.
    TruncatedJson = "truncated-json", "the answer ends in the middle";
    /// Stands for C18 of the fault list.
    EmptyBody = "empty-body", "the answer has the right status and no body";
    /// Stands for C18 of the fault list.
    Slow = "slow", "the request is carried out, and answered after any sensible deadline";
    /// Stands for C3 of the fault list.
    ReadLag = "read-lag", "reads miss a new instance for a while, and lists show a deleted one";
    /// Stands for C4 of the fault list.
    Spurious404 = "spurious-404", "404 for an instance that is alive";
    /// Stands for C5 of the fault list.
    PageTokenExpired = "page-token-expired", "400 for the token of a following page";
    /// Stands for C5 of the fault list.
    PageFails = "page-fails", "500 for a following page";
    /// Stands for C5 of the fault list.
    PageMisses = "page-misses", "an item is on no page";
    /// Stands for C5 of the fault list.
    PageRepeats = "page-repeats", "an item is on two pages";
    /// Stands for C5 of the fault list.
    SmallPages = "small-pages", "pages are shorter than asked for, by chance";
    /// Stands for C6 of the fault list.
    TokenExpired = "token-expired", "401, as if the token had expired";
    /// Stands for C6 of the fault list.
    Forbidden = "forbidden", "403, for one operation or all";
    /// Stands for C6 of the fault list.
    IamDown = "iam-down", "IAM answers 503 or 429 to every request for a token";
    /// Stands for C8 of the fault list.
    CapacityRefused = "capacity-refused", "a create is refused at once for want of capacity";
    /// Stands for C8 of the fault list.
    QuotaRefused = "quota-refused", "a create is refused because the account has as much as it may";
    /// Stands for C8 of the fault list.
    NoAddresses = "no-addresses", "a create is refused because others have taken the last address of the subnet";
    /// Stands for C9 of the fault list.
    StartFails = "start-fails", "an instance is accepted and then cannot start, for any of the documented reasons";
    /// Stands for C10 of the fault list.
    Preemption = "preemption", "a spot instance is preempted within an hour of running";
    /// Stands for C10 of the fault list.
    PreemptionDeletes = "preemption-deletes", "a spot instance is preempted within an hour of running, and vanishes";
    /// Stands for C11 of the fault list.
    HostFailure = "host-failure", "the host of an instance fails within an hour of running";
    /// Stands for C12 of the fault list.
    DeleteStuck = "delete-stuck", "a deleted instance stays in deleting as long as the fault lasts";
    /// Stands for C12 of the fault list.
    DeleteConflict = "delete-conflict", "409 for deleting an instance that is not running, stopped or failed";
    /// Stands for C2 of the fault list.
    RenameRefused = "rename-refused", "409 for a rename";
    /// Stands for C2 of the fault list.
    RenameSlow = "rename-slow", "after a rename the old name stays taken for a while";
    /// Stands for C16 of the fault list.
    WrongProfile = "wrong-profile", "an instance comes up with another profile or in another zone than asked for";
    /// Stands for C13 of the fault list.
    PartialCreate = "partial-create", "500 for a create that left a network interface or a volume behind";
    /// Stands for C13 of the fault list.
    AutoDeleteIgnored = "auto-delete-ignored", "network interfaces and volumes outlive their instance";
    /// Stands for C14 of the fault list.
    TagFails = "tag-fails", "is_error for a resource, inside a 200";
    /// Stands for C14 of the fault list.
    SearchLag = "search-lag", "changes are found by search ten minutes later only";
    /// Stands for C18 of the fault list.
    ExtraFields = "extra-fields", "unknown fields and unknown words in every object";
    /// Stands for C15 of the fault list.
    PriceMissing = "price-missing", "the catalogue has no metrics for a deployment";
    /// Stands for C15 of the fault list.
    PriceZero = "price-zero", "the catalogue says 0";
    /// Stands for C15 of the fault list.
    PriceNegative = "price-negative", "the catalogue says -1";
    /// Stands for C15 of the fault list.
    ProfileWithdrawn = "profile-withdrawn", "a profile is not sold any more; instances of it live on";
    /// Stands for C15 of the fault list.
    ZoneWithdrawn = "zone-withdrawn", "nothing is sold in a zone any more; instances in it live on";
    /// Stands for C15 of the fault list.
    ImageDeprecated = "image-deprecated", "an image says that it will go; it still boots";
    /// Stands for C15 of the fault list.
    ImageDeleted = "image-deleted", "an image is gone; instances that were made from it live on";
    /// Stands for C18 of the fault list.
    OrderRefused = "order-refused", "a create is refused as an order that cannot be carried out as it is";
    /// Stands for C18 of the fault list.
    ErrorBody = "error-body", "the answer has the right status, and an error in place of what was asked for";
    /// Stands for C18 of the fault list.
    MissingId = "missing-id", "an instance is created, and the answer does not say its id";
    /// Stands for C5 of the fault list.
    EmptyList = "empty-list", "a list is empty, and says how many there are";
    /// Stands for C18 of the fault list.
    WrongDates = "wrong-dates", "everything was created in 1970, or will be in 9999";
    /// Stands for C15 of the fault list.
    PriceNotANumber = "price-not-a-number", "the catalogue says null, or a word";
    /// Stands for C7 of the fault list.
    LimitEaten = "limit-eaten", "429 to everybody for up to a minute at a time: another tenant uses up the limit";
    /// Stands for C12 of the fault list.
    DeleteFails = "delete-fails", "5xx for every deletion of an instance as long as the fault lasts, and nothing was done";
    /// Stands for C18 of the fault list.
    WrongContentType = "wrong-content-type", "the answer is right, and said to be a web page, plain text or nothing at all";
}

impl FaultKind {
    /// Whether it is about what the catalogue says.
    pub fn is_about_prices(self) -> bool {
        matches!(
            self,
            Self::PriceMissing | Self::PriceZero | Self::PriceNegative | Self::PriceNotANumber
        )
    }

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

/// The forms a Retry-After takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryAfter {
    Seconds,
    Date,
    /// A billion seconds.
    Absurd,
    Missing,
}

/// A fault that is on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    /// Of striking, each time it could.
    pub probability: f64,
    /// How often it strikes before it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Only on this operation (`instances.create`), or on all of a resource (`instances`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// For `rate-limit`; drawn if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<RetryAfter>,
    /// For `start-fails`: a code of `status_reasons`; drawn if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For what is withdrawn: the name of the profile or zone, the id of the image; a usual one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl Fault {
    /// A fault that strikes whenever it can, until it is stopped.
    pub fn new(kind: FaultKind) -> Self {
        Self {
            kind,
            probability: 1.0,
            times: None,
            until: None,
            operation: None,
            retry_after: None,
            reason: None,
            target: None,
        }
    }

    /// Strikes with this probability.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Strikes this often at most.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Ends at that time.
    #[must_use]
    pub fn until(mut self, end: Timestamp) -> Self {
        self.until = Some(end);
        self
    }

    /// Strikes one operation only.
    #[must_use]
    pub fn on(mut self, operation: impl Into<String>) -> Self {
        self.operation = Some(operation.into());
        self
    }

    /// Fixes the form of the Retry-After header.
    #[must_use]
    pub fn retry_after(mut self, form: RetryAfter) -> Self {
        self.retry_after = Some(form);
        self
    }

    /// Fixes the reason why a start fails.
    #[must_use]
    pub fn reason(mut self, code: impl Into<String>) -> Self {
        self.reason = Some(code.into());
        self
    }

    /// Withdraws this profile, zone or image.
    #[must_use]
    pub fn of(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    fn covers(&self, operation: &str) -> bool {
        self.operation.as_deref().is_none_or(|wanted| {
            operation
                .strip_prefix(wanted)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

/// The faults that are on from the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan(pub Vec<Fault>);

impl FaultPlan {
    /// A mix for a simulated run: each kind is on with one chance in three, striking between 1 and 15 times in a
    /// hundred, so that a run meets several kinds and still gets somewhere.
    pub fn draw(rng: &mut Rng) -> Self {
        let mut faults = Vec::new();
        for &kind in FaultKind::ALL {
            if rng.u8(..3) == 0 {
                faults.push(Fault::new(kind).probability(f64::from(rng.u8(1..=15)) / 100.0));
            }
        }
        Self(faults)
    }
}

/// The most strikes that are remembered until somebody takes them.
const STRIKES_KEPT: usize = 1_000;

/// For how long another tenant uses up the limit at most, at a time: a script that lists everything.
const EATEN_MAX: Duration = Duration::from_mins(1);

/// A fault that struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    pub kind: FaultKind,
    /// Which operation it struck.
    pub operation: String,
}

/// A fault in whose place another of its kind holds, as it was left.
#[derive(Debug)]
struct Covered {
    stream: u64,
    rng: Rng,
    /// Nothing where it had struck as often as it may.
    fault: Option<Fault>,
}

/// The faults that are on, and the chance that decides when they strike.
#[derive(Debug)]
pub(super) struct Faults {
    on: BTreeMap<FaultKind, Fault>,
    rng: Rng,
    /// The chance of those that were started with one of their own.
    streams: BTreeMap<FaultKind, Rng>,
    /// Which streams those have that hold now.
    holders: BTreeMap<FaultKind, u64>,
    /// Those that others of their kind hold in place of, the latest last.
    covered: BTreeMap<FaultKind, Vec<Covered>>,
    /// The kind that struck last: what is drawn next is drawn for it.
    drawing: Option<FaultKind>,
    strikes: VecDeque<Strike>,
    /// Until when another tenant leaves nothing of the limit.
    eaten_until: Timestamp,
    now: Timestamp,
}

impl Faults {
    pub(super) fn new(plan: FaultPlan, seed: u64, now: Timestamp) -> Self {
        let on = plan.0.into_iter().map(|fault| (fault.kind, fault)).collect();
        Self {
            on,
            rng: Rng::with_seed(seed),
            streams: BTreeMap::new(),
            holders: BTreeMap::new(),
            covered: BTreeMap::new(),
            drawing: None,
            strikes: VecDeque::new(),
            eaten_until: Timestamp::MIN,
            now,
        }
    }

    /// Ends the faults whose time is over.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.now = now;
        self.on.retain(|_, fault| fault.until.is_none_or(|end| now < end));
    }

    /// Turns a fault on, in place of one of the same kind.
    pub(super) fn start(&mut self, fault: Fault) {
        self.on.insert(fault.kind, fault);
    }

    /// Like [`Faults::start`], with chance of its own: no other fault's draws depend on it, nor its on theirs. One of the
    /// same kind that was started so before is covered, and goes on when this one ends.
    pub(super) fn start_with(&mut self, fault: Fault, stream: u64) {
        let kind = fault.kind;
        let rng = self.streams.insert(kind, Rng::with_seed(stream));
        if let Some((stream, rng)) = self.holders.insert(kind, stream).zip(rng) {
            let fault = self.on.remove(&kind);
            let covered = self.covered.entry(kind).or_default();
            covered.push(Covered { stream, rng, fault });
        }
        self.start(fault);
    }

    /// Ends the fault of that kind and stream. Another that holds in its place stays as it is, and one that it holds in
    /// place of goes on as it was left.
    pub(super) fn stop_with(&mut self, kind: FaultKind, stream: u64) {
        let covered = self.covered.entry(kind).or_default();
        if self.holders.get(&kind) != Some(&stream) {
            covered.retain(|it| it.stream != stream);
            return;
        }
        let before = covered.pop();
        self.end(kind);
        if let Some(Covered { stream, rng, fault }) = before {
            self.holders.insert(kind, stream);
            self.streams.insert(kind, rng);
            self.on.extend(fault.map(|fault| (kind, fault)));
        }
    }

    /// What struck since somebody asked last, oldest first.
    pub(super) fn take_strikes(&mut self) -> Vec<Strike> {
        self.strikes.drain(..).collect()
    }

    /// The stream of the kind that struck last, or the common one.
    fn chance(&mut self) -> &mut Rng {
        let own = self.drawing.and_then(|kind| self.streams.get_mut(&kind));
        own.unwrap_or(&mut self.rng)
    }

    /// Turns a kind off.
    pub(super) fn stop(&mut self, kind: FaultKind) {
        self.covered.remove(&kind);
        self.end(kind);
    }

    fn end(&mut self, kind: FaultKind) {
        self.on.remove(&kind);
        self.holders.remove(&kind);
        if kind == FaultKind::LimitEaten {
            self.eaten_until = Timestamp::MIN;
        }
    }

    /// Turns everything off.
    pub(super) fn clear(&mut self) {
        self.on.clear();
        self.holders.clear();
        self.covered.clear();
        self.eaten_until = Timestamp::MIN;
    }

    /// What is on, by kind.
    pub(super) fn active(&self) -> Vec<Fault> {
        self.on.values().cloned().collect()
    }

    /// Whether the kind is on, without striking.
    pub(super) fn is_on(&self, kind: FaultKind) -> bool {
        self.on.contains_key(&kind)
    }

    /// What a fault of withdrawal that is on is about.
    pub(super) fn target(&self, kind: FaultKind) -> Option<&str> {
        self.on.get(&kind)?.target.as_deref()
    }

    /// Whether the kind strikes this operation now.
    pub(super) fn hits(&mut self, kind: FaultKind, operation: &str) -> bool {
        self.strike(kind, operation).is_some()
    }

    /// The fault that strikes this operation now, if it does.
    pub(super) fn strike(&mut self, kind: FaultKind, operation: &str) -> Option<Fault> {
        let struck = self.draw(kind, operation)?;
        self.note(kind, operation);
        Some(struck)
    }

    /// Like [`Faults::hits`], where it does not show yet whether anything comes of it: it is not told as a strike until
    /// [`Faults::note`].
    pub(super) fn may_hit(&mut self, kind: FaultKind, operation: &str) -> bool {
        self.draw(kind, operation).is_some()
    }

    fn draw(&mut self, kind: FaultKind, operation: &str) -> Option<Fault> {
        let fault = self.on.get_mut(&kind).filter(|fault| fault.covers(operation))?;
        let chance = self.streams.get_mut(&kind).unwrap_or(&mut self.rng);
        if chance.f64() >= fault.probability {
            return None;
        }
        self.drawing = Some(kind);
        let struck = fault.clone();
        if let Some(times) = &mut fault.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.on.remove(&kind);
            }
        }
        Some(struck)
    }

    /// Tells of a strike.
    pub(super) fn note(&mut self, kind: FaultKind, operation: &str) {
        if self.strikes.len() == STRIKES_KEPT {
            self.strikes.pop_front();
        }
        self.strikes.push_back(Strike {
            kind,
            operation: operation.to_owned(),
        });
    }

    /// Whether another tenant leaves nothing of the limit that all share. Once he has begun he goes on for a while,
    /// whatever is asked for.
    pub(super) fn is_limit_eaten(&mut self, operation: &str) -> bool {
        if self.now < self.eaten_until {
            self.note(FaultKind::LimitEaten, operation);
            return true;
        }
        let begins = self.hits(FaultKind::LimitEaten, operation);
        if begins {
            self.eaten_until = later(self.now, self.delay(EATEN_MAX));
        }
        begins
    }

    /// A number below `end`, from the faults' own stream.
    pub(super) fn pick(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { self.chance().usize(..end) }
    }

    /// A time of at most `max`, at least a second.
    pub(super) fn delay(&mut self, max: Duration) -> Duration {
        Duration::from_secs(1 + self.pick(usize::try_from(max.as_secs()).unwrap_or(1)) as u64)
    }

    /// A Retry-After header in the form the fault wants, or in any.
    pub(super) fn retry_after(&mut self, form: Option<RetryAfter>) -> Option<String> {
        let forms = [
            RetryAfter::Seconds,
            RetryAfter::Date,
            RetryAfter::Absurd,
            RetryAfter::Missing,
        ];
        let form = form.unwrap_or_else(|| forms[self.pick(forms.len())]);
        let seconds = self.delay(Duration::from_secs(10));
        match form {
            RetryAfter::Seconds => Some(seconds.as_secs().to_string()),
            RetryAfter::Date => Some(httpdate::fmt_http_date(later(self.now, seconds).into())),
            RetryAfter::Absurd => Some("1000000000".into()),
            RetryAfter::Missing => None,
        }
    }
}

#[cfg(test)]
mod strikes;
#[cfg(test)]
mod tests;
