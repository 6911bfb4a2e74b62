package llmhttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// pipeListener serves connections of net.Pipe, which work in a bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }
func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- b:
		return a, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Over http.Transport, no window of the provider has more calls than there may be: answers take long,
// connections are few, bodies are slow.
func TestProviderIsNeverOverrun(t *testing.T) {
	for _, test := range []struct {
		name   string
		conns  int
		answer time.Duration
		way    time.Duration // until the provider counts
	}{
		{"quick answers", 0, time.Millisecond, 0},
		{"answers of 20 s", 0, 20 * time.Second, 0},
		{"answers of 20 s, late counted", 0, 20 * time.Second, 200 * time.Millisecond},
		{"one connection", 1, 7 * time.Second, 0},
		{"answers of 90 s", 0, 90 * time.Second, 100 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rpm, calls = 5, 25
				var mu sync.Mutex
				var arrived []time.Time
				l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					time.Sleep(test.way)
					mu.Lock()
					arrived = append(arrived, time.Now())
					mu.Unlock()
					time.Sleep(test.answer)
					io.WriteString(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
				})}
				go server.Serve(l)
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: rpm})
				under := &http.Transport{DialContext: l.dial, MaxConnsPerHost: test.conns, MaxIdleConnsPerHost: 100}
				tr := &llmhttp.Transport{Limiter: rl, Base: under}
				began := time.Now()
				var wg sync.WaitGroup
				for range calls {
					wg.Go(func() {
						exchange(t, tr, chatURL, `{"model":"m"}`)
					})
				}
				wg.Wait()
				for i := rpm; i < len(arrived); i++ {
					if d := arrived[i].Sub(arrived[i-rpm]); d < time.Minute {
						t.Errorf("call %d came %v after call %d", i, d, i-rpm)
					}
				}
				least := (calls/rpm-1)*time.Minute + test.answer
				if test.conns == 0 {
					if took := time.Since(began); took > least+least/20+time.Second {
						t.Errorf("it took %v, %v would do", took, least)
					}
				}
				under.CloseIdleConnections()
				server.Close()
			})
		})
	}
}
