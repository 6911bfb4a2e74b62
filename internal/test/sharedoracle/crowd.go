package sharedoracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Crowd has many goroutines use several limiters of a store at the same time. What comes of it
// depends on their order, so it is compared with what any order would permit.
type Crowd struct {
	Setup
	Limiters   int
	Goroutines int // of each limiter
	Calls      int // of each goroutine
	// Unit is how long a pause, a call or a wait may be, about; zero is a second.
	Unit time.Duration

	t        *testing.T
	cfg      ratelimit.Config
	limiters []*ratelimit.RateLimiter
	truth    *truth
}

// Run lets charges leave the minute. At no moment is more admitted than the quotas permit, and
// afterwards all limiters, and one that is opened then, know all that was charged.
func (c *Crowd) Run(t *testing.T) {
	quotas := map[string]ratelimit.ModelQuota{
		"requests": {MaxRPM: 60},
		"tokens":   {MaxTPM: 1500},
		"slots":    {MaxInFlight: 4},
		"all":      {MaxRPM: 90, MaxTPM: 3000, MaxInFlight: 6, MaxRPD: 5000},
	}
	for i := range 20 {
		quotas[fmt.Sprint("day ", i)] = ratelimit.ModelQuota{MaxRPD: 5}
	}
	c.begin(t, quotas)
	defer c.close()
	c.each(func(rl *ratelimit.RateLimiter, random *rand.Rand) {
		for range c.Calls {
			c.call(rl, random)
			if random.IntN(2) == 0 {
				c.pause(random, 2)
			}
		}
	})
	c.truth.checkAdmissions(t)
	c.checkStats()
	c.sleep(c.unit() * 10)
	c.checkStats()
}

// Rush has all come for a new model at the same moment, again and again. Afterwards, and before any
// charge has left the minute, none was denied while there was room.
func (c *Crowd) Rush(t *testing.T) {
	quotas := make(map[string]ratelimit.ModelQuota)
	for i := range c.Calls {
		quotas[fmt.Sprint("rush ", i)] = []ratelimit.ModelQuota{
			{MaxRPM: 10}, {MaxTPM: 500}, {MaxRPD: 10}, {MaxInFlight: 3}, {MaxRPM: 12, MaxTPM: 700, MaxRPD: 20, MaxInFlight: 5},
		}[i%5]
	}
	c.begin(t, quotas)
	defer c.close()
	for i := range c.Calls {
		model := fmt.Sprint("rush ", i)
		c.each(func(rl *ratelimit.RateLimiter, random *rand.Rand) {
			if i%3 == 0 { // not quite at the same moment, and many without a question
				c.sleep(time.Duration(random.Int64N(int64(c.unit() / 5000))))
			}
			if random.IntN(10) < 9-4*(i%3) {
				c.record(rl, random, model)
			}
			if made := c.reserve(rl, random, model); made != nil {
				c.settle(random, made)
			}
			c.settle(random, c.reserve(rl, random, model))
		})
	}
	c.truth.checkAdmissions(t)
	c.truth.checkDenials(t)
	c.checkStats()
}

func (c *Crowd) begin(t *testing.T, quotas map[string]ratelimit.ModelQuota) {
	c.t, c.truth = t, newTruth(c.Near, quotas)
	c.cfg = ratelimit.Config{Quotas: quotas, LeaseTTL: time.Hour}
	for i := range c.Limiters {
		c.limiters = append(c.limiters, c.Open(t, i, c.cfg))
	}
}

func (c *Crowd) close() {
	for _, rl := range c.limiters {
		if err := rl.Close(); err != nil {
			c.t.Error(err)
		}
	}
	c.limiters = nil
}

// each has all goroutines do f, and waits for them.
func (c *Crowd) each(f func(rl *ratelimit.RateLimiter, random *rand.Rand)) {
	var all sync.WaitGroup
	for i, rl := range c.limiters {
		for g := range c.Goroutines {
			random := rand.New(rand.NewPCG(c.Seed, uint64(i*c.Goroutines+g+6)))
			all.Go(func() { f(rl, random) })
		}
	}
	all.Wait()
}

// checkStats checks what the limiters say, with one that has just opened the store.
func (c *Crowd) checkStats() {
	for i, rl := range c.limiters {
		c.catchUp(c.t, rl)
		c.truth.checkStats(c.t, fmt.Sprint("limiter ", i), rl)
	}
	late := c.Open(c.t, c.Limiters, c.cfg)
	c.truth.checkStats(c.t, "a new limiter", late)
	if err := late.Close(); err != nil {
		c.t.Error(err)
	}
}

func (c *Crowd) unit() time.Duration {
	if c.Unit == 0 {
		return time.Second
	}
	return c.Unit
}

func (c *Crowd) pause(random *rand.Rand, units int64) {
	c.sleep(time.Duration(random.Int64N(units * int64(c.unit()))))
}

// call makes one call, or records usage.
func (c *Crowd) call(rl *ratelimit.RateLimiter, random *rand.Rand) {
	model := []string{"requests", "tokens", "slots", "all", fmt.Sprint("day ", random.IntN(20))}[random.IntN(5)]
	var made []*settling
	switch n := random.IntN(20); {
	case n < 10:
		if m := c.reserve(rl, random, model); m != nil {
			made = append(made, m)
		}
	case n < 15:
		made = c.acquire(rl, random, model)
	case n < 18:
		made = c.acquire(rl, random, "all", "slots")
	default:
		c.record(rl, random, model)
	}
	if len(made) > 0 && random.IntN(4) > 0 {
		c.pause(random, 3)
	}
	for _, m := range made {
		c.settle(random, m)
	}
}

// settling is a reservation to be settled.
type settling struct {
	reservation *ratelimit.Reservation
	charge      *charge
}

func (c *Crowd) reserve(rl *ratelimit.RateLimiter, random *rand.Rand, model string) *settling {
	in, out := random.IntN(30), random.IntN(30)
	asked := c.truth.now()
	r, d := rl.Reserve(model, in, out)
	answered := c.truth.now()
	if r == nil {
		c.truth.denied(denial{model, in + out, d.Code, asked, answered})
		return nil
	}
	return c.made(r, in+out, asked, answered)
}

// acquire waits for one model or for several together.
func (c *Crowd) acquire(rl *ratelimit.RateLimiter, random *rand.Rand, models ...string) (made []*settling) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(random.Int64N(20*int64(c.unit()))))
	defer cancel()
	var requests []ratelimit.Request
	for _, model := range models {
		requests = append(requests, ratelimit.Request{Model: model, PromptTokens: random.IntN(30), OutputTokens: random.IntN(30)})
	}
	asked := c.truth.now()
	rs, err := rl.AcquireAll(ctx, requests...)
	answered := c.truth.now()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		c.t.Error(err)
	}
	for i, r := range rs {
		made = append(made, c.made(r, requests[i].PromptTokens+requests[i].OutputTokens, asked, answered))
	}
	return made
}

func (c *Crowd) made(r *ratelimit.Reservation, estimate int, asked, answered mark) *settling {
	m := &settling{r, &charge{
		model: r.Model(), asked: asked, answered: answered, reserved: true, at: r.ReservedAt(), estimate: estimate, used: estimate,
	}}
	c.truth.charged(m.charge)
	return m
}

// settle ends a reservation: nil is none.
func (c *Crowd) settle(random *rand.Rand, m *settling) {
	if m == nil {
		return
	}
	in, out := random.IntN(m.charge.estimate+1), 0
	if random.IntN(10) == 0 {
		out = random.IntN(40) // more than was estimated, maybe
	}
	m.charge.settling = c.truth.now()
	if random.IntN(3) == 0 {
		m.charge.cancelled = true
		m.reservation.Cancel()
	} else {
		m.charge.used = in + out
		m.reservation.Commit(in, out)
	}
	m.charge.settled = c.truth.now()
}

func (c *Crowd) record(rl *ratelimit.RateLimiter, random *rand.Rand, model string) {
	in, out := random.IntN(10), random.IntN(10)
	asked := c.truth.now()
	rl.RecordUsage(model, in, out)
	c.truth.charged(&charge{model: model, asked: asked, answered: c.truth.now(), used: in + out})
}
