//! An account in which thousands of machines have room.

use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::ibm::Options;

/// Its options; what else is special about it is set in them.
pub(crate) fn roomy(clock: &Clock) -> Options {
    let mut options = Options::new("us-south", 7, clock.clone());
    options.subnet_prefix = 18;
    options.quotas.vcpu = 100_000;
    options.quotas.memory_gib = 1_000_000;
    options.quotas.volumes = 100_000;
    options.quotas.spot_instances = 100_000;
    options.stock.standard = 100_000;
    options.stock.spot = 100_000;
    options
}
