use super::*;
use crate::api::OfferingKey;
use crate::model::kind::{Cards, Sold};
use crate::money::Price;
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};

const GIB: i64 = 1 << 30;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn priced(dollars: f64) -> Option<Priced> {
    let source = PriceSource::Catalogue { at: at(0) };
    Price::from_usd(dollars).map(|price| Priced { price, source })
}

fn kind(name: &str, vcpu: i64, gib: i64) -> Kind {
    let (family, size) = Kind::family_and_size(name);
    Kind {
        name: name.to_owned(),
        family: family.to_owned(),
        size: size.to_owned(),
        arch: "amd64".to_owned(),
        vcpu,
        memory_bytes: gib * GIB,
        gpus: None,
        bandwidth_mbps: Some(8000),
        local_disks: Vec::new(),
        zones: ["us-south-1", "us-south-2"].map(str::to_owned).into(),
        spot: Sold::Yes,
        on_demand: Sold::Yes,
        spot_price: priced(0.048),
        on_demand_price: priced(0.2),
    }
}

fn gpu_kind() -> Kind {
    let cards = Cards {
        name: "l4".to_owned(),
        maker: "nvidia".to_owned(),
        count: 2,
        memory_bytes: Some(48 * GIB),
    };
    Kind {
        gpus: Some(cards),
        ..kind("gx3-32x160x2l4", 32, 160)
    }
}

fn subnet(zone: &str, free: u64) -> SubnetFacts {
    SubnetFacts {
        id: format!("subnet-of-{zone}"),
        zone: zone.to_owned(),
        free,
    }
}

fn class() -> ClassFacts {
    ClassFacts {
        region: "us-south".to_owned(),
        subnets: vec![subnet("us-south-1", 10), subnet("us-south-2", 10)],
        boot_volume_bytes: 100_000_000_000,
        arch: "amd64".to_owned(),
        os: "linux".to_owned(),
        ..ClassFacts::default()
    }
}

fn type_of(class: &ClassFacts, kind: Kind, withheld: &Withheld) -> InstanceType {
    let mut types = types_for(class, &[kind], withheld, &DiscountFactors::default(), at(0));
    types.remove(0)
}

/// `zone capacity-type: availability`, line by line.
fn offered(instance_type: &InstanceType) -> Vec<String> {
    let line = |offering: &Offering| {
        let availability = match &offering.availability {
            Availability::Available => "available".to_owned(),
            Availability::Withheld { until, reason } => format!("{reason} until {}", until.as_second()),
            Availability::Unsold(why) => why.to_string(),
        };
        format!("{} {}: {availability}", offering.zone, offering.capacity_type)
    };
    instance_type.offerings.iter().map(line).collect()
}

#[test]
fn there_is_one_offering_for_each_zone_and_way_to_buy() {
    let offered = offered(&type_of(&class(), kind("bxf-4x16", 4, 16), &Withheld::nothing()));
    assert_eq!(
        offered,
        [
            "us-south-1 spot: available",
            "us-south-1 on-demand: available",
            "us-south-2 spot: available",
            "us-south-2 on-demand: available",
        ]
    );
}

#[test]
fn what_is_only_sold_as_spot_has_no_offering_on_demand() {
    let only_spot = Kind {
        on_demand: Sold::No,
        ..kind("bxf-4x16", 4, 16)
    };
    let offered = offered(&type_of(&class(), only_spot, &Withheld::nothing()));
    assert_eq!(
        offered,
        ["us-south-1 spot: available", "us-south-2 spot: available"]
    );
}

#[test]
fn dedicated_hardware_has_no_spot_and_takes_its_own_profiles_only() {
    let class = ClassFacts {
        placement: Placement::Dedicated,
        profiles: Some(["bxf-4x16".to_owned()].into()),
        ..class()
    };
    let kinds = [kind("bxf-4x16", 4, 16), kind("bxf-8x32", 8, 32)];
    let types = types_for(
        &class,
        &kinds,
        &Withheld::nothing(),
        &DiscountFactors::default(),
        at(0),
    );
    assert_eq!(types.len(), 1);
    assert_eq!(
        offered(&types[0])[..2],
        [
            "us-south-1 spot: machines on dedicated hosts are never spot",
            "us-south-1 on-demand: available",
        ]
    );
}

#[test]
fn a_zone_without_a_subnet_or_an_address_sells_nothing() {
    let class = ClassFacts {
        subnets: vec![subnet("us-south-2", 0), subnet("us-south-3", 9)],
        ..class()
    };
    let spot = Kind {
        on_demand: Sold::No,
        ..kind("bxf-4x16", 4, 16)
    };
    assert_eq!(
        offered(&type_of(&class, spot, &Withheld::nothing())),
        [
            "us-south-1 spot: the node class has no usable subnet in the zone",
            "us-south-2 spot: no subnet of the node class in the zone has a free address",
        ]
    );
}

#[test]
fn a_withheld_offering_says_until_when_and_leaves_its_neighbors_alone() {
    let key = OfferingKey::one(CapacityType::Spot, "bxf-4x16", "us-south-1").unwrap();
    let withheld = Withheld::nothing().with(key, at(3600), "Preempted");
    let offered = offered(&type_of(&class(), kind("bxf-4x16", 4, 16), &withheld));
    assert_eq!(
        offered[..3],
        [
            "us-south-1 spot: Preempted until 3600",
            "us-south-1 on-demand: available",
            "us-south-2 spot: available",
        ]
    );
}

#[test]
fn a_machine_that_the_image_cannot_run_on_is_no_type_of_the_class() {
    let mainframe = Kind {
        arch: "s390x".to_owned(),
        ..kind("bz2-4x16", 4, 16)
    };
    let types = types_for(
        &class(),
        &[mainframe],
        &Withheld::nothing(),
        &DiscountFactors::default(),
        at(0),
    );
    assert!(types.is_empty());
}

#[test]
fn a_spot_price_is_the_users_factor_then_the_published_one_then_a_quarter() {
    let published = kind("bxf-4x16", 4, 16);
    let silent = Kind {
        spot_price: None,
        ..published.clone()
    };
    let unknown = Kind {
        on_demand_price: None,
        ..silent.clone()
    };
    let set = DiscountFactors::parse(["0.5", "bxf=0.3"]).unwrap();
    let unset = DiscountFactors::default();
    let spot = |kind: &Kind, factors| price(kind, CapacityType::Spot, factors).map(|it| it.price.usd());
    assert_eq!(spot(&published, &set), Some(0.06));
    assert_eq!(spot(&published, &unset), Some(0.048));
    assert_eq!(spot(&silent, &unset), Some(0.05));
    assert_eq!(spot(&unknown, &set), None);
    assert_eq!(
        price(&silent, CapacityType::Spot, &unset).unwrap().source,
        PriceSource::UsualFactor(Factor::USUAL)
    );
    assert_eq!(price(&published, CapacityType::OnDemand, &set), priced(0.2));
}

#[test]
fn a_factor_without_a_price_on_demand_leaves_the_published_spot_price() {
    let spot_only = Kind {
        on_demand_price: None,
        ..kind("bxf-4x16", 4, 16)
    };
    let set = DiscountFactors::parse(["0.5"]).unwrap();
    assert_eq!(price(&spot_only, CapacityType::Spot, &set), priced(0.048));
}

#[test]
fn memory_is_a_safe_share_until_nodes_report_what_they_have() {
    let nominal = 16 * GIB;
    let unseen = capacity(&kind("bxf-4x16", 4, 16), &class()).get(MEMORY);
    assert!(
        unseen <= nominal / 1000 * 925 && unseen >= nominal / 100 * 92,
        "{unseen}"
    );
    let seen = |bytes| {
        let observed = Resources::new().with(MEMORY, bytes);
        let class = ClassFacts {
            observed: [("bxf-4x16".to_owned(), observed)].into(),
            ..class()
        };
        capacity(&kind("bxf-4x16", 4, 16), &class).get(MEMORY)
    };
    assert_eq!(seen(nominal / 100 * 97), nominal / 100 * 97);
    assert_eq!((seen(0), seen(nominal + 1)), (unseen, unseen), "no observation");
    assert_eq!(seen(1), nominal * 80 / 100, "whoever lies costs a fifth at most");
    // nxf-1x1: 192 MiB of 1,024 are the crash kernel's alone, so less than 80 % is the truth and must be believed.
    let tiny = kind("nxf-1x1", 1, 1);
    let believed = |bytes| credible(&tiny, &class(), &Resources::new().with(MEMORY, bytes)).get(MEMORY);
    assert_eq!((believed(720 * MIB), believed(1)), (720 * MIB, 704 * MIB));
    let small = capacity(&kind("cxf-2x4", 2, 4), &class()).get(MEMORY);
    assert_eq!(small, 4 * GIB - 320 * MIB);
}

#[test]
fn capacity_has_the_disk_the_pods_and_the_cards_of_the_node() {
    let class = ClassFacts {
        kubelet: KubeletSettings {
            pods_per_core: Some(2),
            ..KubeletSettings::default()
        },
        ..class()
    };
    let there = capacity(&gpu_kind(), &class);
    assert_eq!((there.get(CPU), there.get(PODS)), (32_000, 64));
    assert_eq!(there.get("nvidia.com/gpu"), 2);
    let disk = there.get(EPHEMERAL_STORAGE);
    assert!(disk > 90_000_000_000 && disk < 95_000_000_000, "{disk}");
    let without = capacity(&kind("bxf-4x16", 4, 16), &class);
    assert!(without.iter().all(|(name, _)| !name.contains("gpu")));
}

/// What nodes of a class have when one of a profile was seen with this.
fn after_seeing(profile: &str, observed: Resources, class: ClassFacts) -> ClassFacts {
    ClassFacts {
        observed: [(profile.to_owned(), observed)].into(),
        ..class
    }
}

#[test]
fn disk_that_one_node_lacks_nodes_of_no_profile_of_the_class_have() {
    let seen = Resources::new().with(EPHEMERAL_STORAGE, 40 * GIB);
    let class = after_seeing("bxf-4x16", seen, class());
    for name in ["bxf-4x16", "bxf-8x32"] {
        let there = capacity(&kind(name, 4, 16), &class);
        assert_eq!(there.get(EPHEMERAL_STORAGE), 40 * GIB, "{name}");
        assert_eq!(there.get(PODS), 110, "{name}");
    }
}

#[test]
fn pods_that_a_kubelet_refuses_all_of_the_class_refuse_unless_processors_count() {
    let seen = || Resources::new().with(PODS, 20);
    let pods = |class: ClassFacts| {
        ["bxf-4x16", "bxf-8x32"].map(|name| capacity(&kind(name, 4, 16), &class).get(PODS))
    };
    assert_eq!(pods(after_seeing("bxf-4x16", seen(), class())), [20, 20]);
    let per_core = ClassFacts {
        kubelet: KubeletSettings {
            pods_per_core: Some(10),
            ..KubeletSettings::default()
        },
        ..class()
    };
    assert_eq!(pods(after_seeing("bxf-4x16", seen(), per_core)), [20, 40]);
}

#[test]
fn allocatable_is_capacity_without_what_the_kubelet_keeps() {
    let made = type_of(&class(), kind("bxf-4x16", 4, 16), &Withheld::nothing());
    let kept = Reservation::of(&made.capacity, &class().kubelet);
    assert_eq!(made.allocatable, kept.allocatable(&made.capacity));
    assert!(made.allocatable.get(CPU) < made.capacity.get(CPU));
}

#[test]
fn every_label_is_said_to_be_something_or_absent() {
    let said = |kind: Kind| {
        let requirements = type_of(&class(), kind, &Withheld::nothing()).requirements;
        move |label: &str| requirements.get(label).unwrap().to_string()
    };
    let plain = said(kind("bxf-4x16", 4, 16));
    assert_eq!(plain(names::INSTANCE_FAMILY), "in [bxf]");
    assert_eq!(plain(names::INSTANCE_SIZE), "in [4x16]");
    assert_eq!(plain(names::INSTANCE_CPU), "in [4]");
    assert_eq!(plain(names::INSTANCE_MEMORY), "in [16384]");
    assert_eq!(plain(names::INSTANCE_NETWORK_BANDWIDTH), "in [8000]");
    assert_eq!(plain(names::REGION), "in [us-south]");
    assert_eq!(plain(names::OS), "in [linux]");
    assert_eq!(plain(names::INSTANCE_GPU_NAME), "absent");
    let gpu = said(gpu_kind());
    assert_eq!(
        (gpu(names::INSTANCE_GPU_NAME), gpu(names::INSTANCE_GPU_COUNT)),
        ("in [l4]".to_owned(), "in [2]".to_owned())
    );
    for label in names::WELL_KNOWN_LABELS {
        let of_the_pool_or_the_offering = [names::NODE_POOL, names::ZONE, names::CAPACITY_TYPE];
        let requirements = type_of(&class(), gpu_kind(), &Withheld::nothing()).requirements;
        let said = requirements.get(label).is_some();
        assert_ne!(said, of_the_pool_or_the_offering.contains(&label), "{label}");
    }
}

#[test]
fn a_machine_attaches_twelve_volumes_or_four_if_it_is_small() {
    let attaches = |vcpu: i64| {
        let of = type_of(&class(), kind("bxf-2x8", vcpu, 8), &Withheld::default());
        of.volume_limits["vpc.block.csi.ibm.io"]
    };
    assert_eq!([2, 4, 16].map(attaches), [4, 12, 12]);
}
