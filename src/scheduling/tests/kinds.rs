//! Many kinds of pods, and what is kept of each: memory grows with how many there are, not with its square.

use std::sync::Mutex;
use std::thread;

use super::*;

const TEAM: &str = "team";

/// What a solve keeps, and so a pass after it.
fn kept<T>(cluster: &Cluster, look: impl FnOnce(&Run<'_, '_>) -> T) -> T {
    let snapshot = cluster.snapshot();
    let mut found = passes::alone(&snapshot, cluster.options, &|| true).unwrap();
    look(&Run::again(&mut found.problem, found.done))
}

/// Apps of one pod each that would have no second one on their node.
fn apps(number: usize) -> Vec<core::Pod> {
    pods(number, |name| {
        let labels = json!({"app": name});
        labelled(
            pod_with(name, "900m", &neighbor("podAntiAffinity", HOST, &labels)),
            &labels,
        )
    })
}

#[test]
fn apps_that_keep_apart_are_counted_where_they_are_and_nowhere_else() {
    const APPS: usize = 400;
    let each_alone = cluster().types(vec![kind("type-01", 1)]).with(apps(APPS));
    let (claims, cells) = kept(&each_alone, |run| (run.claims.len(), run.counts.cells()));
    assert_eq!(claims, APPS);
    // Two for each app, and a few more for those on the first 64 claims. With all claims it would be 160,000.
    assert!(cells <= 20 * APPS, "{cells} cells");
}

#[test]
fn what_requirements_leave_of_types_is_kept_once_for_all_that_leave_the_same() {
    const TEAMS: usize = 60;
    let teams = (0..TEAMS).map(|at| {
        pod_with(
            &format!("p{at:02}"),
            "500m",
            &json!({"nodeSelector": {TEAM: format!("t{at}")}}),
        )
    });
    let shared = cluster().requires(TEAM, &Values::some()).with(teams);
    let (claims, rows) = kept(&shared, |run| {
        (run.claims.len(), run.problem.templates[0].rows_kept())
    });
    assert_eq!(claims, TEAMS);
    assert!(rows <= 4, "{rows} rows");
}

#[test]
fn values_that_no_node_could_have_are_not_told_apart_and_each_pod_is_told_of_its_own() {
    let team = |name: &str, value: &str| pod_with(name, "1", &json!({"nodeSelector": {TEAM: value}}));
    let base = cluster()
        .requires(TEAM, &Values::one_of(["a"]))
        .node(node("n", 2, &[(TEAM, "b")]));
    let cluster = base
        .with((0..50).map(|at| team(&format!("p{at:02}"), &format!("nobody-{at}"))))
        .with([team("a", "a"), team("b", "b")]);
    let values = kept(&cluster, |run| {
        let column = run.problem.space.column(TEAM).unwrap();
        run.problem.space.columns()[column].values.clone()
    });
    assert_eq!(values, ["a", "b"]);
    let solved = cluster.solve();
    assert!(solved.place("a").is_some() && solved.place("b").as_deref() == Some("n"));
    assert_eq!(solved.plan.left_out.len(), 50);
    for left in &solved.plan.left_out {
        let name = &solved.snapshot.pending.members[left.pods[0]].name;
        let number: usize = name[1..].parse().unwrap();
        let words: Vec<String> = left.refusals.iter().map(ToString::to_string).collect();
        let said = |what: &str| format!("{what}: label team must be in [nobody-{number}], but is in");
        assert!(
            words.contains(&format!("{} [a]", said("NodePool default"))),
            "{words:?}"
        );
        assert!(words.contains(&format!("{} [b]", said("node n"))), "{words:?}");
    }
}

/// A pod with a label that nobody else asks about, and that nothing has: each sixth in the same way.
fn asking_about_its_own(at: usize) -> core::Pod {
    let (name, key) = (format!("p{at:02}"), format!("job-{at:02}"));
    let app = json!({"app": name});
    let asks = |operator: &str, values: &Value| {
        required(&json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
    };
    let fields = match at % 6 {
        0 => json!({"nodeSelector": {key: "x"}}),
        1 => asks("Exists", &json!([])),
        2 => asks("Gt", &json!(["3"])),
        3 => asks("NotIn", &json!(["x"])),
        4 => spread(&key, 1, &app, &json!({})),
        _ => both(
            &neighbor("podAntiAffinity", &key, &app),
            &asks("DoesNotExist", &json!([])),
        ),
    };
    labelled(pod_with(&name, "1", &fields), &app)
}

#[test]
fn labels_that_no_node_could_have_take_no_room_and_each_pod_is_told_of_its_own() {
    let there = || cluster().node(node("n", 100, &[(TEAM, "a")]));
    let asking = |number: usize| there().with((0..number).map(asking_about_its_own));
    let room = |cluster: &Cluster| kept(cluster, |run| run.problem.space.interned());
    let ((few, narrow), (many, width)) = (room(&asking(6)), room(&asking(60)));
    assert_eq!(narrow, width);
    assert!(many <= few + 6, "{few} and then {many}");
    let solved = asking(60).solve();
    assert_eq!(solved.plan.left_out.len(), 40);
    for left in &solved.plan.left_out {
        let name = &solved.snapshot.pending.members[left.pods[0]].name;
        let told: Vec<String> = left.refusals.iter().map(ToString::to_string).collect();
        let number: usize = name[1..].parse().unwrap();
        let alone = there().with([asking_about_its_own(number)]).solve();
        assert_eq!(told, alone.words());
        let (own, said) = (
            format!("job-{number:02}"),
            told.iter().all(|words| words.contains("job-")),
        );
        assert!(said && told.iter().all(|words| words.contains(&own)), "{told:?}");
    }
}

#[test]
fn a_claim_says_nothing_of_labels_that_its_pods_want_to_be_absent_and_no_node_has() {
    let solved = cluster().with((0..12).map(asking_about_its_own)).solve();
    let keys = solved
        .plan
        .claims
        .iter()
        .flat_map(|claim| claim.requirements.iter());
    let said: Vec<&String> = keys
        .map(|(key, _)| key)
        .filter(|key| key.starts_with("job-"))
        .collect();
    assert_eq!(solved.plan.placements.len(), 4);
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn of_many_ways_few_are_kept_and_preferences_multiply_only_those() {
    let kept = |ways: usize, operator: &str, key: &str| {
        let term = |at: usize| json!({"matchExpressions": [{"key": key, "operator": operator, "values": [format!("w{at}")]}]});
        let wish = |at: usize| {
            let values = json!([format!("rather-not-{at}")]);
            let wanted =
                json!({"matchExpressions": [{"key": INSTANCE_TYPE, "operator": "NotIn", "values": values}]});
            json!({"weight": 1, "preference": wanted})
        };
        let terms: Vec<Value> = (0..ways).map(term).collect();
        let mut fields = required(&json!(terms));
        fields["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            (0..20).map(wish).collect();
        let cluster = cluster().with([pod_with("p", "1", &fields)]);
        kept(&cluster, |run| {
            (run.problem.space.interned().0, run.problem.meanings.len())
        })
    };
    let (few, many) = (
        kept(64, "NotIn", INSTANCE_TYPE),
        kept(500, "NotIn", INSTANCE_TYPE),
    );
    assert!(
        many.0 <= few.0 + 10 && many.1 <= few.1,
        "{few:?} and then {many:?}"
    );
    let (few, many) = (kept(64, "In", ZONES), kept(500, "In", ZONES));
    assert!(
        many.0 <= few.0 + 10 && many.1 <= few.1,
        "{few:?} and then {many:?}"
    );
}

#[test]
fn of_many_ways_that_lead_to_other_types_few_are_judged_and_of_those_that_lead_to_the_same_one() {
    let types: Vec<InstanceType> = (0..60).map(|at| kind(&format!("w{at:03}"), 4)).collect();
    let judged = |operator: &str, first: usize| {
        let term = |at: usize| json!({"matchExpressions": [{"key": INSTANCE_TYPE, "operator": operator, "values": [format!("w{at:03}")]}]});
        let terms: Vec<Value> = (first..first + 60).map(term).collect();
        explain::judgements::take();
        let huge = pod_with("p", "20", &required(&json!(terms)));
        let told = cluster().types(types.clone()).with([huge]).solve().words();
        assert!(told[0].contains("cpu is short by 16100m on w000"), "{told:?}");
        explain::judgements::take()
    };
    assert_eq!(judged("In", 0), 8);
    assert_eq!(judged("NotIn", 100), 1, "no type has any of these names");
}

#[test]
fn of_very_many_classes_there_is_one_problem_though_there_could_be_two() {
    let hands = |classes: usize| {
        let sized = |at: usize| pod(&format!("p{at:04}"), &format!("{}m", at + 1));
        let snapshot = cluster().with((0..classes).map(sized)).snapshot();
        let options = Options {
            hands: Hands::Two,
            ..Options::default()
        };
        let threads = Mutex::new(Vec::new());
        let no_time = || {
            let (own, mut known) = (thread::current().id(), threads.lock().unwrap());
            if !known.contains(&own) {
                known.push(own);
            }
            false
        };
        assert_eq!(solve(&snapshot, options, &no_time).pods_left_out(), classes);
        threads.into_inner().unwrap().len()
    };
    assert_eq!((hands(20), hands(8001)), (2, 1));
}

/// Pools of which each asks for a team of its own.
fn with_pools(number: usize) -> Cluster {
    let mut cluster = cluster();
    let types = cluster.pools[0].types.to_vec();
    for at in 1..number {
        cluster = cluster.and_pool(pool(&format!("pool-{at:02}"), types.clone()));
    }
    for pool in &mut cluster.pools {
        let own = Values::one_of([pool.name.as_str()]);
        pool.requirements.narrow(TEAM, &own);
    }
    cluster
}

/// One pod, and what it is told by each of so many pools.
fn told_by(cluster: Cluster) -> LeftOut {
    let hopeless = pod_with("p", "1", &json!({"nodeSelector": {TEAM: "nobody"}}));
    cluster.with([hopeless]).solve().plan.left_out.remove(0)
}

/// The same, if many others were told as much.
fn shortened(left: &LeftOut) -> LeftOut {
    LeftOut::of(left.pods.clone(), left.refusals.clone())
}

#[test]
fn where_few_have_no_place_every_pool_is_told_of() {
    let all = told_by(with_pools(63));
    assert_eq!((all.refusals.len(), all.others()), (63, None));
    let told = [1, 300, 1000, 20_000].map(plan::pools_told);
    assert_eq!(told, [20_000, 66, 20, 8]);
}

#[test]
fn of_many_pools_the_nearest_are_told_and_the_others_counted() {
    let many = shortened(&told_by(with_pools(63)));
    assert_eq!((many.refusals.len(), many.more), (8, 55));
    assert_eq!(many.others().as_deref(), Some("55 more NodePools came no nearer"));
    let few = shortened(&told_by(with_pools(8)));
    assert_eq!((few.refusals.len(), few.others()), (8, None));
    let there = shortened(&told_by(with_pools(63).node(node("n", 1, &[]))));
    assert_eq!(
        (there.refusals.len(), there.more),
        (9, 55),
        "what is there is always told"
    );
    assert_eq!(there.gist, many.gist, "and comes and goes");
    let mut other = with_pools(63);
    other.pools[60].requirements.narrow(TEAM, &Values::never());
    assert_ne!(
        shortened(&told_by(other)).gist,
        many.gist,
        "reasons that are not told tell plans apart"
    );
}

#[test]
fn a_remedy_is_found_at_a_pool_that_is_not_told_of() {
    let mut cluster = with_pools(12);
    for pool in &mut cluster.pools[..11] {
        pool.requirements.narrow("size", &Values::one_of(["s"]));
    }
    let tainted = &mut cluster.pools[11];
    tainted.requirements.narrow("size", &Values::one_of(["l"]));
    tainted.taints = vec![Taint {
        key: "k".to_owned(),
        value: "v".to_owned(),
        effect: crate::model::taint::Effect::NoSchedule,
    }];
    let name = tainted.name.clone();
    let wants = pod_with("p", "1", &json!({"nodeSelector": {TEAM: name, "size": "l"}}));
    let cluster = cluster.with([wants]);
    let mut solved = cluster.solve();
    solved.plan.left_out = solved.plan.left_out.iter().map(shortened).collect();
    let told = solved.words();
    assert!(
        told.iter().all(|said| !said.contains(&name)) && told.len() == 8,
        "{told:?}"
    );
    let found = remedy(&solved.snapshot, &solved.plan, cluster.options, 0).unwrap();
    assert_eq!((found.pool, found.changes.len()), (name, 1));
}
