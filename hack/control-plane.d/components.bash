# How each component of the control plane is started, awaited, recognized and stopped. Works in $dir with the commands
# in $bin, once addresses and keys are laid out there.

components=(etcd kube-apiserver kube-controller-manager kube-scheduler)

# Seconds that a component gets to end by itself; what it might still save is removed right after.
grace=3

# The address range of Services, whose first address the serving certificate names (authority.go).
service_range=10.96.0.0/16

start_etcd() {
    local client peer
    client=$(url etcd)
    peer=$(url etcd-peer)
    # What is stored need not outlive the machine, so etcd does not wait for the disk.
    start etcd "${CONTROL_PLANE_ETCD_FLAGS:-}" \
        --name=control-plane --data-dir="$dir/etcd" --unsafe-no-fsync \
        --listen-client-urls="$client" --advertise-client-urls="$client" \
        --cert-file="$dir/pki/etcd.crt" --key-file="$dir/pki/etcd.key" \
        --trusted-ca-file="$dir/pki/etcd-ca.crt" --client-cert-auth \
        --listen-peer-urls="$peer" --initial-advertise-peer-urls="$peer" --initial-cluster="control-plane=$peer" \
        --peer-cert-file="$dir/pki/etcd.crt" --peer-key-file="$dir/pki/etcd.key" \
        --peer-trusted-ca-file="$dir/pki/etcd-ca.crt" --peer-client-cert-auth
    await etcd etcd-ca etcd-client "$client/health"
}

start_apiserver() {
    local issuer=https://kubernetes.default.svc.cluster.local
    # An Endpoints object may not hold a loopback address, so none is kept for the kubernetes Service.
    start_serving kube-apiserver "${CONTROL_PLANE_APISERVER_FLAGS:-}" \
        --advertise-address=127.0.0.1 --endpoint-reconciler-type=none \
        --etcd-servers="$(url etcd)" --etcd-cafile="$dir/pki/etcd-ca.crt" \
        --etcd-certfile="$dir/pki/etcd-client.crt" --etcd-keyfile="$dir/pki/etcd-client.key" \
        --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
        --service-account-issuer="$issuer" --api-audiences="$issuer" \
        --service-account-key-file="$dir/pki/service-account.pub" \
        --service-account-signing-key-file="$dir/pki/service-account.key" \
        --requestheader-client-ca-file="$dir/pki/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client \
        --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
        --requestheader-extra-headers-prefix=X-Remote-Extra- \
        --proxy-client-cert-file="$dir/pki/front-proxy-client.crt" \
        --proxy-client-key-file="$dir/pki/front-proxy-client.key" \
        --service-cluster-ip-range="$service_range"
    await kube-apiserver ca admin "$(url kube-apiserver)/readyz"
}

start_controllers_and_scheduler() {
    # At its default of 20 calls a second, kube-controller-manager takes 4 s to make the accounts of its controllers.
    # The folder for volume plug-ins is made where it is missing, by default under /usr.
    start_client kube-controller-manager "${CONTROL_PLANE_KCM_FLAGS:-}" \
        --controllers='*' --use-service-account-credentials=true --root-ca-file="$dir/pki/ca.crt" \
        --service-account-private-key-file="$dir/pki/service-account.key" \
        --cluster-signing-cert-file="$dir/pki/ca.crt" --cluster-signing-key-file="$dir/pki/ca.key" \
        --kube-api-qps=200 --kube-api-burst=400 --flex-volume-plugin-dir="$dir/flexvolume"
    start_client kube-scheduler "${CONTROL_PLANE_SCHEDULER_FLAGS:-}"
    await kube-controller-manager ca admin "$(url kube-controller-manager)/healthz"
    await kube-scheduler ca admin "$(url kube-scheduler)/readyz"
    # No pod is admitted before its ServiceAccount exists, and being healthy does not mean that.
    await kube-controller-manager ca admin "$(url kube-apiserver)/api/v1/namespaces/default/serviceaccounts/default"
}

start_client() { # NAME MORE-FLAGS FLAG...: one that works with kube-apiserver, under its own identity
    local config=$dir/pki/$1.kubeconfig
    start_serving "$@" --leader-elect=false \
        --kubeconfig="$config" --authentication-kubeconfig="$config" --authorization-kubeconfig="$config"
}

start_serving() { # NAME MORE-FLAGS FLAG...: one of Kubernetes
    local address
    address=$(address "$1")
    start "$@" --bind-address="${address%:*}" --secure-port="${address##*:}" --client-ca-file="$dir/pki/ca.crt" \
        --tls-cert-file="$dir/pki/serving.crt" --tls-private-key-file="$dir/pki/serving.key"
}

start() { # NAME MORE-FLAGS FLAG...
    local name=$1 more
    read -r -a more <<<"$2"
    shift 2
    # In a session of its own, so that no signal of a terminal ends it, and without our lock.
    setsid "$bin/$name" "$@" "${more[@]}" </dev/null >"$dir/log/$name.log" 2>&1 8<&- &
    echo $! >"$dir/pid/$name"
}

await() { # NAME AUTHORITY CLIENT URL: until URL answers, or NAME ends, or the time is over
    local left=$((deadline - SECONDS))
    attended "$bin/groundwork" probe -timeout "$((left > 0 ? left : 1))s" -pid "$(<"$dir/pid/$1")" \
        -ca "$dir/pki/$2.crt" -cert "$dir/pki/$3.crt" -key "$dir/pki/$3.key" "$4" 8<&- || blame "$1"
}

blame() { # NAME: it did not become ready
    local log=$dir/log/$1.log
    blamed=$1
    echo "error: $1 did not become ready; this is the end of $log" >&2
    tail -n 15 "$log" >&2
    if grep -q 'address already in use' "$log"; then
        refuse "another process took the port of $1 in this very moment; run up again"
    elif grep -q 'no space left on device' "$log"; then
        refuse "the disk of $dir is full; free some room, or name another place with --dir"
    fi
    exit 1
}

stop() { # NAME
    local pid
    pid=$(pid_of "$1") || return 0
    kill "$pid" 2>/dev/null || true
    if ends "$1"; then return; fi
    say "$1 takes more than $grace s to end; it is killed"
    kill -s KILL "$pid" 2>/dev/null || true
    ends "$1" || refuse "$1, process $pid, cannot be killed; see what holds it, and run down again"
}

ends() { # NAME: within the grace
    local i
    for ((i = 0; i < grace * 10; i++)); do
        pid_of "$1" >/dev/null || return 0
        sleep 0.1
    done
    return 1
}

running() { # how many components do
    local name count=0
    for name in "${components[@]}"; do
        if pid_of "$name" >/dev/null; then count=$((count + 1)); fi
    done
    echo "$count"
}

# The process of a component, if it runs. A number alone proves nothing: it may be another process's by now. Ours has
# the component's name and works with the keys of this directory.
pid_of() { # NAME
    local pid argv
    { read -r pid <"$dir/pid/$1" && mapfile -d '' -t argv <"/proc/$pid/cmdline"; } 2>/dev/null || return 1
    [[ ${argv[0]-} == */"$1" && ${argv[*]} == *"=$dir/pki/"* ]] || return 1
    echo "$pid"
}

address() { # NAME
    sed -n "s/^$1=//p" "$dir/addresses"
}

url() { # NAME
    echo "https://$(address "$1")"
}
