// Random calls against a model that keeps lists.

package ratelimit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// oracle is a limiter that shares nothing with ours: it keeps every charge and
// scans them all at every question.
type oracle struct {
	quota    ratelimit.ModelQuota
	known    bool
	span     time.Duration
	exists   bool
	requests []time.Time
	tokens   []ratelimit.TokenEntry
	dayStart time.Time
	day      int
}

func addCapped(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// counted is what is used at an instant.
func (o *oracle) counted(at time.Time) (requests, tokens, day int) {
	for _, t := range o.requests {
		if !t.Before(at.Add(-o.span)) {
			requests++
		}
	}
	for _, e := range o.tokens {
		if !e.Time.Before(at.Add(-o.span)) {
			tokens = addCapped(tokens, max(e.Count, 0))
		}
	}
	if at.Sub(o.dayStart) < 24*time.Hour {
		day = max(o.day, 0)
	}
	return requests, tokens, day
}

// allowed answers for an instant, with the code of the first limit that denies.
func (o *oracle) allowed(at time.Time, estimate int) (ratelimit.DecisionCode, bool) {
	requests, tokens, day := o.counted(at)
	q := o.quota
	switch {
	case q.MaxRPD > 0 && day >= q.MaxRPD:
		return ratelimit.DecisionRPDLimit, false
	case q.MaxRPM > 0 && requests >= q.MaxRPM:
		return ratelimit.DecisionRPMLimit, false
	case q.MaxTPM > 0 && (estimate > q.MaxTPM || tokens > q.MaxTPM-estimate):
		return ratelimit.DecisionTPMLimit, false
	}
	return ratelimit.DecisionAllowed, true
}

// touch does what any call on the model does: times from the future become now,
// what is over is forgotten.
func (o *oracle) touch(now time.Time) {
	if !o.exists {
		return
	}
	for i := range o.requests {
		if o.requests[i].After(now) {
			o.requests[i] = now
		}
	}
	for i := range o.tokens {
		if o.tokens[i].Time.After(now) {
			o.tokens[i].Time = now
		}
	}
	over := now.Add(-o.span)
	o.requests = slices.DeleteFunc(o.requests, func(t time.Time) bool { return t.Before(over) })
	o.tokens = slices.DeleteFunc(o.tokens, func(e ratelimit.TokenEntry) bool { return e.Time.Before(over) })
	if o.dayStart.After(now) {
		o.dayStart = now
	}
	if now.Sub(o.dayStart) >= 24*time.Hour {
		o.day, o.dayStart = 0, now
	}
	if len(o.requests) == 0 && len(o.tokens) == 0 && o.day <= 0 {
		*o = oracle{quota: o.quota, known: o.known, span: o.span}
	}
}

func (o *oracle) record(now time.Time, tokens int) {
	o.touch(now)
	if !o.exists || o.day <= 0 {
		o.dayStart, o.day = now, 0
	}
	o.exists = true
	o.requests = append(o.requests, now)
	o.tokens = append(o.tokens, ratelimit.TokenEntry{Time: now, Count: tokens})
	o.day = addCapped(o.day, 1)
}

// instants are the moments at which something leaves, so that an answer can
// change.
func (o *oracle) instants() []time.Time {
	var at []time.Time
	for _, t := range o.requests {
		at = append(at, t.Add(o.span+1))
	}
	for _, e := range o.tokens {
		at = append(at, e.Time.Add(o.span+1))
	}
	return append(at, o.dayStart.Add(24*time.Hour))
}

const oracleModel = "m"

// session plays a script of bytes on a limiter and on the oracle, and compares
// all that the limiter says.
type session struct {
	*testing.T
	script []byte
	rl     *ratelimit.RateLimiter
	o      oracle
	step   int
}

func (s *session) next() int {
	if len(s.script) == 0 {
		return 0
	}
	b := s.script[0]
	s.script = s.script[1:]
	return int(b)
}

// pick chooses one of the values by the next byte.
func pick[T any](s *session, from ...T) T { return from[s.next()%len(from)] }

func play(t *testing.T, script []byte) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{T: t, script: script}
		margin := pick(s, 0, 0, 250*time.Millisecond, 1)
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{
			FilePath: filepath.Join(t.TempDir(), "state.yaml"),
			Quotas:   map[string]ratelimit.ModelQuota{oracleModel: {MaxRPM: 3, MaxTPM: 100, MaxRPD: 10}},
			Margin:   margin,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.rl = rl
		s.o = oracle{quota: rl.Quotas[oracleModel], known: true, span: time.Minute + margin}
		for ; len(s.script) > 0; s.step++ {
			s.act()
		}
	})
}

func (s *session) act() {
	switch s.next() % 12 {
	case 0, 1, 2:
		prompt, output := s.tokens(), s.next()%3
		s.rl.RecordUsage(oracleModel, prompt, output)
		s.o.record(time.Now(), addCapped(max(prompt, 0), output))
	case 3, 4, 5:
		s.decide(s.tokens())
	case 6, 7:
		time.Sleep(pick(s, 1, time.Millisecond, time.Second, 20*time.Second, 59*time.Second,
			time.Minute, time.Minute+1, s.o.span, s.o.span+1, time.Hour, 24*time.Hour-1, 24*time.Hour))
	case 8:
		s.stats()
	case 9:
		s.setQuota()
	case 10:
		s.editState()
	case 11:
		if s.next()%4 == 0 {
			s.rl.Reset(pick(s, oracleModel, ""))
			s.o = oracle{quota: s.o.quota, known: s.o.known, span: s.o.span}
		}
	}
}

func (s *session) tokens() int {
	return pick(s, 0, 1, 7, 30, 50, 99, 100, 101, -1, math.MaxInt, math.MaxInt/2+1, 12)
}

func (s *session) setQuota() {
	q := ratelimit.ModelQuota{
		MaxRPM: pick(s, 0, 1, 3, 10, -1),
		MaxTPM: pick(s, 0, 1, 50, 100, 1000, math.MaxInt, -7),
		MaxRPD: pick(s, 0, 1, 5, 50, math.MaxInt, -3),
	}
	s.o.quota, s.o.known = q, true
	if s.next()%8 == 0 {
		delete(s.rl.Quotas, oracleModel)
		s.o.quota, s.o.known = ratelimit.ModelQuota{}, false
		return
	}
	s.rl.SetQuota(oracleModel, q)
}

// editState does to State what a program may do by hand.
func (s *session) editState() {
	now := time.Now()
	when := func() time.Time {
		t := now.Add(pick(s, 0, -1, time.Second, -time.Second, -30*time.Second, -s.o.span, -s.o.span-1, 48*time.Hour, -time.Hour))
		if s.next()%2 == 0 {
			return t.Round(0)
		}
		return t
	}
	switch kind := s.next() % 6; kind {
	case 0: // another entry
		stats := &ratelimit.UsageStats{DayStart: when(), DayCount: pick(s, 0, 1, 4, -2, math.MaxInt)}
		for range s.next() % 6 {
			stats.Requests = append(stats.Requests, when())
		}
		for range s.next() % 6 {
			stats.Tokens = append(stats.Tokens, ratelimit.TokenEntry{Time: when(), Count: s.tokens()})
		}
		if s.rl.State == nil {
			s.rl.State = make(map[string]*ratelimit.UsageStats)
		}
		s.rl.State[oracleModel] = stats
		s.o.requests, s.o.tokens = slices.Clone(stats.Requests), slices.Clone(stats.Tokens)
		s.o.exists, s.o.dayStart, s.o.day = true, stats.DayStart, stats.DayCount
	case 1: // nothing at all
		s.rl.State = pick(s, nil, map[string]*ratelimit.UsageStats{}, map[string]*ratelimit.UsageStats{oracleModel: nil})
		s.o = oracle{quota: s.o.quota, known: s.o.known, span: s.o.span}
	default:
		stats := s.rl.State[oracleModel]
		if stats == nil {
			return
		}
		switch kind {
		case 2: // one more of each
			t := when()
			stats.Requests = append(stats.Requests, t)
			stats.Tokens = append(stats.Tokens, ratelimit.TokenEntry{Time: t, Count: 5})
			s.o.requests = append(s.o.requests, t)
			s.o.tokens = append(s.o.tokens, ratelimit.TokenEntry{Time: t, Count: 5})
		case 3: // one fewer
			if n := len(stats.Requests); n > 0 {
				stats.Requests = stats.Requests[:n-1]
				s.o.requests = slices.Clone(stats.Requests)
			}
		case 4: // another day
			stats.DayStart = when()
			s.o.dayStart = stats.DayStart
		case 5:
			stats.DayCount = pick(s, 0, 2, -1, 9)
			s.o.day = stats.DayCount
		}
	}
}

func (s *session) decide(estimate int) {
	now := time.Now()
	limited := s.o.known && s.o.quota != (ratelimit.ModelQuota{}) && estimate >= 0
	if limited {
		s.o.touch(now)
	}
	before := fmt.Sprint(s.rl.State[oracleModel])
	d := s.rl.Decide(oracleModel, estimate)
	if !limited && fmt.Sprint(s.rl.State[oracleModel]) != before {
		s.Fatalf("step %d: Decide(%d) changed the state of a model that it need not look at", s.step, estimate)
	}
	if can := s.rl.CanSend(oracleModel, estimate); can != d.Allowed {
		s.Fatalf("step %d: CanSend(%d) = %v, Decide = %+v", s.step, estimate, can, d)
	}
	q := s.o.quota
	switch {
	case estimate < 0:
		s.want(d, ratelimit.DecisionInvalidTokens, false)
	case !s.o.known:
		s.want(d, ratelimit.DecisionUnknownModel, true)
	case q == (ratelimit.ModelQuota{}):
		s.want(d, ratelimit.DecisionUnlimited, true)
	case min(q.MaxRPM, q.MaxTPM, q.MaxRPD) < 0:
		s.want(d, ratelimit.DecisionInvalidQuota, false)
		if !d.Never || d.RetryAfter != 0 {
			s.Fatalf("step %d: an invalid quota must never pass: %+v", s.step, d)
		}
	default:
		code, allowed := s.o.allowed(now, estimate)
		s.want(d, code, allowed)
		s.checkWait(d, now, estimate, allowed)
	}
	requests, tokens, day := s.o.counted(now)
	if d.Stats.RPM != requests || d.Stats.TPM != tokens || d.Stats.RPD != day {
		s.Fatalf("step %d: Decide says %+v, oracle %d, %d, %d", s.step, d.Stats, requests, tokens, day)
	}
}

func (s *session) want(d ratelimit.Decision, code ratelimit.DecisionCode, allowed bool) {
	if d.Code != code || d.Allowed != allowed || d.Reason == "" {
		s.Fatalf("step %d: Decide = %+v, oracle says %s", s.step, d, code)
	}
}

// checkWait holds RetryAfter against the first instant at which the oracle
// allows the same request.
func (s *session) checkWait(d ratelimit.Decision, now time.Time, estimate int, allowed bool) {
	never := s.o.quota.MaxTPM > 0 && estimate > s.o.quota.MaxTPM
	if d.Never != never {
		s.Fatalf("step %d: Never = %v, want %v", s.step, d.Never, never)
	}
	if allowed || never {
		if d.RetryAfter != 0 {
			s.Fatalf("step %d: RetryAfter = %v without a wait", s.step, d.RetryAfter)
		}
		return
	}
	var first time.Time
	for _, at := range s.o.instants() {
		if _, ok := s.o.allowed(at, estimate); ok && at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if got := now.Add(d.RetryAfter); !got.Equal(first) {
		s.Fatalf("step %d: RetryAfter = %v, oracle says %v", s.step, d.RetryAfter, first.Sub(now))
	}
	if _, ok := s.o.allowed(first.Add(-1), estimate); ok {
		s.Fatalf("step %d: already allowed a nanosecond earlier", s.step)
	}
}

func (s *session) stats() {
	now := time.Now()
	s.o.touch(now)
	requests, tokens, day := s.o.counted(now)
	got := s.rl.Stats(oracleModel)
	if got.RPM != requests || got.TPM != tokens || got.RPD != day ||
		got.MaxRPM != s.o.quota.MaxRPM || got.MaxTPM != s.o.quota.MaxTPM || got.MaxRPD != s.o.quota.MaxRPD {
		s.Fatalf("step %d: Stats = %+v, oracle %d, %d, %d of %+v", s.step, got, requests, tokens, day, s.o.quota)
	}
	began := s.o.dayStart
	if got.RPD == 0 && got.TPD == 0 {
		began = time.Time{}
	}
	if !got.DayStart.Equal(began) {
		s.Fatalf("step %d: DayStart = %v, oracle %v", s.step, got.DayStart, began)
	}
	_, exists := s.rl.State[oracleModel]
	if exists != s.o.exists {
		s.Fatalf("step %d: the model has state: %v, oracle %v", s.step, exists, s.o.exists)
	}
}

func TestRandomTrafficAgreesWithOracle(t *testing.T) {
	t.Parallel()
	for seed := range uint64(times(300, 18, 3000)) {
		random := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 2000)
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, script) }) {
			return
		}
	}
}

func FuzzState(f *testing.F) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 2))
		script := make([]byte, 200)
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 4000 {
			return
		}
		play(t, script)
	})
}
