// Command groundwork does what hack/control-plane needs done before and while components start: it finds free ports,
// issues certificates and kubeconfigs, and waits until a component answers. Only the standard library is used, and no
// openssl, curl or ss has to be on the machine.
package main

import (
	"fmt"
	"os"
)

func main() {
	commands := map[string]func([]string) error{"ports": ports, "pki": pki, "probe": probe}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: groundwork ports|pki|probe [flags] [arguments]")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
