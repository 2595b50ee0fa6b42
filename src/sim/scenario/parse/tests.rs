//! What a scenario may say, and what is said about one that says something else.

use super::*;
use crate::sim::scenario::{ClaimState, Condition, Left, MachineState, NodeState, PodState};

const WHOLE: &str = r#"
name: whole
about: Everything that a scenario can say.
region: eu-de
objects:
  - {apiVersion: v1, kind: Namespace, metadata: {name: "${region}-x"}}
steps:
  - say: Hello.
  - at: 10s
    apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
  - apply:
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
  - at: 1m
    delete: {kind: NodeClaim, name: a}
  - scale: {kind: Deployment, name: web, namespace: shop, replicas: 5}
  - preempt: {claim: a}
  - fail-host: {selector: "karpenter.sh/nodepool=spot", outcome: stop}
  - stop-machine: {claim: a}
  - drain: {profile: bxf-4x16, zone: eu-de-1, class: spot}
  - refill: {profile: bxf-4x16, zone: eu-de-1}
  - fault: {kind: lost-create, times: 1, operation: instances.create}
  - fault: {kind: rate-limit, for: 2m, percent: 20}
  - crash: {after-effects: 3}
  - configure: "spotDiscountFactor: [bxf=0.5]"
  - bill: all
  - at: 2m30s
    expect:
      within: 5m
      nodes: 2 ready
      machines: [1 running, "2 present of capacity-type=spot,family=bxf"]
      claims: 1 initialized
      pods: 3 running of app=web,tier=front
      claim: a gone
      event: SpotPreemption on NodeClaim/a
      left-in-cloud: nothing
      holds: 1 Preempted
      withheld: spot:bxf-4x16:eu-de-1
      offered: on-demand:bxf-4x16:eu-de-1
"#;

fn target(kind: &str, namespace: Option<&str>, name: &str) -> Target {
    Target {
        api_version: None,
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

#[test]
fn everything_that_can_be_said_is_understood() {
    let scenario = Scenario::parse("whole.yaml", WHOLE).unwrap();
    assert_eq!(
        (scenario.name.as_str(), scenario.region.as_str()),
        ("whole", "eu-de")
    );
    assert_eq!(scenario.objects.len(), 1);
    let step = |number: usize| &scenario.steps[number];
    assert_eq!(step(0).at, Duration::ZERO);
    assert_eq!(
        step(2).at,
        Duration::from_secs(10),
        "a step without a time follows at once"
    );
    assert_eq!(step(2).line, 11);
    assert!(matches!(&step(2).action, Action::Apply(manifests) if manifests.len() == 2));
    assert_eq!(step(3).action, Action::Delete(target("NodeClaim", None, "a")));
    let web = target("Deployment", Some("shop"), "web");
    assert_eq!(
        step(4).action,
        Action::Scale {
            target: web,
            replicas: 5
        }
    );
    assert_eq!(step(5).action, Action::Preempt(Machine::OfClaim("a".to_owned())));
    let spot = [("karpenter.sh/nodepool".to_owned(), "spot".to_owned())];
    let fail = Action::FailHost {
        machine: Machine::Selected(Selector(spot.into())),
        outcome: Some(HostFailure::Stop),
    };
    assert_eq!(step(6).action, fail);
    let limited = CloudFault {
        kind: FaultKind::RateLimit,
        lasts: Some(Duration::from_mins(2)),
        times: None,
        percent: 20,
        operation: None,
    };
    assert_eq!(step(11).action, Action::Fault(limited));
    let crash = Crash {
        replica: 0,
        after_effects: 3,
    };
    assert_eq!(step(12).action, Action::Crash(crash));
    assert_eq!(scenario.lasts, Duration::from_secs(450) + AFTERMATH);
}

#[test]
fn what_is_expected_in_vain_holds_up_what_comes_after_it() {
    let lasts = |steps: &str| {
        let text = format!("name: x\nabout: y\nsteps:\n{steps}");
        Scenario::parse("x.yaml", &text)
            .unwrap()
            .lasts
            .saturating_sub(AFTERMATH)
    };
    let expect = |at: &str| format!("  - at: {at}\n    expect: {{within: 10m, nodes: 1 ready}}\n");
    let two = [expect("1m"), expect("5m")].concat();
    assert_eq!(lasts(&two), Duration::from_mins(21));
    let apart = [expect("1m"), expect("30m")].concat();
    assert_eq!(lasts(&apart), Duration::from_mins(40));
    let held_up = format!("{two}  - fault: {{kind: slow, for: 3m}}\n  - say: Over.\n");
    assert_eq!(lasts(&held_up), Duration::from_mins(24));
}

#[test]
fn an_expectation_is_a_list_of_phrases() {
    let scenario = Scenario::parse("whole.yaml", WHOLE).unwrap();
    let Action::Expect(expectation) = &scenario.steps[15].action else {
        panic!("no expectation");
    };
    assert_eq!(expectation.within, Duration::from_mins(5));
    let pods = [("app", "web"), ("tier", "front")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let spot = [("capacity-type", "spot"), ("family", "bxf")];
    let spot = Selector(spot.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let conditions = [
        Condition::Nodes(2, NodeState::Ready),
        Condition::Machines(1, MachineState::Running, Selector::default()),
        Condition::Machines(2, MachineState::Present, spot),
        Condition::Claims(1, ClaimState::Initialized),
        Condition::Pods(3, PodState::Running, Selector(pods.into())),
        Condition::Claim("a".to_owned(), ClaimState::Gone),
        Condition::Event("SpotPreemption".to_owned(), target("NodeClaim", None, "a")),
        Condition::LeftInCloud(Left::Nothing),
        Condition::Holds(1, "Preempted".to_owned()),
        Condition::Withheld("spot:bxf-4x16:eu-de-1".parse().unwrap()),
        Condition::Offered("on-demand:bxf-4x16:eu-de-1".parse().unwrap()),
    ];
    assert_eq!(expectation.conditions, conditions);
}

/// What a scenario with these steps is told, and the hint that comes with it.
fn told(steps: &str) -> (String, String) {
    let text = format!("name: x\nabout: y\nsteps:\n{steps}");
    match Scenario::parse("x.yaml", &text) {
        Err(LoadError::Mistake(mistake)) => {
            let hint = mistake.hint.clone().unwrap_or_default();
            (mistake.to_string(), hint)
        }
        other => panic!("{steps}: {other:?}"),
    }
}

/// Steps, what is said about them, and the hint.
const WRONG_STEPS: &[(&str, &str, &str)] = &[
    (
        "  - att: 1s\n    say: x",
        "x.yaml:4: steps[0].att: is no field here",
        "did you mean `at`?",
    ),
    ("  - at: 1s", "x.yaml:4: steps[0]: has none of apply, delete,", ""),
    (
        "  - say: x\n    crash: {}",
        "x.yaml:4: steps[0].say: cannot stand beside `crash`",
        "",
    ),
    (
        "  - at: soon\n    say: x",
        "x.yaml:4: steps[0].at: \"soon\" is no duration such as 2m30s",
        "",
    ),
    (
        "  - at: 5\n    say: x",
        "x.yaml:4: steps[0].at: \"5\" is no duration such as 2m30s",
        "",
    ),
    (
        "  - at: 5s\n    say: x\n  - at: 4s\n    say: y",
        "x.yaml:6: steps[1].at: is before the step above it",
        "",
    ),
    ("  - say: ''", "x.yaml:4: steps[0].say: is empty", ""),
    (
        "  - configure: 'spotDiscount: 0.5'",
        "x.yaml:4: steps[0].configure: \"spotDiscount: 0.5\" there is no setting \"spotDiscount\"",
        "",
    ),
    (
        "  - bill: some",
        "x.yaml:4: steps[0].bill: \"some\" is no bill",
        "one of: all",
    ),
    (
        "  - say: [x]",
        "x.yaml:4: steps[0].say: is a list, and must be a text",
        "",
    ),
    (
        "  - delete: a",
        "x.yaml:4: steps[0].delete: is \"a\", and must have fields: apiVersion, kind",
        "",
    ),
    (
        "  - delete: {kind: Pod}",
        "x.yaml:4: steps[0].delete: has no `name`, which it needs",
        "",
    ),
    (
        "  - scale: {kind: Deployment, name: a, replicas: -1}",
        "x.yaml:4: steps[0].scale.replicas: is -1, and must be a whole number from 0",
        "",
    ),
    (
        "  - preempt: {}",
        "x.yaml:4: steps[0].preempt: has none of claim, selector",
        "",
    ),
    (
        "  - preempt: {selector: spot}",
        "x.yaml:4: steps[0].preempt.selector: \"spot\" is no selector such as",
        "",
    ),
    (
        "  - fail-host: {claim: a, outcome: explode}",
        "x.yaml:4: steps[0].fail-host.outcome: \"explode\" is no outcome",
        "one of: restart, stop",
    ),
    (
        "  - drain: {profile: bx9-1x1, zone: us-south-1}",
        "x.yaml:4: steps[0].drain.profile: \"bx9-1x1\" is no profile of IBM Cloud",
        "",
    ),
    (
        "  - fault: {kind: lost-creat, times: 1}",
        "x.yaml:4: steps[0].fault.kind: \"lost-creat\" is no kind of fault",
        "did you mean `lost-create`?",
    ),
    (
        "  - fault: {kind: lost-create}",
        "x.yaml:4: steps[0].fault: never ends",
        "",
    ),
    (
        "  - fault: {kind: slow, times: 1, percent: 0}",
        "x.yaml:4: steps[0].fault.percent: is 0, and must be from 1 to 100",
        "",
    ),
    (
        "  - crash: {replica: first}",
        "x.yaml:4: steps[0].crash.replica: is \"first\", and must be a whole number",
        "",
    ),
    (
        "  - crash: {replica: 9}",
        "x.yaml:4: steps[0].crash.replica: is 9, and there are 2 replicas, counted from 0",
        "",
    ),
    (
        "  - fault: {kind: forbidden, times: 1, operation: instances.creat}",
        "x.yaml:4: steps[0].fault.operation: \"instances.creat\" is no operation of the cloud",
        "did you mean `instances.create`?",
    ),
    (
        "  - drain: {profile: bxf-4x16, zone: us-mars-1}",
        "x.yaml:4: steps[0].drain.zone: \"us-mars-1\" is no zone of us-south",
        "one of: us-south-1, us-south-2, us-south-3",
    ),
    (
        "  - apply: {kind: Pod}",
        "x.yaml:4: steps[0].apply: is no manifest: it has no `apiVersion`",
        "",
    ),
    (
        "  - apply: {apiVersion: v1, kind: Pod, metadata: {name: '${vcp}'}}",
        "x.yaml:4: steps[0].apply.metadata.name: \"vcp\" is no placeholder",
        "did you mean `vpc`?",
    ),
    (
        "  - apply:\n      apiVersion: v1\n      kind: ConfigMap\n      metadata: {name: a}\n      data:\n        vpc: '${vpc}'\n        other: '${vcp}'",
        "x.yaml:10: steps[0].apply.data.other: \"vcp\" is no placeholder",
        "did you mean `vpc`?",
    ),
    (
        "  - apply:\n      - apiVersion: v1\n        kind: Pod\n        metadata: {name: a}\n      - apiVersion: v1\n        kind: Pod\n        metadata:\n          name: 5",
        "x.yaml:11: steps[0].apply[1].metadata.name: is 5, and must be a text",
        "",
    ),
    (
        "  - apply:\n      kind: Pod\n      apiVersion: 1\n      metadata: {name: a}",
        "x.yaml:6: steps[0].apply.apiVersion: is 1, and must be a text",
        "",
    ),
    (
        "  - apply:\n      apiVersion: v1\n      kind: Pod\n      metadata: {labels: {app: a}}",
        "x.yaml:5: steps[0].apply: is no manifest: it has no `metadata.name`",
        "",
    ),
];

#[test]
fn every_mistake_in_a_step_names_file_line_and_field() {
    for &(steps, said, hint) in WRONG_STEPS {
        let (mistake, hinted) = told(steps);
        assert!(mistake.starts_with(said), "{steps}\n{mistake}\n{said}");
        assert_eq!(hinted, hint, "{steps}");
    }
}

/// Expectations with a mistake, how it is told and what is suggested.
const WRONG_EXPECTATIONS: &[(&str, &str, &str)] = &[
    (
        "within: 1m",
        "x.yaml:5: steps[0].expect: expects nothing: add one of nodes, machines",
        "",
    ),
    (
        "node: 1 ready",
        "x.yaml:5: steps[0].expect.node: is no field here",
        "did you mean `nodes`?",
    ),
    (
        "nodes: ready",
        "x.yaml:5: steps[0].expect.nodes: \"ready\" is no phrase such as `2 ready`",
        "",
    ),
    (
        "nodes: 2 raedy",
        "x.yaml:5: steps[0].expect.nodes: \"raedy\" is no state",
        "did you mean `ready`?",
    ),
    (
        "machines:\n        - 1 running\n        - 2 on fire",
        "x.yaml:7: steps[0].expect.machines[1]: \"2 on fire\" is no phrase",
        "",
    ),
    (
        "pods: 3 running of web",
        "x.yaml:5: steps[0].expect.pods: \"web\" is no selector such as app=web",
        "",
    ),
    (
        "claim: a",
        "x.yaml:5: steps[0].expect.claim: \"a\" is no phrase such as `web-1 initialized`",
        "",
    ),
    (
        "claim: a went",
        "x.yaml:5: steps[0].expect.claim: \"went\" is no state of a claim",
        "one of: present,",
    ),
    (
        "event: Preempted a",
        "x.yaml:5: steps[0].expect.event: must be a phrase such as `SpotPreemption on",
        "",
    ),
    (
        "left-in-cloud: little",
        "x.yaml:5: steps[0].expect.left-in-cloud: \"little\" is no amount",
        "one of: nothing",
    ),
    (
        "withheld: spot",
        "x.yaml:5: steps[0].expect.withheld: \"spot\" is no offering such as",
        "",
    ),
    (
        "withheld: spot:bxf-4x61:us-south-1",
        "x.yaml:5: steps[0].expect.withheld: \"bxf-4x61\" is no profile of IBM Cloud",
        "",
    ),
    (
        "offered:\n        - spot:*:*\n        - on-demand:bxf-4x16:us-sout-1",
        "x.yaml:7: steps[0].expect.offered[1]: \"us-sout-1\" is no zone of us-south",
        "did you mean `us-south-1`?",
    ),
    (
        "holds: 1 Premepted",
        "x.yaml:5: steps[0].expect.holds: \"Premepted\" is no reason for which offerings are withheld",
        "did you mean `Preempted`?",
    ),
    (
        "holds: Preempted",
        "x.yaml:5: steps[0].expect.holds: \"Preempted\" is no phrase such as `1 Preempted`",
        "",
    ),
    (
        "within: never\n      nodes: 1 ready",
        "x.yaml:5: steps[0].expect.within: \"never\" is no duration",
        "",
    ),
];

#[test]
fn every_mistake_in_an_expectation_names_file_line_and_field() {
    for &(expect, said, hint) in WRONG_EXPECTATIONS {
        let (mistake, hinted) = told(&format!("  - expect:\n      {expect}"));
        assert!(mistake.starts_with(said), "{expect}\n{mistake}\n{said}");
        assert!(hinted.starts_with(hint), "{expect}\n{hinted}");
    }
}

#[test]
fn what_is_said_of_zones_holds_for_the_region_that_is_played_in() {
    let said = |steps: &str, region| {
        let text = format!("name: x\nabout: y\nregion: us-south\nsteps:\n{steps}");
        let read = Scenario::parse_in("x.yaml", &text, &[], region);
        read.map(|read| read.region).map_err(|wrong| wrong.to_string())
    };
    let drain = "  - drain: {profile: bxf-4x16, zone: us-south-1}\n";
    let expect = "  - expect:\n      offered: spot:bxf-4x16:us-south-1\n";
    for steps in [drain, expect] {
        assert_eq!(said(steps, None).as_deref(), Ok("us-south"));
    }
    assert_eq!(
        said(drain, Some("eu-de")).unwrap_err(),
        "x.yaml:5: steps[0].drain.zone: \"us-south-1\" is no zone of eu-de"
    );
    assert_eq!(
        said(expect, Some("eu-de")).unwrap_err(),
        "x.yaml:6: steps[0].expect.offered: \"us-south-1\" is no zone of eu-de"
    );
    assert_eq!(said("  []\n", Some("eu-de")).as_deref(), Ok("eu-de"));
}

#[test]
fn mistakes_outside_the_steps_are_named_too() {
    let table = [
        ("name: x\nabout: y\n", "x.yaml:1: has no `steps`, which it needs"),
        ("name: x\nsteps: []\n", "x.yaml:1: has no `about`, which it needs"),
        (
            "name: 5\nabout: y\nsteps: []\n",
            "x.yaml:1: name: is 5, and must be a text",
        ),
        (
            "name: x\nabout: y\nregion: us-mars\nsteps: []\n",
            "x.yaml:3: region: \"us-mars\" is no region",
        ),
        (
            "name: x\nabout: y\nsteps: none\n",
            "x.yaml:3: steps: is \"none\", and must be a list",
        ),
        (
            "name: x\nabout: y\nobjects: [{a: 1}]\nsteps: []\n",
            "x.yaml:3: objects[0]: is no manifest",
        ),
        ("- x\n", "x.yaml:1: is a list, and must have fields: name, about"),
        (
            "name: x\nname: y\n",
            "x.yaml:2: the field `name` stands here a second time",
        ),
        (
            "name: x\nabout: y\nlasts: 1s\nsteps:\n  - at: 5m\n    say: Late.\n",
            "x.yaml:3: lasts: is 1s, and a step begins after 300s",
        ),
        ("name: [x\n", "x.yaml:"),
        ("", "x.yaml"),
    ];
    for (text, said) in table {
        let mistake = Scenario::parse("x.yaml", text).unwrap_err().to_string();
        assert!(mistake.starts_with(said), "{text}\n{mistake}\n{said}");
        assert!(!mistake.contains('\n'), "{mistake}");
    }
}

#[test]
fn a_second_document_is_refused_at_its_line_and_not_in_the_words_of_a_library() {
    let text = "name: x\nabout: y\nsteps: []\n---\nname: z\n";
    let mistake = Scenario::parse("x.yaml", text).unwrap_err().to_string();
    assert!(
        mistake.ends_with(": another document begins here, and there must be one only"),
        "{mistake}"
    );
    assert!(
        mistake.starts_with("x.yaml:4: ") || mistake.starts_with("x.yaml:5: "),
        "{mistake}"
    );
}

#[test]
fn why_a_file_cannot_be_read_is_told_once() {
    let refused = Scenario::load(Path::new("/nowhere/nosuch.yaml")).unwrap_err();
    let told = format!("{:#}", anyhow::Error::from(refused));
    assert_eq!(told.matches("No such file").count(), 1, "{told}");
}

#[test]
fn manifests_in_files_stand_beside_the_scenario() {
    let folder = std::env::temp_dir().join(format!("karpenter-ibm-scenario-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    let object = |name: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}\n");
    write("a.yaml", &format!("{}---\n{}", object("a"), object("b")));
    write("b.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    write("good.yaml", "name: x\nabout: y\nfiles: [a.yaml]\nsteps: []\n");
    let applied = "steps: [{apply: [{file: a.yaml}, {apiVersion: v1, kind: Pod, metadata: {name: p}}]}]";
    write("applied.yaml", &format!("name: x\nabout: y\n{applied}\n"));
    write("absent.yaml", "name: x\nabout: y\nfiles: [c.yaml]\nsteps: []\n");
    write(
        "nosuch.yaml",
        "name: x\nabout: y\nsteps:\n  - apply: {file: c.yaml}\n",
    );
    write("bad.yaml", "name: x\nabout: y\nfiles: [b.yaml]\nsteps: []\n");
    write(
        "d.yaml",
        &format!(
            "{}---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: d\n  labels: {{\n    zone: \"${{zone-4}}\"}}\n",
            object("c")
        ),
    );
    write("filled.yaml", "name: x\nabout: y\nfiles: [d.yaml]\nsteps: []\n");
    write(
        "fills.yaml",
        "name: x\nabout: y\nsteps: [{apply: {file: d.yaml}}]\n",
    );
    let load = |name: &str| Scenario::load(&folder.join(name));
    let said = |name: &str| load(name).unwrap_err().to_string();
    assert_eq!(load("good.yaml").unwrap().objects.len(), 2);
    let steps = load("applied.yaml").unwrap().steps;
    assert!(matches!(&steps[0].action, Action::Apply(manifests) if manifests.len() == 3));
    assert!(
        said("absent.yaml").contains("absent.yaml:3: files[0]: cannot read ")
            && said("absent.yaml").contains("c.yaml: No such file"),
        "{}",
        said("absent.yaml")
    );
    assert!(
        said("nosuch.yaml").contains("nosuch.yaml:4: steps[0].apply.file: cannot read "),
        "{}",
        said("nosuch.yaml")
    );
    assert!(
        said("bad.yaml").contains("b.yaml:1: is no manifest: it has no `metadata.name`"),
        "{}",
        said("bad.yaml")
    );
    for name in ["filled.yaml", "fills.yaml"] {
        assert!(
            said(name).contains("d.yaml:8: metadata.labels.zone: \"zone-4\" is no placeholder"),
            "{}",
            said(name)
        );
    }
    assert!(said("none.yaml").starts_with("cannot read "));
    fs::remove_dir_all(&folder).unwrap();
}
