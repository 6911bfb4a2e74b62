package llmhttp_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Many calls at once, of all kinds, that end in all ways: each is settled once, no slot
// and no goroutine is left.
func TestEverythingAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		flush := w.(http.Flusher).Flush
		switch rand.IntN(8) {
		case 0:
			w.Header().Set("Retry-After", "0.001")
			w.WriteHeader(429)
			io.WriteString(w, `{"error":{"code":"rate_limit_exceeded"}}`)
		case 1:
			w.WriteHeader(500)
		case 2:
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		case 3: // cut
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, sse(`{"choices":[{"delta":{"content":"x"}}]}`))
			flush()
			panic(http.ErrAbortHandler)
		case 4: // stalls
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, sse(`{"choices":[{"delta":{"content":"x"}}]}`))
			flush()
			select {
			case <-r.Context().Done():
			case <-time.After(50 * time.Millisecond):
			}
		default:
			w.Header().Set("X-Ratelimit-Remaining-Requests", fmt.Sprint(rand.IntN(1_000_000)))
			w.Header().Set("X-Ratelimit-Limit-Requests", "1000000")
			io.WriteString(w, `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
		}
	}))
	rl := newLimiterWith(t, ratelimit.Config{
		LearnQuotas: true,
		Quotas:      map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 8, MaxRPM: 1_000_000, MaxTPM: 1 << 30}, "n": {MaxInFlight: 4}},
	})
	var admitted, settled atomic.Int64
	tr := &llmhttp.Transport{Limiter: rl, AddStreamUsage: true, Retry: llmhttp.Retry{Max: 1, MaxDelay: time.Second}, OnEvent: func(e llmhttp.Event) {
		switch e.Kind {
		case llmhttp.EventAdmitted:
			admitted.Add(1)
		case llmhttp.EventSettled:
			settled.Add(1)
		}
	}}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 25 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(100))*time.Millisecond)
				model := []string{"m", "n"}[rand.IntN(2)]
				req, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/chat/completions", strings.NewReader(`{"model":"`+model+`","stream":true}`))
				resp, err := tr.RoundTrip(req)
				if err == nil {
					switch rand.IntN(3) {
					case 0:
						resp.Body.Close()
					case 1:
						go resp.Body.Close()
						io.Copy(io.Discard, resp.Body)
					default:
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
	tr.CloseIdleConnections()
	server.Close()
	deadline := time.Now().Add(20 * time.Second)
	for settled.Load() != admitted.Load() || runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d admitted, %d settled, %d goroutines, %d before\n%s", admitted.Load(), settled.Load(), runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond)
	}
	for _, model := range []string{"m", "n"} {
		if s := rl.Stats(model); s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("left behind: %+v", s)
		}
	}
}
