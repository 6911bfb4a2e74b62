package fakeprovider

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// Network is a network in memory: a [net.Listener] and a way to dial it, whatever the address.
// Reads and dials block durably in a testing/synctest bubble, so that clients and servers run in
// virtual time; make it with [NewNetwork] in the bubble. It is safe for concurrent use.
type Network struct {
	dialed chan net.Conn
	closed chan struct{}
	close  sync.Once

	mu   sync.Mutex
	open int // ends of connections that are not closed
	all  int // connections ever made
}

// NewNetwork returns a network without connections.
func NewNetwork() *Network {
	return &Network{dialed: make(chan net.Conn), closed: make(chan struct{})}
}

// Serve serves a handler until stop is called, which closes all connections. It does not
// wait for the handlers.
func (n *Network) Serve(handler http.Handler) (stop func()) {
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(n)
	}()
	return func() {
		server.Close()
		<-done
	}
}

// Transport returns a new transport that connects to the network whatever the host.
func (n *Network) Transport() *http.Transport {
	return &http.Transport{DialContext: n.DialContext, MaxIdleConnsPerHost: 1000}
}

// DialContext connects to whoever accepts. It waits until somebody does, the network
// is closed or the context ends.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	toServer, toClient := newHalf(), newHalf()
	client := &conn{network: n, in: toClient, out: toServer}
	server := &conn{network: n, in: toServer, out: toClient}
	n.count(2)
	select {
	case n.dialed <- server:
		return client, nil
	case <-n.closed:
		n.count(-2)
		return nil, &net.OpError{Op: "dial", Net: "fake", Addr: n.Addr(), Err: errors.New("connection refused")}
	case <-ctx.Done():
		n.count(-2)
		return nil, ctx.Err()
	}
}

// Accept waits for the next connection.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case c := <-n.dialed:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Connections stay.
func (n *Network) Close() error {
	n.close.Do(func() { close(n.closed) })
	return nil
}

// Addr returns an address that says nothing.
func (n *Network) Addr() net.Addr { return address{} }

// Open returns how many ends of connections are not closed: two for each that both sides use.
func (n *Network) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open
}

// Dialed returns how many connections were ever tried.
func (n *Network) Dialed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all
}

func (n *Network) count(ends int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open += ends
	if ends > 0 {
		n.all++
	}
}

type address struct{}

func (address) Network() string { return "fake" }
func (address) String() string  { return "fake:0" }
