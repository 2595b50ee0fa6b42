package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// Often enough not to be noticed in a start of some seconds, seldom enough not to slow it down.
const probeInterval = 50 * time.Millisecond

// probe waits until a URL answers 200, the process behind it has ended, or the time is over.
func probe(args []string) error {
	flags := flag.NewFlagSet("probe", flag.ExitOnError)
	ca := flags.String("ca", "", "file with the certificate that the server's is signed by")
	cert := flags.String("cert", "", "file with the certificate to show")
	key := flags.String("key", "", "file with its key")
	pid := flags.Int("pid", 0, "the process that is to answer")
	timeout := flags.Duration("timeout", time.Minute, "how long to wait")
	_ = flags.Parse(args)
	url := flags.Arg(0)

	trust, err := clientTLS(*ca, *cert, *key)
	if err != nil {
		return err
	}
	caller := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}, Timeout: 2 * time.Second}
	limit, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	var answer error
	for {
		err := look(limit, caller, url)
		if err == nil {
			return nil
		}
		// What the end of our own patience cut off says nothing about the server; the answer before it does.
		if limit.Err() == nil || answer == nil {
			answer = err
		}
		if !alive(*pid) {
			return errors.New("the process that was to answer has ended")
		}
		select {
		case <-limit.Done():
			return fmt.Errorf("no good answer within %s: %w", *timeout, answer)
		case <-time.After(probeInterval):
		}
	}
}

func clientTLS(ca, cert, key string) (*tls.Config, error) {
	trusted, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(trusted) {
		return nil, errors.New(ca + " holds no certificate")
	}
	shown, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{shown}}, nil
}

func look(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s\n%s", url, response.Status, bytes.TrimSpace(body))
	}
	return nil
}

// alive says whether a process runs. One that has ended but was not waited for yet (state Z) does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name of the command stands in parentheses before the state and may hold any character.
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return !bytes.HasPrefix(state, []byte("Z"))
}
