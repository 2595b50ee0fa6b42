// Command groundwork does what hack/control-plane needs done before and while components start: it finds free ports,
// issues certificates and kubeconfigs, and waits until a component answers. Only the standard library is used, so
// that no openssl, curl or ss has to be on the machine.
package main

import (
	"errors"
	"fmt"
	"os"
)

// Exit statuses beside 0. hack/control-plane tells by them what to say.
const (
	exitFailed  = 1 // what was asked for did not happen
	exitRefused = 2 // the caller has to change something first
	exitEnded   = 3 // the process waited for has ended
)

// failure is an error that knows its exit status.
type failure struct {
	error
	status int
}

func refused(format string, args ...any) error {
	return failure{fmt.Errorf(format, args...), exitRefused}
}

func ended(format string, args ...any) error {
	return failure{fmt.Errorf(format, args...), exitEnded}
}

func main() {
	commands := map[string]func([]string) error{"ports": ports, "pki": pki, "probe": probe}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: groundwork ports|pki|probe [flags] [arguments]")
		os.Exit(exitRefused)
	}
	err := commands[os.Args[1]](os.Args[2:])
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	var known failure
	if errors.As(err, &known) {
		os.Exit(known.status)
	}
	os.Exit(exitFailed)
}
