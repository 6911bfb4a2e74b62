// Random schedules of all that waits: classes, flows, pools, AcquireAll and AcquireAny. Nothing may
// wait for ever, nor longer than it must, nor be charged twice.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// fairSchedule is one of them: callers that come at random times, and a watchdog.
type fairSchedule struct {
	*testing.T
	random   *rand.Rand
	seed     uint64
	cfg      ratelimit.Config
	limiters []*ratelimit.RateLimiter
	lag      time.Duration // until a limiter hears of another one

	mu      sync.Mutex
	callers []*fairCaller
	charged map[string]int // requests by model
	log     []string
}

// fairCaller is a call of a schedule.
type fairCaller struct {
	kind     string
	by       int
	reqs     []ratelimit.Request
	lasts    time.Duration
	leaves   time.Duration // gives up after so long; zero never
	came     time.Time
	patience time.Duration // of AcquireAny
	returned bool
}

func (c *fairCaller) String() string {
	var reqs []string
	for _, req := range c.reqs {
		reqs = append(reqs, fmt.Sprintf("%s %d+%d", req.Model, req.PromptTokens, req.OutputTokens))
	}
	return fmt.Sprintf("%s %q of class %q and flow %q for %v, leaves after %v, patience %v",
		c.kind, reqs, c.reqs[0].Class, c.reqs[0].Flow, c.lasts, c.leaves, c.patience)
}

var fairScheduleModels = []string{"a", "b", "c"}

func drawFairSchedule(t *testing.T, seed uint64) *fairSchedule {
	s := &fairSchedule{T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 43)), charged: make(map[string]int)}
	quota := func() ratelimit.ModelQuota {
		pick := func(of ...int) int { return of[s.random.IntN(len(of))] }
		return ratelimit.ModelQuota{MaxRPM: pick(0, 3, 6), MaxTPM: pick(0, 0, 100, 150), MaxInFlight: pick(0, 0, 1, 2), Burst: time.Duration(pick(0, 0, 20)) * time.Second}
	}
	s.cfg = ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": quota(), "b": quota(), "c": quota()}}
	if s.random.IntN(3) > 0 {
		s.cfg.Pools = map[string]ratelimit.Pool{"all": {Models: []string{"*"}, Quota: quota()}, "two": {Models: []string{"a", "b"}, Quota: quota()}}
	}
	if s.random.IntN(3) > 0 {
		s.cfg.Classes = map[string]ratelimit.Class{
			"x": {Weight: s.random.IntN(4), Ahead: s.random.IntN(4) == 0},
			"y": {Weight: s.random.IntN(4), ReservePercent: s.random.IntN(3) * 20},
		}
	}
	return s
}

func (s *fairSchedule) fail(format string, args ...any) {
	s.Helper()
	s.Logf("seed %d: quotas %s, pools %s, classes %s", s.seed, jsonOf(s.T, s.cfg.Quotas), jsonOf(s.T, s.cfg.Pools), jsonOf(s.T, s.cfg.Classes))
	for _, line := range s.log {
		s.Log(line)
	}
	s.Fatalf(format, args...)
}

func (s *fairSchedule) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%v ", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))+fmt.Sprintf(format, args...))
}

// draw draws a call.
func (s *fairSchedule) draw() *fairCaller {
	c := &fairCaller{kind: []string{"one", "all", "any", "any", "wait"}[s.random.IntN(5)], by: s.random.IntN(len(s.limiters)),
		lasts: time.Duration(s.random.Int64N(int64(20 * time.Second))), patience: time.Duration(s.random.IntN(3)) * 10 * time.Second}
	if s.random.IntN(4) == 0 {
		c.leaves = time.Duration(s.random.Int64N(int64(time.Minute)))
	}
	class, flow := []string{"", "x", "y"}[s.random.IntN(3)], []string{"", "f"}[s.random.IntN(2)]
	n := 1
	if c.kind == "all" || c.kind == "any" {
		n += s.random.IntN(3)
	}
	for _, i := range s.random.Perm(len(fairScheduleModels))[:n] {
		c.reqs = append(c.reqs, ratelimit.Request{Model: fairScheduleModels[i], PromptTokens: s.random.IntN(60), OutputTokens: s.random.IntN(40), Class: class, Flow: flow})
	}
	if c.kind == "wait" {
		c.reqs[0].OutputTokens = 0
	}
	return c
}

// call makes a call, in a goroutine of its own.
func (s *fairSchedule) call(ctx context.Context, c *fairCaller) {
	given := ctx
	if c.leaves > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.leaves)
		defer cancel()
	}
	rl, first := s.limiters[c.by], c.reqs[0]
	var rs ratelimit.Reservations
	var err error
	switch c.kind {
	case "all":
		rs, err = rl.AcquireAll(ctx, c.reqs...)
	case "wait":
		err = rl.WaitForCapacity(ratelimit.WithClass(ctx, first.Class), first.Model, first.PromptTokens)
	case "any":
		var r *ratelimit.Reservation
		if r, err = rl.AcquireAny(ctx, ratelimit.AnyOptions{Patience: c.patience}, c.reqs...); r != nil {
			rs = append(rs, r)
		}
	default:
		ctx := ratelimit.WithFlow(ratelimit.WithClass(ctx, first.Class), first.Flow)
		var r *ratelimit.Reservation
		if r, err = rl.Acquire(ctx, first.Model, first.PromptTokens, first.OutputTokens); r != nil {
			rs = append(rs, r)
		}
	}
	s.mu.Lock()
	c.returned = true
	s.note("%d: %v: %d reservations, %v", c.by, c, len(rs), err)
	if err != nil && given.Err() == nil && (c.leaves == 0 || !errors.Is(err, context.DeadlineExceeded)) && !errors.Is(err, ratelimit.ErrNeverFits) {
		s.Errorf("seed %d: %s %+v: %v", s.seed, c.kind, c.reqs, err)
	}
	for _, r := range rs {
		s.charged[r.Model()]++
	}
	s.mu.Unlock()
	select {
	case <-time.After(c.lasts):
	case <-given.Done():
	}
	for i, r := range rs {
		if i%2 == 0 {
			r.Commit(c.reqs[0].PromptTokens, 5)
			continue
		}
		s.mu.Lock()
		s.charged[r.Model()]--
		s.mu.Unlock()
		r.Cancel()
	}
}

// waiting returns the callers that wait.
func (s *fairSchedule) waiting() (waiting []*fairCaller) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.callers {
		if !c.returned {
			waiting = append(waiting, c)
		}
	}
	return waiting
}

// watch looks for a lost wake-up: a call that alone waits for its models, although it would pass.
// One that waits behind others, or for the sake of a reserve, may have to.
func (s *fairSchedule) watch() {
	if s.cfg.Classes["y"].ReservePercent > 0 {
		return
	}
	waiting := s.waiting()
	if len(waiting) != 1 {
		return
	}
	c, rl := waiting[0], s.limiters[waiting[0].by]
	fits := func() (fits bool) {
		if c.kind != "any" {
			return s.fits(rl, c.reqs...)
		}
		for i, req := range c.reqs {
			fits = fits || (i == 0 || time.Since(c.came) >= c.patience) && s.fits(rl, req)
		}
		return fits
	}
	if fits() {
		time.Sleep(s.lag) // its limiter may be about to hear of it
		if still := s.waiting(); len(still) == 1 && still[0] == c && fits() {
			s.fail("%v waits, and there is room", c)
		}
	}
}

// fits adds up what requests ask, and compares it with what the stats say is left. A Burst is not
// in the stats: with one it says that nothing fits.
func (s *fairSchedule) fits(rl *ratelimit.RateLimiter, reqs ...ratelimit.Request) bool {
	calls, tokens := make(map[string]int), make(map[string]int)
	for _, req := range reqs {
		names := []string{req.Model}
		for _, pool := range rl.PoolsOf(req.Model) {
			names = append(names, "pool "+pool)
		}
		for _, name := range names {
			calls[name]++
			tokens[name] += req.PromptTokens + req.OutputTokens
		}
	}
	for name, n := range calls {
		stats, quota := rl.Stats(name), s.cfg.Quotas[name]
		if len(name) > 1 {
			pool, _ := rl.Pool(name[len("pool "):])
			stats, quota = rl.PoolStats(name[len("pool "):]), pool.Quota
		}
		if quota.Burst > 0 || quota.MaxRPM > 0 && stats.RPM+n > quota.MaxRPM || quota.MaxTPM > 0 && stats.TPM+tokens[name] > quota.MaxTPM ||
			quota.MaxInFlight > 0 && stats.InFlight+n > quota.MaxInFlight {
			return false
		}
	}
	return true
}

// run lets so many callers come, and waits until all of them are through.
func (s *fairSchedule) run(callers int) {
	ctx, cancel := context.WithCancel(s.Context())
	var all sync.WaitGroup
	defer all.Wait() // also where the schedule fails
	defer cancel()
	for range callers {
		c := s.draw()
		c.came = time.Now()
		s.mu.Lock()
		s.note("%d: comes %v", c.by, c)
		s.callers = append(s.callers, c)
		s.mu.Unlock()
		all.Go(func() { s.call(ctx, c) })
		if pause := s.random.Int64N(int64(8 * time.Second)); s.random.IntN(2) == 0 {
			time.Sleep(time.Duration(pause))
			s.watch()
		}
	}
	for range 60 {
		time.Sleep(10*time.Second + s.lag)
		s.watch()
	}
	time.Sleep(2 * time.Hour)
	for _, c := range s.waiting() {
		s.fail("%v still waits after two hours", c)
	}
	all.Wait()
	if s.Failed() {
		s.fail("the schedule")
	}
	for i, rl := range s.limiters {
		for model, n := range s.charged {
			if stats := rl.Stats(model); stats.InFlight != 0 || stats.Waiting != 0 || stats.RPD != n {
				s.fail("limiter %d: %s has charged %d calls, has %d in flight and %d waiters; %d were served", i, model, stats.RPD, stats.InFlight, stats.Waiting, n)
			}
		}
		for pool, stats := range rl.IterPools() {
			if stats.InFlight != 0 || stats.Waiting != 0 {
				s.fail("limiter %d: pool %s has %d in flight and %d waiters", i, pool, stats.InFlight, stats.Waiting)
			}
		}
	}
}

// stuckSchedules are those in which a head that yields, and was not next in another line, held up
// the classes behind it for ever.
var stuckSchedules = []uint64{3408, 24578, 32459, 59653}

// Ten thousand schedules in memory; a hundred thousand with RATELIMIT_LONG.
func TestFairSchedules(t *testing.T) {
	t.Parallel()
	const groups = 16
	for group := range groups {
		t.Run(fmt.Sprint(group), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var seeds []uint64
			for i := range uint64(times(1_000, 400, 100_000) / groups) {
				seeds = append(seeds, uint64(group)+i*groups)
			}
			if group == 0 {
				seeds = append(seeds, stuckSchedules...)
			}
			for _, seed := range seeds {
				synctest.Test(t, func(t *testing.T) {
					s := drawFairSchedule(t, seed)
					s.cfg.FilePath = filepath.Join(dir, "never written")
					s.limiters = append(s.limiters, newLimiterWith(t, s.cfg))
					s.run(3 + s.random.IntN(8))
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

// The same over three limiters of one log.
func TestFairSchedulesOfStore(t *testing.T) {
	overFakes(t, times(60, 10, 20_000), func(t *testing.T, seed int, fake *fakestore.Fake) {
		(&place{kind: inLog, log: fake, late: sharedHandOver}).schedule(t, uint64(seed), 8)
	})
}

// The same over three limiters of one file.
func TestFairSchedulesOfSharedFile(t *testing.T) {
	needSQLite(t)
	t.Parallel()
	for seed := range uint64(times(6, 1, 1000)) {
		path := filepath.Join(t.TempDir(), fmt.Sprint(seed))
		synctest.Test(t, func(t *testing.T) {
			(&place{kind: inFile, path: path, late: sharedHandOver}).schedule(t, seed, times(8, 1, 8))
		})
	}
}

// schedule runs a schedule over three limiters, with fewer calls more than three than most.
func (p *place) schedule(t *testing.T, seed uint64, most int) {
	s := drawFairSchedule(t, seed)
	s.lag, s.limiters = p.late, p.three(t, s.cfg)
	s.run(3 + s.random.IntN(most))
}
