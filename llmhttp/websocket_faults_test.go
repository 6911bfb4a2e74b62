package llmhttp_test

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// A create that UnknownDeny refuses is not sent, also not together with the next message.
func TestSocketRefusedStaysUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}, Unknown: ratelimit.UnknownDeny, OnError: func(error) {}})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl})
		defer closes(client, server)
		client.write(t, text(`{"type":"response.create","input":"no model"}`))
		if got := client.texts(); len(got) != 1 || !strings.Contains(got[0], `"error"`) {
			t.Errorf("the client got %q", got)
		}
		client.write(t, create("", "hello"))
		if got := server.texts(); len(got) != 1 || !strings.Contains(got[0], "hello") {
			t.Errorf("the server got %q", got)
		}
		if s := rl.Stats("m"); s.RPM != 1 {
			t.Errorf("charged %+v", s)
		}
	})
}

// Headers of fragments count towards the size of a message.
func TestSocketEmptyFragments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl, MaxBody: 1 << 10})
		defer closes(client, server)
		client.write(t, wsBytes(false, 1, true, []byte("{")))
		piece := wsBytes(false, 0, true, nil)
		var err error
		for range 1 << 20 {
			if _, err = client.Write(piece); err != nil {
				break
			}
		}
		if err == nil {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Errorf("no bound; heap %d", m.HeapAlloc)
		}
	})
}

// A handler that panics on a goroutine of the connection ends that, not the program. All calls are
// settled, nothing more is sent, and the client reads why.
func TestSocketPanics(t *testing.T) {
	for _, test := range []struct {
		kind    llmhttp.EventKind
		nth     int
		goexit  bool
		inWrite bool // the panic goes on to the caller of Write
		sent    int
	}{
		{llmhttp.EventAnswered, 1, false, false, 3},
		{llmhttp.EventAnswered, 1, true, false, 3},
		{llmhttp.EventSettled, 1, false, false, 3},
		{llmhttp.EventSettled, 1, true, false, 3},
		{llmhttp.EventAdmitted, 4, false, false, 3}, // waited
		{llmhttp.EventAdmitted, 2, false, true, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 3}}})
			var seen atomic.Int32
			client, server := dial(t, &llmhttp.Transport{Limiter: rl, OnEvent: func(e llmhttp.Event) {
				if e.Kind == test.kind && seen.Add(1) >= int32(test.nth) {
					if test.goexit {
						runtime.Goexit()
					}
					panic("oops")
				}
			}})
			defer closes(client, server)
			sent := 0
			for i, stream := range []string{"a", "b", "c", "d"} {
				func() {
					defer func() {
						if v := recover(); (v != nil) != (test.inWrite && i == 1) {
							t.Errorf("%v: write %d panics with %v", test, i, v)
						}
					}()
					if _, err := client.Write(create(stream, "hello")); err == nil {
						sent++
					}
				}()
			}
			n := len(server.got())
			if test.kind == llmhttp.EventAdmitted {
				time.Sleep(2 * time.Minute)
			} else {
				server.tell(t, "%s", created("a", "0"))
				server.Write(wsBytes(true, 1, false, []byte(completed("a", "0", 5, 5))))
			}
			n += len(server.got())
			<-server.done
			<-client.done
			if n != test.sent || rl.Stats("m").InFlight != 0 {
				t.Errorf("%v: %d sent; %+v", test, n, rl.Stats("m"))
			}
			if err := client.err; err == nil || !strings.Contains(err.Error(), "did not return") ||
				(!test.goexit && !test.inWrite) != strings.Contains(err.Error(), "oops") {
				t.Errorf("%v: the client reads %v", test, err)
			}
			if _, err := client.Write(create("e", "hello")); err == nil {
				t.Errorf("%v: the client writes on", test)
			}
		})
	}
}

// Close settles all calls, and closes the connection, also if OnEvent panics at each.
func TestSocketCloseWhilePanicking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl, OnEvent: func(e llmhttp.Event) {
			if e.Kind == llmhttp.EventSettled {
				panic("oops")
			}
		}})
		for range 3 {
			client.write(t, create("", "hello"))
		}
		server.got()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not go on")
				}
			}()
			client.Close()
		}()
		<-client.done
		<-server.done
		if s := rl.Stats("m"); s.InFlight != 0 || s.RPM != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// What a client has read is not held, also if it is always behind.
func TestSocketReadMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10}), Base: base(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 101, Body: near}, nil
		})}
		resp, err := tr.RoundTrip(upgrade(t, socketURL))
		if err != nil {
			t.Fatal(err)
		}
		const total = 32 << 20
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			far.Write(wsBytes(true, 2, false, make([]byte, total)))
		}()
		piece := make([]byte, 8<<10)
		for read := 0; read < total-1<<20; {
			synctest.Wait() // so that the client is behind
			n, err := resp.Body.Read(piece)
			if err != nil {
				t.Fatal(err)
			}
			read += n
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		resp.Body.Close()
		far.Close()
		<-ended
		resp = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		if held := int64(before.HeapAlloc) - int64(after.HeapAlloc); held > total+total/4 {
			t.Errorf("%d bytes were held", held)
		}
	})
}

// A server that begins responses that nobody asked for is bounded like a client.
func TestSocketManyResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1 << 20})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl})
		defer closes(client, server)
		client.write(t, create("", "hello"))
		server.got()
		const responses = 1500
		for i := range responses {
			server.tell(t, "%s", created("", fmt.Sprint("r", i)))
		}
		client.got()
		if s := rl.Stats("m"); s.RPM != responses || s.InFlight > 1024 {
			t.Errorf("%+v", s)
		}
	})
}

// The calls of a connection race with its ends and with a handler that panics.
func TestSocketPanicsRace(t *testing.T) {
	for i := range 20 {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1 << 20})
			var seen atomic.Int32
			client, server := dial(t, &llmhttp.Transport{Limiter: rl, OnEvent: func(llmhttp.Event) {
				if seen.Add(1) == int32(10+i) {
					panic("oops")
				}
			}})
			var ends sync.WaitGroup
			for _, stream := range []string{"a", "b"} {
				ends.Go(func() {
					defer func() { recover() }()
					for range 10 {
						if _, err := client.Write(create(stream, "hello")); err != nil {
							return
						}
					}
				})
				ends.Go(func() {
					for j := range 10 {
						if _, err := server.Write(wsBytes(true, 1, false, []byte(completed(stream, fmt.Sprint(stream, j), 1, 1)))); err != nil {
							return
						}
					}
				})
			}
			ends.Wait()
			func() {
				defer func() { recover() }()
				client.Close()
			}()
			server.Close()
			<-client.done
			<-server.done
			synctest.Wait() // for the goroutine that reads from the server
			if s := rl.Stats("m"); s.InFlight != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
