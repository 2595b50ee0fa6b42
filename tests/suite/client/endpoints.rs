//! Every endpoint of the client, used once.

use std::time::Duration;

use karpenter_ibm::ibm::search::Kind;
use karpenter_ibm::ibm::tags::Tag;
use karpenter_ibm::ibm::vpc::images::ImageFilter;
use karpenter_ibm::ibm::vpc::instances::InstanceFilter;
use karpenter_ibm::ibm::vpc::types::{Action, AvailabilityClass, ImageStatus, InstanceStatus, ZoneStatus};
use karpenter_ibm::ibm::vpc::volumes::VolumeFilter;

use super::World;

#[tokio::test(start_paused = true)]
async fn what_surrounds_a_machine_can_be_listed_and_read() {
    let world = World::new();
    let (vpc, account) = (&world.client.vpc, world.cloud.account());

    let profiles = vpc.list_instance_profiles().await.unwrap();
    assert!(profiles.len() > 150, "{} profiles", profiles.len());
    let flex = vpc.get_instance_profile("bxf-4x16").await.unwrap();
    assert!(
        flex.availability_class
            .as_ref()
            .unwrap()
            .permits(&AvailabilityClass::Spot)
    );
    assert!(profiles.contains(&flex));
    assert!(
        vpc.get_instance_profile("bxf-5x16")
            .await
            .unwrap_err()
            .is_not_found()
    );

    let zones = vpc.list_zones("us-south").await.unwrap();
    assert!(
        zones
            .iter()
            .all(|zone| zone.status == Some(ZoneStatus::Available))
    );
    assert_eq!(
        zones.iter().map(|zone| zone.name.clone()).collect::<Vec<_>>(),
        account.zones
    );
    assert_eq!(vpc.get_region("us-south").await.unwrap().name, "us-south");

    assert_eq!(
        vpc.list_vpcs().await.unwrap(),
        [vpc.get_vpc(&account.vpc).await.unwrap()]
    );
    let subnets = vpc.list_subnets(&account.vpc).await.unwrap();
    assert_eq!(subnets.len(), 3);
    assert_eq!(
        vpc.get_subnet(&subnets[0].id)
            .await
            .unwrap()
            .available_ipv4_address_count,
        Some(251)
    );
    let groups = vpc.list_security_groups(&account.vpc).await.unwrap();
    assert!(groups.contains(&vpc.get_security_group(&account.security_group).await.unwrap()));
    assert!(
        vpc.list_keys()
            .await
            .unwrap()
            .contains(&vpc.get_key(&account.key).await.unwrap())
    );
    let placement = vpc.get_placement_group(&account.placement_group).await.unwrap();
    assert!(vpc.list_placement_groups().await.unwrap().contains(&placement));
}

#[tokio::test(start_paused = true)]
async fn images_and_resource_groups_are_found_by_name() {
    let world = World::new();
    let (vpc, account) = (&world.client.vpc, world.cloud.account());
    let public = ImageFilter {
        visibility: Some("public"),
        ..ImageFilter::default()
    };
    let images = vpc.list_images(&public).await.unwrap();
    let image = vpc.get_image(&account.image).await.unwrap();
    assert!(images.contains(&image) && image.status == Some(ImageStatus::Available));
    let named = ImageFilter {
        name: Some(image.name.clone()),
        ..ImageFilter::default()
    };
    assert_eq!(vpc.list_images(&named).await.unwrap(), [image]);

    let all = world.client.resource_groups.list().await.unwrap();
    let default = all.iter().find(|group| group.default).unwrap();
    assert_eq!(default.id, account.resource_group);
    assert_eq!(
        world.client.resource_groups.named(&default.name).await.unwrap(),
        std::slice::from_ref(default)
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_can_be_stopped_started_and_looked_into() {
    let world = World::new();
    let vpc = &world.client.vpc;
    let id = vpc
        .create_instance(&world.order("kib-1", AvailabilityClass::Standard))
        .await
        .unwrap()
        .id;
    world.clock.sleep(Duration::from_mins(5)).await;
    vpc.get_initialization(&id).await.unwrap();
    for (action, status) in [
        (Action::Stop, InstanceStatus::Stopped),
        (Action::Start, InstanceStatus::Running),
    ] {
        vpc.order_action(&id, action).await.unwrap();
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(vpc.get_instance(&id).await.unwrap().status, Some(status));
    }
    let filter = VolumeFilter {
        name: Some("kib-1-boot".to_owned()),
        ..VolumeFilter::default()
    };
    let volumes = vpc.list_volumes(&filter).await.unwrap();
    assert_eq!(volumes.len(), 1);
    assert_eq!(vpc.get_volume(&volumes[0].id).await.unwrap(), volumes[0]);
    assert_eq!(
        vpc.delete_volume(&volumes[0].id).await.unwrap_err().kind(),
        "conflict"
    );
    let interfaces = vpc
        .list_interfaces(&world.cloud.account().resource_group)
        .await
        .unwrap();
    assert_eq!(vpc.get_interface(&interfaces[0].id).await.unwrap(), interfaces[0]);
    assert_eq!(
        vpc.delete_interface(&interfaces[0].id).await.unwrap_err().kind(),
        "conflict"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tagged_machine_is_found_by_its_tags_once_the_index_knows() {
    let world = World::new();
    let machine = world
        .client
        .vpc
        .create_instance(&world.order("kib-1", AvailabilityClass::Spot))
        .await
        .unwrap();
    let crn = machine.crn.clone().unwrap();
    let tags = ["karpenter.sh.nodepool:default", "cluster:a"].map(|tag| Tag::parse(tag).unwrap());
    world.client.tagging.attach(&crn, &tags).await.unwrap();
    assert_eq!(world.client.tagging.list(&crn).await.unwrap().len(), 2);
    world.clock.sleep(Duration::from_mins(30)).await;
    let found = world.client.search.tagged(Kind::Instance, &tags).await.unwrap();
    assert_eq!(
        found.iter().map(|found| found.id().unwrap()).collect::<Vec<_>>(),
        [machine.id.as_str()]
    );
    world.client.tagging.detach(&crn, &tags[..1]).await.unwrap();
    assert_eq!(world.client.tagging.list(&crn).await.unwrap(), ["cluster:a"]);
}

#[tokio::test(start_paused = true)]
async fn filters_are_the_servers_business_and_reach_it() {
    let world = World::new();
    world.fleet(3).await;
    world
        .client
        .vpc
        .create_instance(&world.order("standard", AvailabilityClass::Standard))
        .await
        .unwrap();
    let account = world.cloud.account();
    let count = async |filter: InstanceFilter| world.client.vpc.list_instances(&filter).await.unwrap().len();
    let none = InstanceFilter::default();
    assert_eq!(count(none.clone()).await, 4);
    assert_eq!(
        count(InstanceFilter {
            class: Some(AvailabilityClass::Spot),
            ..none.clone()
        })
        .await,
        3
    );
    assert_eq!(
        count(InstanceFilter {
            class: Some(AvailabilityClass::Standard),
            ..none.clone()
        })
        .await,
        1
    );
    assert_eq!(
        count(InstanceFilter {
            name: Some("spot-001".to_owned()),
            ..none.clone()
        })
        .await,
        1
    );
    assert_eq!(
        count(InstanceFilter {
            vpc: Some(account.vpc),
            ..none.clone()
        })
        .await,
        4
    );
    assert_eq!(
        count(InstanceFilter {
            resource_group: Some(account.resource_group),
            ..none
        })
        .await,
        4
    );
    let queries: Vec<String> = world
        .cloud
        .requests()
        .iter()
        .map(|seen| seen.query.clone())
        .collect();
    assert!(
        queries
            .iter()
            .any(|query| query.contains("availability.class=spot")),
        "{queries:?}"
    );
}
