package pagetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// pool is a provider that does not say what it allows: so many calls a second, of which it saves up
// a second's, and so many in flight. A limiter finds out.
type pool struct {
	rl                  *ratelimit.RateLimiter
	model               string
	perSecond, inFlight int

	mu    sync.Mutex
	since time.Time // when the second's calls were last saved up
	left  int
	open  int
}

// poolQuota is what a program says of such a model.
var poolQuota = ratelimit.ModelQuota{
	AdaptiveFloorRPM: 30, AdaptiveCeilingRPM: 6000, AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 64,
}

// work has so many agents call until ctx ends.
func (p *pool) work(ctx context.Context, t *testing.T, agents int) (wait func()) {
	t.Helper()
	p.since = time.Now()
	var all sync.WaitGroup
	for range agents {
		all.Go(func() {
			for {
				r, err := p.rl.Acquire(ctx, p.model, 900, 300)
				if err != nil {
					return
				}
				p.call(ctx, r)
			}
		})
	}
	return all.Wait
}

// call makes one call, which takes a second.
func (p *pool) call(ctx context.Context, r *ratelimit.Reservation) {
	sent := time.Now()
	if problem := p.refuses(sent); problem != "" {
		time.Sleep(200 * time.Millisecond)
		p.rl.ObserveRefusal(ctx, ratelimit.ProviderRefusal{Model: p.model, Problem: problem, SentAt: sent})
		r.Cancel()
		return
	}
	time.Sleep(time.Second)
	p.mu.Lock()
	p.open--
	p.mu.Unlock()
	r.Commit(900, 300)
}

// refuses takes a call, or says what is wrong.
func (p *pool) refuses(now time.Time) (problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gap := time.Second / time.Duration(p.perSecond)
	for ; p.since.Add(gap).Compare(now) <= 0; p.since = p.since.Add(gap) {
		p.left = min(p.left+1, p.perSecond)
	}
	switch {
	case p.open >= p.inFlight:
		return "overloaded"
	case p.left == 0:
		return "rate_limited"
	}
	p.left, p.open = p.left-1, p.open+1
	return ""
}
