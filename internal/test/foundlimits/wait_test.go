// Limits that are found, and those who wait: in time, in order, and none forgotten.

package foundlimits

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// Calls that wait start evenly, in their order, each to the nanosecond.
func TestAdaptiveWaitersAreSpaced(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name  string
		quota ratelimit.ModelQuota
		want  []time.Duration
	}{
		{"one a second", adaptiveFixed(60), []time.Duration{0, s, 2 * s, 3 * s, 4 * s}},
		{"one a minute", adaptiveFixed(1), []time.Duration{0, 60 * s, 120 * s}},
		{"a gap that is no whole number", adaptiveFixed(7), []time.Duration{0, 8571428571, 2 * 8571428571}},
		{"the minute holds beside it", ratelimit.ModelQuota{MaxRPM: 3, AdaptiveFloorRPM: 60, AdaptiveCeilingRPM: 60}, []time.Duration{0, s, 2 * s, 60*s + 1, 61*s + 1}},
		{"a burst does, too", ratelimit.ModelQuota{MaxRPM: 20, Burst: 6 * s, AdaptiveFloorRPM: 60, AdaptiveCeilingRPM: 60}, []time.Duration{0, s, 3 * s, 6 * s, 9 * s}},
		{"it is slower than a burst", ratelimit.ModelQuota{MaxRPM: 600, Burst: 6 * s, AdaptiveFloorRPM: 60, AdaptiveCeilingRPM: 60}, []time.Duration{0, s, 2 * s, 3 * s}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := limitertest.Of(t, tt.quota)
				began := time.Now()
				order := make(chan int, len(tt.want))
				at := make(chan time.Duration, len(tt.want))
				for i := range tt.want {
					go func() {
						var r *ratelimit.Reservation
						var err error
						if i%2 == 0 {
							r, err = rl.Acquire(t.Context(), "m", 1, 0)
						} else {
							var rs ratelimit.Reservations
							rs, err = rl.AcquireAll(t.Context(), ratelimit.Request{Model: "m"})
							r = rs[0]
						}
						if err != nil {
							t.Error(err)
						}
						order <- i
						at <- time.Since(began)
						r.Commit(1, 0)
					}()
					synctest.Wait()
				}
				for i, want := range tt.want {
					if who, when := <-order, <-at; who != i || when < want || when > want+want/10_000_000+time.Duration(i) {
						t.Errorf("waiter %d is served after %v, want waiter %d after %v", who, when, i, want)
					}
				}
				if err := rl.WaitForCapacity(t.Context(), "m", 1); err != nil {
					t.Error(err)
				}
				if d := rl.Decide("m", 1); !d.Allowed {
					t.Errorf("after WaitForCapacity: %+v", d)
				}
			})
		})
	}
}

// A gate of CooldownFor holds, and those who wait for its end do not come at once then.
func TestAdaptiveAfterACooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := limitertest.Of(t, adaptiveFixed(60))
		rl.CooldownFor("m", 10*time.Second, ratelimit.CauseRateLimited)
		began := time.Now()
		var passed atomic.Int32
		for range 20 {
			go func() {
				r, _ := rl.Acquire(t.Context(), "m", 0, 0)
				passed.Add(1)
				r.Commit(0, 0)
			}()
		}
		time.Sleep(10*time.Second - 1)
		if n := passed.Load(); n > 0 {
			t.Errorf("%d pass before %v", n, time.Since(began))
		}
		time.Sleep(5*time.Second + 2)
		synctest.Wait()
		if n := passed.Load(); n != 6 {
			t.Errorf("5 s after the cooldown %d have passed, want 6", n)
		}
		time.Sleep(15 * time.Second)
	})
}

// Calls that nobody asked for keep others waiting, but not for more than a minute behind the last.
func TestAdaptiveRecords(t *testing.T) {
	for calls, want := range map[int]time.Duration{1: time.Second, 3: 3 * time.Second, 4000: time.Minute + time.Second} {
		synctest.Test(t, func(t *testing.T) {
			rl := limitertest.Of(t, adaptiveFixed(60))
			for range calls {
				rl.RecordUsage("m", 0, 0)
			}
			d := rl.Decide("m", 0)
			if d.Allowed || d.RetryAfter > want+adaptiveLate || d.RetryAfter < want-adaptiveLate {
				t.Fatalf("after %d calls: %+v, want %v", calls, d, want)
			}
			time.Sleep(d.RetryAfter - 1)
			if early := rl.Decide("m", 0); early.RetryAfter != 1 {
				t.Errorf("after %d calls, a nanosecond before: %+v", calls, early)
			}
			time.Sleep(time.Nanosecond)
			if late := rl.Decide("m", 0); !late.Allowed {
				t.Errorf("after %d calls, then: %+v", calls, late)
			}
		})
	}
}

// What cannot pass before its deadline is refused at once, and nothing that can.
func TestAdaptiveDeadlines(t *testing.T) {
	slots := ratelimit.ModelQuota{AdaptiveFloorInFlight: 1, AdaptiveCeilingInFlight: 1}
	for _, tt := range []struct {
		name    string
		quota   ratelimit.ModelQuota
		held    bool // the call before is still open: it could be cancelled
		timeout time.Duration
		refused bool
		passes  time.Duration // 0 for never
	}{
		{"before the gap is over", adaptiveFixed(60), false, time.Second - 1, true, 0},
		{"just after it", adaptiveFixed(60), false, time.Second + 1, false, time.Second},
		{"of a slow rate", adaptiveFixed(1), false, 59 * time.Second, true, 0},
		{"after that of a slow rate", adaptiveFixed(1), false, 61 * time.Second, false, time.Minute},
		{"the call before may be cancelled", adaptiveFixed(60), true, time.Second + 1, false, time.Second},
		{"a slot may be free at any time", slots, true, time.Second, false, 0},
		{"a slot is free", slots, false, 1, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := limitertest.Of(t, tt.quota)
				before := limitertest.Reserve(t, rl, "m", 0, 0)
				if !tt.held {
					before.Commit(0, 0)
				}
				ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
				defer cancel()
				began := time.Now()
				r, err := rl.Acquire(ctx, "m", 0, 0)
				took := time.Since(began)
				var limit *ratelimit.LimitError
				switch {
				case tt.refused:
					if took != 0 || !errors.As(err, &limit) || !errors.Is(err, context.DeadlineExceeded) || limit.Decision.Code != ratelimit.DecisionRPMLimit {
						t.Errorf("after %v: %v", took, err)
					}
				case tt.passes == 0:
					if took != tt.timeout || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("after %v: %v", took, err)
					}
				case err != nil || took > tt.passes+tt.passes/10_000_000+1:
					t.Errorf("after %v, want %v: %v", took, tt.passes, err)
				}
				if r != nil {
					r.Commit(0, 0)
				}
				before.Cancel()
			})
		})
	}
}

// A lower rate has those who come too late now learn it at once, whoever was refused.
func TestAdaptiveLowerRateIsTooLate(t *testing.T) {
	for _, group := range adaptiveGroups {
		synctest.Test(t, func(t *testing.T) {
			all, _ := adaptiveGroup(t, group, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {AdaptiveFloorRPM: 2}}})
			all[0].RecordUsage("m", 0, 0)
			adaptiveCatchUp(t, all...)
			began := time.Now()
			done := make(chan time.Duration, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second+500*time.Millisecond)
				defer cancel()
				r, err := all[0].Acquire(ctx, "m", 0, 0)
				if !errors.Is(err, context.DeadlineExceeded) || r != nil {
					t.Errorf("%s: %v, want that it comes too late", group, err)
				}
				done <- time.Since(began)
			}()
			time.Sleep(5 * time.Second)
			if len(done) > 0 {
				t.Fatalf("%s: it does not wait", group)
			}
			adaptiveRefuse(all[len(all)-1], "m", "rate_limited")
			if took := <-done; took > 5*time.Second+limitertest.HandOver {
				t.Errorf("%s: it learns it after %v", group, took)
			}
		})
	}
}

// A lower limit of calls in flight ends no call, and lets none begin until enough have ended.
func TestAdaptiveLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := limitertest.Of(t, ratelimit.ModelQuota{AdaptiveFloorInFlight: 10, AdaptiveCeilingInFlight: 1000})
		var open []*ratelimit.Reservation
		for range 20 {
			open = append(open, limitertest.Reserve(t, rl, "m", 0, 0))
		}
		for range 20 {
			time.Sleep(3 * time.Second)
			adaptiveRefuse(rl, "m", "overloaded")
		}
		var served atomic.Int32
		for range 3 {
			go func() {
				r, err := rl.Acquire(context.Background(), "m", 0, 0)
				if err == nil {
					served.Add(1)
				}
				<-t.Context().Done()
				r.Cancel()
			}()
		}
		for len(open) > 8 {
			synctest.Wait()
			s, n := rl.Stats("m"), int(served.Load())
			if s.AdaptiveInFlight != 10 || s.InFlight != len(open)+n || n != min(max(10-len(open), 0), 3) {
				t.Fatalf("of the first calls %d are left, and %d were served: %+v", len(open), n, s)
			}
			if d := rl.Decide("m", 0); d.Allowed || d.RetryAfter != 0 {
				t.Fatalf("with %d calls in flight: %+v", s.InFlight, d)
			}
			adaptiveRefuse(rl, "m", "overloaded") // so that the limit does not grow
			open[0].Commit(0, 0)
			open = open[1:]
		}
		for _, r := range open {
			r.Cancel()
		}
		rl.Close()
	})
}

// Those who wait are served when there is more room: a higher rate, more slots, no search.
func TestAdaptiveWaitersAreServed(t *testing.T) {
	type quota = ratelimit.ModelQuota
	one := quota{AdaptiveFloorInFlight: 1, AdaptiveCeilingInFlight: 1}
	for _, tt := range []struct {
		name   string
		quota  quota
		within time.Duration
		do     func(rl *ratelimit.RateLimiter, held *ratelimit.Reservation)
	}{
		{"a higher floor of the rate", adaptiveFixed(1), time.Second, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) { rl.SetQuota("m", adaptiveFixed(60)) }},
		{"no rate", adaptiveFixed(1), 0, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) { rl.SetQuota("m", quota{MaxRPM: 100}) }},
		{"no quota", adaptiveFixed(1), 0, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) { rl.RemoveQuota("m") }},
		{"Reset", adaptiveFixed(1), 0, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) { rl.Reset("m") }},
		{"a header", adaptiveFixed(1), 0, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.Observe("m", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 500}})
		}},
		{"Cancel of the call before", adaptiveFixed(1), 0, func(_ *ratelimit.RateLimiter, held *ratelimit.Reservation) { held.Cancel() }},
		{"the end of a call", one, 0, func(_ *ratelimit.RateLimiter, held *ratelimit.Reservation) { held.Commit(0, 0) }},
		{"a higher floor of slots", one, 0, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.SetQuota("m", quota{AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 2})
		}},
		{"no slots", one, 0, func(rl *ratelimit.RateLimiter, _ *ratelimit.Reservation) {
			rl.SetQuota("m", quota{AdaptiveFloorRPM: 60000})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := limitertest.With(t, ratelimit.Config{LearnQuotas: true, Quotas: map[string]quota{"m": tt.quota}})
				held := limitertest.Reserve(t, rl, "m", 0, 0)
				done := make(chan error, 1)
				go func() {
					r, err := rl.Acquire(t.Context(), "m", 0, 0)
					done <- err
					if r != nil {
						r.Commit(0, 0)
					}
				}()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if len(done) > 0 {
					t.Fatal("it does not wait")
				}
				tt.do(rl, held)
				time.Sleep(tt.within)
				synctest.Wait()
				if len(done) == 0 {
					t.Errorf("it still waits: %+v", rl.Explain("m"))
					held.Cancel()
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
				held.Cancel()
			})
		})
	}
}

// Slots that are found by the end of a call are given to those who wait at once.
func TestAdaptiveFoundSlotsAreGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := limitertest.Of(t, ratelimit.ModelQuota{AdaptiveCeilingInFlight: 64})
		ctx, cancel := context.WithCancel(t.Context())
		began, full := time.Now(), 0
		for range 100 {
			go func() {
				for {
					r, err := rl.Acquire(ctx, "m", 0, 0)
					if err != nil {
						return
					}
					time.Sleep(time.Second)
					r.Commit(0, 0)
				}
			}()
		}
		for time.Since(began) < time.Minute {
			time.Sleep(time.Second / 2)
			synctest.Wait()
			if s := rl.Stats("m"); s.InFlight < s.AdaptiveInFlight {
				t.Fatalf("after %v %d wait while there is room: %+v", time.Since(began), s.Waiting, s)
			} else if s.AdaptiveInFlight == 64 {
				full++
			}
		}
		if full == 0 {
			t.Errorf("all slots are never found: %+v", rl.Stats("m"))
		}
		cancel()
		time.Sleep(2 * time.Second)
	})
}

// Close refuses those who wait for what is found, and what was found can still be read.
func TestAdaptiveClose(t *testing.T) {
	for _, group := range adaptiveGroups {
		synctest.Test(t, func(t *testing.T) {
			all, _ := adaptiveGroup(t, group, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveFixed(1), "slots": {AdaptiveCeilingInFlight: 1}}})
			rl := all[0]
			a, b := limitertest.Reserve(t, rl, "m", 0, 0), limitertest.Reserve(t, rl, "slots", 0, 0)
			done := make(chan error, 2)
			for _, model := range []string{"m", "slots"} {
				go func() {
					_, err := rl.Acquire(context.Background(), model, 0, 0)
					done <- err
				}()
			}
			time.Sleep(time.Second)
			if err := rl.Close(); err != nil {
				t.Error(err)
			}
			for range 2 {
				if err := <-done; !errors.Is(err, ratelimit.ErrClosed) {
					t.Errorf("%s: %v, want ErrClosed", group, err)
				}
			}
			a.Commit(0, 0)
			b.Commit(0, 0)
			adaptiveRefuse(rl, "m", "rate_limited")
			adaptiveRefuse(rl, "slots", "overloaded")
			if s := rl.Stats("m"); s.AdaptiveRPM != 1 {
				t.Errorf("%s, after Close: %+v", group, s)
			}
		})
	}
}

// In random schedules nobody waits while there is room, and all are served in the end.
func TestAdaptiveNoLostWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range racetest.Seeds(t, uint64(racetest.Times(400, 60, 50))) {
			adaptiveSchedule(t, rand.New(rand.NewPCG(seed, 22)))
			if t.Failed() {
				t.Fatalf("of seed %d", seed)
			}
		}
	})
}

func adaptiveSchedule(t *testing.T, random *rand.Rand) {
	pick := func(of ...int) int { return of[random.IntN(len(of))] }
	anyQuota := func() (q ratelimit.ModelQuota) {
		if random.IntN(3) > 0 {
			q.AdaptiveFloorRPM = pick(1, 30, 600)
			q.AdaptiveCeilingRPM = q.AdaptiveFloorRPM * pick(1, 4, 50)
		}
		if random.IntN(3) > 0 {
			q.AdaptiveFloorInFlight = pick(1, 2)
			q.AdaptiveCeilingInFlight = q.AdaptiveFloorInFlight * pick(1, 4, 50)
		}
		q.MaxInFlight, q.MaxRPM = pick(0, 0, 0, 2), pick(0, 0, 0, 100)
		return q
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: "/dev/null/none", Quotas: map[string]ratelimit.ModelQuota{"m": anyQuota()}})
	if err != nil {
		t.Fatal(err)
	}
	var waiting, passed atomic.Int32
	ended := make(chan *ratelimit.Reservation, 200)
	var open []*ratelimit.Reservation
	admitted := time.Now().Add(-time.Hour) // the latest call that was
	slowest, cooled := 1, time.Time{}      // the lowest rate since
	check := func(step int) {
		synctest.Wait()
		s := rl.Stats("m")
		for len(ended) > 0 {
			r := <-ended
			open = append(open, r)
			if r.ReservedAt().After(admitted) {
				admitted, slowest = r.ReservedAt(), max(s.AdaptiveRPM, 1)
			}
		}
		if s.AdaptiveRPM > 0 {
			slowest = min(slowest, s.AdaptiveRPM)
		}
		slots := s.AdaptiveInFlight > 0 && s.InFlight >= s.AdaptiveInFlight || s.MaxInFlight > 0 && s.InFlight >= s.MaxInFlight
		pace := s.AdaptiveRPM > 0 && time.Since(admitted) < adaptiveGap(slowest) || s.MaxRPM > 0 && s.RPM >= s.MaxRPM
		if s.Waiting > 0 && !slots && !pace && !time.Now().Before(cooled) {
			t.Errorf("step %d: %d wait, %v after the last call, %d the lowest rate since, %s", step, s.Waiting, time.Since(admitted), slowest, rl.Explain("m"))
		}
		if int(waiting.Load()) != s.Waiting {
			t.Errorf("step %d: %d wait, and Stats says %d", step, waiting.Load(), s.Waiting)
		}
	}
	for step := range 25 {
		switch random.IntN(9) {
		case 0, 1, 2:
			for range 1 + random.IntN(4) {
				ctx, cancel := context.WithCancel(context.Background())
				if random.IntN(4) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(30_000))*time.Millisecond)
				}
				waiting.Add(1)
				go func() {
					defer cancel()
					r, err := rl.Acquire(ctx, "m", 0, 0)
					waiting.Add(-1)
					if err == nil {
						passed.Add(1)
						ended <- r
					}
				}()
			}
		case 3, 4:
			if len(open) > 0 {
				i := random.IntN(len(open))
				if random.IntN(3) == 0 {
					open[i].Cancel()
				} else {
					open[i].Commit(0, 0)
				}
				open = append(open[:i], open[i+1:]...)
			}
		case 5:
			adaptiveRefuse(rl, "m", []string{"rate_limited", "overloaded", "timeout"}[random.IntN(3)])
		case 6:
			switch random.IntN(4) {
			case 0:
				rl.SetQuota("m", anyQuota())
				slowest = 1
			case 1:
				d := time.Duration(random.IntN(5000)) * time.Millisecond
				rl.CooldownFor("m", d, ratelimit.CauseOverloaded)
				cooled = time.Now().Add(max(d, time.Until(cooled)))
			}
		default:
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		}
		check(step)
	}
	for end := time.Now().Add(2 * time.Hour); waiting.Load() > 0 && time.Now().Before(end); time.Sleep(time.Minute + 1) {
		for _, r := range open {
			r.Commit(0, 0)
		}
		open = nil
		check(-1)
	}
	if n := waiting.Load(); n > 0 {
		t.Errorf("%d are never served: %s", n, fmt.Sprint(rl.Explain("m")))
	}
	synctest.Wait()
	check(-2)
	for _, r := range open {
		r.Cancel()
	}
	runtime.KeepAlive(open)
	rl.Close()
}
