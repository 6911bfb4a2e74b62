package llmhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// While a store hangs, a call is over when its context has ended: before it was sent, and while its
// answer is read, which settles it. What was charged is settled when the store is back.
func TestStoreThatHangs(t *testing.T) {
	const late = 50 * time.Millisecond
	for _, tt := range []struct {
		name  string
		hangs string // from when on
		waits bool   // the quota is used up
	}{
		{"before the call", "before", false},
		{"before a call that has to wait", "before", true},
		{"when it is sent", "sent", false},
		{"when its answer is read", "answered", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake, back := fakestore.New(), make(chan struct{})
				var hanging atomic.Bool
				fake.Timeout = 3 * time.Second
				fake.Before = func(int64) error {
					if hanging.Load() {
						<-back
					}
					return nil
				}
				rl, err := ratelimit.NewWithConfig(ratelimit.Config{
					Store: fake, LearnQuotas: true, OnError: func(error) {},
					Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 2, MaxInFlight: 2}},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer rl.Close()
				for range 2 {
					if tt.waits {
						rl.RecordUsage("m", 1, 1)
					}
				}
				tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
					hanging.Store(hanging.Load() || tt.hangs == "sent")
					return response(req, 200, `{"usage":{"prompt_tokens":11,"completion_tokens":7}}`, "X-Ratelimit-Remaining-Requests: 0", "X-Ratelimit-Limit-Requests: 2"), nil
				})}
				hanging.Store(tt.hangs == "before")
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				began := time.Now()
				req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
				resp, err := tr.RoundTrip(req)
				if took := time.Since(began); took > 100*time.Millisecond+late {
					t.Errorf("RoundTrip returned after %v", took)
				}
				switch {
				case tt.hangs == "before":
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v, %v", resp, err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					hanging.Store(true)
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if took := time.Since(began); took > 100*time.Millisecond+late {
						t.Errorf("the answer ended after %v", took)
					}
				}
				hanging.Store(false)
				close(back)
				time.Sleep(10 * time.Second)
				used := 0
				if tt.hangs != "before" {
					used = 18
				}
				if s := rl.Stats("m"); s.InFlight != 0 || s.TPM != used && !tt.waits || s.Waiting != 0 {
					t.Errorf("%+v, want %d tokens", s, used)
				}
			})
		})
	}
}
