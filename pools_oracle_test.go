// Pools: random calls of models in overlapping pools against books that keep every charge.

package ratelimit_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// poolLife makes the same calls of limiters and of books: one for each model, and one for each
// pool, which know nothing of each other.
type poolLife struct {
	*testing.T
	random   *rand.Rand
	cfg      ratelimit.Config
	reopen   func(cfg ratelimit.Config) *ratelimit.RateLimiter
	limiters []*ratelimit.RateLimiter // of one store
	private  bool                     // one limiter, whose file has what Persist wrote
	names    []string
	models   map[string]*ledger
	pools    map[string]*ledger
	members  map[string][]string
	calls    []*poolCall
	now      time.Time
	retryAt  time.Time
	last     []ratelimit.Request
	made     int // pools
	log      []string
}

// poolCall is a reservation: a booking for its model, and one for each pool.
type poolCall struct {
	by       int // the limiter
	real     *ratelimit.Reservation
	req      ratelimit.Request
	bookings []*booking
}

// poolPart is what requests ask of one book.
type poolPart struct {
	model, pool string
	book        *ledger
	demand      demand
	verdict     verdict
}

// poolModels are a model with the name of a pool, versions of one, models under the quota "*", and
// an alias.
var poolModels = []string{"a", "b", "b-2", "org", "star-1", "star-2", "alias"}

func drawPoolQuota(random *rand.Rand, zone string) ratelimit.ModelQuota {
	pick := func(of ...int) int { return of[random.IntN(len(of))] }
	return ratelimit.ModelQuota{
		MaxRPM: pick(0, 0, 4, 6, 9), MaxTPM: pick(0, 0, 150, 300), MaxRPD: pick(0, 0, 12, 40),
		MaxITPM: pick(0, 0, 0, 70, 150), MaxOTPM: pick(0, 0, 0, 80, 120), MaxTPD: pick(0, 0, 600, 2000),
		MaxInFlight: pick(0, 0, 0, 2, 4), DayZone: zone,
	}
}

func newPoolLife(t *testing.T, seed uint64) *poolLife {
	s := &poolLife{T: t, random: rand.New(rand.NewPCG(seed, 21)), names: poolModels, models: make(map[string]*ledger),
		pools: make(map[string]*ledger), members: make(map[string][]string)}
	time.Sleep([]time.Duration{0, 36 * time.Hour, 91 * 24 * time.Hour, 301 * 24 * time.Hour}[s.random.IntN(4)])
	margin := time.Duration(s.random.IntN(2)) * 250 * time.Millisecond
	star := drawPoolQuota(s.random, "")
	s.cfg = ratelimit.Config{
		Margin:  margin,
		Aliases: map[string]string{"alias": "a"},
		Quotas: map[string]ratelimit.ModelQuota{
			"a": drawPoolQuota(s.random, ""), "b": drawPoolQuota(s.random, "America/New_York"), "b-2": {}, "org": drawPoolQuota(s.random, ""),
		},
		Pools: map[string]ratelimit.Pool{
			"org": {Models: []string{"*"}, Quota: drawPoolQuota(s.random, "America/Sao_Paulo")},
			"b":   {Models: []string{"b*", "a"}, Quota: drawPoolQuota(s.random, "")},
			"few": {Models: []string{"a", "star-1"}, Quota: drawPoolQuota(s.random, "")},
		},
		HoldTTL: time.Duration(s.random.IntN(2)) * 90 * time.Second,
	}
	if s.random.IntN(4) > 0 {
		s.cfg.Quotas["*"] = star
	}
	for _, name := range s.names {
		q, known := s.cfg.Quotas[name]
		if !known {
			q, known = s.cfg.Quotas["*"]
		}
		s.models[name] = &ledger{quota: q, known: known, span: time.Minute + margin}
	}
	s.models["alias"] = s.models["a"]
	for name, pool := range s.cfg.Pools {
		s.pools[name] = &ledger{quota: pool.Quota, known: true, span: time.Minute + margin}
		s.members[name] = pool.Models
	}
	return s
}

func (s *poolLife) note(format string, args ...any) {
	s.log = append(s.log, s.now.Format("2006-01-02 15:04:05.999999999 ")+fmt.Sprintf(format, args...))
}

func (s *poolLife) fail(format string, args ...any) {
	s.Helper()
	for _, line := range s.log[max(0, len(s.log)-40):] {
		s.Log(line)
	}
	for _, rl := range s.limiters {
		rl.Close()
	}
	s.Fatalf(format, args...)
}

// matches says whether a pattern covers a name, by trying all that "*" may stand for.
func matches(pattern, name string) bool {
	head, tail, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, head) {
		return false
	}
	for i := len(head); i <= len(name); i++ {
		if matches(tail, name[i:]) {
			return true
		}
	}
	return false
}

// poolsOf returns the pools of a model.
func (s *poolLife) poolsOf(model string) (in []string) {
	if model == "alias" {
		model = "a"
	}
	for name, members := range s.members {
		if slices.ContainsFunc(members, func(member string) bool { return matches(member, model) }) {
			in = append(in, name)
		}
	}
	slices.Sort(in)
	return in
}

// parts returns what requests ask of each book, and what that says.
func (s *poolLife) parts(reqs []ratelimit.Request) (parts []*poolPart) {
	part := func(model, pool string, book *ledger) *poolPart {
		for _, p := range parts {
			if p.book == book {
				return p
			}
		}
		parts = append(parts, &poolPart{model: model, pool: pool, book: book})
		return parts[len(parts)-1]
	}
	for _, req := range reqs {
		of := []*poolPart{part(req.Model, "", s.models[req.Model])}
		for _, pool := range s.poolsOf(req.Model) {
			of = append(of, part(req.Model, pool, s.pools[pool]))
		}
		for _, p := range of {
			p.demand.requests++
			if p.demand.input < 0 || min(req.PromptTokens, req.OutputTokens) < 0 {
				p.demand.input = -1
			} else {
				p.demand.input += req.PromptTokens
				p.demand.output += req.OutputTokens
			}
		}
	}
	for _, p := range parts {
		p.verdict = p.book.judge(s.T, s.now, p.demand)
	}
	return parts
}

// check holds a decision on requests against the books, and reports whether they pass.
func (s *poolLife) check(d ratelimit.Decision, reqs ...ratelimit.Request) bool {
	parts := s.parts(reqs)
	allowed, never, slots, retry := true, false, false, time.Duration(0)
	// A cooldown of a single model is there to be waited for, whatever comes then.
	cools := parts[0].verdict.code == ratelimit.DecisionCooldown && (len(parts) == 1 || parts[1].pool != "")
	for _, p := range parts {
		v := p.verdict
		allowed, never = allowed && v.allowed, never || v.never
		if cools && v.code == ratelimit.DecisionInFlightLimit {
			retry = max(retry, v.wait)
			continue
		}
		slots, retry = slots || v.code == ratelimit.DecisionInFlightLimit, max(retry, v.retry)
	}
	if never || slots && len(parts) > 1 {
		retry = 0
	}
	tell := func(what string) {
		for _, p := range parts {
			s.Logf("%q in pool %q: %+v asks %+v of %+v", p.model, p.pool, p.verdict, p.demand, p.book.quota)
		}
		s.fail("%s: %+v of %+v", what, d, reqs)
	}
	if d.Allowed != allowed || d.Never != never || d.Reason == "" {
		tell("the books say otherwise")
	}
	if d.RetryAfter != retry {
		tell(fmt.Sprintf("the books say in %v", retry))
	}
	if len(reqs) == 1 {
		if diff := s.models[reqs[0].Model].difference(d.Stats, s.now); diff != "" {
			tell(diff)
		}
	}
	if allowed {
		if d.Pool != "" {
			tell("a pool denies what is allowed")
		}
		return true
	}
	if retry > 0 {
		s.last, s.retryAt = reqs, s.now.Add(retry)
	}
	denier := slices.IndexFunc(parts, func(p *poolPart) bool {
		sameModel := p.model == d.Model || d.Pool != "" && slices.Contains(s.poolsOf(d.Model), d.Pool)
		return !p.verdict.allowed && p.pool == d.Pool && sameModel && p.verdict.code == d.Code
	})
	if denier < 0 {
		tell("this one does not deny, or not so")
	}
	if own := parts[0].verdict; len(reqs) == 1 && !own.allowed && !never && d.Pool != "" {
		tell("the model itself denies first")
	}
	return false
}

func (s *poolLife) any() (int, *ratelimit.RateLimiter) {
	i := s.random.IntN(len(s.limiters))
	return i, s.limiters[i]
}

func (s *poolLife) draw() ratelimit.Request {
	tokens := []int{10, 0, 1, 25, 40, 33, 17, 20, 71, 5, 10, 20}
	req := ratelimit.Request{Model: s.names[s.random.IntN(len(s.names))],
		PromptTokens: tokens[s.random.IntN(len(tokens))], OutputTokens: tokens[s.random.IntN(len(tokens))]}
	if s.random.IntN(60) == 0 {
		req.PromptTokens = -1
	}
	return req
}

func (s *poolLife) book(by int, real *ratelimit.Reservation, req ratelimit.Request) {
	call := &poolCall{by: by, real: real, req: req}
	books := []*ledger{s.models[req.Model]}
	for _, pool := range s.poolsOf(req.Model) {
		books = append(books, s.pools[pool])
	}
	for _, book := range books {
		call.bookings = append(call.bookings, book.book(s.now, req.Model, real, req.PromptTokens, req.OutputTokens))
	}
	s.calls = append(s.calls, call)
}

func (c *poolCall) commit(now time.Time, input, output int) {
	for _, b := range c.bookings {
		b.commit(now, input, output)
	}
}

func (c *poolCall) cancel(now time.Time) {
	for _, b := range c.bookings {
		b.cancel(now)
	}
}

func (s *poolLife) reserve(req ratelimit.Request) {
	by, rl := s.any()
	r, d := rl.Reserve(req.Model, req.PromptTokens, req.OutputTokens)
	s.note("%d: reserve %+v: %s %q %v", by, req, d.Code, d.Pool, d.RetryAfter)
	if allowed := s.check(d, req); allowed != (r != nil) {
		s.fail("Reserve returns %v with %+v", r, d)
	} else if allowed {
		s.book(by, r, req)
	}
}

func (s *poolLife) reserveAll() {
	reqs := make([]ratelimit.Request, 1+s.random.IntN(4))
	for i := range reqs {
		reqs[i] = s.draw()
		reqs[i].PromptTokens /= 2
	}
	s.reserveThese(reqs)
}

func (s *poolLife) reserveThese(reqs []ratelimit.Request) {
	by, rl := s.any()
	rs, d := rl.ReserveAll(reqs...)
	s.note("%d: reserve all %+v: %s %q %v", by, reqs, d.Code, d.Pool, d.RetryAfter)
	if !s.check(d, reqs...) {
		if rs != nil {
			s.fail("denied, and yet %d reservations", len(rs))
		}
		return
	}
	for i, req := range reqs {
		s.book(by, rs[i], req)
	}
	if s.random.IntN(6) == 0 {
		s.note("cancel all")
		rs.Cancel()
		for _, c := range s.calls[len(s.calls)-len(rs):] {
			c.cancel(s.now)
		}
	}
}

func (s *poolLife) decide() {
	req := s.draw()
	_, rl := s.any()
	s.check(rl.DecideRequest(req), req)
	req.OutputTokens = 0
	if allowed := s.check(rl.Decide(req.Model, req.PromptTokens), req); rl.CanSend(req.Model, req.PromptTokens) != allowed {
		s.fail("CanSend(%+v) is %v", req, !allowed)
	}
	if got, want := rl.PoolsOf(req.Model), s.poolsOf(req.Model); !slices.Equal(got, want) {
		s.fail("%s is in %q, want %q", req.Model, got, want)
	}
}

func (s *poolLife) record() {
	req := s.draw()
	by, rl := s.any()
	s.note("%d: record %+v", by, req)
	rl.RecordUsage(req.Model, req.PromptTokens, req.OutputTokens)
	s.models[req.Model].charge(s.now, max(req.PromptTokens, 0), req.OutputTokens)
	for _, pool := range s.poolsOf(req.Model) {
		s.pools[pool].charge(s.now, max(req.PromptTokens, 0), req.OutputTokens)
	}
}

func (s *poolLife) drawCall() *poolCall {
	n := len(s.calls)
	if n == 0 {
		return nil
	}
	if s.random.IntN(4) > 0 {
		return s.calls[n-1-s.random.IntN(min(n, 6))]
	}
	return s.calls[s.random.IntN(n)]
}

func (s *poolLife) settle() {
	c := s.drawCall()
	if c == nil {
		return
	}
	if s.random.IntN(4) == 0 {
		s.note("%d: cancel %s of %v", c.by, c.req.Model, c.bookings[0].admitted)
		c.real.Cancel()
		c.cancel(s.now)
		return
	}
	input := c.req.PromptTokens + []int{0, 0, 1, 10, 60, -1, -10, -100}[s.random.IntN(8)]
	output := c.req.OutputTokens + []int{0, 0, 1, 10, 60, -1, -10, -100}[s.random.IntN(8)]
	s.note("%d: commit %+v of %v: %d, %d", c.by, c.req, c.bookings[0].admitted, input, output)
	c.real.Commit(input, output)
	c.commit(s.now, input, output)
}

// arrive dates a call anew. Which day of 24 hours begins when is a matter of the admission oracle:
// here it is dated as of now where a day is over.
func (s *poolLife) arrive() {
	c := s.drawCall()
	if c == nil {
		return
	}
	at := s.now.Add(-time.Duration(s.random.Int64N(int64(40 * time.Second))))
	for _, b := range c.bookings {
		if l := b.book; l.day.over(s.now) || l.quota.DayZone == "" && !b.inDay(s.now) {
			at = s.now
		}
	}
	s.note("%d: arrived %s of %v: %v", c.by, c.req.Model, c.bookings[0].admitted, at)
	c.real.Arrived(at)
	for _, b := range c.bookings {
		b.arrived(s.now, at)
	}
}

func (s *poolLife) reset() {
	model := s.names[s.random.IntN(len(s.names))]
	by, rl := s.any()
	if s.random.IntN(3) == 0 {
		model = ""
	}
	s.note("%d: reset %q", by, model)
	rl.Reset(model)
	if model != "" {
		s.models[model].reset()
		return
	}
	for name, l := range s.models {
		if name != "alias" {
			l.reset()
		}
	}
	for _, l := range s.pools {
		l.reset()
	}
}

// setPool makes a pool, changes the quota or the members of one, or takes one away.
func (s *poolLife) setPool() {
	by, rl := s.any()
	names := slices.Sorted(maps.Keys(s.pools))
	name := fmt.Sprint("new ", s.made)
	if len(names) > 5 || len(names) > 0 && s.random.IntN(3) > 0 {
		name = names[s.random.IntN(len(names))]
		if s.random.IntN(4) == 0 || len(names) > 5 {
			s.note("%d: remove pool %q", by, name)
			rl.RemovePool(name)
			delete(s.pools, name)
			delete(s.members, name)
			return
		}
	} else {
		s.made++
		s.pools[name] = &ledger{known: true, span: time.Minute + s.cfg.Margin}
	}
	l := s.pools[name]
	l.quota = drawPoolQuota(s.random, l.quota.DayZone)
	if s.random.IntN(10) == 0 {
		l.quota.MaxTPM = -1
	}
	if s.random.IntN(2) == 0 || s.members[name] == nil {
		s.members[name] = nil
		for _, member := range []string{"a", "b*", "*", "*-2", "s*r-1", "org", "nobody"} {
			if s.random.IntN(3) == 0 {
				s.members[name] = append(s.members[name], member)
			}
		}
	}
	pool := ratelimit.Pool{Models: slices.Clone(s.members[name]), Quota: l.quota}
	s.note("%d: set pool %q %+v", by, name, pool)
	if len(s.limiters) > 1 && l.quota.MaxTPM < 0 { // an invalid one is not shared
		pool.Quota.MaxTPM, l.quota.MaxTPM = 0, 0
	}
	rl.SetPool(name, pool)
	clear(pool.Models) // the limiter has a copy
}

func (s *poolLife) setQuota() {
	name := []string{"a", "b", "b-2", "org"}[s.random.IntN(4)]
	l := s.models[name]
	l.quota = drawPoolQuota(s.random, l.quota.DayZone)
	by, rl := s.any()
	s.note("%d: quota %s %+v", by, name, l.quota)
	rl.SetQuota(name, l.quota)
}

func (s *poolLife) cooldown() {
	model := s.names[s.random.IntN(len(s.names))]
	until := s.now.Add(time.Duration(s.random.Int64N(int64(90 * time.Second))))
	by, rl := s.any()
	s.note("%d: cooldown %s %v", by, model, until)
	rl.Cooldown(model, until)
	s.models[model].coolUntil(s.now, until)
}

func (s *poolLife) sleep() {
	d := []time.Duration{1, time.Second, 7 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute + s.cfg.Margin,
		time.Minute + s.cfg.Margin + 1, 5 * time.Second, 10 * time.Second, time.Hour, 24 * time.Hour}[s.random.IntN(12)]
	names := slices.Sorted(maps.Keys(s.pools))
	if wait := s.retryAt.Sub(s.now); wait > 1 && s.random.IntN(2) == 0 {
		d = wait - time.Duration(s.random.IntN(2)) // exactly, or too early
	} else if len(names) > 0 && s.random.IntN(8) == 0 {
		if l := s.pools[names[s.random.IntN(len(names))]]; !l.day.over(s.now) {
			d = l.day.end.Sub(s.now) - time.Duration(s.random.IntN(2))
		}
	}
	s.note("sleep %v", d)
	s.rest(d)
	if s.now.Equal(s.retryAt) || s.now.Equal(s.retryAt.Add(-1)) {
		s.reserveThese(s.last)
	}
}

// expiresNow reports whether a call expires within a millisecond of now. Other limiters of a store
// may not know yet.
func expiresNow(admitted time.Time, ttl time.Duration) bool {
	late := time.Since(admitted) - ttl
	return ttl > 0 && late >= 0 && late < time.Millisecond
}

// rest lets time pass, in which calls expire.
func (s *poolLife) rest(d time.Duration) {
	time.Sleep(d)
	if !s.private && slices.ContainsFunc(s.calls, func(c *poolCall) bool { return expiresNow(c.bookings[0].admitted, s.cfg.HoldTTL) }) {
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
	s.now = time.Now()
	for _, c := range s.calls {
		if s.cfg.HoldTTL > 0 && s.now.Sub(c.bookings[0].admitted) >= s.cfg.HoldTTL {
			c.commit(s.now, c.req.PromptTokens, c.req.OutputTokens)
		}
	}
}

// restart closes a limiter, and opens it again with what its store has.
func (s *poolLife) restart() {
	i, rl := s.any()
	s.note("%d: restart", i)
	if s.private {
		if err := rl.Persist(); err != nil {
			s.Fatal(err)
		}
	}
	for _, c := range s.calls {
		if c.by == i {
			c.commit(s.now, c.req.PromptTokens, c.req.OutputTokens)
		}
	}
	if err := rl.Close(); err != nil {
		s.Fatal(err)
	}
	cfg := s.cfg
	cfg.Quotas, cfg.Pools, cfg.Providers = nil, nil, []ratelimit.Provider{ratelimit.ProviderLocal}
	s.limiters[i] = s.reopen(cfg)
}
