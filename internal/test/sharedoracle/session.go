// Package sharedoracle tells whether limiters that share a store decide as one limiter does. A
// Session does the same to several limiters of a store and to one limiter alone, at random, and
// compares what they say. A Crowd has many goroutines use several limiters at the same time, and
// compares what was admitted with the quota.
//
// Tests of the library and of its stores import it. It uses the public API alone.
package sharedoracle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Setup says what a Session or a Crowd runs on. Open must be set.
type Setup struct {
	// Seed determines all that is done.
	Seed uint64
	// Open returns limiter i of the store, with a configuration that says all but where the store
	// is. A limiter that was closed is opened again by its number.
	Open func(t *testing.T, i int, cfg ratelimit.Config) *ratelimit.RateLimiter
	// CatchUp brings a limiter's memory up to date. It is called before reads are compared, and
	// nil where reads are always up to date.
	CatchUp func(t *testing.T, rl *ratelimit.RateLimiter)
	// Wide adds steps: calls for several models at once, calls that wait, Burst, and reports of
	// providers, from which the limiters learn. It needs a bubble of testing/synctest, and a Grain
	// in which limiters hear of each other.
	Wide bool
	// Shares says that a limiter decides by its share of the quota while it cannot use the store.
	// It may then deny what one limiter alone admits, but not the reverse.
	Shares bool
	// Sleep passes time; nil is time.Sleep.
	Sleep func(time.Duration)
	// Grain divides all times that pass. Where clocks agree to Near, it keeps what happens away
	// from the ends of minutes and days, if it does not divide 60 s: 7 s, for example. Zero is a
	// nanosecond.
	Grain time.Duration
	// Near is how far apart the times that two limiters tell may be. Zero is not at all.
	Near time.Duration
}

func (u *Setup) catchUp(t *testing.T, rl *ratelimit.RateLimiter) {
	if u.CatchUp != nil {
		u.CatchUp(t, rl)
	}
}

func (u *Setup) sleep(d time.Duration) {
	if u.Sleep != nil {
		u.Sleep(d)
	} else {
		time.Sleep(d)
	}
}

// Session does the same to several limiters of a store as to one of its own. One goroutine uses it.
type Session struct {
	// Random draws the steps. Hooks of a store may draw from it during a step.
	Random *rand.Rand

	t       *testing.T
	setup   Setup
	cfg     ratelimit.Config
	models  []string
	shared  []*ratelimit.RateLimiter
	alone   *ratelimit.RateLimiter
	open    []pair
	waiting []*waiting
	script  []string

	by        int         // the limiter whose step it is
	repaced   bool        // the quota with a Burst was changed
	usedPaced time.Time   // when its minute was used last
	calm      atomic.Bool // see Calm
}

// pair is the same reservation twice.
type pair struct {
	by            int // which of the shared limiters made it
	shared, alone *ratelimit.Reservation
}

const limiters = 3 // of a session

const paced = "paced" // the model with a Burst

// New opens the limiters of a session.
func New(t *testing.T, setup Setup) *Session {
	s := &Session{
		Random: rand.New(rand.NewPCG(setup.Seed, 5)), t: t, setup: setup,
		models: []string{"a", "b", "c", "unlimited", "unknown", "zoned"},
		cfg: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
			"a":         {MaxRPM: 6, MaxTPM: 500, MaxRPD: 40},
			"b":         {MaxITPM: 300, MaxOTPM: 200, MaxInFlight: 3},
			"c":         {MaxTPM: 400, MaxTPD: 3000},
			"zoned":     {MaxRPM: 10, MaxRPD: 30, DayZone: "America/Los_Angeles"},
			"unlimited": {},
		}},
	}
	if setup.Wide {
		s.models = append(s.models, paced)
		s.cfg.LearnQuotas = true
		s.cfg.Quotas[paced] = ratelimit.ModelQuota{MaxRPM: 12, MaxTPM: 900, Burst: 10 * time.Second}
	}
	if setup.Seed%2 == 1 {
		s.cfg.Pools = pools(setup.Wide)
	}
	cfg := s.cfg
	cfg.FilePath = filepath.Join(t.TempDir(), "alone.yaml")
	var err error
	if s.alone, err = ratelimit.NewWithConfig(cfg); err != nil {
		t.Fatal(err)
	}
	for i := range limiters {
		s.shared = append(s.shared, s.openShared(i, s.cfg))
	}
	return s
}

func (s *Session) openShared(i int, cfg ratelimit.Config) *ratelimit.RateLimiter {
	cfg.LeaseTTL = 1000 * time.Hour // a step writes what it decides, and never renews the lease after it
	return s.setup.Open(s.t, i, cfg)
}

// Calm reports whether a store is to work now: nothing in it may conflict or fail on purpose. Any
// goroutine may ask at any time.
func (s *Session) Calm() bool { return s.calm.Load() }

// Run makes a number of steps, compares the limiters after each, and closes them. It ends at the
// first difference, and logs the last steps.
func (s *Session) Run(steps int) {
	defer s.close()
	for range steps {
		if s.setup.Wide && s.Random.IntN(3) == 0 {
			s.wideStep()
		} else {
			s.step()
		}
		if s.setup.Wide {
			s.served()
		}
		s.recover()
		if s.compare(); s.failed() {
			return
		}
	}
}

// failed reports whether the limiters differ, and logs the last steps if they do.
func (s *Session) failed() bool {
	if !s.t.Failed() {
		return false
	}
	for _, line := range s.script {
		s.t.Log(line)
	}
	return true
}

func (s *Session) close() {
	s.calm.Store(true)
	for i := range s.shared {
		s.stopWaiting(i)
	}
	for _, rl := range s.shared {
		if err := rl.Close(); err != nil {
			s.t.Error(err)
		}
	}
	s.alone.Close()
}

// recover has the limiters use the store again.
func (s *Session) recover() {
	const tries = 1000
	s.calm.Store(true)
	defer s.calm.Store(false)
	for i, rl := range s.shared {
		for n := 0; rl.Err() != nil; n++ {
			if err := rl.Persist(); n == tries {
				s.t.Fatalf("limiter %d does not use the store again: %v", i, err)
			}
		}
	}
}

// say keeps a line of the script, of which only the end is logged.
func (s *Session) say(format string, args ...any) {
	s.script = append(s.script, fmt.Sprintf(format, args...))
	if len(s.script) > 60 {
		s.script = s.script[1:]
	}
}

// compare compares what the limiters say of all models.
func (s *Session) compare() {
	s.calm.Store(true)
	defer s.calm.Store(false)
	for _, rl := range s.shared {
		s.setup.catchUp(s.t, rl)
	}
	s.comparePools()
	for _, model := range s.models {
		alone := s.alone.Stats(model)
		if model == paced && alone.RPM+alone.TPM > 0 {
			s.usedPaced = time.Now()
		}
		for i, rl := range s.shared {
			if got := rl.Stats(model); !s.sameStats(got, alone) {
				s.t.Errorf("%v: limiter %d says of %s\n%+v, alone\n%+v", time.Now(), i, model, got, alone)
			}
		}
		ask := s.Random.IntN(100)
		want := s.alone.Decide(model, ask)
		for i, rl := range s.shared {
			got := rl.Decide(model, ask)
			if got.Allowed != want.Allowed && got.RetryAfter+want.RetryAfter > 0 && got.RetryAfter+want.RetryAfter <= s.setup.Near {
				continue // the one that allows is ahead by so much
			}
			if !s.sameDecision(got, want) {
				s.t.Errorf("limiter %d decides on %s %d\n%+v, alone\n%+v", i, model, ask, got, want)
			}
		}
	}
}

// compareQuotas compares the quotas that the limiters decide by.
func (s *Session) compareQuotas() {
	s.calm.Store(true)
	defer s.calm.Store(false)
	want := quotasOf(s.alone, s.models)
	for i, rl := range s.shared {
		s.setup.catchUp(s.t, rl)
		rl.Stats("a") // brings its memory up to date
		if got := quotasOf(rl, s.models); !maps.Equal(got, want) {
			s.t.Errorf("the quotas of limiter %d are %v, alone %v", i, got, want)
		}
	}
}

// standing is the quota that stands for a model.
type standing struct {
	name  string
	quota ratelimit.ModelQuota
	known bool
}

// quotasOf returns the quotas that stand for models, and for one that only "*" may cover.
func quotasOf(rl *ratelimit.RateLimiter, models []string) map[string]standing {
	quotas := make(map[string]standing)
	for _, model := range append(slices.Clone(models), "covered by nothing but *") {
		var q standing
		q.name, q.quota, q.known = rl.QuotaFor(model)
		quotas[model] = q
	}
	return quotas
}

func (s *Session) sameDecision(a, b ratelimit.Decision) bool {
	if !s.sameStats(a.Stats, b.Stats) || (a.RetryAfter-b.RetryAfter).Abs() > s.setup.Near {
		return false
	}
	if s.setup.Near > 0 {
		a.Reason = b.Reason // it has the times in it
	}
	a.Stats, a.RetryAfter = b.Stats, b.RetryAfter
	return a == b
}

// sameStats leaves out what may differ: a day with nothing in it may have begun at any time.
func (s *Session) sameStats(a, b ratelimit.ModelStats) bool {
	if a.RPD == 0 && a.TPD == 0 && b.RPD == 0 && b.TPD == 0 {
		a.DayStart = b.DayStart
	}
	if !s.sameTime(a.DayStart, b.DayStart) || !s.sameTime(a.CooldownUntil, b.CooldownUntil) {
		return false
	}
	a.DayStart, a.CooldownUntil = b.DayStart, b.CooldownUntil
	return a == b
}

func (s *Session) sameTime(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() <= s.setup.Near
}
