//! A second look at the claims that pods led to, by somebody who sees nothing but claims: each holds whole pods, has
//! machines to choose from that hold them, and spreads them as asked; and together they have room for every pod, none of
//! which is paid for twice. It knows the two sizes of pods that are made here, and nothing of how plans are.

use anyhow::{Context, Result, ensure};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use karpenter_ibm::api::NodeClaim;
use karpenter_ibm::api::names::INSTANCE_TYPE;
use karpenter_ibm::ibm::builtin;
use karpenter_ibm::resources::{CPU, MEMORY, PODS, Resources};

use crate::Spread;

const MI: i64 = 1 << 20;
/// Processors in thousandths and memory of a small pod and of a large one, as `pod` in `main.rs` writes them.
const SMALL: (i64, i64) = (900, 3100 * MI);
const LARGE: (i64, i64) = (3500, 28 * 1024 * MI);

/// What a claim was made for, and what is left of the largest machine that it can be.
struct Load {
    small: i64,
    large: i64,
    cpu_left: i64,
    memory_left: i64,
}

/// Looks at all claims that so many pods led to.
pub(crate) fn look(claims: &[NodeClaim], pods: usize, spread: Spread) -> Result<()> {
    let mut loads = Vec::with_capacity(claims.len());
    for claim in claims {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let load = load(claim).with_context(|| format!("claim {name}"))?;
        ensure!(
            spread == Spread::No || load.small <= 1,
            "claim {name} has {} pods that are to be spread",
            load.small
        );
        loads.push(load);
    }
    let pods = i64::try_from(pods)?;
    let paid = |of: fn(&Load) -> i64| loads.iter().map(of).sum::<i64>();
    let small = pods - pods / 2 - paid(|load| load.small);
    let large = pods / 2 - paid(|load| load.large);
    ensure!(
        small >= 0 && large >= 0,
        "{small} small and {large} large pods are paid for twice"
    );
    // Pods that came later may go where there is room anyway.
    let (small, large) = loads.iter_mut().fold((small, large), |(small, large), load| {
        let more_large = load.take(LARGE, large);
        let most = if spread == Spread::No {
            small
        } else {
            small.min(1 - load.small)
        };
        (small - load.take(SMALL, most), large - more_large)
    });
    ensure!(
        small == 0 && large == 0,
        "{small} small and {large} large pods have no place"
    );
    Ok(())
}

/// How many pods of each size ask for as much as a claim does, to the last byte, and that its machines have it.
fn load(claim: &NodeClaim) -> Result<Load> {
    let requests = claim.spec.resources.as_ref().and_then(|it| it.requests.as_ref());
    let written = serde_json::to_value(requests.context("it asks for nothing")?)?;
    let asked = Resources::parse(&serde_json::from_value::<
        std::collections::BTreeMap<String, Quantity>,
    >(written)?)?;
    let (cpu, memory, pods) = (asked.get(CPU), asked.get(MEMORY), asked.get(PODS));
    let large = (cpu - SMALL.0 * pods) / (LARGE.0 - SMALL.0);
    let small = pods - large;
    let sum = |of: fn((i64, i64)) -> i64| small * of(SMALL) + large * of(LARGE);
    ensure!(
        small >= 0 && large >= 0 && pods > 0 && sum(|size| size.0) == cpu && sum(|size| size.1) == memory,
        "{cpu}m and {memory} bytes for {pods} pods are not what whole pods ask for"
    );
    let mut types = claim
        .spec
        .requirements
        .iter()
        .filter(|it| it.key == INSTANCE_TYPE);
    let names = types
        .find_map(|it| it.values.as_ref())
        .context("it names no types")?;
    let mut most = (0, 0);
    for name in names {
        let profile = builtin::find_profile(name).with_context(|| format!("there is no {name}"))?;
        let has = (
            i64::from(profile.vcpu) * 1000,
            i64::from(profile.memory_gib) * 1024 * MI,
        );
        ensure!(has.0 >= cpu && has.1 >= memory, "{name} is too small");
        most = (most.0.max(has.0), most.1.max(has.1));
    }
    ensure!(most.0 > 0, "no type is left");
    Ok(Load {
        small,
        large,
        cpu_left: most.0 - cpu,
        memory_left: most.1 - memory,
    })
}

impl Load {
    /// Takes in at most so many pods of a size; how many there was room for.
    fn take(&mut self, size: (i64, i64), most: i64) -> i64 {
        let taken = most
            .min(self.cpu_left / size.0)
            .min(self.memory_left / size.1)
            .max(0);
        self.cpu_left -= taken * size.0;
        self.memory_left -= taken * size.1;
        taken
    }
}
