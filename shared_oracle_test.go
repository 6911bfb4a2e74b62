//go:build !nosqlite

// Shared: several limiters of a file against one limiter alone.

package ratelimit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// Several limiters of one file take random turns. Each of them then says what one limiter alone
// says after all of it.
func TestSharedIsOneLimiter(t *testing.T) {
	t.Parallel()
	for seed := range times(8, 2, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state.db")
			synctest.Test(t, func(t *testing.T) { newSharedSession(t, path, uint64(seed)).run(400) })
		})
	}
}

// The same over a log in memory, where each Commit conflicts with a probability of 1/3 with the
// step of another limiter that comes in between, and fails with a probability of 1/20, before or
// after it was written.
func TestSharedIsOneLimiterWhateverConflicts(t *testing.T) {
	t.Parallel()
	for seed := range times(40, 10, 2000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := sharedlogtest.NewFake()
				s := newSharedSessionOver(t, fake, uint64(seed))
				s.conflict(fake)
				s.run(400)
				if s.conflicts < 50 || s.failures < 2 { // 2 of 2,000 seeds have 4 failures
					t.Errorf("%d conflicts, %d failures", s.conflicts, s.failures)
				}
			})
		})
	}
}

// conflict has the fake conflict and fail.
func (s *sharedSession) conflict(fake *sharedlogtest.Fake) {
	random := rand.New(rand.NewPCG(s.random.Uint64(), 7))
	within := false
	fake.Before = func(int64) error {
		if !s.calm.Load() && !within {
			within = true
			defer func() { within = false }()
			switch n := random.IntN(60); {
			case n < 20:
				s.conflicts++
				s.between()
			case n < 22:
				s.failures++
				return errors.New("made up, before the write")
			}
		}
		return nil
	}
	fake.After = func(int64) error {
		if !s.calm.Load() && !within && random.IntN(40) == 0 {
			s.failures++
			return errors.New("made up, after the write")
		}
		return nil
	}
}

// between makes a step of any of the limiters but the one that commits.
func (s *sharedSession) between() {
	i := s.random.IntN(len(s.shared) - 1)
	if i >= s.by {
		i++
	}
	rl, model := s.shared[i], sharedModels[s.random.IntN(len(sharedModels))]
	in, out := s.random.IntN(60), s.random.IntN(60)
	switch s.random.IntN(6) {
	case 0:
		s.say("    %d: Reset %q", i, model)
		rl.Reset(model)
		s.alone.Reset(model)
	case 1:
		until := time.Now().Add(time.Duration(s.random.Int64N(int64(10 * time.Second))))
		s.say("    %d: Cooldown %s until %v", i, model, until)
		rl.Cooldown(model, until)
		s.alone.Cooldown(model, until)
	case 2:
		q := ratelimit.ModelQuota{MaxRPM: s.random.IntN(10), MaxTPM: s.random.IntN(600), MaxInFlight: s.random.IntN(5), MaxRPD: s.random.IntN(50)}
		s.say("    %d: SetQuota %s %+v", i, model, q)
		rl.SetQuota(model, q)
		s.alone.SetQuota(model, q)
	case 3:
		s.say("    %d: RecordUsage %s %d %d", i, model, in, out)
		rl.RecordUsage(model, in, out)
		s.alone.RecordUsage(model, in, out)
	default:
		r, d := rl.Reserve(model, in, out)
		ra, da := s.alone.Reserve(model, in, out)
		s.say("    %d: Reserve %s %d %d: %s", i, model, in, out, d.Code)
		s.sameDecision(d, da)
		if r != nil && ra != nil {
			s.open = append(s.open, sharedPair{i, r, ra})
		}
	}
}

// recover has the limiters use the log again.
func (s *sharedSession) recover() {
	s.calm.Store(true)
	for _, rl := range s.shared {
		for rl.Err() != nil {
			rl.Persist()
		}
	}
	s.calm.Store(false)
}

// sharedSession does the same to several limiters of a file as to one of its own.
type sharedSession struct {
	t      *testing.T
	random *rand.Rand
	path   string
	cfg    ratelimit.Config
	shared []*ratelimit.RateLimiter
	alone  *ratelimit.RateLimiter
	open   []sharedPair
	script []string

	// With a fake:
	fake                *sharedlogtest.Fake
	by                  int         // the limiter whose step it is
	calm                atomic.Bool // nothing is to conflict or fail
	conflicts, failures int
}

// sharedPair is the same reservation twice.
type sharedPair struct {
	by            int // which of the shared limiters made it
	shared, alone *ratelimit.Reservation
}

var sharedModels = []string{"a", "b", "c", "unlimited", "unknown", "zoned"}

func newSharedSession(t *testing.T, path string, seed uint64) *sharedSession {
	return (&sharedSession{t: t, random: rand.New(rand.NewPCG(seed, 5)), path: path}).begin()
}

func newSharedSessionOver(t *testing.T, fake *sharedlogtest.Fake, seed uint64) *sharedSession {
	return (&sharedSession{t: t, random: rand.New(rand.NewPCG(seed, 5)), fake: fake}).begin()
}

func (s *sharedSession) begin() *sharedSession {
	t := s.t
	s.cfg = ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
		"a":         {MaxRPM: 6, MaxTPM: 500, MaxRPD: 40},
		"b":         {MaxITPM: 300, MaxOTPM: 200, MaxInFlight: 3},
		"c":         {MaxTPM: 400, MaxTPD: 3000},
		"zoned":     {MaxRPM: 10, MaxRPD: 30, DayZone: "America/Los_Angeles"},
		"unlimited": {},
	}}
	var err error
	if s.alone, err = ratelimit.NewWithConfig(withPath(s.cfg, filepath.Join(t.TempDir(), "alone.yaml"))); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.shared = append(s.shared, s.openShared())
	}
	return s
}

func withPath(cfg ratelimit.Config, path string) ratelimit.Config {
	cfg.FilePath = path
	return cfg
}

func (s *sharedSession) openShared() *ratelimit.RateLimiter {
	cfg := s.cfg
	cfg.Shared, cfg.LeaseTTL = true, time.Hour // to renew it takes longer than all the rest
	var rl *ratelimit.RateLimiter
	var err error
	if s.fake != nil {
		rl, _, err = ratelimit.NewOverFake(s.fake, cfg)
	} else {
		rl, err = ratelimit.NewWithSQLiteConfig(s.path, cfg)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return rl
}

func (s *sharedSession) run(steps int) {
	defer func() {
		s.calm.Store(true)
		for _, rl := range s.shared {
			if err := rl.Close(); err != nil {
				s.t.Error(err)
			}
		}
		s.alone.Close()
	}()
	for range steps {
		s.step()
		s.recover()
		if s.compare(); s.t.Failed() {
			for _, line := range s.script {
				s.t.Log(line)
			}
			return
		}
	}
}

func (s *sharedSession) say(format string, args ...any) {
	s.script = append(s.script, fmt.Sprintf(format, args...))
	if len(s.script) > 60 {
		s.script = s.script[1:]
	}
}

func (s *sharedSession) step() {
	i := s.random.IntN(len(s.shared))
	s.by = i
	rl := s.shared[i]
	model := sharedModels[s.random.IntN(len(sharedModels))]
	tokens := func() int { return s.random.IntN(120) }
	switch p := s.random.IntN(100); {
	case p < 35:
		in, out := tokens(), tokens()
		r, d := rl.Reserve(model, in, out)
		ra, da := s.alone.Reserve(model, in, out)
		s.say("%d: Reserve %s %d %d: %s", i, model, in, out, d.Code)
		s.sameDecision(d, da)
		if r != nil && ra != nil {
			s.open = append(s.open, sharedPair{i, r, ra})
		}
	case p < 45:
		in, out := tokens(), tokens()
		s.say("%d: RecordUsage %s %d %d", i, model, in, out)
		rl.RecordUsage(model, in, out)
		s.alone.RecordUsage(model, in, out)
	case p < 65:
		s.settle()
	case p < 85:
		pause := time.Duration(s.random.Int64N(int64(20 * time.Second)))
		if s.random.IntN(40) == 0 {
			pause = time.Duration(s.random.Int64N(int64(20 * time.Hour)))
		}
		s.say("sleep %v", pause)
		s.calm.Store(true) // leases are renewed meanwhile
		time.Sleep(pause)
		s.calm.Store(false)
	case p < 88:
		if s.random.IntN(6) == 0 {
			model = ""
		}
		s.say("%d: Reset %q", i, model)
		rl.Reset(model)
		s.alone.Reset(model)
	case p < 91:
		until := time.Now().Add(time.Duration(s.random.Int64N(int64(30 * time.Second))))
		s.say("%d: Cooldown %s until %v", i, model, until)
		rl.Cooldown(model, until)
		s.alone.Cooldown(model, until)
	case p < 94:
		q := ratelimit.ModelQuota{MaxRPM: s.random.IntN(10), MaxTPM: s.random.IntN(600), MaxInFlight: s.random.IntN(5), MaxRPD: s.random.IntN(50)}
		if s.random.IntN(4) == 0 {
			q.DayZone = "Europe/Berlin"
		}
		s.say("%d: SetQuota %s %+v", i, model, q)
		rl.SetQuota(model, q)
		s.alone.SetQuota(model, q)
	case p < 97:
		s.arrive()
	default:
		s.reopen(i)
	}
}

func (s *sharedSession) sameDecision(d, alone ratelimit.Decision) {
	d.Stats, alone.Stats = sharedStats(d.Stats), sharedStats(alone.Stats)
	if d != alone {
		s.t.Errorf("Reserve is %+v, alone %+v", d, alone)
	}
}

func (s *sharedSession) pick() (pair sharedPair, ok bool) {
	if len(s.open) == 0 {
		return pair, false
	}
	return s.open[s.random.IntN(len(s.open))], true
}

func (s *sharedSession) settle() {
	if len(s.open) == 0 {
		return
	}
	at := s.random.IntN(len(s.open))
	pair := s.open[at]
	s.by = pair.by
	s.open = append(s.open[:at], s.open[at+1:]...)
	in, out := s.random.IntN(200), s.random.IntN(200)
	if s.random.IntN(3) == 0 {
		s.say("%d: Cancel %s of %v", pair.by, pair.shared.Model(), pair.shared.ReservedAt())
		pair.shared.Cancel()
		pair.alone.Cancel()
		return
	}
	s.say("%d: Commit %s of %v %d %d", pair.by, pair.shared.Model(), pair.shared.ReservedAt(), in, out)
	pair.shared.Commit(in, out)
	pair.alone.Commit(in, out)
}

func (s *sharedSession) arrive() {
	pair, ok := s.pick()
	if !ok {
		return
	}
	s.by = pair.by
	at := time.Now().Add(-time.Duration(s.random.Int64N(int64(90 * time.Second))))
	s.say("%d: Arrived %s of %v at %v", pair.by, pair.shared.Model(), pair.shared.ReservedAt(), at)
	pair.shared.Arrived(at)
	pair.alone.Arrived(at)
}

// reopen closes a limiter and opens the file again, after its reservations are settled:
// with it their slots would go.
func (s *sharedSession) reopen(i int) {
	s.calm.Store(true)
	defer func() { s.calm.Store(false) }()
	for _, pair := range s.open {
		if pair.by == i {
			pair.shared.Commit(1, 1)
			pair.alone.Commit(1, 1)
		}
	}
	kept := s.open[:0]
	for _, pair := range s.open {
		if pair.by != i {
			kept = append(kept, pair)
		}
	}
	s.open = kept
	s.say("%d: reopen", i)
	if err := s.shared[i].Close(); err != nil {
		s.t.Error(err)
	}
	cfg := s.cfg
	s.cfg.Quotas = nil // or they would take the place of what SetQuota said
	s.cfg.Providers = []ratelimit.Provider{ratelimit.ProviderLocal}
	s.shared[i] = s.openShared()
	s.cfg = cfg
}

func (s *sharedSession) compare() {
	for _, model := range sharedModels {
		alone := s.alone.Stats(model)
		for i, rl := range s.shared {
			if shared := rl.Stats(model); sharedStats(shared) != sharedStats(alone) {
				s.t.Errorf("%v: limiter %d says of %s\n%+v, alone\n%+v", time.Now(), i, model, shared, alone)
			}
		}
		ask := s.random.IntN(100)
		want := s.alone.Decide(model, ask)
		for i, rl := range s.shared {
			got := rl.Decide(model, ask)
			got.Stats, want.Stats = sharedStats(got.Stats), sharedStats(want.Stats)
			if got != want {
				s.t.Errorf("limiter %d decides on %s %d\n%+v, alone\n%+v", i, model, ask, got, want)
			}
		}
	}
}

// sharedStats leaves out what may differ: a day with nothing in it may have begun at any
// time.
func sharedStats(stats ratelimit.ModelStats) ratelimit.ModelStats {
	if stats.RPD == 0 && stats.TPD == 0 {
		stats.DayStart = time.Time{}
	}
	stats.DayStart = stats.DayStart.UTC()
	return stats
}
