"""A cluster and an account in processes of their own, and the operator between them, with the rights that the chart gives it."""

import base64
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

# Five times the usual budget, so that it takes minutes and not half an hour: what is held in memory hangs on how many
# claims there are, not on how long they wait.
REQUESTS_PER_SECOND = 50
BURST = 50
PATIENCE_SECONDS = 420
# Requests of whoever makes objects, at once.
AT_ONCE = 16
IDLE_SECONDS_MAX = 10

NAMESPACE = "karpenter-ibm"
ACCOUNT = "karpenter-ibm"
JOINER = "karpenter-ibm-joiner"
ROLES = pathlib.Path(__file__).resolve().parents[2] / "charts/karpenter-ibm/files"
# Whose each file of the chart is.
OWNERS = {
    "controller.yaml": ACCOUNT,
    "events.yaml": ACCOUNT,
    "joiner.yaml": JOINER,
    "leases.yaml": ACCOUNT,
    "release.yaml": ACCOUNT,
}
RBAC = "rbac.authorization.k8s.io"
CLASS = {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"}


def fail(why):
    sys.exit(f"error: {why}")


def until(what, is_so, seconds=PATIENCE_SECONDS):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            fail(f"not within {seconds} s: {what}")
        time.sleep(1)


def at_once(do, items):
    """Does it for all of them, several at a time."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(do, items))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """An administrator's way into a cluster."""

    def __init__(self, kubeconfig, directory):
        self.kubeconfig = kubeconfig
        self.config = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        self.server = self.config["clusters"][0]["cluster"]["server"]
        user = self.config["users"][0]["user"]
        pair = os.path.join(directory, "admin.pem")
        with open(pair, "wb") as file:
            for part in ("client-certificate-data", "client-key-data"):
                file.write(base64.b64decode(user[part]) + b"\n")
        authority = base64.b64decode(self.config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=authority)
        self.tls.load_cert_chain(pair)
        self.connections = threading.local()

    def kubectl(self, *arguments):
        done = subprocess.run(
            ["kubectl", "--kubeconfig", self.kubeconfig, *arguments], capture_output=True, text=True
        )
        if done.returncode != 0:
            fail(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def call(self, method, path, body=None, media="application/json", absent_is_fine=False):
        headers = {"content-type": media} if body is not None else {}
        self.connection().request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.connections.one.getresponse()
        said = answer.read()
        self.connections.used = time.monotonic()
        if answer.status == 404 and absent_is_fine:
            return None
        if answer.status >= 300:
            fail(f"{method} {path}: {answer.status} {said.decode()}")
        return json.loads(said)

    def connection(self):
        """One for each thread, and another where it has been idle: the server closes those after half a minute."""
        if time.monotonic() - getattr(self.connections, "used", float("-inf")) >= IDLE_SECONDS_MAX:
            self.connections.one = self.connect()
        return self.connections.one

    def connect(self):
        return http.client.HTTPSConnection(self.server.removeprefix("https://"), context=self.tls)

    def create(self, path, body):
        return self.call("POST", path, body)

    def patch(self, path, body):
        return self.call("PATCH", path, body, media="application/merge-patch+json")

    def items(self, path):
        return self.call("GET", path)["items"]

    def claims(self):
        return self.items("/apis/karpenter.sh/v1/nodeclaims")

    def install(self):
        """The release's namespace and accounts, and the chart's rights."""
        self.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name in (ACCOUNT, JOINER):
            self.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}})
        for file in sorted(ROLES.iterdir()):
            if file.name not in OWNERS:
                fail(f"nobody says whose {file} is")
            made = self.kubectl("create", "--validate=false", "--namespace", NAMESPACE, "-o", "json", "-f", str(file))
            self.bind(json.loads(made), OWNERS[file.name])

    def bind(self, role, account):
        kind, name = role["kind"], role["metadata"]["name"]
        within = f"namespaces/{NAMESPACE}/" if kind == "Role" else ""
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
        }
        self.create(f"/apis/{RBAC}/v1/{within}{kind.lower()}bindings", binding)

    def operator_kubeconfig(self, directory):
        """The same way in for the operator's own account."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
        token = self.create(path, {"spec": {}})["status"]["token"]
        users = [{"name": user["name"], "user": {"token": token}} for user in self.config["users"]]
        file = os.path.join(directory, "operator")
        with open(file, "w") as written:
            json.dump({**self.config, "users": users}, written)
        return file


class Changes:
    """Counts the writes to a cluster since it was made, and those to objects of one kind among them. Every write moves the
    revision of the whole cluster by one."""

    def __init__(self, cluster, path):
        self.cluster, self.path, self.seen = cluster, path, []
        self.since = int(cluster.call("GET", path)["metadata"]["resourceVersion"])
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        connection = self.cluster.connect()
        connection.request("GET", f"{self.path}?watch=true&resourceVersion={self.since}")
        for line in connection.getresponse():
            self.seen.append(int(json.loads(line)["object"]["metadata"]["resourceVersion"]))

    def until_now(self):
        """How many there were, and how many of the kind."""
        listed = self.cluster.call("GET", self.path)
        now = int(listed["metadata"]["resourceVersion"])
        last = max(int(it["metadata"]["resourceVersion"]) for it in listed["items"])
        until("all changes were told", lambda: last <= self.since or last in self.seen)
        return now - self.since, sum(revision <= now for revision in self.seen)


class Account:
    """The cloud's own view of machines."""

    def __init__(self, endpoint, told):
        self.endpoint = endpoint
        self.vpc, self.image = re.search(r"VPC (\S+), image (\S+),", told).groups()

    def addresses(self):
        """The address of every machine, by its id."""
        form = b"grant_type=urn:ibm:params:oauth:grant-type:apikey&apikey=demo-api-key"
        with urllib.request.urlopen(f"{self.endpoint}/identity/token", form) as answer:
            bearer = {"authorization": f"Bearer {json.load(answer)['access_token']}"}
        page = f"{self.endpoint}/v1/instances?version=2026-10-06&generation=2&limit=100"
        machines = []
        while page:
            with urllib.request.urlopen(urllib.request.Request(page, headers=bearer)) as answer:
                said = json.load(answer)
            machines += said["instances"]
            following = said.get("next", {}).get("href", "")
            start = re.search(r"start=[^&]+", following)
            page = start and re.sub(r"&start=.*|$", f"&{start.group()}", page, count=1)
        return {it["id"]: it["primary_network_interface"]["primary_ip"]["address"] for it in machines}


class Stage:
    """All of it. What is started is ended with `end`."""

    def __init__(self, binary, directory, speed):
        """In the account so many seconds pass in a second: machines start within three minutes."""
        self.binary, self.directory, self.speed, self.started = binary, directory, speed, []

    def set(self):
        """Starts cluster and account, and installs what the operator needs."""
        directory = self.directory
        kubeconfig = os.path.join(directory, "kubeconfig")
        self.serve(["cluster", "serve", "--crds", "--kubeconfig", kubeconfig])
        self.cluster = Cluster(kubeconfig, directory)
        account, endpoint = self.serve(["cloud", "serve", "--roomy", "--speed", str(self.speed)])
        self.account = Account(endpoint, account.stderr.readline())
        self.cluster.install()
        spec = {"region": "us-south", "vpc": self.account.vpc, "image": self.account.image}
        node_class = {"apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass",
                      "metadata": {"name": "default"}, "spec": spec}
        self.cluster.create("/apis/karpenter-ibm.sh/v1alpha1/ibmnodeclasses", node_class)
        self.port = free_port()

    def serve(self, arguments):
        """Starts a server; the process, and the address that it prints."""
        process = subprocess.Popen(
            [self.binary, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.started.append(process)
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            process.kill()
            fail(f"{' '.join(arguments)} did not start: {line}{process.stderr.read()}")
        return process, line.split()[-1]

    def operate(self, limit_mb=None):
        """Starts the operator, and waits until it knows the class. What its kubeconfig says is the loopback, so machines
        are told of another address; none of them boots.

        With a limit the kernel refuses it more memory of its own: heap and stacks, touched or not, so never less than what a
        container's limit counts of them. Whoever is refused ends. Pages of the binary, which can be dropped and read again,
        do not count."""
        own = {"KUBECONFIG": self.cluster.operator_kubeconfig(self.directory), "RUST_LOG": "error"}
        self.operator = subprocess.Popen(
            [
                self.binary, "controller", "--region", "us-south", "--listen", f"127.0.0.1:{self.port}",
                "--endpoint", self.account.endpoint, "--cluster-endpoint", "https://10.240.0.5:6443",
                "--ibm-requests-per-second", str(REQUESTS_PER_SECOND), "--ibm-burst", str(BURST),
            ],
            env={**os.environ, **own, "IBMCLOUD_API_KEY": "demo-api-key"},
            stdout=subprocess.DEVNULL,
        )
        self.started.append(self.operator)
        if limit_mb:
            resource.prlimit(self.operator.pid, resource.RLIMIT_DATA, (limit_mb * 1_000_000,) * 2)
        path = "/apis/karpenter-ibm.sh/v1alpha1/ibmnodeclasses/default"
        until("the class is ready", lambda: is_true(self.cluster.call("GET", path), "Ready"))

    def ensure_alive(self):
        if self.operator.poll() is not None:
            fail(f"the operator has ended with status {self.operator.returncode}")

    def memory_mb(self, line):
        """What the operator has (`VmRSS`), or the most that it ever had (`VmHWM`)."""
        self.ensure_alive()
        with open(f"/proc/{self.operator.pid}/status") as status:
            kib = next(it.split()[1] for it in status if it.startswith(f"{line}:"))
        return int(kib) / 1000

    def requests_sent(self):
        """Those to the cloud."""
        return self.counted("karpenter_ibm_api_requests_total")

    def plans_made(self):
        return self.counted("karpenter_ibm_provisioning_solve_duration_seconds_count")

    def counted(self, name):
        """What the operator says that it has counted, whatever the labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        counted = [line for line in lines if re.split(r"[{ ]", line)[0] == name]
        return sum(float(line.split()[-1]) for line in counted)

    def end(self):
        for process in reversed(self.started):
            process.kill()
            process.wait()


def is_true(item, condition):
    conditions = item.get("status", {}).get("conditions", [])
    return any(it["type"] == condition and it["status"] == "True" for it in conditions)
