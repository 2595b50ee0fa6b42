//! Deliberately broken variants of the operator, to see that the harness catches them.
//!
//! Each is made of decorators on the seams of a replica: on the cloud that its controllers see, on the transport to IBM
//! Cloud, on the client of the Kubernetes API. The product itself knows nothing of them.

mod cloud;
mod exchange;
mod hearsay;
mod kube;
mod leaving;
mod orders;
mod planning;
mod staying;
mod tainting;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::operator::{Context, Edges, Factory, Settings, factory_of};

/// A way to be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// A read that failed counts as "not there".
    ErrorAsAbsence,
    /// Lists end after their first page.
    FirstPageOnly,
    /// Names are never looked up.
    NoNameLookUp,
    /// Writes do not say what they were computed from.
    NoResourceVersion,
    /// Consistent lists show what was read first.
    StaleList,
    /// A deletion that was accepted counts as done.
    FinalizerFirst,
    /// The machine's name differs in each life of the process.
    CreateTwiceAfterCrash,
    /// The machine's name differs from replica to replica.
    OwnNames,
    /// The server's wish for patience is not heard.
    IgnoredRetryAfter,
    /// The limits of a pool are not read.
    LimitsUnread,
    /// A Node is believed wherever it is.
    AnyAddress,
    /// A machine is taken for what was ordered.
    TakenAsOrdered,
    /// Machines of other clusters are taken for our own.
    ClusterBlind,
    /// Interfaces and volumes are ordered so that they outlive their machine.
    LastingParts,
    /// Each status of a claim is written twice.
    RepeatedWrites,
    /// Conditions are dated anew with each write.
    RestlessTimes,
    /// The first IAM token is used for ever.
    OneToken,
    /// Pods are deleted, not evicted.
    RawDeletes,
    /// What pods wish is not read.
    WishesUnread,
    /// Nodes look empty.
    PodsUnseen,
    /// Nothing looks attached.
    VolumesUnseen,
    /// What is withheld stays so.
    EndlessHolds,
    /// What is withheld is forgotten.
    Forgetful,
    /// Looking is written down.
    Diarist,
    /// One bad claim spoils the list.
    Poisoned,
    /// Watches stay silent.
    Deaf,
    /// Claims carry the token.
    Talkative,
    /// Preemptions go unseen.
    NeverStops,
    /// What is gone seems to be there.
    NeverGone,
    /// A failed read is the end.
    Unwrapped,
    /// Nothing is swept of what machines leave behind.
    LeftoversUnseen,
    /// Pods are gathered and gathered.
    Dawdling,
    /// All pods go to one place.
    Crowding,
    /// Claims come in pairs.
    Doubled,
    /// A machine that stops is the end.
    Startled,
    /// Interfaces of others are taken for what our machines left behind.
    AnyLeftover,
    /// Evictions do not say which pod was judged.
    CarelessEvictions,
    /// Taints are said to be there before they are.
    LateTaints,
    /// What is bought but does not run yet is not counted.
    InFlightUnseen,
    /// The log has the token in it.
    Whispering,
    /// What is bought serves nobody.
    ForNobody,
    /// A node that works is given up.
    Discontent,
    /// Preemptions are told to nobody.
    Hushed,
    /// There may be any number of machines.
    BreakersUnread,
    /// Pods leave nodes that stay.
    Contagious,
    /// Who is on a node is looked at once.
    Hasty,
    /// Preemptions are seen late.
    Belated,
    /// Machines that are being deleted are taken for gone.
    Impatient,
    /// Claims that wait for their machine are given up.
    Fickle,
    /// Claims live for ever.
    Ageless,
}

/// There is no such mutant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no mutant {0:?}")]
pub struct UnknownMutant(String);

impl Mutant {
    /// Those that a campaign must catch.
    pub const ALL: [Self; 49] = [
        Self::ErrorAsAbsence,
        Self::FirstPageOnly,
        Self::NoNameLookUp,
        Self::NoResourceVersion,
        Self::StaleList,
        Self::FinalizerFirst,
        Self::CreateTwiceAfterCrash,
        Self::OwnNames,
        Self::IgnoredRetryAfter,
        Self::LimitsUnread,
        Self::AnyAddress,
        Self::TakenAsOrdered,
        Self::ClusterBlind,
        Self::RepeatedWrites,
        Self::RestlessTimes,
        Self::OneToken,
        Self::LeftoversUnseen,
        Self::Dawdling,
        Self::Crowding,
        Self::Doubled,
        Self::Startled,
        Self::RawDeletes,
        Self::WishesUnread,
        Self::PodsUnseen,
        Self::VolumesUnseen,
        Self::EndlessHolds,
        Self::Forgetful,
        Self::Diarist,
        Self::Poisoned,
        Self::Deaf,
        Self::Talkative,
        Self::NeverStops,
        Self::NeverGone,
        Self::Unwrapped,
        Self::AnyLeftover,
        Self::CarelessEvictions,
        Self::LateTaints,
        Self::InFlightUnseen,
        Self::Whispering,
        Self::ForNobody,
        Self::Discontent,
        Self::Hushed,
        Self::BreakersUnread,
        Self::Contagious,
        Self::Hasty,
        Self::Belated,
        Self::Impatient,
        Self::Fickle,
        Self::Ageless,
    ];

    /// Those whose harm is shown in a story of its own, and that no campaign hunts for, as their harm is undone before a
    /// campaign looks: parts that outlive their machine are swept.
    pub const TOLD: [Self; 1] = [Self::LastingParts];

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ErrorAsAbsence => "error-as-absence",
            Self::FirstPageOnly => "first-page-only",
            Self::NoNameLookUp => "no-name-look-up",
            Self::NoResourceVersion => "no-resource-version",
            Self::StaleList => "stale-list",
            Self::FinalizerFirst => "finalizer-first",
            Self::CreateTwiceAfterCrash => "create-twice-after-crash",
            Self::OwnNames => "own-names",
            Self::IgnoredRetryAfter => "ignored-retry-after",
            Self::LimitsUnread => "limits-unread",
            Self::AnyAddress => "any-address",
            Self::TakenAsOrdered => "taken-as-ordered",
            Self::ClusterBlind => "cluster-blind",
            Self::LastingParts => "lasting-parts",
            Self::RepeatedWrites => "repeated-writes",
            Self::RestlessTimes => "restless-times",
            Self::OneToken => "one-token",
            Self::RawDeletes => "raw-deletes",
            Self::WishesUnread => "wishes-unread",
            Self::PodsUnseen => "pods-unseen",
            Self::VolumesUnseen => "volumes-unseen",
            Self::EndlessHolds => "endless-holds",
            Self::Forgetful => "forgetful",
            Self::Diarist => "diarist",
            Self::Poisoned => "poisoned",
            Self::Deaf => "deaf",
            Self::Talkative => "talkative",
            Self::NeverStops => "never-stops",
            Self::NeverGone => "never-gone",
            Self::Unwrapped => "unwrapped",
            Self::LeftoversUnseen => "leftovers-unseen",
            Self::Dawdling => "dawdling",
            Self::Crowding => "crowding",
            Self::Doubled => "doubled",
            Self::Startled => "startled",
            Self::AnyLeftover => "any-leftover",
            Self::CarelessEvictions => "careless-evictions",
            Self::LateTaints => "late-taints",
            Self::InFlightUnseen => "in-flight-unseen",
            Self::Whispering => "whispering",
            Self::ForNobody => "for-nobody",
            Self::Discontent => "discontent",
            Self::Hushed => "hushed",
            Self::BreakersUnread => "breakers-unread",
            Self::Contagious => "contagious",
            Self::Hasty => "hasty",
            Self::Belated => "belated",
            Self::Impatient => "impatient",
            Self::Fickle => "fickle",
            Self::Ageless => "ageless",
        }
    }

    /// One sentence about what is wrong with it.
    pub fn description(self) -> &'static str {
        match self {
            Self::ErrorAsAbsence => "takes a failed read of a machine, or of all machines, for an absence",
            Self::FirstPageOnly => {
                "reads the first page of each list, a short one, and takes it for the whole"
            }
            Self::NoNameLookUp => {
                "never finds a machine by its name, so what may have been bought is forgotten"
            }
            Self::NoResourceVersion => "writes and deletes regardless of what was written since it read",
            Self::StaleList => "decides about garbage on the list of claims that it read first",
            Self::FinalizerFirst => {
                "lets a claim go once its machine's deletion was accepted, not when it is done"
            }
            Self::CreateTwiceAfterCrash => {
                "names machines after its own life, so that the next life does not find what this one bought"
            }
            Self::OwnNames => {
                "names machines after its replica, so that another that leads does not find what this one bought"
            }
            Self::IgnoredRetryAfter => "comes back sooner than a rate-limited server asked for",
            Self::LimitsUnread => "buys whatever the limits of the NodePool are",
            Self::AnyAddress => "believes a Node whose address is not its machine's",
            Self::TakenAsOrdered => "describes machines as they were ordered, not as they came",
            Self::ClusterBlind => "takes the machines of other clusters in its resource group for its own",
            Self::LastingParts => "orders network interfaces and volumes that stay when their machine goes",
            Self::RepeatedWrites => "writes each status of a claim once more",
            Self::RestlessTimes => "says that a condition holds since it was last written",
            Self::OneToken => "uses its first IAM token when that has expired or was revoked",
            Self::RawDeletes => "deletes pods where it should evict them, whatever a disruption budget says",
            Self::WishesUnread => "evicts pods that are not to be disturbed",
            Self::PodsUnseen => "gives machines back with their pods still on them",
            Self::VolumesUnseen => "gives machines back while volumes are attached to them",
            Self::EndlessHolds => "never tries an offering again that was short once",
            Self::Forgetful => "forgets what is withheld once it has written it down",
            Self::Diarist => "notes on a claim how often it was looked at",
            Self::Poisoned => "reads no claim at all while one of them is no good",
            Self::Deaf => "hears nothing of what becomes of claims after it has started",
            Self::Talkative => "writes its IAM token where everybody may read it",
            Self::NeverStops => "takes machines that were taken back for running ones",
            Self::NeverGone => "takes machines that are gone for ones that are still going",
            Self::Unwrapped => "panics when a machine cannot be read",
            Self::LeftoversUnseen => "never finds the interfaces and volumes that outlive their machine",
            Self::Dawdling => "plans for pods when no other has come for an hour",
            Self::Crowding => "puts all pods of a plan where the first of them is",
            Self::Doubled => "makes two claims where a plan has one",
            Self::Startled => "panics when it finds a spot machine that stops, and tells nobody",
            Self::AnyLeftover => {
                "takes every interface in its resource group that is on no machine of its own for garbage"
            }
            Self::CarelessEvictions => "evicts whichever pod bears the name by now, changed or made anew",
            Self::LateTaints => {
                "looks who is left on a node less than five seconds after nobody can come any more"
            }
            Self::InFlightUnseen => "counts only machines that run against the limits of the NodePool",
            Self::Whispering => "logs its requests to IBM Cloud with the token that they carry",
            Self::ForNobody => "buys for a pod, again and again, where the pod cannot go",
            Self::Discontent => "deletes the first claim of its life as soon as that takes pods",
            Self::Hushed => "takes it for told that a machine was taken back, and tells nobody",
            Self::BreakersUnread => "buys however many machines there are",
            Self::Contagious => "makes a pod of another node leave with each that it evicts",
            Self::Hasty => "never asks again who is on a node once nobody was",
            Self::Belated => "sees that a machine was taken back three minutes after it was told so",
            Self::Impatient => {
                "takes a machine that is being deleted for gone, and buys another under another name"
            }
            Self::Fickle => "deletes the first claim of its life as soon as a machine is to be bought for it",
            Self::Ageless => "never reads how long a claim may live, so none expires",
        }
    }

    /// The edges that it lives between.
    pub fn edges(self, mut edges: Edges) -> Edges {
        match self {
            Self::FirstPageOnly => edges.ibm.cloud = exchange::first_page_only(edges.ibm.cloud),
            Self::IgnoredRetryAfter => edges.ibm.cloud = exchange::without_retry_after(edges.ibm.cloud),
            Self::NoResourceVersion => edges.kube = kube::without_resource_versions(edges.kube),
            Self::StaleList => edges.kube = kube::with_stale_sweeps(edges.kube),
            Self::LimitsUnread => edges.kube = hearsay::without_limits(edges.kube),
            Self::Ageless => edges.kube = hearsay::without_expiry(edges.kube),
            Self::AnyAddress => edges.kube = hearsay::with_any_address(edges.kube),
            Self::RepeatedWrites => edges.kube = hearsay::with_repeated_writes(edges.kube),
            Self::RestlessTimes => {
                edges.kube = hearsay::with_restless_times(edges.kube, edges.clock.clone());
            }
            Self::ClusterBlind => edges.ibm.cloud = orders::blind_to_clusters(edges.ibm.cloud),
            Self::LastingParts => edges.ibm.cloud = orders::with_lasting_parts(edges.ibm.cloud),
            Self::OneToken => edges.ibm.cloud = orders::with_one_token(edges.ibm.cloud),
            Self::RawDeletes => edges.kube = leaving::with_raw_deletes(edges.kube),
            Self::WishesUnread => edges.kube = leaving::without_wishes(edges.kube),
            Self::PodsUnseen => edges.kube = leaving::without_pods(edges.kube),
            Self::VolumesUnseen => edges.kube = leaving::without_attachments(edges.kube),
            Self::EndlessHolds => edges.kube = leaving::with_endless_holds(edges.kube),
            Self::Forgetful => edges.kube = leaving::forgetful(edges.kube),
            Self::Diarist => edges.kube = leaving::with_a_diary(edges.kube),
            Self::Poisoned => edges.kube = leaving::poisoned_by_one(edges.kube),
            Self::Deaf => edges.kube = leaving::deaf(edges.kube),
            Self::Talkative => {
                let overheard = leaving::Overheard::default();
                edges.ibm.cloud = orders::overheard(edges.ibm.cloud, overheard.clone());
                edges.kube = leaving::with_the_token(edges.kube, overheard);
            }
            Self::Doubled => edges.kube = planning::doubled(edges.kube),
            Self::ForNobody => edges.kube = planning::for_nobody(edges.kube),
            Self::Discontent => edges.kube = planning::discontent(edges.kube),
            Self::Fickle => edges.kube = planning::fickle(edges.kube),
            Self::Hushed => edges.kube = leaving::hushed(edges.kube),
            Self::Contagious => edges.kube = staying::contagious(edges.kube),
            Self::Hasty => edges.kube = staying::hasty(edges.kube),
            Self::Whispering => edges.ibm.cloud = orders::whispering(edges.ibm.cloud),
            Self::CarelessEvictions => edges.kube = leaving::with_careless_evictions(edges.kube),
            Self::LateTaints => edges.kube = tainting::with_late_taints(edges.kube, edges.clock.clone()),
            Self::InFlightUnseen => edges.kube = hearsay::without_what_is_in_flight(edges.kube),
            Self::ErrorAsAbsence
            | Self::NoNameLookUp
            | Self::FinalizerFirst
            | Self::CreateTwiceAfterCrash
            | Self::OwnNames
            | Self::TakenAsOrdered
            | Self::NeverStops
            | Self::NeverGone
            | Self::Unwrapped
            | Self::LeftoversUnseen
            | Self::AnyLeftover
            | Self::Dawdling
            | Self::Crowding
            | Self::BreakersUnread
            | Self::Startled
            | Self::Belated
            | Self::Impatient => {}
        }
        edges
    }

    /// The context that its controllers are given. Called once in each life.
    pub fn context(self, mut context: Context) -> Context {
        let flaw = match self {
            Self::ErrorAsAbsence => cloud::Flaw::ErrorAsAbsence,
            Self::NoNameLookUp => cloud::Flaw::NoNameLookUp,
            Self::FinalizerFirst => cloud::Flaw::deletion_is_done(),
            // Lives may begin with the same chance, but not at the same time.
            Self::CreateTwiceAfterCrash => {
                let born = context.clock.now().as_nanosecond().unsigned_abs() % u128::from(u64::MAX);
                cloud::Flaw::named_after(context.entropy.next() ^ u64::try_from(born).unwrap_or_default())
            }
            // Replicas differ in the last letter of their names.
            Self::OwnNames => {
                let letters = context.settings.identity.bytes().map(u64::from);
                cloud::Flaw::named_after(letters.sum())
            }
            Self::AnyAddress => cloud::Flaw::AnyAddress,
            Self::TakenAsOrdered => cloud::Flaw::taken_as_ordered(),
            Self::NeverStops => cloud::Flaw::NeverStops,
            Self::NeverGone => cloud::Flaw::never_gone(),
            Self::Unwrapped => cloud::Flaw::Unwrapped,
            Self::LeftoversUnseen => cloud::Flaw::LeftoversUnseen,
            Self::AnyLeftover => cloud::Flaw::AnyLeftover,
            Self::Startled => cloud::Flaw::Startled,
            Self::Belated => cloud::Flaw::stops_late(context.clock.clone()),
            Self::Impatient => cloud::Flaw::impatient(),
            Self::Dawdling => return planning::dawdling(context),
            Self::Crowding => return planning::crowding(context),
            Self::BreakersUnread => return without_breakers(context),
            // They are what they are by their edges.
            _ => return context,
        };
        context.cloud = cloud::flawed(context.cloud, flaw);
        context
    }

    /// Makes replicas of it.
    pub fn factory(self, settings: Settings) -> Factory {
        factory_of(
            settings,
            move |edges| self.edges(edges),
            move |context| self.context(context),
        )
    }
}

/// Purchases that nothing bounds but the limits of pools.
fn without_breakers(mut context: Context) -> Context {
    let mut settings = (*context.settings).clone();
    settings.breakers.machines_max = u64::MAX;
    settings.breakers.launches_per_hour_max = u64::MAX;
    context.settings = Arc::new(settings);
    context
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mutant {
    type Err = UnknownMutant;

    fn from_str(name: &str) -> Result<Self, UnknownMutant> {
        let mut all = Self::ALL.into_iter().chain(Self::TOLD);
        all.find(|mutant| mutant.name() == name)
            .ok_or_else(|| UnknownMutant(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_reads_back_by_its_name() {
        for mutant in Mutant::ALL.into_iter().chain(Mutant::TOLD) {
            assert_eq!(mutant.name().parse(), Ok(mutant));
            assert!(!mutant.description().is_empty());
        }
        assert!("harmless".parse::<Mutant>().is_err());
    }
}
