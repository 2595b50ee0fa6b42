//! `karpenter-ibm cloud`, as a person runs it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A machine of its own: no other simulator is found from it.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("karpenter-ibm-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter-ibm"));
        command
            .arg("cloud")
            .args(args)
            .env("XDG_RUNTIME_DIR", &self.0)
            .env_remove("HTTP_PROXY");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The exit status and what was said on stderr.
    fn refused(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.run(args);
        assert!(output.stdout.is_empty(), "nothing on stdout: {output:?}");
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    fn serve(&self, args: &[&str]) -> Server {
        let mut all = vec!["serve"];
        all.extend(args);
        let mut child = self
            .command(&all)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .expect("the promised line")
            .to_owned();
        Server { child, address }
    }

    fn announced(&self) -> usize {
        std::fs::read_dir(self.0.join("karpenter-ibm")).map_or(0, Iterator::count)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn stop(mut self) -> Option<i32> {
        Command::new("kill")
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        self.child.wait().unwrap().code()
    }

    fn http(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn token(&self) -> String {
        let form = "grant_type=urn:ibm:params:oauth:grant-type:apikey&apikey=demo-api-key";
        let answer = self.http(&format!(
            "POST /identity/token HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{form}",
            form.len()
        ));
        let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        body["access_token"].as_str().unwrap().to_owned()
    }

    fn create(&self, body: &str) -> String {
        self.http(&format!(
            "POST /v1/instances?version=2026-10-06&generation=2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
            self.token(),
            body.len()
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn bad_input_ends_with_2_and_says_what_it_may_be() {
    let machine = Machine::new("bad-input");
    for (args, problem, hint) in [
        (&["ls"][..], "no simulated IBM Cloud runs", "cloud serve"),
        (&["serve", "--region", "mars"], "no region \"mars\"", "us-south"),
        (
            &["serve", "--listen", "0.0.0.0:0"],
            "not a loopback address",
            "127.0.0.1",
        ),
        (&["serve", "--speed", "0"], "--speed", ""),
        (
            &["fault", "boredom"],
            "no kind of fault \"boredom\"",
            "lost-create",
        ),
        (
            &["ls", "--endpoint", "http://127.0.0.1:1"],
            "no simulator answers",
            "cloud serve",
        ),
    ] {
        let (code, said) = machine.refused(args);
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains(problem) && said.contains(hint), "{args:?}: {said}");
    }
}

#[test]
fn a_simulator_is_found_commanded_and_leaves_nothing_behind() {
    let machine = Machine::new("one");
    std::fs::create_dir_all(machine.0.join("karpenter-ibm")).unwrap();
    let stale = machine.0.join("karpenter-ibm/cloud-1.json");
    std::fs::write(&stale, r#"{"pid":1,"url":"http://127.0.0.1:1"}"#).unwrap();
    let server = machine.serve(&["--seed", "5", "--speed", "60"]);
    assert_eq!(machine.announced(), 2);
    let listing = machine.run(&["ls", "--json"]);
    assert_eq!(
        serde_json::from_slice::<Value>(&listing.stdout).unwrap(),
        Value::Array(vec![])
    );
    for (args, problem, choice) in [
        (
            &["preempt", "nobody"][..],
            "no spot instance to preempt \"nobody\"",
            "",
        ),
        (
            &["drain", "bxf-2x9", "us-south-1"],
            "no profile \"bxf-2x9\"",
            "bxf-2x8",
        ),
        (
            &["drain", "bxf-2x8", "us-south-9"],
            "no zone \"us-south-9\"",
            "us-south-1, us-south-2, us-south-3",
        ),
        (
            &["drain", "bxf-2x8", "us-south-1", "--class", "gold"],
            "class must be one of",
            "spot",
        ),
        (
            &["remove", "image", "windows-95"],
            "no image \"windows-95\"",
            "ibm-ubuntu-24-04",
        ),
        (
            &["serve", "--listen", &server.address],
            "cannot listen on",
            "--listen 127.0.0.1:0",
        ),
    ] {
        let (code, said) = machine.refused(args);
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(
            said.contains(problem) && said.contains(choice),
            "{args:?}: {said}"
        );
    }
    for args in [
        &["drain", "bxf-2x8", "us-south-1", "--class", "spot"][..],
        &["refill", "bxf-2x8", "us-south-1"],
        &["fault", "rate-limit", "--for", "10m", "--percent", "50"],
        &["fault", "rate-limit", "--off"],
        &["fail-start", "somebody", "--reason", "cannot_start_storage"],
        &["remove", "price", "bxf-2x8"],
    ] {
        assert!(machine.run(args).status.success(), "{args:?}");
    }
    assert_eq!(server.stop(), Some(0));
    assert_eq!(machine.announced(), 1, "only the stale file is left");
}

#[test]
fn with_two_simulators_one_must_be_named() {
    let machine = Machine::new("two");
    let (first, second) = (machine.serve(&[]), machine.serve(&["--region", "eu-de"]));
    let (code, said) = machine.refused(&["ls"]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("2 simulated IBM Clouds run") && said.contains(&first.address),
        "{said}"
    );
    let url = format!("http://{}", second.address);
    let listing = machine.run(&["ls", "--endpoint", &url]);
    assert!(String::from_utf8(listing.stdout).unwrap().contains("NAME"));
}

#[test]
fn a_lost_connection_is_closed_without_a_word_and_the_instance_is_there() {
    let machine = Machine::new("lost");
    let server = machine.serve(&["--speed", "600"]);
    let status = server.http("GET /sim/v1/status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let status: Value = serde_json::from_str(status.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let (account, zone) = (&status["account"], "us-south-1");
    let body = serde_json::json!({
        "name": "lost", "image": { "id": account["image"] }, "zone": { "name": zone },
        "profile": { "name": "bxf-2x8" }, "availability": { "class": "spot" },
        "primary_network_attachment": { "virtual_network_interface": { "subnet": { "id": account["subnets"][0] } } },
    });
    assert!(
        machine
            .run(&["fault", "lost-create", "--times", "1"])
            .status
            .success()
    );
    assert_eq!(server.create(&body.to_string()), "");
    let listing = String::from_utf8(machine.run(&["ls"]).stdout).unwrap();
    let row: Vec<&str> = listing.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..4], ["lost", "bxf-2x8", zone, "spot"]);
    let again = server.create(&body.to_string());
    assert!(
        again.starts_with("HTTP/1.1 400") && again.contains("validation_unique_failed"),
        "{again}"
    );
}
