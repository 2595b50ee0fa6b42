# What the scripts of the control plane check before they begin, and how they say it. Exit status 2 means that nothing
# was done, and that the sentence says what to change.

refuse() {
    echo "error: $*" >&2
    exit 2
}

need() { # COMMAND WHAT
    command -v "$1" >/dev/null || refuse "$1 is not installed; install $2"
}

check_room() { # PLACE MB SETTING: the file system of PLACE, which may not exist yet, has that much room
    local place=$1 free
    until [[ -d $place ]]; do place=$(dirname "$place"); done
    free=$(df -Pm "$place" | awk 'NR == 2 { print $4 }')
    ((free >= $2)) || refuse "$1 has $free MB of room and needs $2; free some, or name another place with $3"
}
