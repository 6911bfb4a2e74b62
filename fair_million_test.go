// A million steps of a limiter with classes, flows, pools and budgets: who is served, and when, is
// compared with what docs/classes.md says; so are the charges.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// wfqLife has the same calls made of a limiter and of books.
type wfqLife struct {
	*testing.T
	seed   uint64
	random *rand.Rand
	cfg    ratelimit.Config
	rl     *ratelimit.RateLimiter
	models map[string]*wfqBook
	pools  map[string]*wfqBook
	books  []*wfqBook // models first
	now    time.Time

	together bool // calls for two models at once
	arrivals int
	waiting  []*wfqCall
	open     []*wfqCall
	log      []string

	mu   sync.Mutex
	back []*wfqCall // that have returned since they were looked at

	audits            [3]map[string]*ratelimit.AuditEntry // of models, pools and classes
	services, choices int
}

func (s *wfqLife) pick(of ...int) int { return of[s.random.IntN(len(of))] }

// drawQuota draws a limit that wfqWhole is a multiple of: of the minute, or of calls in flight. (Of
// two, it would matter when the limiter looked last who is denied by which.)
func (s *wfqLife) drawQuota(minute bool) (q ratelimit.ModelQuota) {
	switch n := s.random.IntN(4); {
	case !minute:
		q.MaxInFlight = s.pick(0, 2, 3, 4)
	case n == 0:
		q.MaxRPM = s.pick(4, 6, 12, 24)
	default:
		q.MaxTPM = s.pick(84, 112, 168, 336)
	}
	q.DayZone = "UTC"
	return q
}

// wideWFQPool is a pool that keeps nobody.
func wideWFQPool(models ...string) ratelimit.Pool {
	return ratelimit.Pool{Models: models, Quota: ratelimit.ModelQuota{MaxTPM: 1_000_000, DayZone: "UTC"}}
}

// drawPools draws pools of which a model is in one that may keep it. Where a model and its pool
// open at one instant, either may be looked at first: so the one limits the minute, and the other
// the calls in flight.
func (s *wfqLife) drawPools(kind int, minute bool) {
	two := ratelimit.Pool{Models: []string{"a", "b"}, Quota: s.drawQuota(minute)}
	s.cfg.Pools = map[string]ratelimit.Pool{"two": two}
	switch kind {
	case 0:
		two.Models = []string{"*"}
		s.cfg.Pools = map[string]ratelimit.Pool{"all": two}
	case 1:
		s.cfg.Pools["all"] = wideWFQPool("*")
	case 2:
		s.cfg.Pools["one"] = ratelimit.Pool{Models: []string{"c"}, Quota: s.drawQuota(minute)}
		s.together = false
	}
}

// What is left out, because it matters there in which order the limiter looks at lines that open at
// one instant.
const (
	wfqYields        = false // calls that wait for a day beside other classes
	wfqTogetherPools = false // AcquireAll of models of a pool
)

// drawWFQLife draws a life without its limiter.
func drawWFQLife(t *testing.T, seed uint64) *wfqLife {
	s := &wfqLife{T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 91)), models: make(map[string]*wfqBook), pools: make(map[string]*wfqBook)}
	s.cfg = ratelimit.Config{
		Prices:  map[string]money.Price{"*": {Input: money.Dollar, Output: money.Dollar}}, // a token is a micro-dollar
		Quotas:  make(map[string]ratelimit.ModelQuota),
		Classes: make(map[string]ratelimit.Class),
	}
	pools, poolMinute := s.random.IntN(6), s.random.IntN(2) == 0
	if s.together = s.random.IntN(2) == 0; pools < 3 {
		s.drawPools(pools, poolMinute)
	} else if pools == 3 {
		s.cfg.Pools = map[string]ratelimit.Pool{"all": wideWFQPool("*"), "two": wideWFQPool("a", "b")}
	}
	for _, name := range []string{"a", "b", "c"} {
		s.cfg.Quotas[name] = s.drawQuota(pools < 3 && !poolMinute || pools >= 3 && s.random.IntN(4) > 0)
	}
	classes := s.random.IntN(6)
	if pools < 3 {
		classes = min(classes, 1)
	}
	for _, name := range []string{"", "w", "x", "y", "z"}[:classes] {
		s.cfg.Classes[name] = ratelimit.Class{Weight: s.random.IntN(7), Ahead: s.random.IntN(4) == 0, MaxQueue: s.pick(0, 0, 6)}
	}
	if !s.together && (wfqYields || len(s.cfg.Classes) == 0) {
		q := s.cfg.Quotas["a"]
		q.MaxSpendPerDay = money.Amount(s.pick(3000, 30_000))
		s.cfg.Quotas["a"] = q
	}
	s.together = s.together && (wfqTogetherPools || len(s.cfg.Pools) == 0)
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Quotas)) {
		s.models[name] = &wfqBook{name: name, quota: s.cfg.Quotas[name]}
		s.books = append(s.books, s.models[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Pools)) {
		s.pools[name] = &wfqBook{name: name, pool: true, quota: s.cfg.Pools[name].Quota}
		s.books = append(s.books, s.pools[name])
	}
	return s
}

func (s *wfqLife) note(format string, args ...any) {
	s.log = append(s.log[max(0, len(s.log)-60):], s.now.Format("01-02 15:04:05.999999999 ")+fmt.Sprintf(format, args...))
}

func (s *wfqLife) fail(format string, args ...any) {
	s.Helper()
	s.Logf("seed %d: quotas %s, pools %s, classes %s", s.seed, jsonOf(s.T, s.cfg.Quotas), jsonOf(s.T, s.cfg.Pools), jsonOf(s.T, s.cfg.Classes))
	for _, line := range s.log {
		s.Log(line)
	}
	for _, b := range s.books {
		for _, p := range b.line.heads() {
			s.Logf("%s: over %d, begins at %d: %v", b.name, b.line.over, b.line.classes[p.call.class].begin, p.call)
		}
	}
	s.Log("now ", s.now)
	for _, c := range s.next() {
		for b := range c.stands {
			s.Logf("%v in %s: %v", c, b.name, b.charges)
		}
	}
	s.close()
	s.Fatalf(format, args...)
}

// close ends all calls.
func (s *wfqLife) close() {
	for _, c := range s.waiting {
		c.cancel()
	}
	synctest.Wait()
	s.rl.Close()
}

func (c *wfqCall) String() string {
	var reqs []string
	for _, req := range c.reqs {
		reqs = append(reqs, fmt.Sprintf("%s %d", req.Model, req.PromptTokens))
	}
	return fmt.Sprintf("call %d (%q, flow %q) for %s", c.n, c.class, c.flow, strings.Join(reqs, ", "))
}

// account has the entries of a request changed.
func (s *wfqLife) account(c *wfqCall, req ratelimit.Request, change func(e *ratelimit.AuditEntry)) {
	count := func(kind int, name string) {
		if s.audits[kind] == nil {
			s.audits[kind] = make(map[string]*ratelimit.AuditEntry)
		}
		if s.audits[kind][name] == nil {
			s.audits[kind][name] = new(ratelimit.AuditEntry)
		}
		change(s.audits[kind][name])
	}
	for _, b := range s.booksOf(req.Model) {
		if b.pool {
			count(1, b.name)
		} else {
			count(0, b.name)
		}
	}
	count(2, c.class)
}

func addTokens(sum *ratelimit.AuditSum, tokens int) { addSum(sum, tokens, 0, money.Amount(tokens)) }

// sameAudit compares what Audit has added up, by model, pool and class.
func (s *wfqLife) sameAudit(audits [3]map[string]ratelimit.AuditEntry) {
	for kind, got := range audits {
		for name, want := range s.audits[kind] {
			if got[name] != *want {
				s.fail("audit %d of %q: %+v, want %+v", kind, name, got[name], *want)
			}
		}
		for name := range got {
			if s.audits[kind][name] == nil && got[name] != (ratelimit.AuditEntry{}) {
				s.fail("audit %d of %q: %+v, want nothing", kind, name, got[name])
			}
		}
	}
}

// charge charges a call that passes.
func (s *wfqLife) charge(c *wfqCall) {
	s.open = append(s.open, c)
	s.services++
	for i, req := range c.reqs {
		for _, b := range s.booksOf(req.Model) {
			b.charge(s.now, c, i, req.PromptTokens)
		}
		s.account(c, req, func(e *ratelimit.AuditEntry) {
			addTokens(&e.Reserved, req.PromptTokens)
			addTokens(&e.Open, req.PromptTokens)
		})
	}
}

// serve serves a call that waits.
func (s *wfqLife) serve(c *wfqCall) {
	ds := s.demands(c)
	for b, p := range c.stands {
		l := &b.line
		for _, behind := range l.passed[slices.Index(l.passed, p)+1:] {
			behind.awake = behind.was // nobody has come to it yet
		}
		k := l.classes[c.class]
		k.leave(c.flow)
		k.circle = append(k.circle, c.flow)
		if len(l.classes) > 1 { // what a class gets in a line of its own counts for nothing
			l.charge(k, b.share(ds[b]))
		}
		l.leave(p)
	}
	c.stands = nil
	s.waiting = slices.DeleteFunc(s.waiting, func(other *wfqCall) bool { return other == c })
	s.charge(c)
}

// returned takes the calls that have returned by now, as of an instant.
func (s *wfqLife) returned() (back []*wfqCall) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	back, s.back = s.back, nil
	return back
}

// settle serves who is to be served now, of those that were.
func (s *wfqLife) settle(back []*wfqCall) {
	s.Helper()
	var served []*wfqCall
	for _, c := range back {
		if c.at.Equal(s.now) {
			if c.err != nil {
				s.fail("%v: %v", c, c.err)
			}
			served = append(served, c)
		}
	}
	for next := s.next(); len(next) > 0; next = s.next() {
		if len(next) > 1 {
			s.choices++
		}
		i := slices.IndexFunc(next, func(c *wfqCall) bool { return slices.Contains(served, c) && c.isFirstOf(served) })
		if i < 0 {
			s.fail("next is %v, and the limiter serves %v", next, served)
		}
		s.note("%v is served", next[i])
		s.serve(next[i])
		served = slices.DeleteFunc(served, func(c *wfqCall) bool { return c == next[i] })
	}
	if len(served) > 0 {
		s.fail("%v are served, and it is not their turn", served)
	}
}

func (s *wfqLife) draw() *wfqCall {
	names := slices.Sorted(maps.Keys(s.cfg.Classes))
	c := &wfqCall{n: s.arrivals, flow: []string{"", "", "f", "g"}[s.random.IntN(4)]}
	if len(names) > 0 {
		c.class = names[s.random.IntN(len(names))]
	}
	s.arrivals++
	models := 1
	if s.together && s.random.IntN(8) == 0 {
		models = 2
	}
	for _, i := range s.random.Perm(3)[:models] {
		size := 1 + s.random.IntN(s.pick(5, 40, 90))
		c.reqs = append(c.reqs, ratelimit.Request{Model: []string{"a", "b", "c"}[i], PromptTokens: size, Class: c.class, Flow: c.flow})
	}
	return c
}

// pass serves a call that did not wait, and counts that for its class where others do.
func (s *wfqLife) pass(c *wfqCall) {
	for b, d := range s.demands(c) {
		if l := &b.line; len(l.places) > 0 {
			k := l.find(c.class, s.cfg.Classes[c.class])
			if l.first(c.class) == nil {
				k.begin = max(k.begin, l.virtual[k.Ahead])
			}
			l.charge(k, b.share(d))
		}
	}
	s.charge(c)
}

// come has a call wait.
func (s *wfqLife) come() {
	c := s.draw()
	s.note("%v comes", c)
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(s.Context())
	go func() {
		if len(c.reqs) > 1 {
			c.real, c.err = s.rl.AcquireAll(ctx, c.reqs...)
		} else {
			r, err := s.rl.Acquire(ratelimit.WithFlow(ratelimit.WithClass(ctx, c.class), c.flow), c.reqs[0].Model, c.reqs[0].PromptTokens, 0)
			if c.err = err; err == nil {
				c.real = ratelimit.Reservations{r}
			}
		}
		s.cameBack(c)
	}()
	back := s.returned()
	verdict, _ := s.judge(c)
	refused := func(err error) {
		if len(back) != 1 || back[0] != c || !errors.Is(c.err, err) {
			s.fail("%v returned, want %v of %v", back, err, c)
		}
	}
	switch {
	case verdict.never:
		refused(ratelimit.ErrNeverFits)
	case s.passes(c, verdict):
		if i := slices.Index(back, c); i < 0 || c.err != nil {
			s.fail("%v returned, want that %v passes: %v", back, c, c.err)
		} else {
			back[0], back[i] = back[i], back[0]
		}
		s.pass(c)
		s.settle(back[1:])
	case s.isFull(c):
		refused(ratelimit.ErrQueueFull)
	default:
		c.stands = make(map[*wfqBook]*wfqPlace)
		for b := range s.demands(c) {
			c.stands[b] = b.line.enter(c, b.line.find(c.class, s.cfg.Classes[c.class]))
			if !b.pool {
				b.line.wake(c.stands[b])
			}
		}
		s.waiting = append(s.waiting, c)
		s.judge(c)
		s.settle(back)
	}
}

// cameBack notes that a call returned.
func (s *wfqLife) cameBack(c *wfqCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.returned, c.at, c.charged = true, time.Now(), make(map[string]uint32)
	for _, r := range c.real {
		maps.Copy(c.charged, r.Charged())
	}
	s.back = append(s.back, c)
}

// reserve has a call come that does not wait.
func (s *wfqLife) reserve() {
	c := s.draw()
	verdict, _ := s.judge(c)
	want := s.passes(c, verdict)
	rs, d := s.rl.ReserveAll(c.reqs...)
	s.note("%v asks: %s", c, d.Code)
	if d.Allowed != want || d.Never != verdict.never {
		s.fail("%v: %+v, want %t, never %t", c, d, want, verdict.never)
	}
	if d.Allowed {
		c.real, c.at = rs, s.now
		s.pass(c)
	}
	s.settle(s.returned())
}

// finish settles an open call.
func (s *wfqLife) finish() {
	if len(s.open) == 0 {
		return
	}
	i := s.random.IntN(len(s.open))
	c := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	for i := range c.real {
		s.end(c, i)
		s.settle(s.returned())
	}
}

// end ends a request of a call.
func (s *wfqLife) end(c *wfqCall, i int) {
	used := c.reqs[i].PromptTokens
	switch s.random.IntN(4) {
	case 0:
		used = -1
		c.real[i].Cancel()
	case 1:
		used = s.random.IntN(used + 1)
		c.real[i].Commit(used, 0)
	default:
		c.real[i].Commit(used, 0)
	}
	s.note("%v, request %d ends with %d", c, i, used)
	s.account(c, c.reqs[i], func(e *ratelimit.AuditEntry) { endAudited(e, c.reqs[i].PromptTokens, used) })
	for _, b := range s.booksOf(c.reqs[i].Model) {
		b.settle(s.now, c, i, used)
	}
}

// endAudited ends a call in an entry.
func endAudited(e *ratelimit.AuditEntry, estimate, used int) {
	subSum(&e.Open, estimate, 0, money.Amount(estimate))
	if used < 0 {
		addTokens(&e.Released, estimate)
		return
	}
	addTokens(&e.Estimated, estimate)
	addTokens(&e.Settled, used)
}

// leave has a call that waits give up.
func (s *wfqLife) leave() {
	if len(s.waiting) == 0 {
		return
	}
	i := s.random.IntN(len(s.waiting))
	c := s.waiting[i]
	s.note("%v gives up", c)
	s.waiting = slices.Delete(s.waiting, i, i+1)
	c.cancel()
	back := s.returned()
	if !c.returned || !errors.Is(c.err, context.Canceled) {
		s.fail("%v gave up, and returned %v", c, c.err)
	}
	for b, p := range c.stands {
		b.line.leave(p)
	}
	s.settle(slices.DeleteFunc(back, func(other *wfqCall) bool { return other == c }))
}

// sleep lets time pass, and looks at each instant at which there may be room.
func (s *wfqLife) sleep() {
	until := s.now.Add(time.Duration(s.random.Int64N(int64(s.pick(1, 10, 20)) * int64(time.Second))))
	if s.random.IntN(300) == 0 {
		until = s.now.Add(time.Duration(s.random.Int64N(int64(20 * time.Hour))))
	}
	s.note("sleep until %v", until)
	time.Sleep(until.Sub(s.now))
	back := s.returned()
	for {
		next := until
		for _, b := range s.books {
			for _, c := range b.charges {
				if at := c.at.Add(wfqSpan + 1); at.After(s.now) && at.Before(next) {
					next = at
				}
			}
			if at := time.Unix(int64(b.day+1)*86400, 0); at.After(s.now) && at.Before(next) && b.quota.MaxSpendPerDay > 0 {
				next = at
			}
		}
		for _, c := range back {
			if c.at.After(s.now) && c.at.Before(next) {
				s.now = c.at
				s.fail("%v is served at %v, when nothing changes", c, c.at)
			}
		}
		s.now = next
		s.settle(back)
		if next.Equal(until) {
			return
		}
	}
}

// compare compares the usage.
func (s *wfqLife) compare() {
	for _, b := range s.books {
		stats := s.rl.Stats(b.name)
		if b.pool {
			stats = s.rl.PoolStats(b.name)
		}
		b.turn(s.now)
		got := [...]int{stats.RPM, stats.TPM, stats.InFlight, stats.Waiting, int(stats.SpendDay)}
		want := [...]int{len(b.charges), b.tokens(), b.open, len(b.line.places), b.spent}
		if got != want {
			s.fail("%s has requests, tokens, open and waiting calls, and spend %v, want %v", b.name, got, want)
		}
		if q := b.quota; q.MaxRPM > 0 && want[0] > q.MaxRPM || q.MaxTPM > 0 && want[1] > q.MaxTPM || q.MaxInFlight > 0 && want[2] > q.MaxInFlight ||
			q.MaxSpendPerDay > 0 && want[4] > int(q.MaxSpendPerDay) {
			s.fail("%s is over its limits %+v: %v", b.name, q, want)
		}
	}
}

func (s *wfqLife) step() {
	switch n := s.random.IntN(100); {
	case n < 45:
		s.come()
	case n < 50:
		s.reserve()
	case n < 70:
		s.finish()
	case n < 75:
		s.leave()
	default:
		s.sleep()
	}
}

// play makes so many steps.
func (s *wfqLife) play(steps int) {
	for step := range steps {
		s.now = time.Now()
		s.step()
		if step%16 == 0 {
			s.compare()
		}
	}
	s.compare()
	a := s.rl.Audit()
	s.sameAudit([3]map[string]ratelimit.AuditEntry{a.Models, a.Pools, a.Classes})
	s.close()
}

func TestFairMillionSteps(t *testing.T) {
	t.Parallel()
	lives := times(200, 20, 200)
	began := time.Now()
	services, choices := 0, 0
	steps := times(20_000, 2_000, 1_000_000) / lives
	for seed := range uint64(lives) {
		synctest.Test(t, func(t *testing.T) {
			s := drawWFQLife(t, seed)
			s.rl = newLimiterWith(t, s.cfg)
			s.play(steps)
			services, choices = services+s.services, choices+s.choices
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d steps, %d services, of which %d could have been in another order, in %v", steps*lives, services, choices, time.Since(began))
}
