use super::*;
use crate::api::CapacityType;
use crate::cloud::{Effect, MachineStatus, VolumeOrder};

const NAME: &str = "kib-8b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4";

/// Remembers what was bought and deleted; reads fail when told so.
#[derive(Default)]
struct Fake {
    machines: Mutex<Vec<Machine>>,
    fails: bool,
}

impl Fake {
    fn read(&self) -> Result<Vec<Machine>, Error> {
        let machines = self.machines.lock().unwrap().clone();
        let answer = Box::default();
        let failed = Error::Transient {
            effect: Effect::None,
            answer,
        };
        if self.fails { Err(failed) } else { Ok(machines) }
    }
}

#[async_trait]
impl Cloud for Fake {
    async fn create(&self, order: &Order) -> Result<Machine, Error> {
        let machine = Machine {
            id: format!("id-of-{}", order.name),
            name: order.name.clone(),
            profile: order.profile.clone(),
            zone: order.zone.clone(),
            capacity_type: order.capacity_type,
            status: MachineStatus::Running,
            reasons: Vec::new(),
            address: None,
            resource_group: order.resource_group.clone(),
            image: None,
            subnet: None,
            interface: None,
            crn: None,
            created_at: None,
        };
        self.machines.lock().unwrap().push(machine.clone());
        Ok(machine)
    }

    async fn get(&self, id: &str) -> Result<Machine, Error> {
        let found = self.read()?.into_iter().find(|machine| machine.id == id);
        found.ok_or_else(|| not_found(id))
    }

    async fn find(&self, name: &str) -> Result<Option<Machine>, Error> {
        Ok(self.read()?.into_iter().find(|machine| machine.name == name))
    }

    async fn list(&self, _: &Ours) -> Result<Vec<Machine>, Error> {
        self.read()
    }

    async fn preemptible(&self, _: &Ours) -> Result<Vec<Machine>, Error> {
        self.read()
    }

    async fn leftovers(&self, _: &Ours) -> Result<Vec<Leftover>, Error> {
        Ok(Vec::new())
    }

    async fn remove(&self, _: &Leftover) -> Result<(), Error> {
        Ok(())
    }

    async fn delete(&self, _: &str) -> Result<(), Error> {
        Ok(())
    }

    async fn rename(&self, _: &str, _: &str) -> Result<(), Error> {
        Ok(())
    }

    async fn kinds(&self) -> Result<Arc<Vec<Kind>>, Error> {
        Ok(Arc::default())
    }

    async fn recent_kinds(&self) -> Result<Arc<Vec<Kind>>, Error> {
        Ok(Arc::default())
    }

    async fn tag(&self, _: &Machine, _: &BTreeSet<String>) -> Result<(), Error> {
        Ok(())
    }

    async fn interfaces(&self, _: &str) -> Result<Vec<Interface>, Error> {
        let interface = |id: &str| Interface {
            id: id.to_owned(),
            security_groups: BTreeSet::new(),
        };
        Ok(vec![interface("ours"), interface("theirs")])
    }

    async fn network(&self, _: &str) -> Result<Option<Network>, Error> {
        Ok(None)
    }

    async fn subnets(&self, _: &str) -> Result<Vec<Subnet>, Error> {
        Ok(Vec::new())
    }

    async fn tagged_subnets(
        &self,
        _: &str,
        _: &BTreeMap<String, String>,
        known: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Error> {
        Ok(known.clone())
    }

    async fn security_groups(&self, _: &str) -> Result<BTreeSet<String>, Error> {
        Ok(BTreeSet::new())
    }

    async fn keys(&self) -> Result<BTreeSet<String>, Error> {
        Ok(BTreeSet::new())
    }

    async fn images(&self, _: &ImageQuery) -> Result<Vec<Image>, Error> {
        Ok(Vec::new())
    }

    async fn placement(&self, _: &str) -> Result<Option<Placement>, Error> {
        Ok(None)
    }

    async fn resource_group(&self, _: Option<&str>) -> Result<Option<String>, Error> {
        Ok(None)
    }
}

fn order() -> Order {
    Order {
        name: NAME.to_owned(),
        attempt: 1,
        profile: "bxf-2x8".to_owned(),
        zone: "us-south-1".to_owned(),
        capacity_type: CapacityType::Spot,
        vpc: String::new(),
        subnet: String::new(),
        image: String::new(),
        security_groups: Vec::new(),
        ssh_keys: Vec::new(),
        resource_group: String::new(),
        placement_target: None,
        trusted_profile: None,
        boot_volume: VolumeOrder::default(),
        data_volumes: Vec::new(),
        tags: BTreeSet::new(),
        user_data: None,
        send_by: Instant::now(),
    }
}

fn ours() -> Ours {
    let name: InstanceName = NAME.parse().unwrap();
    Ours {
        cluster: name.cluster(),
        resource_group: String::new(),
    }
}

#[tokio::test]
async fn an_error_becomes_an_absence() {
    let fails = Fake {
        fails: true,
        ..Fake::default()
    };
    let cloud = flawed(Arc::new(fails), Flaw::ErrorAsAbsence);
    assert!(cloud.get("a").await.unwrap_err().is_not_found());
    assert_eq!(cloud.find("a").await.unwrap(), None);
    assert_eq!(cloud.list(&ours()).await.unwrap(), []);
}

#[tokio::test]
async fn a_name_is_not_found_although_it_is_there() {
    let cloud = flawed(Arc::new(Fake::default()), Flaw::NoNameLookUp);
    let machine = cloud.create(&order()).await.unwrap();
    assert_eq!(cloud.find(NAME).await.unwrap(), None);
    assert!(cloud.get(&machine.id).await.is_ok());
}

#[tokio::test]
async fn an_accepted_deletion_is_taken_for_done() {
    let fake = Arc::new(Fake::default());
    let cloud = flawed(fake.clone(), Flaw::deletion_is_done());
    let machine = cloud.create(&order()).await.unwrap();
    assert!(cloud.get(&machine.id).await.is_ok());
    cloud.delete(&machine.id).await.unwrap();
    assert!(cloud.get(&machine.id).await.unwrap_err().is_not_found());
    assert_eq!(cloud.find(NAME).await.unwrap(), None);
    assert!(fake.get(&machine.id).await.is_ok(), "it is still there");
}

#[tokio::test]
async fn a_machine_that_is_being_deleted_is_taken_for_gone_and_another_bought_beside_it() {
    let fake = Arc::new(Fake::default());
    let cloud = flawed(fake.clone(), Flaw::impatient());
    let first = cloud.create(&order()).await.unwrap();
    assert_eq!(cloud.find(NAME).await.unwrap().unwrap().id, first.id);
    fake.machines.lock().unwrap()[0].status = MachineStatus::Deleting;
    assert!(cloud.get(&first.id).await.unwrap_err().is_not_found());
    assert_eq!(cloud.find(NAME).await.unwrap(), None);
    let second = cloud.create(&order()).await.unwrap();
    assert_eq!(second.name, NAME, "to its eyes");
    assert_eq!(cloud.find(NAME).await.unwrap().unwrap().id, second.id);
    let names: Vec<String> = fake.read().unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, [NAME.to_owned(), format!("{NAME}-x{LIFE_MIN}")]);
}

#[tokio::test]
async fn another_life_does_not_find_what_this_one_bought() {
    let fake = Arc::new(Fake::default());
    let (one, two) = (
        flawed(fake.clone(), Flaw::named_after(1)),
        flawed(fake.clone(), Flaw::named_after(2)),
    );
    let bought = one.create(&order()).await.unwrap();
    assert_eq!(bought.name, NAME);
    assert_eq!(one.find(NAME).await.unwrap().unwrap().id, bought.id);
    assert_eq!(two.find(NAME).await.unwrap(), None);
    two.create(&order()).await.unwrap();
    let names: Vec<String> = two
        .list(&ours())
        .await
        .unwrap()
        .into_iter()
        .map(|it| it.name)
        .collect();
    assert_eq!(names, [NAME, NAME], "and to its eyes nothing is wrong");
    let truth = fake.read().unwrap();
    assert!(
        truth
            .iter()
            .all(|it| InstanceName::of_machine(&it.name).is_some())
    );
}

#[tokio::test]
async fn what_belongs_to_others_looks_like_what_our_machines_left() {
    let fake = Arc::new(Fake::default());
    fake.create(&order()).await.unwrap();
    fake.machines.lock().unwrap()[0].interface = Some("ours".to_owned());
    let left = flawed(fake, Flaw::AnyLeftover).leftovers(&ours()).await.unwrap();
    let ids: Vec<&str> = left.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, ["theirs"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_stops_seems_to_run_for_three_minutes() {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
    let fake = Arc::new(Fake::default());
    let machine = fake.create(&order()).await.unwrap();
    fake.machines.lock().unwrap()[0].status = MachineStatus::Stopped;
    let cloud = flawed(fake, Flaw::stops_late(clock.clone()));
    for (passed, status) in [
        (0, MachineStatus::Running),
        (179, MachineStatus::Running),
        (1, MachineStatus::Stopped),
    ] {
        clock.sleep(Duration::from_secs(passed)).await;
        assert_eq!(cloud.get(&machine.id).await.unwrap().status, status);
    }
}
