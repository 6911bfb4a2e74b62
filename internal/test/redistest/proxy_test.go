package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
)

// counter is a server that answers each PING with how many there were.
type counter struct {
	addr string
	seen atomic.Int64
}

func startCounter(t *testing.T) *counter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{addr: l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				request := make([]byte, len(ping))
				for {
					if _, err := io.ReadFull(conn, request); err != nil {
						return
					}
					fmt.Fprintf(conn, "+%06d\r\n", c.seen.Add(1))
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return c
}

const (
	ping  = "*1\r\n$4\r\nPING\r\n"
	reply = "+000001\r\n"
)

// proxied is a server behind a proxy, and a client.
func proxied(t *testing.T) (*counter, *redistest.Proxy) {
	server := startCounter(t)
	return server, redistest.NewProxy(t, server.addr)
}

func dial(t *testing.T, p *redistest.Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends a PING and returns what comes back within a time.
func ask(conn net.Conn, within time.Duration) (string, error) {
	if _, err := io.WriteString(conn, ping); err != nil {
		return "", err
	}
	conn.SetReadDeadline(time.Now().Add(within))
	line, err := bufio.NewReader(conn).ReadString('\n')
	return line, err
}

const (
	ever  = 20 * time.Second
	while = 50 * time.Millisecond // in which a reply that is not lost arrives
)

func TestProxyPassesOn(t *testing.T) {
	_, p := proxied(t)
	conn := dial(t, p)
	for n := 1; n <= 3; n++ {
		if got, err := ask(conn, ever); err != nil || got != fmt.Sprintf("+%06d\r\n", n) {
			t.Errorf("reply %d is %q, %v", n, got, err)
		}
	}
	redistest.Eventually(t, "counts", func() bool {
		return p.Counts() == redistest.Counts{Conns: 1, Requests: 3, Replies: 3}
	})
}

// What each fault does to the first request of a connection, and whether the server has seen it.
func TestProxyFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults redistest.Faults
		got    string
		err    error // io.EOF stands for any end of the connection
		seen   int64
		counts redistest.Counts
	}{
		{"lost", redistest.Faults{Lose: 1}, "", os.ErrDeadlineExceeded, 1,
			redistest.Counts{Conns: 1, Requests: 1, Lost: 1}},
		{"closed", redistest.Faults{Close: 1}, "", io.EOF, 1,
			redistest.Counts{Conns: 1, Requests: 1, Closed: 1}},
		{"halved", redistest.Faults{Half: 1}, reply[:len(reply)/2], io.EOF, 1,
			redistest.Counts{Conns: 1, Requests: 1, Halved: 1}},
		{"not passed on", redistest.Faults{CloseRequest: 1}, "", io.EOF, 0,
			redistest.Counts{Conns: 1, Unpassed: 1}},
		{"swallowed", redistest.Faults{Swallow: true}, "", os.ErrDeadlineExceeded, 0,
			redistest.Counts{Conns: 1, Swallowed: 1}},
		{"delayed", redistest.Faults{Delay: time.Hour}, "", os.ErrDeadlineExceeded, 1,
			redistest.Counts{Conns: 1, Requests: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, p := proxied(t)
			p.Set(tt.faults)
			within := ever
			if tt.err == os.ErrDeadlineExceeded {
				within = while
			}
			conn := dial(t, p)
			got, err := ask(conn, within)
			if got != tt.got || err == nil || errors.Is(err, os.ErrDeadlineExceeded) != (tt.err == os.ErrDeadlineExceeded) {
				t.Errorf("the reply is %q, %v, want %q, %v", got, err, tt.got, tt.err)
			}
			redistest.Eventually(t, "what the server has seen", func() bool { return server.seen.Load() == tt.seen })
			redistest.Eventually(t, "counts", func() bool { return p.Counts() == tt.counts })

			p.Set(redistest.Faults{})
			if got, err := ask(dial(t, p), ever); err != nil || got != fmt.Sprintf("+%06d\r\n", tt.seen+1) {
				t.Errorf("afterwards the reply is %q, %v", got, err)
			}
			if tt.faults.Lose+tt.faults.Half > 0 || tt.faults.Swallow {
				if got, err := ask(conn, while); err == nil {
					t.Errorf("a connection that has lost something carries %q", got)
				}
			}
		})
	}
}

func TestProxyDelays(t *testing.T) {
	_, p := proxied(t)
	conn := dial(t, p)
	const delay = 30 * time.Millisecond
	p.Set(redistest.Faults{Delay: delay})
	began := time.Now()
	if got, err := ask(conn, ever); err != nil || got != reply || time.Since(began) < delay {
		t.Errorf("%q, %v after %v, want %q after %v", got, err, time.Since(began), reply, delay)
	}
}

func TestProxyLosesOneInSoMany(t *testing.T) {
	_, p := proxied(t)
	p.Set(redistest.Faults{Close: 20})
	var conn net.Conn
	for range 2000 {
		if conn == nil {
			conn = dial(t, p)
		}
		if _, err := ask(conn, ever); err != nil {
			conn.Close()
			conn = nil
		}
	}
	if c := p.Counts(); c.Closed < 40 || c.Closed > 200 { // 100 with a deviation of 10
		t.Errorf("%d of %d replies closed the connection, want one in 20", c.Closed, c.Closed+c.Replies)
	}
}

func TestProxyGoesDownAndElsewhere(t *testing.T) {
	one, p := proxied(t)
	two := startCounter(t)
	conn := dial(t, p)
	if _, err := ask(conn, ever); err != nil {
		t.Fatal(err)
	}
	p.Set(redistest.Faults{Down: true})
	if got, err := ask(conn, ever); err == nil {
		t.Errorf("a connection that was reset carries %q", got)
	}
	if refused, err := net.Dial("tcp", p.Addr()); err == nil { // the reset may come later
		if got, err := ask(refused, ever); err == nil {
			t.Errorf("a connection to what is down carries %q", got)
		}
		refused.Close()
	}
	redistest.Eventually(t, "the connection is refused", func() bool { return p.Counts().Refused == 1 })
	p.Set(redistest.Faults{})
	p.Retarget(two.addr)
	if got, err := ask(dial(t, p), ever); err != nil || got != reply || one.seen.Load() != 1 || two.seen.Load() != 1 {
		t.Errorf("elsewhere: %q, %v", got, err)
	}
}
