//! Every kind of fault by name: in plans, reports and stories.
//!
//! The letter and number are those of the list of faults the simulation follows: K1 to K16 on the Kubernetes side, C1 to
//! C18 on the cloud's, N on the nodes', W on the workloads' and M on that of people's own settings. Names are stable: stored plans hold them.

use serde::{Deserialize, Serialize};

use crate::sim::actors::kubelet::behavior::Behavior;
use crate::sim::ibm::FaultKind;

/// Declares all kinds once: those of the API server, of people, of the world itself, the cloud's by its own names, and
/// those of machines. Plans are drawn in this order: kinds that came later stand last, so that no seed's others change.
macro_rules! fault_names {
    (
        kube { $($kube:ident = $kube_name:literal, $kube_what:literal;)* }
        meddling { $($meddling:ident = $meddling_name:literal, $meddling_what:literal;)* }
        world { $($world:ident = $world_name:literal, $world_what:literal;)* }
        cloud { $($cloud:ident = $cloud_name:literal;)* }
        machine { $($machine:ident = $machine_name:literal, $machine_what:literal;)* }
        later_meddling { $($later_meddling:ident = $later_meddling_name:literal, $later_meddling_what:literal;)* }
        later_cloud { $($later_cloud:ident = $later_cloud_name:literal;)* }
        later_machine { $($later_machine:ident = $later_machine_name:literal, $later_machine_what:literal;)* }
    ) => {
        /// What goes wrong between the operator and its API server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum KubeKind {
            $(#[doc = $kube_what] #[serde(rename = $kube_name)] $kube,)*
        }

        impl KubeKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kube,)*];
        }

        /// What somebody else does to the cluster or the account.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum MeddlingKind {
            $(#[doc = $meddling_what] #[serde(rename = $meddling_name)] $meddling,)*
            $(#[doc = $later_meddling_what] #[serde(rename = $later_meddling_name)] $later_meddling,)*
        }

        impl MeddlingKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$meddling,)* $(Self::$later_meddling,)*];
        }

        /// What is odd about a machine that runs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum MachineKind {
            $(#[doc = $machine_what] $machine,)*
            $(#[doc = $later_machine_what] $later_machine,)*
        }

        /// A kind of fault, whoever makes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FaultName {
            /// Between the operator and its API server.
            Kube(KubeKind),
            /// Done by somebody else.
            Meddling(MeddlingKind),
            /// Inside the cloud, or between it and the operator.
            Cloud(FaultKind),
            /// On a machine that runs.
            Machine(MachineKind),
            $(#[doc = $world_what] $world,)*
        }

        impl FaultName {
            /// All kinds.
            pub const ALL: &[Self] = &[
                $(Self::Kube(KubeKind::$kube),)*
                $(Self::Meddling(MeddlingKind::$meddling),)*
                $(Self::$world,)*
                $(Self::Cloud(FaultKind::$cloud),)*
                $(Self::Machine(MachineKind::$machine),)*
                $(Self::Cloud(FaultKind::$later_cloud),)*
                $(Self::Meddling(MeddlingKind::$later_meddling),)*
                $(Self::Machine(MachineKind::$later_machine),)*
            ];

            /// The name in plans and reports.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::Kube(KubeKind::$kube) => $kube_name,)*
                    $(Self::Meddling(MeddlingKind::$meddling) => $meddling_name,)*
                    $(Self::Meddling(MeddlingKind::$later_meddling) => $later_meddling_name,)*
                    $(Self::$world => $world_name,)*
                    $(Self::Cloud(FaultKind::$cloud) => $cloud_name,)*
                    $(Self::Cloud(FaultKind::$later_cloud) => $later_cloud_name,)*
                    $(Self::Machine(MachineKind::$machine) => $machine_name,)*
                    $(Self::Machine(MachineKind::$later_machine) => $later_machine_name,)*
                }
            }

            /// One sentence about what happens.
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::Kube(KubeKind::$kube) => $kube_what,)*
                    $(Self::Meddling(MeddlingKind::$meddling) => $meddling_what,)*
                    $(Self::Meddling(MeddlingKind::$later_meddling) => $later_meddling_what,)*
                    $(Self::$world => $world_what,)*
                    Self::Cloud(kind) => kind.description(),
                    $(Self::Machine(MachineKind::$machine) => $machine_what,)*
                    $(Self::Machine(MachineKind::$later_machine) => $later_machine_what,)*
                }
            }
        }
    };
}

fault_names! {
    kube {
        AnswerLost = "k2-answer-lost", "a write is carried out, and the connection lost before the answer";
        WriteLost = "k2-write-lost", "the connection is lost before a write arrives";
        Conflict = "k3-conflict", "409 for a write that names the version it was computed from";
        RateLimited = "k4-rate-limited", "429 with a Retry-After";
        ServerError = "k4-server-error", "500, 503 or 504, and nothing was done";
        ServerErrorAfter = "k4-server-error-after", "500 or 504, although the write was carried out";
        Unreachable = "k4-unreachable", "no connection to the API server";
        Slow = "k4-slow", "requests are on their way for seconds, there and back";
        WritesFail = "k5-writes-fail", "reads are answered, and writes refused with 429 or 500";
        WatchClosed = "k6-watch-closed", "every watch is closed";
        WatchExpired = "k6-watch-expired", "every watch ends with 410, so that everything is listed anew";
        BookmarksOnly = "k6-bookmarks-only", "watches stay open and tell nothing but bookmarks";
        PagesForgotten = "k6-pages-forgotten", "410 for the next page of every list";
        TimeTravel = "k7-time-travel", "watches and cached reads come from a server that lags behind what was seen";
        Lag = "k8-lag", "changes of one kind are told late";
        Coalesced = "k9-coalesced", "only what came of several changes is told";
        Duplicates = "k11-duplicates", "every change is told twice";
        Reordered = "k11-reordered", "changes of different kinds are told in another order than they happened";
        AdmissionRejects = "k12-admission-rejects", "a webhook or a rule newer than the object refuses its changes";
        OldDefinition = "k16-old-definition", "an older definition of NodeClaims drops what we add to their status";
        NewDefinition = "k16-new-definition", "a newer definition of NodeClaims adds fields nobody here knows";
    }
    meddling {
        CreatedAndDeleted = "k9-created-and-deleted", "a NodeClaim is created and deleted at once";
        Recreated = "k10-recreated", "a NodeClaim is forced out and created anew under its name";
        StripFinalizer = "k14-strip-finalizer", "somebody takes the finalizers off a NodeClaim";
        AddTaint = "k14-add-taint", "somebody taints a Node";
        RemoveTaints = "k14-remove-taints", "somebody takes all taints off a Node";
        DeleteNode = "k14-delete-node", "somebody deletes a Node";
        EditLabels = "k14-edit-labels", "somebody writes other labels on a Node";
        DoNotDisrupt = "k14-do-not-disrupt", "somebody asks for a Node to be left where it is";
        DeleteMachine = "k14-delete-machine", "somebody deletes a machine of ours by hand";
        ForeignMachine = "c17-foreign-machine", "somebody makes a machine with a name of their own";
        TwinMachine = "c17-twin-machine", "another cluster makes a machine by the same rules as ours";
        ConfusingMachine = "c17-confusing-machine", "somebody makes a machine whose name resembles one of ours";
        NameTaken = "c2-name-taken", "somebody takes the very name that a claim of ours needs";
        KeyRotated = "c6-key-rotated", "the operator has another key, every token that is out is revoked, and the file still holds the old key for a while";
        ImpostorNode = "k14-impostor-node", "somebody makes the Node of a machine of ours before its kubelet does";
        DeletePod = "k14-delete-pod", "somebody deletes a pod, mostly from a node that goes";
        ForceDeletePod = "k14-force-delete-pod", "somebody deletes a pod at once, whatever its kubelet still does";
        UndisturbedPod = "k14-undisturbed-pod", "a pod on a node that goes is not to be disturbed from now on";
        PreemptedLeaving = "c10-preempted-leaving", "a spot machine is taken back while its node is drained";
    }
    world {
        Crash = "k1-crash", "a replica dies right after an effect, and starts again with empty memory";
        Pause = "k13-pause", "a replica stands still while its Leases run out, then goes on";
        Handover = "k13-handover", "a replica is asked to stop, gives its Leases back, and starts again";
        Skew = "k15-skew", "the wall clock of a replica, or of all, jumps away from everybody else's";
    }
    cloud {
        LostCreate = "c1-lost-create";
        LateCreate = "c1-late-create";
        RateLimit = "c7-rate-limit";
        ServerError = "c12-server-error";
        ServerErrorAfter = "c1-server-error-after";
        HtmlError = "c18-html-error";
        TruncatedJson = "c18-truncated-json";
        EmptyBody = "c18-empty-body";
        Slow = "c18-slow";
        ReadLag = "c3-read-lag";
        Spurious404 = "c4-spurious-404";
        PageTokenExpired = "c5-page-token-expired";
        PageFails = "c5-page-fails";
        PageMisses = "c5-page-misses";
        PageRepeats = "c5-page-repeats";
        SmallPages = "c5-small-pages";
        TokenExpired = "c6-token-expired";
        Forbidden = "c6-forbidden";
        IamDown = "c6-iam-down";
        CapacityRefused = "c8-capacity-refused";
        QuotaRefused = "c8-quota-refused";
        NoAddresses = "c8-no-addresses";
        StartFails = "c9-start-fails";
        Preemption = "c10-preemption";
        PreemptionDeletes = "c10-preemption-deletes";
        HostFailure = "c11-host-failure";
        DeleteStuck = "c12-delete-stuck";
        DeleteConflict = "c12-delete-conflict";
        RenameRefused = "c2-rename-refused";
        RenameSlow = "c2-rename-slow";
        WrongProfile = "c16-wrong-profile";
        PartialCreate = "c13-partial-create";
        AutoDeleteIgnored = "c13-auto-delete-ignored";
        TagFails = "c14-tag-fails";
        SearchLag = "c14-search-lag";
        ExtraFields = "c18-extra-fields";
        PriceMissing = "c15-price-missing";
        PriceZero = "c15-price-zero";
        PriceNegative = "c15-price-negative";
        ProfileWithdrawn = "c15-profile-withdrawn";
        ZoneWithdrawn = "c15-zone-withdrawn";
        ImageDeprecated = "c15-image-deprecated";
        ImageDeleted = "c15-image-deleted";
        OrderRefused = "c18-order-refused";
        ErrorBody = "c18-error-body";
        MissingId = "c18-missing-id";
        EmptyList = "c5-empty-list";
        WrongDates = "c18-wrong-dates";
        PriceNotANumber = "c15-price-not-a-number";
        LimitEaten = "c7-limit-eaten";
    }
    machine {
        NeverJoins = "n1-never-joins", "a machine runs, and its kubelet never starts";
        JoinsLate = "n1-joins-late", "a machine runs, and joins minutes later, perhaps when nobody waits any more";
        LessMemory = "n2-less-than-promised", "a machine has less memory than was paid for";
        Flaps = "n3-ready-flaps", "a Node is ready and not ready in turns";
    }
    later_meddling {
        TaintNewNode = "n5-no-execute-taint", "somebody's agent puts a NoExecute taint on the newest Node, and takes it off in the end";
        BudgetOfNone = "w2-budget-of-none", "no pod like one that is to leave may be evicted, for a while";
        SecondBudget = "w2-second-budget", "pods have two disruption budgets for a while, so that evicting them fails with 500";
        LimitsLowered = "m3-limits-lowered", "a NodePool may have less than it has, for a while";
        OldVersion = "k16-old-version", "a NodeClaim is stored as an older release left it: without what came later, and owned by nobody";
        ClassDeleted = "m2-class-deleted", "somebody deletes an IBMNodeClass that claims use, and in the end forces it out and makes it anew";
        StartupTaintStays = "n5-startup-taint-stays", "new Nodes of a pool have a startup taint, and whoever takes it off is late";
        StolenProviderId = "n4-stolen-provider-id", "somebody makes the Node of a machine of ours with the provider id of another, and takes it away in the end";
        DetachStuck = "w6-detach-stuck", "a volume that is attached to a node cannot be detached, for a while";
    }
    later_cloud {
        DeleteFails = "c12-delete-fails";
        WrongContentType = "c18-wrong-content-type";
    }
    later_machine {
        LessDisk = "n2-less-disk", "a machine has less disk than was paid for";
        FewerPods = "n2-fewer-pods", "the kubelet of a machine takes fewer pods than it was told to";
    }
}

impl MachineKind {
    /// The kind of what is odd about a machine.
    pub fn of(behavior: Behavior) -> Self {
        match behavior {
            Behavior::NeverJoins => Self::NeverJoins,
            Behavior::JoinsLate { .. } => Self::JoinsLate,
            Behavior::LessMemory { .. } => Self::LessMemory,
            Behavior::Flaps { .. } => Self::Flaps,
            Behavior::LessDisk { .. } => Self::LessDisk,
            Behavior::FewerPods { .. } => Self::FewerPods,
        }
    }
}

impl MeddlingKind {
    /// Whether it is taken back in the end.
    pub fn lasts(self) -> bool {
        matches!(
            self,
            Self::TaintNewNode
                | Self::BudgetOfNone
                | Self::SecondBudget
                | Self::LimitsLowered
                | Self::ClassDeleted
                | Self::StartupTaintStays
                | Self::StolenProviderId
                | Self::DetachStuck
                | Self::KeyRotated
        )
    }
}

impl FaultName {
    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_parse_back() {
        let names: BTreeSet<_> = FaultName::ALL.iter().map(|name| name.as_str()).collect();
        assert_eq!(names.len(), FaultName::ALL.len());
        for &name in FaultName::ALL {
            assert_eq!(FaultName::parse(name.as_str()), Some(name));
            assert!(!name.description().is_empty());
        }
    }

    #[test]
    fn the_cloud_s_kinds_keep_their_names_after_their_number() {
        for &name in FaultName::ALL {
            if let FaultName::Cloud(kind) = name {
                assert_eq!(name.as_str().split_once('-').unwrap().1, kind.as_str());
            }
        }
    }

    #[test]
    fn every_number_of_the_list_has_a_fault() {
        let numbers: BTreeSet<_> = FaultName::ALL
            .iter()
            .filter_map(|name| name.as_str().split('-').next())
            .collect();
        let wanted = (1..=16)
            .map(|n| format!("k{n}"))
            .chain((1..=18).map(|n| format!("c{n}")))
            .chain((1..=5).map(|n| format!("n{n}")))
            .chain(["w2", "w6", "m2", "m3"].map(str::to_owned));
        let missing: Vec<_> = wanted
            .filter(|number| !numbers.contains(number.as_str()))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
