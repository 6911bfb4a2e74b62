package fakeprovider

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pair returns both ends of a connection.
func pair(t *testing.T, n *Network) (client, server net.Conn) {
	t.Helper()
	accepted := make(chan net.Conn)
	go func() {
		c, _ := n.Accept()
		accepted <- c
	}()
	client, err := n.DialContext(t.Context(), "tcp", "example.org:443")
	if err != nil {
		t.Fatal(err)
	}
	return client, <-accepted
}

func TestNetwork(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(t *testing.T, client, server net.Conn)
	}{
		{"a small write does not wait for a reader", func(t *testing.T, client, server net.Conn) {
			client.Write([]byte("ab"))
			client.Write([]byte("c"))
			b := make([]byte, 10)
			if n, err := server.Read(b); string(b[:n]) != "abc" || err != nil {
				t.Errorf("%q, %v", b[:n], err)
			}
		}},
		{"a large write does, and arrives whole", func(t *testing.T, client, server net.Conn) {
			data := bytes.Repeat([]byte("0123456789"), bufferSize/5)
			done := make(chan time.Time, 1)
			go func() {
				client.Write(data)
				client.Close()
				done <- time.Now()
			}()
			start := time.Now()
			time.Sleep(time.Second)
			got, err := io.ReadAll(server)
			if !bytes.Equal(got, data) || err != nil || (<-done).Sub(start) != time.Second {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}},
		{"closing wakes a reader of either end", func(t *testing.T, client, server net.Conn) {
			errs := make(chan error, 2)
			for _, c := range []net.Conn{client, server} {
				go func() {
					_, err := c.Read(make([]byte, 1))
					errs <- err
				}()
			}
			synctest.Wait()
			client.Close()
			a, b := <-errs, <-errs
			if !(a == io.EOF && b == net.ErrClosed || b == io.EOF && a == net.ErrClosed) {
				t.Errorf("%v, %v", a, b)
			}
			if _, err := server.Write([]byte("x")); err != errBroken {
				t.Error(err)
			}
			if _, err := client.Write([]byte("x")); err != net.ErrClosed {
				t.Error(err)
			}
		}},
		{"closing wakes a writer", func(t *testing.T, client, server net.Conn) {
			err := make(chan error)
			go func() {
				_, e := client.Write(make([]byte, 2*bufferSize))
				err <- e
			}()
			synctest.Wait()
			server.Close()
			if e := <-err; e != errBroken {
				t.Error(e)
			}
		}},
		{"what was written before a close is read", func(t *testing.T, client, server net.Conn) {
			client.Write([]byte("last"))
			client.Close()
			if got, err := io.ReadAll(server); string(got) != "last" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		}},
		{"deadlines", func(t *testing.T, client, server net.Conn) {
			start := time.Now()
			client.SetDeadline(start.Add(time.Second))
			_, err := client.Read(make([]byte, 1))
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(start) != time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			if _, err := client.Write([]byte("x")); err != os.ErrDeadlineExceeded {
				t.Error(err)
			}
			client.SetDeadline(time.Time{})
			client.Write([]byte("x"))
			if n, err := server.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Error(err)
			}
		}},
		{"a deadline in the past wakes a reader", func(t *testing.T, client, server net.Conn) {
			err := make(chan error)
			go func() {
				_, e := client.Read(make([]byte, 1))
				err <- e
			}()
			synctest.Wait()
			client.SetReadDeadline(time.Unix(1, 0))
			if e := <-err; e != os.ErrDeadlineExceeded {
				t.Error(e)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := NewNetwork()
				client, server := pair(t, n)
				if n.Open() != 2 || n.Dialed() != 1 {
					t.Errorf("%d ends open", n.Open())
				}
				test.do(t, client, server)
				client.Close()
				server.Close()
				if n.Open() != 0 {
					t.Errorf("%d ends open", n.Open())
				}
			})
		})
	}
}

func TestDialWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.DialContext(ctx, "tcp", "x:1"); err != context.DeadlineExceeded {
			t.Error(err)
		}
		n.Close()
		if _, err := n.DialContext(t.Context(), "tcp", "x:1"); err == nil {
			t.Error("no error from a network that is closed")
		}
		if _, err := n.Accept(); err != net.ErrClosed || n.Open() != 0 {
			t.Errorf("%v, %d ends open", err, n.Open())
		}
	})
}

// A minute of a server costs no time, and nothing is left of it: the bubble would
// not end otherwise.
func TestServeInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Jitter: 50 * time.Millisecond, Answer: func(*Call) Answer { return Answer{Delay: 20 * time.Second} }},
			map[string]Config{"m": {Limits: Limits{RPM: 2}}})
		n := NewNetwork()
		stop := n.Serve(s)
		transport := n.Transport()
		client := &http.Client{Transport: transport}
		start := time.Now()
		for i, want := range []struct {
			status int
			wait   time.Duration
		}{{200, 0}, {200, 0}, {429, 0}, {200, 20 * time.Second}} {
			time.Sleep(want.wait)
			body := `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`
			resp, err := client.Post("http://example.org/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != want.status {
				t.Errorf("%d: %s", i, resp.Status)
			}
		}
		if took := time.Since(start); took < 80*time.Second || took > 81*time.Second {
			t.Errorf("took %v", took)
		}

		// A client that goes away ends the request.
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://x/v1/chat/completions", strings.NewReader(`{"model":"m","prompt":"Hi"}`))
		if _, err := client.Do(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if got := s.Stats("m"); got.Gone != 1 || got.InFlight != 0 || got.Counted[RPM] != 4 {
			t.Errorf("%+v", got)
		}
		transport.CloseIdleConnections()
		stop()
		synctest.Wait()
		if n.Open() != 0 {
			t.Errorf("%d ends open", n.Open())
		}
	})
}
