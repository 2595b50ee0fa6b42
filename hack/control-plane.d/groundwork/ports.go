package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
)

const loopback = "127.0.0.1"

// ports prints NAME=127.0.0.1:PORT for each name, every port free at this moment. All are held open until the last
// is found, so no two names get the same one. Ports are drawn at random, so that two control planes that start at
// the same time hardly ever draw the same one between this look and the component's bind.
func ports(args []string) error {
	flags := flag.NewFlagSet("ports", flag.ExitOnError)
	from := flags.String("range", "", "FIRST-LAST: the ports to draw from")
	_ = flags.Parse(args)

	var first, last int
	_, err := fmt.Sscanf(*from, "%d-%d", &first, &last)
	if err != nil || first < 1 || last > 65535 || first > last {
		return fmt.Errorf("%q is no range of ports; write it as FIRST-LAST, such as 20000-32767", *from)
	}
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			_ = listener.Close()
		}
	}()
	for _, offset := range rand.Perm(last - first + 1) {
		if len(held) == flags.NArg() {
			break
		}
		listener, err := net.Listen("tcp4", fmt.Sprintf("%s:%d", loopback, first+offset))
		if err == nil {
			held = append(held, listener)
		}
	}
	if len(held) < flags.NArg() {
		return fmt.Errorf("only %d of the %d ports needed are free in %s", len(held), flags.NArg(), *from)
	}
	for i, name := range flags.Args() {
		fmt.Printf("%s=%s\n", name, held[i].Addr())
	}
	return nil
}
