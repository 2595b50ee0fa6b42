package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// pki issues all keys, certificates and kubeconfigs of one control plane into a new directory.
//
// There are three authorities. The cluster's own signs for clients of kube-apiserver, and its key is the one that
// kube-controller-manager signs certificate requests with. etcd, and the front proxy that aggregated API servers
// believe when it names a user, have others, whose keys are forgotten at once: were they one, every certificate
// signed for a kubelet would open etcd, or speak for anybody.
func pki(args []string) error {
	flags := flag.NewFlagSet("pki", flag.ExitOnError)
	dir := flags.String("dir", "", "the directory to write, which must not exist yet")
	server := flags.String("server", "", "the URL of kube-apiserver")
	_ = flags.Parse(args)
	if err := os.Mkdir(*dir, 0o700); err != nil {
		return err
	}
	out := folder{path: *dir}

	cluster := newAuthority("control-plane-ca")
	out.pair("ca", cluster.identity)
	out.pair("serving", cluster.issue(serving("kube-apiserver")))
	admin := cluster.issue(client("admin", "system:masters"))
	out.pair("admin", admin)
	out.kubeconfig("admin", *server, cluster, admin)
	for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
		out.kubeconfig(component, *server, cluster, cluster.issue(client("system:"+component)))
	}

	store := newAuthority("control-plane-etcd-ca")
	out.write("etcd-ca.crt", certificatePEM(store.identity))
	out.pair("etcd", store.issue(serving("etcd")))
	out.pair("etcd-client", store.issue(client("kube-apiserver")))

	proxy := newAuthority("control-plane-front-proxy-ca")
	out.write("front-proxy-ca.crt", certificatePEM(proxy.identity))
	out.pair("front-proxy-client", proxy.issue(client("front-proxy-client")))

	tokens := newKey()
	out.write("service-account.key", privatePEM(tokens))
	out.write("service-account.pub", publicPEM(tokens))
	return out.err
}

// folder writes files that only their owner may read, and keeps the first error.
type folder struct {
	path string
	err  error
}

func (f *folder) write(name string, content []byte) {
	if f.err == nil {
		f.err = os.WriteFile(filepath.Join(f.path, name), content, 0o600)
	}
}

func (f *folder) pair(name string, id identity) {
	f.write(name+".crt", certificatePEM(id))
	f.write(name+".key", privatePEM(id.key))
}

// kubeconfig holds the certificates themselves and not their paths, so a copy of the file works anywhere.
func (f *folder) kubeconfig(user, server string, trusted authority, id identity) {
	encode := base64.StdEncoding.EncodeToString
	f.write(user+".kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: control-plane
contexts:
- name: control-plane
  context: {cluster: control-plane, user: %[1]s}
clusters:
- name: control-plane
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
`, user, server, encode(certificatePEM(trusted.identity)), encode(certificatePEM(id)), encode(privatePEM(id.key))))
}

func certificatePEM(id identity) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.certificate.Raw})
}

func privatePEM(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func publicPEM(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}
