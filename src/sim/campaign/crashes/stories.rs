//! The stories that are told with a death in them, and what makes them harder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sim::faults::kube::KubeFault;
use crate::sim::faults::{Fault, FaultName, Injection, KubeKind, Meddling, MeddlingKind, Plan, Upon};
use crate::sim::ibm::{self, FaultKind};

/// Where stories are.
const STORIES_IN: &str = "tests/crashes";
/// How long troubles last, and how long a replica stands still at most: beyond any Lease, and within the story.
const TROUBLED: Duration = Duration::from_mins(3);

/// How long the cloud is ready to do what a story is about, so often as it says: longer than any death delays an order.
const BESIDE: Duration = Duration::from_mins(8);

/// A story, and what it is made of.
#[derive(Debug)]
pub struct Story {
    /// The name of its file.
    pub name: &'static str,
    /// From when on effects are counted: before that it is the story of buying.
    from: Duration,
    /// What it must do, as `create instances`.
    pub does: &'static [&'static str],
    /// What it is told with.
    pub troubles: &'static [Trouble],
    /// What it is about happens to the operator in every telling.
    besides: Option<Beside>,
}

/// What somebody else does in a story, or the cloud.
#[derive(Debug)]
struct Beside {
    /// When.
    at: Duration,
    /// Where its chance comes from, whatever else is in the plan.
    stream: u64,
    what: Deed,
}

#[derive(Debug)]
enum Deed {
    /// Somebody does it.
    Meddling(MeddlingKind),
    /// The start of a machine fails once, as there is no room for it.
    NoRoom,
    /// So many orders are carried out half.
    HalfOrders(u32),
}

impl Beside {
    /// How long it lasts, and what it is.
    fn fault(&self) -> (Duration, Fault) {
        let once = |kind, times| ibm::Fault::new(kind).times(times);
        match self.what {
            Deed::Meddling(kind) => (Duration::ZERO, Fault::ThirdParty(Meddling::new(kind))),
            Deed::NoRoom => {
                let fault = once(FaultKind::StartFails, 1).reason("cannot_start_capacity");
                (BESIDE, Fault::Cloud(fault))
            }
            Deed::HalfOrders(times) => (BESIDE, Fault::Cloud(once(FaultKind::PartialCreate, times))),
        }
    }
}

/// What makes a story harder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing else.
    None,
    /// The answer to an order is lost.
    LostCreate,
    /// The same, and reads of the cloud do not show the machine at once.
    LostUnseen,
    /// An order is carried out late.
    LateCreate,
    /// Reads of the cloud are old, come in small pages of which some fail, are refused as if the token had expired, and say
    /// that machines are not there which are.
    CloudReads,
    /// Reads of the cluster are old or fail, and watches end.
    KubeReads,
    /// The replica does not die: it stands still until its Leases have run out, and then goes on.
    TwoLeaders,
}

const BUYING: &[Trouble] = &[
    Trouble::None,
    Trouble::LostCreate,
    Trouble::LostUnseen,
    Trouble::LateCreate,
    Trouble::CloudReads,
    Trouble::KubeReads,
    Trouble::TwoLeaders,
];
const LOSING: &[Trouble] = &[
    Trouble::None,
    Trouble::CloudReads,
    Trouble::KubeReads,
    Trouble::TwoLeaders,
];
/// Where nothing hangs on what is watched.
const SWEEPING: &[Trouble] = &[Trouble::None, Trouble::CloudReads, Trouble::TwoLeaders];

/// All of them.
pub const STORIES: &[Story] = &[
    Story {
        name: "bought",
        from: Duration::ZERO,
        does: &[
            "update nodeclaims",
            "update nodeclaims/status",
            "create instances",
            "update tags/attach",
            "update certificatesigningrequests/approval",
            "update nodes",
        ],
        troubles: BUYING,
        besides: None,
    },
    Story {
        name: "short",
        from: Duration::ZERO,
        does: &[
            "create instances",
            "create unavailableofferings",
            "update instances",
            "delete instances",
            "update nodeclaims/status",
            "delete unavailableofferings",
            "delete nodes",
        ],
        troubles: BUYING,
        besides: Some(Beside {
            at: Duration::ZERO,
            stream: 1,
            what: Deed::NoRoom,
        }),
    },
    Story {
        name: "given-up",
        from: Duration::ZERO,
        does: &[
            "update nodeclaims",
            "update nodeclaims/status",
            "create instances",
            "delete instances",
        ],
        troubles: BUYING,
        besides: None,
    },
    Story {
        name: "preempted",
        from: Duration::from_secs(590),
        does: &[
            "create unavailableofferings",
            "create nodeclaims",
            "create instances",
            "update nodes",
            "delete instances",
            "delete nodeclaims",
        ],
        troubles: BUYING,
        besides: None,
    },
    Story {
        name: "drained",
        from: Duration::from_secs(470),
        does: &[
            "update nodes",
            "create pods/eviction",
            "delete pods",
            "update nodeclaims/status",
            "delete instances",
            "delete nodes",
        ],
        troubles: LOSING,
        besides: None,
    },
    Story {
        name: "expired",
        from: Duration::from_secs(330),
        does: &[
            "delete nodeclaims",
            "update nodes",
            "delete instances",
            "delete nodes",
        ],
        troubles: LOSING,
        besides: None,
    },
    Story {
        name: "forgotten",
        from: Duration::ZERO,
        does: &["create instances", "delete instances"],
        troubles: LOSING,
        besides: Some(Beside {
            at: Duration::from_secs(36),
            stream: 1,
            what: Deed::Meddling(MeddlingKind::StripFinalizer),
        }),
    },
    Story {
        name: "half",
        from: Duration::ZERO,
        does: &[
            "create instances",
            "update nodeclaims/status",
            "delete virtual_network_interfaces",
            "delete volumes",
            "delete instances",
        ],
        troubles: SWEEPING,
        // By this chance an interface is left first, and then a volume.
        besides: Some(Beside {
            at: Duration::ZERO,
            stream: 102,
            what: Deed::HalfOrders(2),
        }),
    },
    Story {
        name: "vanished",
        // Shortly before the sweep that misses the machine.
        from: Duration::from_secs(470),
        does: &[
            "delete nodeclaims",
            "delete nodes",
            "update nodes",
            "update nodeclaims",
        ],
        troubles: LOSING,
        besides: Some(Beside {
            at: Duration::from_secs(330),
            stream: 1,
            what: Deed::Meddling(MeddlingKind::DeleteMachine),
        }),
    },
];

impl Trouble {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "alone",
            Self::LostCreate => "with a lost answer to an order",
            Self::LostUnseen => "with a lost answer to an order and reads that are behind",
            Self::LateCreate => "with an order that is carried out late",
            Self::CloudReads => "with bad reads of the cloud",
            Self::KubeReads => "with bad reads of the cluster",
            Self::TwoLeaders => "with two leaders",
        }
    }

    /// What goes wrong besides the death, for as long as troubles last.
    fn faults(self) -> Vec<Fault> {
        let cloud = |kind| Fault::Cloud(ibm::Fault::new(kind));
        let some = |kind| Fault::Cloud(ibm::Fault::new(kind).probability(0.2));
        let late = |kind, seconds| {
            let lag = KubeFault::new(KubeKind::Lag).on(kind);
            Fault::Kube(lag.delay(Duration::from_secs(seconds)))
        };
        match self {
            Self::None | Self::TwoLeaders => Vec::new(),
            Self::LostCreate => vec![Fault::Cloud(ibm::Fault::new(FaultKind::LostCreate).times(1))],
            Self::LostUnseen => vec![
                Fault::Cloud(ibm::Fault::new(FaultKind::LostCreate).times(1)),
                cloud(FaultKind::ReadLag),
            ],
            Self::LateCreate => vec![Fault::Cloud(ibm::Fault::new(FaultKind::LateCreate).times(1))],
            Self::CloudReads => vec![
                cloud(FaultKind::ReadLag),
                cloud(FaultKind::SmallPages),
                some(FaultKind::PageFails),
                some(FaultKind::ServerError),
                some(FaultKind::TokenExpired),
                some(FaultKind::Spurious404),
            ],
            Self::KubeReads => vec![
                late("nodeclaims", 20),
                late("nodes", 15),
                late("pods", 10),
                Fault::Kube(KubeFault::new(KubeKind::ServerError).percent(20)),
                Fault::Kube(KubeFault::new(KubeKind::WatchClosed)),
            ],
        }
    }

    /// What becomes of the leader after so many effects, and the name under which that is counted.
    pub(super) fn end(self, after: u64) -> (Fault, FaultName) {
        let (replica, upon) = (0, Upon::Effects(after));
        if self == Self::TwoLeaders {
            return (Fault::Pause { replica, upon }, FaultName::Pause);
        }
        let crash = Fault::Crash {
            replica,
            after_effects: after,
            upon: Upon::Now,
        };
        (crash, FaultName::Crash)
    }
}

impl Story {
    /// What goes wrong when the leader ends after so many effects; for 0 it does not.
    pub(super) fn plan(&self, trouble: Trouble, after: u64) -> Plan {
        let mut injections = Vec::new();
        let mut add = |at, lasts, fault| {
            let stream = injections.len() as u64 + 1;
            injections.push(Injection {
                at,
                lasts,
                stream,
                fault,
            });
        };
        if after > 0 {
            let (end, _) = trouble.end(after);
            let lasts = if trouble == Trouble::TwoLeaders {
                TROUBLED
            } else {
                Duration::ZERO
            };
            add(self.from, lasts, end);
        }
        for fault in trouble.faults() {
            add(self.from, TROUBLED, fault);
        }
        if let Some(beside) = &self.besides {
            let (lasts, fault) = beside.fault();
            injections.push(Injection {
                at: beside.at,
                lasts,
                stream: beside.stream,
                fault,
            });
        }
        injections.sort_by_key(|injection| injection.at);
        Plan { injections }
    }

    pub(super) fn file(&self) -> PathBuf {
        Path::new(STORIES_IN).join(self.name).with_extension("yaml")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::scenario::Scenario;

    #[test]
    fn every_story_can_be_read_and_is_about_what_people_expect() {
        for story in STORIES {
            let scenario = Scenario::load(&story.file()).unwrap();
            assert_eq!(scenario.name, story.name);
            assert!(scenario.lasts > story.from + TROUBLED, "{}", story.name);
        }
    }

    #[test]
    fn what_a_story_is_about_happens_alike_in_every_telling() {
        for story in STORIES.iter().filter(|story| story.besides.is_some()) {
            let beside = story.besides.as_ref().unwrap();
            for &trouble in story.troubles {
                for after in [0, 1, 7] {
                    let plan = story.plan(trouble, after);
                    let fault = beside.fault().1;
                    let told = plan.injections.iter().find(|it| it.fault == fault).unwrap();
                    assert_eq!((told.at, told.stream), (beside.at, beside.stream));
                }
            }
        }
    }

    #[test]
    fn bad_reads_are_of_every_kind_that_a_deletion_could_rest_on() {
        let names = |trouble: Trouble| {
            let faults = trouble.faults().into_iter();
            faults.map(|fault| fault.name().as_str()).collect::<Vec<_>>()
        };
        for name in [
            "c3-read-lag",
            "c4-spurious-404",
            "c5-page-fails",
            "c6-token-expired",
        ] {
            assert!(names(Trouble::CloudReads).contains(&name), "{name}");
        }
        let lags = names(Trouble::KubeReads);
        assert_eq!(lags.iter().filter(|name| **name == "k8-lag").count(), 3);
    }
}
