# Where the commands of the control plane are kept, and how they come there. A folder has the name of its releases and
# its recipe, and gets that name only when everything in it is built.

find_binaries() { # where they are or will be: $cache, and in it $root with $bin
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/karpenter-ibm/control-plane
    root=$cache/$(release k8s.io/kubernetes kubernetes)-$(release go.etcd.io/etcd/server/v3 etcd)-$(recipe)
    bin=$root/bin
}

release() { # MODULE FOLDER: the version of MODULE that the go.mod in FOLDER requires
    sed -n "s|^[[:space:]]*$1 \(v[^ ]*\).*|\1|p" "$pieces/$2/go.mod"
}

recipe() { # a hash of all that decides what is built
    (cd "$pieces" && cat build */go.mod */go.sum groundwork/*.go) | sha256sum | cut -c 1-12
}

provide_binaries() {
    if whole; then return; fi
    local words
    words=$(mkdir -p "$cache" 2>&1) || refuse "$cache cannot be made ($words); set XDG_CACHE_HOME to another place"
    exec 9>"$cache/lock"
    flock -n 9 || {
        say "another command is building; waiting for it"
        attended flock -w "$patience" 9 || refuse "it still builds after $patience s; see what it does, and end it"
    }
    if ! whole; then
        say "building $(basename "$root"), once for this machine"
        building=$root.building
        rm -rf "$building" "$root"
        mkdir -p "$building/scratch"
        # Go's scratch files too: a build that is killed would leave them behind.
        GOTMPDIR=$building/scratch attended "$pieces/build" "$building/bin"
        rm -rf "$building/scratch"
        mv -T "$building" "$root"
        building=
    fi
    exec 9>&-
}

whole() { # every command is there
    local name
    for name in groundwork kubectl "${components[@]}"; do [[ -x $bin/$name ]] || return 1; done
}
