package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"time"
)

// A control plane for tests lives for hours. A year leaves room for one that is forgotten, and an hour into the past
// for a reader whose clock is late.
const (
	validity  = 365 * 24 * time.Hour
	tolerance = time.Hour
)

// serviceAddress is the first address of the range that kube-apiserver gets as --service-cluster-ip-range, which is
// the address of the kubernetes Service.
const serviceAddress = "10.96.0.1"

// identity is a certificate with the key it was made for.
type identity struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// authority is an identity that issues others.
type authority struct{ identity }

func newAuthority(name string) authority {
	template := certificate(name)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage |= x509.KeyUsageCertSign
	key := newKey()
	return authority{identity{sign(template, template, key.Public(), key), key}}
}

func (a authority) issue(template *x509.Certificate) identity {
	key := newKey()
	return identity{sign(template, a.certificate, key.Public(), a.key), key}
}

func certificate(name string, groups ...string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    now.Add(-tolerance),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// client is the template for a user of kube-apiserver (or etcd) with these groups.
func client(name string, groups ...string) *x509.Certificate {
	template := certificate(name, groups...)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return template
}

// serving is the template for a component that listens on loopback. It is good for a client too, since etcd dials its
// own listener with the certificate it serves.
func serving(name string) *x509.Certificate {
	template := client(name)
	template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	template.IPAddresses = []net.IP{net.ParseIP(loopback), net.ParseIP(serviceAddress)}
	template.DNSNames = []string{
		"localhost",
		"kubernetes",
		"kubernetes.default",
		"kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local",
	}
	return template
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	return key
}

func serial() *big.Int {
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	must(err)
	return number
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	must(err)
	signed, err := x509.ParseCertificate(der)
	must(err)
	return signed
}

// must is for what fails only where a template above is wrong: nothing that a caller could mend.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
