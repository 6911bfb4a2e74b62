package llmhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// What ends a wait for room is the bound that comes first: MaxWait, that of the call, or the
// deadline of the caller.
func TestMaxWait(t *testing.T) {
	const s = time.Second
	unset := time.Duration(-1 << 62)
	for _, test := range []struct {
		name                      string
		maxWait, ofCall, deadline time.Duration // deadline 0: none
		minute                    bool          // room comes in a minute, else after 5 s, untold
		after                     time.Duration
		is                        error // nil: the call is answered
		isLimit                   bool
	}{
		{name: "MaxWait passes in line", maxWait: 2 * s, ofCall: unset, after: 2 * s, is: ratelimit.ErrMaxWait, isLimit: true},
		{name: "MaxWait is known to be too short", maxWait: 2 * s, ofCall: unset, minute: true, is: ratelimit.ErrMaxWait, isLimit: true},
		{name: "MaxWait before the deadline", maxWait: 2 * s, ofCall: unset, deadline: 3 * s, minute: true, is: ratelimit.ErrMaxWait, isLimit: true},
		{name: "the deadline before MaxWait", maxWait: 3 * s, ofCall: unset, deadline: 2 * s, minute: true, is: context.DeadlineExceeded, isLimit: true},
		{name: "the deadline before MaxWait, in line", maxWait: 3 * s, ofCall: unset, deadline: 2 * s, after: 2 * s, is: context.DeadlineExceeded},
		{name: "both at once", maxWait: 2 * s, ofCall: unset, deadline: 2 * s, minute: true, is: context.DeadlineExceeded, isLimit: true},
		{name: "that of the call is shorter", maxWait: 10 * s, ofCall: 1 * s, after: 1 * s, is: ratelimit.ErrMaxWait, isLimit: true},
		{name: "that of the call is longer", maxWait: 1 * s, ofCall: 10 * s, after: 5 * s},
		{name: "that of the call alone", ofCall: 1 * s, after: 1 * s, is: ratelimit.ErrMaxWait, isLimit: true},
		{name: "the call waits as long as it takes", maxWait: 1 * s, ofCall: 0, after: 5 * s},
		{name: "a negative one is none", maxWait: 1 * s, ofCall: -1, after: 5 * s},
		{name: "the deadline is left", maxWait: 1 * s, ofCall: 0, deadline: 3 * s, after: 3 * s, is: context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
				if test.minute {
					rl.RecordUsage("m", 1, 1)
				} else {
					rl.SetQuota("m", ratelimit.ModelQuota{MaxInFlight: 1})
					held, _ := rl.Reserve("m", 0, 0)
					time.AfterFunc(5*time.Second, held.Cancel)
				}
				tr := &llmhttp.Transport{Limiter: rl, MaxWait: test.maxWait, RefuseWithError: true, Base: reply(200, `{}`)}
				ctx := t.Context()
				if test.ofCall != unset {
					ctx = llmhttp.WithMaxWait(ctx, time.Hour) // the last one counts
					ctx = llmhttp.WithMaxWait(ctx, test.ofCall)
				}
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				began := time.Now()
				req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
				resp, err := tr.RoundTrip(req)
				if err == nil {
					readAll(t, resp)
				}
				if took := time.Since(began); took != test.after {
					t.Errorf("it took %v, want %v", took, test.after)
				}
				if !errors.Is(err, test.is) || errors.As(err, new(*ratelimit.LimitError)) != test.isLimit {
					t.Errorf("got %v, want %v", err, test.is)
				}
				if errors.Is(err, ratelimit.ErrMaxWait) && errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is a deadline, too", err)
				}
				time.Sleep(10 * time.Second)
				if s := rl.Stats("m"); s.Waiting != 0 || s.InFlight != 0 {
					t.Errorf("left behind: %+v", s)
				}
			})
		})
	}
}

// MaxWait bounds the wait, not the call.
func TestMaxWaitIsNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
			select {
			case <-req.Context().Done():
				return nil, req.Context().Err()
			case <-time.After(time.Minute):
				return response(req, 200, `{}`), nil
			}
		})}
		req, _ := http.NewRequestWithContext(llmhttp.WithMaxWait(t.Context(), time.Second), "POST", chatURL, strings.NewReader(`{"model":"m"}`))
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
	})
}

// A stream that has begun gives no request back: callers whose MaxWait is too short are refused
// when the last stream begins, and at once after that.
func TestMaxWaitDoesNotHopeForStreams(t *testing.T) {
	const streams, callers, begins = 10, 140, 400 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: streams})
		tr := &llmhttp.Transport{Limiter: rl, MaxWait: 2 * time.Second, RefuseWithError: true, Base: base(func(req *http.Request) (*http.Response, error) {
			time.Sleep(begins) // until then the call may turn out not to be sent
			io.Copy(io.Discard, req.Body)
			resp := response(req, 200, "", "Content-Type: text/event-stream")
			body, w := io.Pipe()
			time.AfterFunc(30*time.Second, func() { w.Close() })
			resp.Body = body
			return resp, nil
		})}
		for range streams {
			go func() {
				if resp, err := post(t, tr, chatURL, `{"model":"m","stream":true}`); err != nil {
					t.Error(err)
				} else {
					readAll(t, resp)
				}
			}()
		}
		for _, phase := range []struct{ comes, waits time.Duration }{
			{begins / 4, begins - begins/4},
			{2 * begins, 0},
		} {
			time.AfterFunc(phase.comes, func() {
				for range callers {
					go func() {
						began := time.Now()
						_, err := post(t, tr, chatURL, `{"model":"m"}`)
						if took := time.Since(began); took != phase.waits || !errors.Is(err, ratelimit.ErrMaxWait) {
							t.Errorf("after %v: %v after %v, want a refusal after %v", phase.comes, err, took, phase.waits)
						}
					}()
				}
			})
		}
		time.Sleep(time.Minute)
	})
}
