package redistest

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Faults are what a Proxy does wrong. The zero value is nothing. A network does not lose a reply
// and deliver the next, so a connection that has lost something carries nothing more.
type Faults struct {
	// Lose, Close and Half are for one reply in so many, by chance; zero is none. Lose swallows
	// the reply: the client hears nothing more on this connection. Close closes the connection in
	// place of the reply. Half closes it in the middle of the reply.
	Lose, Close, Half int
	// CloseRequest closes the connection in place of passing on one request in so many.
	CloseRequest int
	// Delay is how much later than the server sent it each reply arrives.
	Delay time.Duration
	// Swallow takes requests and connections, and answers nothing: a half-open connection.
	Swallow bool
	// Down resets all connections, and new ones at once.
	Down bool
}

// Counts are what a Proxy has seen and done.
type Counts struct {
	Conns, Requests, Replies       int64 // that it passed on
	Lost, Closed, Halved, Unpassed int64 // replies by Lose, Close and Half; requests by CloseRequest
	Swallowed, Refused             int64 // requests by Swallow; connections by Down
}

// Proxy is a TCP proxy before a server, whose faults can be set at any time. Its methods may be
// called by any goroutine.
type Proxy struct {
	listener net.Listener
	ctx      context.Context
	faults   atomic.Pointer[Faults]
	all      sync.WaitGroup

	mu     sync.Mutex
	target string
	conns  map[*proxyConn]bool

	counts struct {
		conns, requests, replies, lost, closed, halved, unpassed, swallowed, refused atomic.Int64
	}
}

// NewProxy starts a proxy without faults before the server at target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{listener: listener, ctx: ctx, target: target, conns: map[*proxyConn]bool{}}
	p.faults.Store(&Faults{})
	p.all.Go(p.serve)
	t.Cleanup(func() {
		cancel()
		listener.Close()
		p.Reset()
		p.all.Wait()
	})
	return p
}

// Addr returns the host and port at which clients reach the server through the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set replaces the faults, from the next request and reply on. Connections that have lost a reply
// stay silent.
func (p *Proxy) Set(f Faults) {
	p.faults.Store(&f)
	if f.Down {
		p.Reset()
	}
}

// Retarget puts another server behind the proxy, and resets all connections.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Reset()
}

// Reset resets all connections. Clients may connect again.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.reset()
	}
}

// Counts returns what the proxy has seen and done so far.
func (p *Proxy) Counts() Counts {
	c := &p.counts
	return Counts{
		Conns: c.conns.Load(), Requests: c.requests.Load(), Replies: c.replies.Load(),
		Lost: c.lost.Load(), Closed: c.closed.Load(), Halved: c.halved.Load(),
		Unpassed: c.unpassed.Load(), Swallowed: c.swallowed.Load(), Refused: c.refused.Load(),
	}
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.connect(client.(*net.TCPConn)) })
	}
}

// connect passes on what comes on a connection until one side ends it.
func (p *Proxy) connect(client *net.TCPConn) {
	c := &proxyConn{p: p, client: client}
	c.ctx, c.cancel = context.WithCancel(p.ctx)
	defer c.reset()
	p.mu.Lock()
	down, target := p.faults.Load().Down || p.ctx.Err() != nil, p.target
	if !down {
		p.conns[c] = true
	}
	p.mu.Unlock()
	if down {
		p.counts.refused.Add(1)
		return
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	}()
	server, err := new(net.Dialer).DialContext(c.ctx, "tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	context.AfterFunc(c.ctx, func() { server.Close() })
	p.counts.conns.Add(1)
	p.all.Go(func() { c.requests(server) })
	c.replies(server)
}

// proxyConn is a connection of a client.
type proxyConn struct {
	p      *Proxy
	client *net.TCPConn
	ctx    context.Context
	cancel context.CancelFunc
	silent atomic.Bool // it has lost something
}

// reset ends both sides of the connection at once.
func (c *proxyConn) reset() {
	c.cancel()
	_ = c.client.SetLinger(0)
	c.client.Close()
}

// requests passes on what the client sends.
func (c *proxyConn) requests(server net.Conn) {
	defer c.reset()
	r := bufio.NewReader(c.client)
	var frame []byte
	for {
		var err error
		if frame, err = readFrame(r, frame[:0]); err != nil {
			return
		}
		f, n := c.p.faults.Load(), &c.p.counts
		switch {
		case f.Swallow || c.silent.Load():
			c.silent.Store(true)
			n.swallowed.Add(1)
			continue
		case oneIn(f.CloseRequest):
			n.unpassed.Add(1)
			return
		}
		if _, err := server.Write(frame); err != nil {
			return
		}
		n.requests.Add(1)
	}
}

// delayed is a reply that is due.
type delayed struct {
	frame []byte
	at    time.Time
}

// replies passes on what the server sends.
func (c *proxyConn) replies(server net.Conn) {
	queue := make(chan delayed, 1024)
	c.p.all.Go(func() { c.deliver(queue) })
	defer close(queue)
	r := bufio.NewReader(server)
	for {
		frame, err := readFrame(r, nil)
		if err != nil {
			return
		}
		select {
		case queue <- delayed{frame, time.Now().Add(c.p.faults.Load().Delay)}:
		case <-c.ctx.Done():
			return
		}
	}
}

// deliver sends replies to the client when they are due.
func (c *proxyConn) deliver(queue <-chan delayed) {
	defer c.reset()
	for d := range queue {
		if wait := time.Until(d.at); wait > 0 {
			select {
			case <-time.After(wait):
			case <-c.ctx.Done():
				return
			}
		}
		f, n := c.p.faults.Load(), &c.p.counts
		switch {
		case f.Swallow || c.silent.Load():
			c.silent.Store(true)
			continue
		case oneIn(f.Lose):
			n.lost.Add(1)
			c.silent.Store(true)
			continue
		case oneIn(f.Close):
			n.closed.Add(1)
			return
		case oneIn(f.Half):
			n.halved.Add(1)
			_, _ = c.client.Write(d.frame[:len(d.frame)/2])
			_ = c.client.CloseWrite() // a reset could take back what was written
			c.silent.Store(true)
			continue
		}
		if _, err := c.client.Write(d.frame); err != nil {
			return
		}
		n.replies.Add(1)
	}
}

// oneIn reports whether chance hits one in n.
func oneIn(n int) bool { return n > 0 && rand.IntN(n) == 0 }
