// Store: limiters on several machines, over a log in memory.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
	"dappco.re/go/core/go-ratelimit/internal/test/sharedoracle"
)

func TestStoreBesideOthers(t *testing.T) {
	for _, tt := range []struct {
		cfg  ratelimit.Config
		want string // in the error, for each of the fields
	}{
		{ratelimit.Config{Shared: true}, "Shared"},
		{ratelimit.Config{FilePath: "state.yaml"}, `FilePath "state.yaml"`},
		{ratelimit.Config{Backend: "sqlite"}, `Backend "sqlite"`},
		{ratelimit.Config{Durability: "power"}, `Durability "power"`},
	} {
		tt.cfg.Store = sharedlogtest.NewFake()
		if _, err := ratelimit.NewWithConfig(tt.cfg); err == nil || !strings.Contains(err.Error(), "Store and "+tt.want) {
			t.Errorf("%s: %v", tt.want, err)
		}
	}
	cfg := ratelimit.Config{Store: sharedlogtest.NewFake()}
	if _, err := ratelimit.NewWithSQLiteConfig("state.db", cfg); err == nil || !strings.Contains(err.Error(), `"state.db"`) {
		t.Errorf("a database beside it: %v", err)
	}
	cfg.AutoPersist = ratelimit.AutoPersist{Delay: time.Second}
	overStore(t, cfg.Store, cfg)
}

// While the store is down, all limiters together stay within the quota, and what they charged is
// written when it is back.
func TestStoreSharesWhileDown(t *testing.T) {
	for _, tt := range []struct {
		name  string
		quota ratelimit.ModelQuota
		spent int // requests of 10 tokens, before
		each  int // that each of three passes
	}{
		{"requests", ratelimit.ModelQuota{MaxRPM: 30}, 6, 8},
		{"with a rest", ratelimit.ModelQuota{MaxRPM: 31}, 0, 10},
		{"less than there are limiters", ratelimit.ModelQuota{MaxRPM: 2}, 0, 0},
		{"tokens", ratelimit.ModelQuota{MaxTPM: 300}, 3, 9},
		{"a day", ratelimit.ModelQuota{MaxRPD: 30}, 3, 9},
		{"tokens of a day", ratelimit.ModelQuota{MaxTPD: 300}, 3, 9},
		{"calls in flight", ratelimit.ModelQuota{MaxInFlight: 12}, 3, 3},
		{"fewer calls in flight than limiters", ratelimit.ModelQuota{MaxInFlight: 2}, 0, 0},
		{"no limit", ratelimit.ModelQuota{}, 3, 50},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := sharedlogtest.NewFake()
				var all []*ratelimit.RateLimiter
				for range 3 {
					all = append(all, overStore(t, fake, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": tt.quota}}))
				}
				var open []*ratelimit.Reservation // those that the program drops are released
				for range tt.spent {
					r, _ := all[0].Reserve("m", 10, 0)
					open = append(open, r)
				}
				for _, rl := range all {
					rl.Stats("m")
				}
				time.Sleep(time.Millisecond) // to tell before from after
				fake.Fail(errors.New("down"))
				passed := tt.spent
				for i, rl := range all {
					n := 0
					for range 50 {
						if r, _ := rl.Reserve("m", 10, 0); r != nil {
							open = append(open, r)
							n++
						}
					}
					if n != tt.each {
						t.Errorf("limiter %d passes %d, want %d", i, n, tt.each)
					}
					passed += n
				}
				fake.Fail(nil)
				for _, rl := range all {
					for rl.Err() != nil {
						rl.Persist()
					}
				}
				for i, rl := range all {
					if s := rl.Stats("m"); s.RPM != passed || s.RPD != passed || s.TPM != 10*passed || s.InFlight != passed {
						t.Errorf("limiter %d counts %+v, want %d requests", i, s, passed)
					}
				}
				runtime.KeepAlive(open)
			})
		})
	}
}

// A share is of what is left, and grows as what was charged before leaves the window.
func TestStoreShareGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := sharedlogtest.NewFake()
		cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}}
		first, _ := overStore(t, fake, cfg), overStore(t, fake, cfg)
		for range 10 {
			first.RecordUsage("m", 1, 0)
		}
		fake.Fail(errors.New("down"))
		if r, d := first.Reserve("m", 1, 0); r != nil || d.RetryAfter <= 0 {
			t.Errorf("a full quota lets %+v pass", d)
		}
		time.Sleep(time.Minute + time.Second)
		for i := range 7 {
			if r, d := first.Reserve("m", 1, 0); (r != nil) != (i < 5) {
				t.Errorf("request %d: %+v", i, d)
			}
		}
	})
}

// A write that fails admits nothing, whether the store has it or not.
func TestStoreFailClosed(t *testing.T) {
	for _, written := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fake, fails := sharedlogtest.NewFake(), false
			fail := func(int64) error {
				if fails {
					fake.Fail(errors.New("made up"))
					return errors.New("made up")
				}
				return nil
			}
			if written {
				fake.After = fail
			} else {
				fake.Before = fail
			}
			cfg := ratelimit.Config{FailClosed: true, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}}
			rl, other := overStore(t, fake, cfg), overStore(t, fake, cfg)
			fails = true
			for range 2 {
				if r, d := rl.Reserve("m", 5, 5); r != nil || d.Code != ratelimit.DecisionStoreError {
					t.Errorf("Reserve says %+v", d)
				}
			}
			if rs, d := rl.ReserveAll(ratelimit.Request{Model: "m"}); rs != nil || d.Code != ratelimit.DecisionStoreError {
				t.Errorf("ReserveAll says %+v", d)
			}
			fails = false
			fake.Fail(nil)
			for _, rl := range []*ratelimit.RateLimiter{rl, other} {
				for rl.Err() != nil {
					rl.Persist()
				}
				if s := rl.Stats("m"); s.RPM != 0 || s.InFlight != 0 || s.RPD != 0 {
					t.Errorf("%v: left %+v", written, s)
				}
			}
		})
	}
}

// The store's clock dates what is charged. Times that the program gives are of its own clock, and
// mean the same however far that is off.
func TestStoreWithAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 30 * time.Millisecond} {
		t.Run(ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := sharedlogtest.NewFake()
				fake.Ahead = ahead
				cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 2}, "cooled": {}}}
				first := overStore(t, fake, cfg)
				first.Cooldown("cooled", time.Now().Add(30*time.Second))
				moved, _ := first.Reserve("m", 1, 0)
				time.Sleep(10 * time.Second)
				moved.Arrived(time.Now().Add(-2 * time.Second))
				first.Reserve("m", 1, 0)
				for i, rl := range []*ratelimit.RateLimiter{first, overStore(t, fake, cfg)} {
					if d := rl.Decide("m", 1); d.Allowed || d.RetryAfter != 58*time.Second+1 {
						t.Errorf("limiter %d: a request passes in %v, %+v", i, d.RetryAfter, d)
					}
					if d := rl.Decide("cooled", 1); d.Code != ratelimit.DecisionCooldown || d.RetryAfter != 20*time.Second {
						t.Errorf("limiter %d: the cooldown is %q for %v", i, d.Code, d.RetryAfter)
					}
				}
			})
		})
	}
}

// A burst is divided, too: as many start at once as one limiter alone would let start, and then as
// many in a time.
func TestStoreSharesBurstWhileDown(t *testing.T) {
	for _, tt := range []struct {
		name  string
		quota ratelimit.ModelQuota
		spent int   // requests of 10 tokens, before
		each  []int // that each of three passes by then, second after second
	}{
		{"requests", ratelimit.ModelQuota{MaxRPM: 60, Burst: 12 * time.Second}, 3, []int{3, 3, 3, 4, 4, 4, 5}},
		{"tokens", ratelimit.ModelQuota{MaxTPM: 600, Burst: 9 * time.Second}, 0, []int{3, 3, 3, 4, 4, 4, 5}},
		{"fewer than there are limiters", ratelimit.ModelQuota{MaxRPM: 60, Burst: 2 * time.Second}, 1, []int{0, 0, 1, 1, 1, 2, 2, 2, 3}},
		{"used up", ratelimit.ModelQuota{MaxRPM: 60, Burst: 6 * time.Second}, 6, []int{0, 0, 0, 1, 1, 1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := sharedlogtest.NewFake()
				cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": tt.quota}}
				var all []*ratelimit.RateLimiter
				for range 3 {
					all = append(all, overStore(t, fake, cfg))
				}
				for range tt.spent {
					if _, d := all[0].Reserve("m", 10, 0); !d.Allowed {
						t.Errorf("with the store: %s", d.Reason)
					}
				}
				for _, rl := range all {
					rl.Stats("m")
				}
				time.Sleep(time.Nanosecond) // to tell before from after
				fake.Fail(errors.New("down"))
				passed := make([]int, len(all))
				for second, want := range tt.each {
					for i, rl := range all {
						for range 20 {
							if r, d := rl.Reserve("m", 10, 0); r != nil {
								passed[i]++
							} else if d.RetryAfter <= 0 || d.Never {
								t.Errorf("limiter %d is denied for %v, never: %v", i, d.RetryAfter, d.Never)
							}
						}
						if passed[i] != want {
							t.Errorf("limiter %d passes %d in %d s, want %d", i, passed[i], second, want)
						}
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// What counts for the day alone, and was deleted from the log, is not written to it again by a
// limiter that has not heard of that when the log loses its end.
func TestStoreForkedAfterAFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := sharedlogtest.NewFake()
		cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPD: 1000}}}
		one, two := overStore(t, fake, cfg), overStore(t, fake, cfg)
		for range 100 {
			one.RecordUsage("m", 1, 0)
		}
		two.Stats("m")
		time.Sleep(3 * time.Minute)
		one.RecordUsage("m", 1, 0)
		if n := fake.Events(); n > 10 {
			t.Fatalf("the log has %d events, want few", n)
		}
		fake.Fork()
		for range 2 {
			for i, rl := range []*ratelimit.RateLimiter{two, one} {
				if err := rl.Persist(); err != nil {
					t.Error(err)
				}
				if s := rl.Stats("m"); s.RPD != 101 || s.TPD != 101 {
					t.Errorf("limiter %d counts %d requests and %d tokens in the day, want 101", i, s.RPD, s.TPD)
				}
			}
		}
	})
}

// trouble counts what was made up.
type trouble struct{ conflicts, failures int }

// makeTrouble has a session's log conflict and fail.
func makeTrouble(s *sharedoracle.Session, fake *sharedlogtest.Fake) *trouble {
	made := new(trouble)
	random := rand.New(rand.NewPCG(s.Random.Uint64(), 7))
	within, session := false, goroutine()
	fake.Before = func(int64) error {
		if goroutine() == session && !s.Calm() && !within {
			within = true
			defer func() { within = false }()
			switch n := random.IntN(60); {
			case n < 20:
				made.conflicts++
				s.Between()
			case n < 22:
				made.failures++
				return errors.New("made up, before the write")
			}
		}
		return nil
	}
	fake.After = func(int64) error {
		if goroutine() == session && !s.Calm() && !within && random.IntN(40) == 0 {
			made.failures++
			return errors.New("made up, after the write")
		}
		return nil
	}
	return made
}

// makeQuotaTrouble has others change quotas before a step is written, and has steps fail.
func makeQuotaTrouble(s *sharedoracle.Session, fake *sharedlogtest.Fake) {
	within, session := false, goroutine()
	fail := func(when string) error {
		if goroutine() == session && !s.Calm() && !within && s.Random.IntN(15) == 0 {
			return errors.New("made up, " + when + " the write")
		}
		return nil
	}
	fake.Before = func(int64) error {
		if goroutine() == session && !s.Calm() && !within && s.Random.IntN(3) == 0 {
			within = true
			defer func() { within = false }()
			s.RequoteBetween()
		}
		return fail("before")
	}
	fake.After = func(int64) error { return fail("after") }
}

// goroutine returns the number of the goroutine that runs. A limiter whose store failed tries it
// again on a goroutine of its own, beside the session: what is random is the session's alone.
func goroutine() string {
	var stack [64]byte
	_, number, _ := strings.Cut(string(stack[:runtime.Stack(stack[:], false)]), " ")
	number, _, _ = strings.Cut(number, " ")
	return number
}

// Several limiters of one store take random turns. Each of them then says what one limiter alone
// says after all of it.
func TestStoreIsOneLimiter(t *testing.T) {
	overFakes(t, times(24, 5, 2000), func(t *testing.T, seed int, fake *sharedlogtest.Fake) {
		sharedoracle.New(t, storeSetup(seed, fake)).Run(400)
	})
}

// The same where Commits conflict and fail, before or after they were written.
func TestStoreIsOneLimiterWhateverConflicts(t *testing.T) {
	overFakes(t, times(24, 5, 2000), func(t *testing.T, seed int, fake *sharedlogtest.Fake) {
		fake.Lonely = true // one limiter alone has the whole quota
		s := sharedoracle.New(t, storeSetup(seed, fake))
		trouble := makeTrouble(s, fake)
		s.Run(400)
		if trouble.conflicts < 50 || trouble.failures < 2 {
			t.Errorf("%d conflicts, %d failures", trouble.conflicts, trouble.failures)
		}
	})
}

// The same with calls that wait, some of them for hours, for several models, and with limits that
// spread calls or that others use, too.
func TestStoreIsOneLimiterWide(t *testing.T) {
	overFakes(t, times(8, 2, 500), func(t *testing.T, seed int, fake *sharedlogtest.Fake) {
		setup := storeSetup(seed, fake)
		setup.Wide, setup.Grain, setup.Near = true, 701*time.Millisecond, sharedHandOver
		setup.Sleep = func(d time.Duration) { time.Sleep(d % (3 * time.Hour)) } // waiters ask now and then
		sharedoracle.New(t, setup).Run(400)
	})
}

// What the limiters of a store say of quotas is what one limiter alone says.
func TestStoreQuotasAreThoseOfOneLimiterWhateverConflicts(t *testing.T) {
	overFakes(t, times(12, 4, 1000), func(t *testing.T, seed int, fake *sharedlogtest.Fake) {
		fake.Lonely = true
		s := sharedoracle.New(t, storeSetup(seed, fake))
		makeQuotaTrouble(s, fake)
		s.RunQuotas(200, false)
	})
}

// storeSetup has limiters share a log in memory as one on another machine.
func storeSetup(seed int, store ratelimit.Store) sharedoracle.Setup {
	return sharedoracle.Setup{
		Seed: uint64(seed),
		Open: func(t *testing.T, _ int, cfg ratelimit.Config) *ratelimit.RateLimiter {
			cfg.Store = store
			rl, err := ratelimit.NewWithConfig(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return rl
		},
		Shares: true,
		CatchUp: func(t *testing.T, rl *ratelimit.RateLimiter) {
			if err := rl.Persist(); err != nil {
				t.Error(err)
			}
		},
	}
}

// Whatever comes together, no more is admitted than the quotas permit, and all limiters know all
// that was charged.
func TestStoreCrowd(t *testing.T) {
	crowds(t, func(t *testing.T, c *sharedoracle.Crowd) {
		c.Calls = 40
		c.Run(t)
	})
}

// Nobody is denied while there is room.
func TestStoreRush(t *testing.T) {
	crowds(t, func(t *testing.T, c *sharedoracle.Crowd) {
		c.Calls = 20
		c.Rush(t)
	})
}

// crowds has crowds of several sizes use a log in memory, at once and with what a network takes.
func crowds(t *testing.T, run func(*testing.T, *sharedoracle.Crowd)) {
	overFakes(t, times(4, 2, 400), func(t *testing.T, seed int, fake *sharedlogtest.Fake) {
		if seed%4 > 0 {
			fake.Before = func(int64) error {
				time.Sleep(time.Duration(rand.IntN(100*(seed%4))) * time.Microsecond)
				return nil
			}
		}
		run(t, &sharedoracle.Crowd{Setup: storeSetup(seed, fake), Limiters: 1 + seed%5, Goroutines: 20})
	})
}

// A limiter that comes back from an outage as another one takes it out of the lines has its
// waiters in the lines once, for all: a place that nobody leaves would stop everybody behind it.
func TestOutageLeavesNoPlacesBehind(t *testing.T) {
	for round := range times(6, 2, 300) { // one in twelve met the moment
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, outageWithWaiters)
		})
	}
}

func outageWithWaiters(t *testing.T) {
	const limiters, callers, outage = 3, 3, 30 * time.Second
	quotas := map[string]ratelimit.ModelQuota{"m": {MaxRPM: 120, Burst: 500 * time.Millisecond}}
	fake := sharedlogtest.NewFake()
	ctx, cancel := context.WithCancel(t.Context())
	var passed atomic.Int32
	var under sync.WaitGroup
	var all []*ratelimit.RateLimiter
	for range limiters {
		rl := overStore(t, fake, ratelimit.Config{Quotas: quotas})
		all = append(all, rl)
		for range callers {
			under.Go(func() {
				for {
					r, err := rl.Acquire(ctx, "m", 0, 0)
					if err != nil {
						return
					}
					passed.Add(1)
					r.Commit(0, 0)
				}
			})
		}
	}
	time.Sleep(outage)
	fake.Fail(errors.New("down"))
	time.Sleep(outage)
	fake.Fail(nil)
	time.Sleep(4 * outage)
	passed.Store(0)
	time.Sleep(outage)
	if passed.Load() == 0 {
		t.Error("nobody passes")
	}
	for i, rl := range all {
		if n := rl.Stats("m").Waiting; n > limiters*callers {
			t.Errorf("limiter %d: %d wait, of %d", i, n, limiters*callers)
		}
	}
	cancel()
	under.Wait()
}

// A limiter that asked nothing for long catches up, although events that it never heard of were
// deleted meanwhile.
func TestStoreAfterIdleness(t *testing.T) {
	for name, ask := range map[string]func(*ratelimit.RateLimiter){
		"a question": func(rl *ratelimit.RateLimiter) { rl.Stats("m") },
		"Persist":    func(rl *ratelimit.RateLimiter) { rl.Persist() },
		"a charge":   func(rl *ratelimit.RateLimiter) { rl.RecordUsage("other", 1, 1) },
		"a decision": func(rl *ratelimit.RateLimiter) { rl.Reserve("other", 1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := sharedlogtest.NewFake()
				cfg := ratelimit.Config{
					Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPD: 1000}, "other": {}},
					OnError: func(err error) { t.Errorf("reported: %v", err) },
				}
				idle, busy := overStore(t, fake, cfg), overStore(t, fake, cfg)
				const charges = 500
				for range charges - 1 {
					busy.RecordUsage("m", 1, 1)
					time.Sleep(30 * time.Second)
				}
				busy.RecordUsage("m", 1, 1)
				if fake.Events() >= charges {
					t.Fatal("nothing was deleted")
				}
				ask(idle)
				if got, want := idle.Stats("m"), busy.Stats("m"); got != want || got.RPD != charges {
					t.Errorf("the idle limiter says %+v, the busy one %+v", got, want)
				}
				if err := idle.Err(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			})
		})
	}
}
