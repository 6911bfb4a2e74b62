// Fair shares over machines with one prefix: the order of service of weighted fair queueing, and a
// budget that is never exceeded.

package redisstore_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// fairClass is a class as docs/classes.md has it: those ahead go first, but for every tenth
// service; then the class that got least for its weight.
type fairClass struct {
	ratelimit.Class
	name  string
	waits []int // calls, in the order of their arrival
	got   int   // in parts of which all weights divide one call
}

const fairCall = 60 // the part of one call

// fairOrder returns the order in which calls are served that all wait, if no other comes.
func fairOrder(classes []*fairClass) (order []int) {
	for over := 0; ; {
		var next *fairClass
		yields := over == 9 && slices.ContainsFunc(classes, func(c *fairClass) bool { return !c.Ahead && len(c.waits) > 0 })
		first := func(c, than *fairClass) bool {
			switch {
			case than == nil:
				return true
			case c.Ahead != than.Ahead:
				return c.Ahead != yields
			case c.got != than.got:
				return c.got < than.got
			}
			return c.waits[0] < than.waits[0]
		}
		for _, c := range classes {
			if len(c.waits) > 0 && first(c, next) {
				next = c
			}
		}
		if next == nil {
			return order
		}
		order = append(order, next.waits[0])
		next.waits = next.waits[1:]
		next.got += fairCall / max(next.Weight, 1)
		if over++; !next.Ahead {
			over = 0
		}
	}
}

// fairConfig has tokens that cost a micro-dollar each.
func fairConfig() ratelimit.Config {
	return ratelimit.Config{
		Prices: map[string]money.Price{"*": {Input: money.Dollar, Output: money.Dollar}},
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}, "a": {MaxSpendPerDay: 3000}, "b": {}},
		Pools: map[string]ratelimit.Pool{
			"all":  {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerMonth: money.Dollar, MaxInFlight: 1000}},
			"team": {Models: []string{"a", "b"}, Quota: ratelimit.ModelQuota{MaxSpendPerDay: 5000}},
		},
		Classes: map[string]ratelimit.Class{"heavy": {Weight: 3}, "light": {Weight: 1}, "other": {Weight: 2}, "ahead": {Ahead: true}},
	}
}

func startThree(t *testing.T, cfg ratelimit.Config) (limiters []*ratelimit.RateLimiter) {
	server := redistest.Start(t)
	for range 3 {
		limiters = append(limiters, machine{addr: server.Addr(), limiter: cfg}.start(t))
	}
	return limiters
}

// Calls that wait at three machines for one slot are served in the order of docs/classes.md, one
// by one, so no clock matters; and what they use and cost adds up.
func TestMachinesServeByWeight(t *testing.T) {
	t.Parallel()
	cfg := fairConfig()
	limiters := startThree(t, cfg)
	held, d := limiters[0].Reserve("m", 1, 0)
	if held == nil {
		t.Fatal(d)
	}
	random := rand.New(rand.NewPCG(1, 2))
	classes := make([]*fairClass, 0, 4)
	for _, name := range []string{"heavy", "light", "other", "ahead"} {
		classes = append(classes, &fairClass{Class: cfg.Classes[name], name: name})
	}
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	spent := 1
	const calls = 60
	for n := range calls {
		class, rl, used := classes[min(random.IntN(6), 3)], limiters[random.IntN(3)], 1+random.IntN(40)
		class.waits = append(class.waits, n)
		spent += used
		all.Go(func() {
			rs, err := rl.AcquireAll(t.Context(), ratelimit.Request{Model: "m", PromptTokens: 40, Class: class.name})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, n)
			mu.Unlock()
			rs[0].Commit(used, 0)
		})
		for limiters[0].Stats("m").Waiting < n+1 {
			time.Sleep(time.Millisecond)
		}
	}
	held.Commit(1, 0)
	all.Wait()
	if want := fairOrder(classes); !slices.Equal(order, want) {
		t.Errorf("the order of service is\n%v, want\n%v", order, want)
	}
	for i, rl := range limiters {
		says := func() [8]int {
			m, pool := rl.Stats("m"), rl.PoolStats("all")
			return [...]int{m.RPD, m.TPD, int(m.SpendDay), m.InFlight, m.Waiting, pool.RPD, pool.TPD, int(pool.SpendMonth)}
		}
		want := [...]int{calls + 1, spent, spent, 0, 0, calls + 1, spent, spent}
		if got := hears(says, want); got != want {
			t.Errorf("machine %d has calls, tokens, spend, calls in flight and waiters, and of the pool %v, want %v", i, got, want)
		}
	}
	sum := auditOf(limiters)
	if e := sum["model m"]; e.Settled.Calls != calls+1 || int(e.Settled.Money) != spent || e.Open != (ratelimit.AuditSum{}) {
		t.Errorf("the audit says %+v", e)
	}
}

// hears waits until a machine has heard of what others did, and returns what it says then.
func hears[T comparable](says func() T, want T) (got T) {
	for range 60_000 {
		if got = says(); got == want {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return got
}

// auditOf adds up the audits of limiters, by kind and name.
func auditOf(limiters []*ratelimit.RateLimiter) map[string]ratelimit.AuditEntry {
	sums := make(map[string]ratelimit.AuditEntry)
	plus := func(to *ratelimit.AuditSum, s ratelimit.AuditSum) {
		to.Calls, to.InputTokens, to.OutputTokens, to.Money = to.Calls+s.Calls, to.InputTokens+s.InputTokens, to.OutputTokens+s.OutputTokens, to.Money+s.Money
	}
	for _, rl := range limiters {
		a := rl.Audit()
		for kind, entries := range map[string]map[string]ratelimit.AuditEntry{"model ": a.Models, "pool ": a.Pools, "class ": a.Classes} {
			for name, e := range entries {
				sum := sums[kind+name]
				plus(&sum.Reserved, e.Reserved)
				plus(&sum.Estimated, e.Estimated)
				plus(&sum.Settled, e.Settled)
				plus(&sum.Released, e.Released)
				plus(&sum.Expired, e.Expired)
				plus(&sum.Open, e.Open)
				plus(&sum.Recorded, e.Recorded)
				sums[kind+name] = sum
			}
		}
	}
	return sums
}

// fairBooks is what callers have done, by model and class.
type fairBooks struct {
	mu   sync.Mutex
	sums map[string]*ratelimit.AuditEntry
}

// add counts a call of a model and a class, also to the pools of the model.
func (b *fairBooks) add(model, class string, change func(e *ratelimit.AuditEntry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range []string{"model " + model, "class " + class, "pool all", "pool team"} {
		if b.sums[name] == nil {
			b.sums[name] = new(ratelimit.AuditEntry)
		}
		change(b.sums[name])
	}
}

// one counts a call of so many tokens, of which each costs a micro-dollar.
func one(s *ratelimit.AuditSum, tokens int) {
	s.Calls, s.InputTokens, s.Money = s.Calls+1, s.InputTokens+tokens, s.Money+money.Amount(tokens)
}

// Machines that spend one budget as fast as they can, until it is used up, never exceed it; each
// call is charged to its model, its pools and its class, or to none, and the audits of all add up.
func TestMachinesSpendOneBudget(t *testing.T) {
	t.Parallel()
	limiters := startThree(t, fairConfig())
	books := &fairBooks{sums: make(map[string]*ratelimit.AuditEntry)}
	var all sync.WaitGroup
	for i := range 9 {
		random, rl := rand.New(rand.NewPCG(uint64(i), 3)), limiters[i%3]
		all.Go(func() {
			for range times(60, 2000) {
				books.call(t, rl, random)
			}
		})
	}
	all.Wait()
	got := auditOf(limiters)
	for name, want := range books.sums {
		if got[name] != *want {
			t.Errorf("%s: the audits add up to %+v, want %+v", name, got[name], *want)
		}
	}
	for range 1000 { // what is left
		rs, d := limiters[2].ReserveAll(ratelimit.Request{Model: "b", PromptTokens: 10})
		if !d.Allowed {
			break
		}
		rs[0].Commit(10, 0)
		books.add("b", "", func(e *ratelimit.AuditEntry) { one(&e.Settled, 10) })
	}
	a, b, team := books.sums["model a"].Settled, books.sums["model b"].Settled, books.sums["pool team"].Settled
	if a.Money > 3000 || team.Money > 5000 || team.Money <= 5000-10 {
		t.Errorf("spent are %v by a, %v by the team, of 3,000 and 5,000", a.Money, team.Money)
	}
	for i, rl := range limiters {
		says := func() [7]int {
			team, all := rl.PoolStats("team"), rl.PoolStats("all")
			return [...]int{int(rl.Stats("a").SpendDay), int(rl.Stats("b").SpendDay), int(team.SpendDay), int(all.SpendMonth), team.RPD, team.TPD, all.InFlight}
		}
		want := [...]int{int(a.Money), int(b.Money), int(team.Money), int(team.Money), team.Calls, team.InputTokens, 0}
		if got := hears(says, want); got != want {
			t.Errorf("machine %d has the spend of a, b, team and all, and calls, tokens and calls in flight %v, want %v", i, got, want)
		}
	}
}

// call makes a call of one or both models, and settles it with no more than its estimate.
func (b *fairBooks) call(t *testing.T, rl *ratelimit.RateLimiter, random *rand.Rand) {
	class := []string{"heavy", "light", "", "ahead"}[random.IntN(4)]
	var reqs []ratelimit.Request
	for _, i := range random.Perm(2)[:1+random.IntN(2)] {
		reqs = append(reqs, ratelimit.Request{Model: []string{"a", "b"}[i], PromptTokens: 1 + random.IntN(60), Class: class})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var rs ratelimit.Reservations
	if random.IntN(2) == 0 {
		rs, _ = rl.ReserveAll(reqs...)
	} else {
		rs, _ = rl.AcquireAll(ctx, reqs...)
	}
	for i, r := range rs {
		tokens := reqs[i].PromptTokens
		used := random.IntN(tokens + 1)
		released := random.IntN(3) == 0
		if released {
			r.Cancel()
		} else {
			r.Commit(used, 0)
		}
		b.add(reqs[i].Model, class, func(e *ratelimit.AuditEntry) {
			if one(&e.Reserved, tokens); released {
				one(&e.Released, tokens)
				return
			}
			one(&e.Estimated, tokens)
			one(&e.Settled, used)
		})
	}
	if a, team := rl.Stats("a").SpendDay, rl.PoolStats("team").SpendDay; a > 3000 || team > 5000 {
		t.Errorf("spent are %v by a, %v by the team, of 3,000 and 5,000", a, team)
	}
}
