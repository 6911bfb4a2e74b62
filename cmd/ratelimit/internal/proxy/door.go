package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// tokenHeader is where a client puts its token, unless the proxy has the keys.
const tokenHeader = "X-Ratelimit-Token"

// door says who may ask.
type door struct {
	hosts   map[string]bool // names that the operator gave, in lower case
	clients *Clients        // nil for everybody
	foreign http.CrossOriginProtection
}

func newDoor(hosts []string, clients *Clients) *door {
	d := &door{hosts: make(map[string]bool, len(hosts)), clients: clients}
	for _, host := range hosts {
		if name := hostOf(host); name != "" { // which requests without a host have
			d.hosts[name] = true
		}
	}
	return d
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// hostOf returns the host of an address without its port, in lower case.
func hostOf(address string) string {
	host := address
	if h, _, err := net.SplitHostPort(address); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// check returns why a request is not answered; nil for one that is. The name of the host keeps
// pages out whose own name leads here (DNS rebinding), the origin those that are elsewhere. Where
// safe requests are free, a link from elsewhere may be followed.
func (d *door) check(r *http.Request, safeIsFree bool) *fault {
	switch {
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace, r.URL.IsAbs(), !strings.HasPrefix(r.RequestURI, "/"):
		return &fault{http.StatusBadRequest, "this is no forward proxy: give the client its address as the base URL"}
	case !isLoopback(hostOf(r.Host)) && !d.hosts[hostOf(r.Host)]:
		return &fault{http.StatusMisdirectedRequest, "the host of the request is not this machine: name it with --host"}
	}
	asked := r
	if !safeIsFree || isUpgrade(r) { // as if it changed something
		asked = &http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host, URL: r.URL}
	}
	if d.foreign.Check(asked) != nil {
		return &fault{http.StatusForbidden, "the request comes from a web page of another origin"}
	}
	return nil
}

// who returns the client that asks, nil where everybody may, and where its key was.
func (d *door) who(r *http.Request, keys bool) (*Client, *fault) {
	if d.clients == nil {
		return nil, nil
	}
	token := strings.Join(r.Header[tokenHeader], ",") // no token has a comma, so that two are none
	if token == "" && keys {
		token, _ = keyOf(r.Header, r.URL.RawQuery)
	}
	if client := d.clients.find(token); client != nil {
		return client, nil
	}
	if keys {
		return nil, &fault{http.StatusUnauthorized, "no token of this proxy in " + tokenHeader + " or in place of the key"}
	}
	return nil, &fault{http.StatusUnauthorized, "no token of this proxy in " + tokenHeader}
}

// isUpgrade reports whether a request opens a WebSocket or another protocol.
func isUpgrade(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// opensSocket reports whether a request opens a WebSocket. It has no body.
func opensSocket(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ContentLength == 0 && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}
