// Reserve, ReserveContext, Commit, Cancel and Arrived: what is charged, and when.

package ratelimit_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// wantUsed compares what a model has used with what is said as
// "rpm/itpm+otpm/rpd/tpd/in flight".
func wantUsed(t *testing.T, rl *ratelimit.RateLimiter, model, want string) {
	t.Helper()
	s := rl.Stats(model)
	got := fmt.Sprintf("%d/%d+%d/%d/%d/%d", s.RPM, s.ITPM, s.OTPM, s.RPD, s.TPD, s.InFlight)
	if got != want {
		t.Errorf("%s has used %s, want %s", model, got, want)
	}
	if s.TPM != s.ITPM+s.OTPM {
		t.Errorf("%s: TPM is %d of %d and %d", model, s.TPM, s.ITPM, s.OTPM)
	}
}

func TestReserveChargesEveryDimensionOrNothing(t *testing.T) {
	all := ratelimit.ModelQuota{MaxRPM: 2, MaxTPM: 100, MaxRPD: 2, MaxITPM: 60, MaxOTPM: 50, MaxTPD: 120, MaxInFlight: 2}
	tests := []struct {
		name           string
		change         func(q *ratelimit.ModelQuota)
		prompt, output int
		want           ratelimit.DecisionCode
		never          bool
		retry          time.Duration
	}{
		{"all fit", func(q *ratelimit.ModelQuota) {}, 20, 20, ratelimit.DecisionAllowed, false, 0},
		{"requests per minute", func(q *ratelimit.ModelQuota) { q.MaxRPM = 1 }, 1, 1, ratelimit.DecisionRPMLimit, false, 50*time.Second + 1},
		{"requests per day", func(q *ratelimit.ModelQuota) { q.MaxRPD = 1 }, 1, 1, ratelimit.DecisionRPDLimit, false, 24*time.Hour - 10*time.Second},
		{"tokens per minute", func(q *ratelimit.ModelQuota) { q.MaxTPM = 70 }, 20, 20, ratelimit.DecisionTPMLimit, false, 50*time.Second + 1},
		{"tokens per day", func(q *ratelimit.ModelQuota) { q.MaxTPD = 70 }, 20, 20, ratelimit.DecisionTPDLimit, false, 24*time.Hour - 10*time.Second},
		{"input tokens", func(q *ratelimit.ModelQuota) { q.MaxITPM = 39 }, 20, 20, ratelimit.DecisionITPMLimit, false, 50*time.Second + 1},
		{"output tokens", func(q *ratelimit.ModelQuota) { q.MaxOTPM = 39 }, 20, 20, ratelimit.DecisionOTPMLimit, false, 50*time.Second + 1},
		{"calls in flight", func(q *ratelimit.ModelQuota) { q.MaxInFlight = 1 }, 1, 1, ratelimit.DecisionInFlightLimit, false, 0},
		{"calls in flight come before the rest", func(q *ratelimit.ModelQuota) { *q = ratelimit.ModelQuota{MaxInFlight: 1, MaxRPM: 1} },
			1, 1, ratelimit.DecisionInFlightLimit, false, 0},
		{"the longest wait counts", func(q *ratelimit.ModelQuota) { q.MaxITPM, q.MaxRPD = 39, 1 }, 20, 20,
			ratelimit.DecisionRPDLimit, false, 24*time.Hour - 10*time.Second},
		{"more than the tokens of a minute", func(q *ratelimit.ModelQuota) {}, 60, 50, ratelimit.DecisionTPDLimit, true, 0},
		{"more than the input of a minute", func(q *ratelimit.ModelQuota) {}, 61, 0, ratelimit.DecisionITPMLimit, true, 0},
		{"more than the output of a minute", func(q *ratelimit.ModelQuota) {}, 0, 51, ratelimit.DecisionOTPMLimit, true, 0},
		{"more than the tokens of a day", func(q *ratelimit.ModelQuota) { q.MaxTPM, q.MaxITPM, q.MaxTPD = 0, 0, 99 }, 100, 0, ratelimit.DecisionTPDLimit, true, 0},
		{"never fits beats no slot", func(q *ratelimit.ModelQuota) { q.MaxInFlight = 1 }, 0, 51, ratelimit.DecisionInFlightLimit, true, 0},
		{"a negative prompt", func(q *ratelimit.ModelQuota) {}, -1, 1, ratelimit.DecisionInvalidTokens, true, 0},
		{"a negative output", func(q *ratelimit.ModelQuota) {}, 1, -1, ratelimit.DecisionInvalidTokens, true, 0},
		{"an overflow", func(q *ratelimit.ModelQuota) { *q = ratelimit.ModelQuota{MaxTPM: 100} }, math.MaxInt, math.MaxInt, ratelimit.DecisionTPMLimit, true, 0},
		{"a negative limit", func(q *ratelimit.ModelQuota) { q.MaxOTPM = -1 }, 1, 1, ratelimit.DecisionInvalidQuota, true, 0},
		{"an unknown zone", func(q *ratelimit.ModelQuota) { q.DayZone = "Mars/Phobos" }, 1, 1, ratelimit.DecisionInvalidQuota, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := all
				tt.change(&q)
				rl := newLimiter(t, ratelimit.ModelQuota{})
				reserve(t, rl, "m", 20, 20)
				rl.SetQuota("m", q)
				time.Sleep(10 * time.Second)
				asked := rl.DecideRequest(ratelimit.Request{Model: "m", PromptTokens: tt.prompt, OutputTokens: tt.output})
				r, d := rl.Reserve("m", tt.prompt, tt.output)
				if d != asked {
					t.Errorf("Reserve says %+v, DecideRequest %+v", d, asked)
				}
				if d.Code != tt.want || d.Never != tt.never || d.RetryAfter != tt.retry || d.Model != "m" || d.Reason == "" {
					t.Errorf("Decision is %+v, want %s, never %v, again in %v", d, tt.want, tt.never, tt.retry)
				}
				if allowed := tt.want == ratelimit.DecisionAllowed; d.Allowed != allowed || (r != nil) != allowed {
					t.Fatalf("allowed is %v with reservation %v", d.Allowed, r)
				}
				if r != nil {
					wantUsed(t, rl, "m", "2/40+40/2/80/2")
					return
				}
				wantUsed(t, rl, "m", "1/20+20/1/40/1")
				if tt.retry > 0 {
					time.Sleep(tt.retry - 1)
					if r, _ := rl.Reserve("m", tt.prompt, tt.output); r != nil {
						t.Error("admitted a nanosecond too early")
					}
					time.Sleep(1 * time.Nanosecond)
					reserve(t, rl, "m", tt.prompt, tt.output)
				}
			})
		})
	}
}

func TestReservationSettles(t *testing.T) {
	type res = *ratelimit.Reservation
	const after = time.Minute + 1 // the charge has left
	tests := []struct {
		name string
		do   func(rl *ratelimit.RateLimiter, r res)
		want string // when it was reserved with 20 and 30
	}{
		{"not at all", func(rl *ratelimit.RateLimiter, r res) {}, "1/20+30/1/50/1"},
		{"at the estimate", func(rl *ratelimit.RateLimiter, r res) { r.Commit(20, 30) }, "1/20+30/1/50/0"},
		{"below", func(rl *ratelimit.RateLimiter, r res) { r.Commit(7, 1) }, "1/7+1/1/8/0"},
		{"above", func(rl *ratelimit.RateLimiter, r res) { r.Commit(70, 10) }, "1/70+10/1/80/0"},
		{"at nothing", func(rl *ratelimit.RateLimiter, r res) { r.Commit(0, 0) }, "1/0+0/1/0/0"},
		{"at less than nothing", func(rl *ratelimit.RateLimiter, r res) { r.Commit(-5, math.MinInt) }, "1/0+0/1/0/0"},
		{"twice", func(rl *ratelimit.RateLimiter, r res) { r.Commit(1, 1); r.Commit(2, 2) }, "1/1+1/1/2/0"},
		{"cancelled", func(rl *ratelimit.RateLimiter, r res) { r.Cancel() }, "0/0+0/0/0/0"},
		{"cancelled after", func(rl *ratelimit.RateLimiter, r res) { r.Commit(1, 1); r.Cancel() }, "1/1+1/1/2/0"},
		{"committed after", func(rl *ratelimit.RateLimiter, r res) { r.Cancel(); r.Commit(1, 1); r.Arrived(time.Now()) }, "0/0+0/0/0/0"},
		{"late, at the estimate", func(rl *ratelimit.RateLimiter, r res) { time.Sleep(after); r.Commit(20, 30) }, "0/0+0/1/50/0"},
		{"late, below", func(rl *ratelimit.RateLimiter, r res) { time.Sleep(after); r.Commit(2, 3) }, "0/0+0/1/5/0"},
		{"late, above", func(rl *ratelimit.RateLimiter, r res) { time.Sleep(after); r.Commit(25, 20) }, "0/5+0/1/45/0"},
		{"late, cancelled", func(rl *ratelimit.RateLimiter, r res) { time.Sleep(after); r.Cancel() }, "0/0+0/0/0/0"},
		{"at the last moment", func(rl *ratelimit.RateLimiter, r res) { time.Sleep(time.Minute); r.Commit(25, 30) }, "1/25+30/1/55/0"},
		{"the next day", func(rl *ratelimit.RateLimiter, r res) { time.Sleep(25 * time.Hour); r.Commit(20, 31) }, "0/0+1/0/1/0"},
		{"the next day, below", func(rl *ratelimit.RateLimiter, r res) { time.Sleep(25 * time.Hour); r.Commit(1, 1) }, "0/0+0/0/0/0"},
		{"the next day, cancelled", func(rl *ratelimit.RateLimiter, r res) {
			time.Sleep(25 * time.Hour)
			rl.RecordUsage("m", 1, 2)
			r.Cancel()
		}, "1/1+2/1/3/0"},
		{"after a Reset", func(rl *ratelimit.RateLimiter, r res) { rl.Reset("m"); r.Commit(25, 30) }, "0/0+0/0/0/0"},
		{"after a Reset, held", func(rl *ratelimit.RateLimiter, r res) { rl.Reset("") }, "0/0+0/0/0/1"},
		{"after a Reset and others' charges", func(rl *ratelimit.RateLimiter, r res) {
			rl.Reset("m")
			rl.RecordUsage("m", 20, 30) // the same, in the same instant
			r.Cancel()
		}, "1/20+30/1/50/0"},
		{"after a Load that does not know it", func(rl *ratelimit.RateLimiter, r res) {
			if err := rl.Load(); err != nil {
				panic(err)
			}
			rl.RecordUsage("m", 20, 30)
			r.Commit(1, 1)
		}, "1/20+30/1/50/0"},
		{"after a Load that knows it", func(rl *ratelimit.RateLimiter, r res) {
			if err := rl.Persist(); err != nil {
				panic(err)
			}
			if err := rl.Load(); err != nil {
				panic(err)
			}
			rl.RecordUsage("m", 20, 30)
			r.Cancel()
		}, "1/20+30/1/50/0"},
		{"after a Load that knows it, above", func(rl *ratelimit.RateLimiter, r res) {
			if err := rl.Persist(); err != nil {
				panic(err)
			}
			time.Sleep(10 * time.Second)
			if err := rl.Load(); err != nil {
				panic(err)
			}
			r.Commit(25, 33)
		}, "1/25+33/1/58/0"},
		{"after the state was replaced by hand", func(rl *ratelimit.RateLimiter, r res) {
			rl.State = map[string]*ratelimit.UsageStats{}
			r.Cancel()
		}, "0/0+0/0/0/0"},
		{"after another slice was put in", func(rl *ratelimit.RateLimiter, r res) {
			stats := rl.State["m"]
			stats.Tokens = append([]ratelimit.TokenEntry{{Time: time.Now(), Count: 5}}, stats.Tokens...)
			r.Commit(1, 1)
		}, "1/1+6/1/2/0"},
		{"of more than can be, cancelled", func(rl *ratelimit.RateLimiter, r res) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 10})
			reserve(t, rl, "m", math.MaxInt, 1).Cancel()
		}, "1/20+30/1/50/1"},
		{"of more than can be, committed", func(rl *ratelimit.RateLimiter, r res) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 10})
			reserve(t, rl, "m", 1, math.MaxInt).Commit(1, 2)
		}, "2/21+32/2/53/1"},
		{"arrived later", func(rl *ratelimit.RateLimiter, r res) {
			time.Sleep(50 * time.Second)
			r.Arrived(time.Now())
			time.Sleep(time.Minute)
		}, "1/20+30/1/50/1"},
		{"arrived later, committed", func(rl *ratelimit.RateLimiter, r res) {
			time.Sleep(50 * time.Second)
			r.Arrived(time.Now())
			r.Commit(1, 2)
			time.Sleep(time.Minute)
		}, "1/1+2/1/3/0"},
		{"arrived after it had left", func(rl *ratelimit.RateLimiter, r res) {
			time.Sleep(2 * time.Minute)
			r.Arrived(time.Now().Add(-10 * time.Second))
			time.Sleep(50 * time.Second)
		}, "1/20+30/1/50/1"},
		{"arrived, and left", func(rl *ratelimit.RateLimiter, r res) {
			time.Sleep(2 * time.Minute)
			r.Arrived(time.Now().Add(-10 * time.Second))
			time.Sleep(50*time.Second + 1)
			r.Cancel()
		}, "0/0+0/0/0/0"},
		{"arrived before it was reserved", func(rl *ratelimit.RateLimiter, r res) {
			time.Sleep(30 * time.Second)
			r.Arrived(time.Now().Add(-31 * time.Second))
			time.Sleep(30*time.Second + 1)
		}, "0/0+0/1/50/1"},
		{"arrived in the future", func(rl *ratelimit.RateLimiter, r res) {
			r.Arrived(time.Now().Add(time.Hour))
			time.Sleep(time.Minute + 1)
		}, "0/0+0/1/50/1"},
		{"arrived never", func(rl *ratelimit.RateLimiter, r res) { r.Arrived(time.Time{}); time.Sleep(time.Minute) }, "1/20+30/1/50/1"},
		{"arrived the next day", func(rl *ratelimit.RateLimiter, r res) {
			time.Sleep(24*time.Hour - time.Second)
			rl.RecordUsage("m", 1, 1)
			time.Sleep(2 * time.Second)
			r.Arrived(time.Now())
		}, "2/21+31/1/50/1"},
		{"arrived after a Reset", func(rl *ratelimit.RateLimiter, r res) {
			time.Sleep(time.Second)
			rl.Reset("m")
			r.Arrived(time.Now())
		}, "0/0+0/0/0/1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10, MaxTPM: 1000, MaxRPD: 10, MaxInFlight: 5})
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
				r := reserve(t, rl, "m", 20, 30)
				tt.do(rl, r)
				wantUsed(t, rl, "m", tt.want)
				r.Cancel()
				r.Cancel()
				if n := rl.Stats("m").InFlight; n != 0 {
					t.Errorf("%d in flight in the end", n)
				}
			})
		})
	}
}

func TestReservationTellsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Aliases: map[string]string{"fast": "m"}})
		at := time.Now()
		r := reserve(t, rl, "fast", 1, 2)
		time.Sleep(30 * time.Second)
		r.Arrived(time.Now())
		if r.Model() != "fast" || !r.ReservedAt().Equal(at) {
			t.Errorf("reservation of %q at %v", r.Model(), r.ReservedAt())
		}
		wantUsed(t, rl, "m", "1/1+2/1/3/1")
		var none *ratelimit.Reservation
		none.Commit(1, 1)
		none.Cancel()
		none.Arrived(time.Now())
		if none.Model() != "" || !none.ReservedAt().IsZero() {
			t.Error("a nil reservation tells something")
		}
		ratelimit.Reservations{nil, r, r}.Cancel()
		wantUsed(t, rl, "m", "0/0+0/0/0/0")
	})
}

func TestForgottenReservationIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 2}},
			HoldTTL: 10 * time.Minute,
		})
		first := reserve(t, rl, "m", 1, 2)
		time.Sleep(time.Minute)
		second := reserve(t, rl, "m", 1, 2)
		started := time.Now()
		third, err := rl.Acquire(t.Context(), "m", 1, 2)
		if err != nil || time.Since(started) != 9*time.Minute {
			t.Fatalf("%v after %v", err, time.Since(started))
		}
		first.Cancel() // too late
		wantUsed(t, rl, "m", "1/1+2/3/9/2")
		second.Commit(5, 5)
		third.Cancel()
		wantUsed(t, rl, "m", "0/4+3/2/13/0")
		time.Sleep(time.Hour)
	})
}

// In real time, and without a bubble: what is garbage is found outside of it.
func TestGarbageFreesItsSlot(t *testing.T) {
	slot := ratelimit.ModelQuota{MaxInFlight: 1}
	rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas{"m": slot}, Pools: pools{"p": {Models: []string{"*"}, Quota: slot}}})
	reserve(t, rl, "m", 1, 2)
	done := make(chan *ratelimit.Reservation)
	go func() {
		r, err := rl.Acquire(t.Context(), "m", 3, 4)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	for rl.Stats("m").Waiting == 0 {
		runtime.Gosched()
	}
	for {
		runtime.GC()
		select {
		case r := <-done:
			wantUsed(t, rl, "m", "2/4+6/2/10/1")
			if s := rl.PoolStats("p"); s.RPM != 2 || s.InFlight != 1 {
				t.Errorf("the pool has %+v", s)
			}
			r.Cancel()
			wantUsed(t, rl, "m", "1/1+2/1/3/0")
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// A limiter that was closed is garbage, also one that has made reservations.
func TestClosedIsGarbage(t *testing.T) {
	freed := make(chan struct{})
	func() {
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}})
		if err != nil {
			t.Fatal(err)
		}
		reserve(t, rl, "m", 1, 2).Commit(1, 2)
		runtime.AddCleanup(rl, func(freed chan struct{}) { close(freed) }, freed)
		if err := rl.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	for tries := 0; ; tries++ {
		runtime.GC()
		select {
		case <-freed:
			return
		case <-time.After(time.Millisecond):
		}
		if tries > 1000 {
			t.Fatal("something holds it")
		}
	}
}

// A reservation made in a bubble may become garbage there; the limiter must not
// touch the bubble from outside.
func TestGarbageInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}}, HoldTTL: time.Hour,
		})
		reserve(t, rl, "m", 1, 2)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := rl.Acquire(t.Context(), "m", 3, 4); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		for rl.Stats("m").InFlight > 0 {
			runtime.GC()
		}
		rl.SetQuota("m", ratelimit.ModelQuota{MaxInFlight: 2})
		<-done
	})
}

func TestDayEndsAtMidnightOfItsZone(t *testing.T) {
	const la = "America/Los_Angeles"
	synctest.Test(t, func(t *testing.T) {
		// A bubble begins at midnight UTC of 2000-01-01, 16:00 in Los Angeles.
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
			"m": {MaxRPD: 1, DayZone: la}, "n": {MaxTPD: 10, DayZone: la},
		}})
		midnight := time.Date(2000, 1, 1, 8, 0, 0, 0, time.UTC)
		reserve(t, rl, "m", 1, 1)
		reserve(t, rl, "n", 5, 5)
		for _, model := range []string{"m", "n"} {
			d := rl.Decide(model, 1)
			if d.Allowed || d.RetryAfter != time.Until(midnight) {
				t.Errorf("%s: %+v", model, d)
			}
			if want := midnight.Add(-24 * time.Hour); !d.Stats.DayStart.Equal(want) {
				t.Errorf("the day began at %v, want %v", d.Stats.DayStart, want)
			}
		}
		if err := rl.WaitForCapacity(t.Context(), "m", 1); err != nil || !time.Now().Equal(midnight) {
			t.Errorf("%v at %v", err, time.Now())
		}
		wantUsed(t, rl, "n", "0/0+0/0/0/1")
		rl.RecordUsage("m", 1, 1)
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23*time.Hour + 59*time.Minute)
		if err := rl.Load(); err != nil {
			t.Fatal(err)
		}
		if d := rl.Decide("m", 1); d.RetryAfter != time.Minute {
			t.Errorf("after a Load: %+v", d)
		}
		rl.SetQuota("m", ratelimit.ModelQuota{MaxRPD: 1})
		if d := rl.Decide("m", 1); d.RetryAfter != time.Minute {
			t.Errorf("the day that lasts is 24 hours without a zone: %+v", d)
		}
	})
}

func TestLongestDayAndShortestDay(t *testing.T) {
	for date, want := range map[time.Time]time.Duration{
		time.Date(2000, 4, 2, 5, 0, 0, 0, time.UTC):   23 * time.Hour,
		time.Date(2000, 10, 29, 4, 0, 0, 0, time.UTC): 25 * time.Hour,
		time.Date(2000, 7, 1, 4, 0, 0, 0, time.UTC):   24 * time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(date)) // midnight in New York
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPD: 1, DayZone: "America/New_York"})
			rl.RecordUsage("m", 1, 1)
			if d := rl.Decide("m", 1); d.RetryAfter != want {
				t.Errorf("%v: again in %v, want %v", date, d.RetryAfter, want)
			}
		})
	}
}

// ReserveContext admits and denies as ReserveAll does, for no, one and several requests.
func TestReserveContextIsReserveAll(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	one := ratelimit.Request{Model: "a", PromptTokens: 10, OutputTokens: 5}
	for _, test := range []struct {
		name string
		reqs []ratelimit.Request
	}{
		{"none", nil},
		{"one", []ratelimit.Request{one}},
		{"one that never passes", []ratelimit.Request{{Model: "a", PromptTokens: 1000}}},
		{"one of negative tokens", []ratelimit.Request{{Model: "a", PromptTokens: -1}}},
		{"one without a quota", []ratelimit.Request{{Model: "none", PromptTokens: 1}}},
		{"two", []ratelimit.Request{one, {Model: "b"}}},
		{"twice the same", []ratelimit.Request{one, one}},
		{"one of two never passes", []ratelimit.Request{one, {Model: "b", PromptTokens: 1000}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quota := ratelimit.ModelQuota{MaxRPM: 3, MaxTPM: 100, MaxInFlight: 3}
				quotas := map[string]ratelimit.ModelQuota{"a": quota, "b": quota}
				all := newLimiterWith(t, ratelimit.Config{Quotas: quotas})
				with := newLimiterWith(t, ratelimit.Config{Quotas: quotas})
				for range 4 { // the last one finds the quota used up
					want, wantDecision := all.ReserveAll(test.reqs...)
					got, d := with.ReserveContext(ended, test.reqs...)
					if len(got) != len(want) || (got == nil) != (want == nil) || d != wantDecision {
						t.Fatalf("got %v, %+v, want %v, %+v", got, d, want, wantDecision)
					}
					for i := range got {
						if got[i].Model() != want[i].Model() {
							t.Errorf("%d is of %q", i, got[i].Model())
						}
					}
				}
				for _, model := range []string{"a", "b", "none"} {
					if got, want := with.Stats(model), all.Stats(model); got != want {
						t.Errorf("%s has %+v, want %+v", model, got, want)
					}
				}
			})
		})
	}
}
