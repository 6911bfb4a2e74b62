// Store: limiters on several machines, over a log in memory.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
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
		tt.cfg.Store = fakestore.New()
		if _, err := ratelimit.NewWithConfig(tt.cfg); err == nil || !strings.Contains(err.Error(), "Store and "+tt.want) {
			t.Errorf("%s: %v", tt.want, err)
		}
	}
	cfg := ratelimit.Config{Store: fakestore.New()}
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
		{"calls in flight", ratelimit.ModelQuota{MaxInFlight: 12}, 0, 4},
		{"fewer calls in flight than limiters", ratelimit.ModelQuota{MaxInFlight: 2}, 0, 0},
		{"no limit", ratelimit.ModelQuota{}, 3, 50},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := fakestore.New()
				all := threeOf(t, fake, quotaOfM(tt.quota))
				var open []*ratelimit.Reservation // those that the program drops are released
				for range tt.spent {
					r, _ := all[0].Reserve("m", 10, 0)
					open = append(open, r)
				}
				time.Sleep(2 * time.Second) // all have heard of it: idle ones gather news for a second
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
				recovers(fake, all...)
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
		fake := fakestore.New()
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

// Nobody is told that a request never fits by a quota that another process has just replaced.
func TestStoreNeverByTheLastQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		var speaker atomic.Int64
		var late atomic.Bool // the news that somebody else waits for
		fake.Before = func(process int64) error {
			speaker.CompareAndSwap(0, process)
			return nil
		}
		fake.AfterRead = func(process int64) error {
			if process != speaker.Load() && late.CompareAndSwap(true, false) {
				time.Sleep(time.Second)
			}
			return nil
		}
		cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 10}}}
		first := overStore(t, fake, cfg)
		synctest.Wait()
		second := overStore(t, fake, cfg)
		synctest.Wait()
		late.Store(true)
		first.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 1000})
		if r, d := second.Reserve("m", 50, 0); r == nil {
			t.Errorf("Reserve says %+v", d)
		}
	})
}

// The store's clock dates what is charged. Times that the program gives are of its own clock, and
// mean the same however far that is off.
func TestStoreWithAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 30 * time.Millisecond} {
		t.Run(ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := fakestore.New()
				fake.Jump(ahead)
				cfg := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 2}, "cooled": {}}}
				first, second := overStore(t, fake, cfg), overStore(t, fake, cfg)
				first.Cooldown("cooled", time.Now().Add(30*time.Second))
				moved, _ := first.Reserve("m", 1, 0)
				time.Sleep(10 * time.Second)
				moved.Arrived(time.Now().Add(-2 * time.Second))
				first.Reserve("m", 1, 0)
				for i, rl := range []*ratelimit.RateLimiter{first, second} {
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
				fake := fakestore.New()
				all := threeOf(t, fake, quotaOfM(tt.quota))
				for range tt.spent {
					if _, d := all[0].Reserve("m", 10, 0); !d.Allowed {
						t.Errorf("with the store: %s", d.Reason)
					}
				}
				time.Sleep(time.Millisecond)
				for _, rl := range all {
					rl.Stats("m")
				}
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

// A limiter that asked nothing for long catches up, although events that it never heard of were
// deleted meanwhile.
func TestStoreAfterIdleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		fake.Contact = time.Hour // an idle limiter seldom asks
		cfg := ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPD: 10_000}, "other": {}},
			OnError: func(err error) { t.Errorf("reported: %v", err) },
		}
		questioned, decides, busy := overStore(t, fake, cfg), overStore(t, fake, cfg), overStore(t, fake, cfg)
		const charges = 8000 // more than fit between two images
		for range charges - 1 {
			busy.RecordUsage("m", 1, 1)
			time.Sleep(5 * time.Second)
		}
		busy.RecordUsage("m", 1, 1)
		if fake.Len() >= charges {
			t.Fatal("nothing was deleted")
		}
		questioned.Stats("m")
		decides.Reserve("other", 1, 1)
		want := busy.Stats("m")
		for name, idle := range map[string]*ratelimit.RateLimiter{"a question": questioned, "a decision": decides} {
			if got := idle.Stats("m"); got != want || got.RPD != charges {
				t.Errorf("after %s the idle limiter says %+v, the busy one %+v", name, got, want)
			}
			if err := idle.Err(); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
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
	fake := fakestore.New()
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

// A limiter whose quotas the store does not have is not opened: it would admit whatever comes.
func TestStoreGoesAwayWhileALimiterOpens(t *testing.T) {
	for appends := range int64(5) {
		t.Run(fmt.Sprint(appends), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake, n := fakestore.New(), atomic.Int64{}
				lost := errors.New("connection refused")
				fake.Before = func(int64) error {
					if n.Add(1) > appends {
						return lost
					}
					return nil
				}
				began := time.Now()
				rl, err := ratelimit.NewWithConfig(ratelimit.Config{Store: fake, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 5}}})
				if took := time.Since(began); took > time.Minute {
					t.Errorf("it took %v", took)
				}
				if err == nil {
					if _, _, has := rl.QuotaFor("m"); !has {
						t.Error("it opens without its quota")
					}
					rl.Close()
				} else if !errors.Is(err, lost) && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		})
	}
}
