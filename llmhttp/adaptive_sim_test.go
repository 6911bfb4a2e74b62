// A simulated provider that programs meet through http.Client, Transport and limiter.

package llmhttp_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// says is how a provider says when there is room again.
type says string

const (
	nothing     says = "nothing"
	wholeSecond says = "Retry-After in whole seconds"
	resetHeader says = "the exact time, in reset headers"
	allHeaders  says = "its limit in each answer"
)

// world is a provider, and the programs that call it until the length is over.
type world struct {
	provider sim.Provider
	says     says
	callers  int // of each program
	joins    []time.Duration
	length   time.Duration
	seed     uint64
	// down is what is answered in an outage; 503 if it is nil.
	down func(*http.Request) (*http.Response, error)

	door  *sim.Door
	began time.Time
	mu    sync.Mutex
	found [][]sim.Second // of each program; the levels are calls a second
	slots [][]int        // the limits of calls in flight that were found
}

// run runs the world with a limiter for each program, in a bubble.
func (w *world) run(limiters ...*ratelimit.RateLimiter) {
	if w.says == wholeSecond {
		w.provider.RetryAfter = true
	}
	w.door, w.began = sim.NewDoor(w.provider, w.seed), time.Now()
	// A deadline would have calls refused that could not be sent before it.
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(w.length, cancel)
	var all sync.WaitGroup
	for i, rl := range limiters {
		w.found = append(w.found, make([]sim.Second, w.length/time.Second+1))
		w.slots = append(w.slots, make([]int, w.length/time.Second+1))
		client := &http.Client{Transport: &llmhttp.Transport{
			Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) { return w.serve(req, i) }),
		}}
		if i < len(w.joins) {
			time.Sleep(w.joins[i] - time.Since(w.began))
		}
		all.Go(func() { w.sample(ctx, rl, i) })
		for range w.callers {
			all.Go(func() { call(ctx, client) })
		}
	}
	all.Wait()
}

// call makes calls until the context ends.
func call(ctx context.Context, client *http.Client) {
	for ctx.Err() == nil {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, chatURL, strings.NewReader(`{"model":"m"}`))
		resp, err := client.Do(req)
		if err != nil {
			continue
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// sample notes what was found, each second.
func (w *world) sample(ctx context.Context, rl *ratelimit.RateLimiter, program int) {
	for ctx.Err() == nil {
		s, at := rl.Stats("m"), time.Since(w.began)/time.Second
		w.mu.Lock()
		w.found[program][at].Level = float64(s.AdaptiveRPM) / 60
		w.slots[program][at] = s.AdaptiveInFlight
		w.mu.Unlock()
		time.Sleep(time.Second)
	}
}

// serve is the provider, as a program sees it.
func (w *world) serve(req *http.Request, program int) (*http.Response, error) {
	io.Copy(io.Discard, req.Body)
	req.Body.Close()
	httptrace.ContextClientTrace(req.Context()).WroteRequest(httptrace.WroteRequestInfo{})
	if err := sleep(req.Context(), w.door.Trip()); err != nil {
		return nil, err
	}
	at := time.Since(w.began)
	r := w.door.Arrive(at)
	if r.Outcome == sim.Answered {
		defer w.door.Left()
	}
	w.note(program, at, r.Outcome)
	if err := sleep(req.Context(), r.Takes); err != nil {
		return nil, err
	}
	switch r.Outcome {
	case sim.Refused:
		return response(req, 429, `{"error":{"code":"rate_limit_exceeded"}}`, w.headers(&r)...), nil
	case sim.Overloaded:
		return response(req, 529, `{"type":"error","error":{"type":"overloaded_error"}}`), nil
	case sim.Down:
		if w.down != nil {
			return w.down(req)
		}
		return response(req, 503, ``), nil
	}
	return response(req, 200, someUsage, w.headers(&r)...), nil
}

// headers returns what the provider says of its limits.
func (w *world) headers(r *sim.Reply) []string {
	switch {
	case w.says == allHeaders:
		return []string{fmt.Sprintf("X-Ratelimit-Limit-Requests: %d", int(w.provider.Capacity(0)*60))}
	case r.Outcome != sim.Refused:
	case w.says == wholeSecond:
		return []string{fmt.Sprintf("Retry-After: %d", r.RetryAfter/time.Second)}
	case w.says == resetHeader:
		return []string{"X-Ratelimit-Remaining-Requests: 0", "X-Ratelimit-Reset-Requests: " + (r.Reset + time.Millisecond).String()}
	}
	return nil
}

// note counts a call that arrived.
func (w *world) note(program int, at time.Duration, o sim.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.found[program][min(at/time.Second, w.length/time.Second)]
	s.Sent++
	switch o {
	case sim.Answered:
		s.Answered++
	case sim.Refused:
		s.Refused++
	case sim.Overloaded:
		s.Overloaded++
	case sim.Down:
		s.Down++
	}
}

// total adds up what all programs had from one instant to another.
func (w *world) total(from, to time.Duration) sim.Sum {
	return sim.Total(w.provider, from, to, w.found...)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// adaptiveLimiter returns a limiter with a quota for the model "m", which learns from headers.
func adaptiveLimiter(t *testing.T, q ratelimit.ModelQuota) *ratelimit.RateLimiter {
	t.Helper()
	return newLimiterWith(t, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": q}})
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// inMostBubbles is inBubble for what chance decides, too: which calls meet at an instant. Three of
// five runs have to be good.
func inMostBubbles(t *testing.T, name string, isGood func(*testing.T) bool) {
	t.Helper()
	good := 0
	for run := 0; run < 5 && good < 3; run++ {
		inBubble(t, name, func(t *testing.T) {
			if isGood(t) {
				good++
			}
		})
	}
	if good < 3 {
		t.Errorf("%s: %d of five runs are good", name, good)
	}
}

// quick is an answer of 1 to 3 seconds.
func quick(rng *rand.Rand) time.Duration { return time.Second + time.Duration(rng.Int64N(2e9)) }
