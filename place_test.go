// Places for models without a quota of their own (Config.MaxModels), where several are asked for
// at once.

package ratelimit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func requestsFor(models ...string) (reqs []ratelimit.Request) {
	for _, model := range models {
		reqs = append(reqs, ratelimit.Request{Model: model, PromptTokens: 1})
	}
	return reqs
}

func TestReserveAllForSeveralPlaces(t *testing.T) {
	rpm := ratelimit.ModelQuota{MaxRPM: 3}
	record := func(models ...string) func(rl *ratelimit.RateLimiter) {
		return func(rl *ratelimit.RateLimiter) {
			for _, model := range models {
				rl.RecordUsage(model, 1, 1)
				time.Sleep(time.Second)
			}
		}
	}
	tests := []struct {
		name   string
		every  ratelimit.ModelQuota
		most   int
		before func(rl *ratelimit.RateLimiter)
		models []string
		want   ratelimit.Decision // Code, Model, RetryAfter, Never; RetryAfter is until the first place opens
		waits  time.Duration      // until all are there that are needed; 0 for RetryAfter, -1 for ever
	}{
		{"one place is left for two", rpm, 3, record("a", "b"), []string{"x", "y"},
			ratelimit.Decision{Code: ratelimit.DecisionTooManyModels, Model: "y", RetryAfter: 58*time.Second + 1}, 0},
		{"one place is left for three", rpm, 3, record("a", "b"), []string{"x", "y", "z"},
			ratelimit.Decision{Code: ratelimit.DecisionTooManyModels, Model: "y", RetryAfter: 58*time.Second + 1}, 59*time.Second + 1},
		{"none is left for two", rpm, 3, record("a", "b", "c"), []string{"x", "y"},
			ratelimit.Decision{Code: ratelimit.DecisionTooManyModels, Model: "x", RetryAfter: 57*time.Second + 1}, 58*time.Second + 1},
		{"one that is there already needs none", rpm, 3, record("a", "b"), []string{"b", "x", "y"},
			ratelimit.Decision{Code: ratelimit.DecisionTooManyModels, Model: "y", RetryAfter: 58*time.Second + 1}, 0},
		{"one that is idle, but asked for, makes none", rpm, 1, func(rl *ratelimit.RateLimiter) {
			r, _ := rl.Reserve("b", 1, 1)
			r.Cancel()
		}, []string{"b", "x"}, ratelimit.Decision{Code: ratelimit.DecisionTooManyModels, Model: "x", Never: true}, 0},
		{"another limit denies for longer", rpm, 3, func(rl *ratelimit.RateLimiter) {
			record("a", "b")(rl)
			rl.Cooldown("x", time.Now().Add(90*time.Second))
		}, []string{"x", "y"}, ratelimit.Decision{Code: ratelimit.DecisionCooldown, Model: "x", RetryAfter: 90 * time.Second}, 0},
		{"another limit denies, but not for as long", rpm, 3, func(rl *ratelimit.RateLimiter) {
			record("a", "b")(rl)
			rl.Cooldown("x", time.Now().Add(time.Second))
		}, []string{"x", "y"}, ratelimit.Decision{Code: ratelimit.DecisionCooldown, Model: "x", RetryAfter: 58*time.Second + 1}, 0},
		{"one is busy until a call ends", ratelimit.ModelQuota{MaxInFlight: 2}, 2, func(rl *ratelimit.RateLimiter) {
			rl.Reserve("a", 1, 1)
			rl.RecordUsage("b", 1, 1)
		}, []string{"x", "y"}, ratelimit.Decision{Code: ratelimit.DecisionTooManyModels, Model: "x", RetryAfter: time.Minute + 1}, -1},
		{"more than there ever are", rpm, 2, record("a"), []string{"x", "y", "z"},
			ratelimit.Decision{Code: ratelimit.DecisionTooManyModels, Model: "z", Never: true}, 0},
		{"the day", ratelimit.ModelQuota{MaxRPD: 9}, 2, record("a", "b"), []string{"x", "y"},
			ratelimit.Decision{Code: ratelimit.DecisionTooManyModels, Model: "x", RetryAfter: 24*time.Hour - 2*time.Second}, 24*time.Hour - time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubbleWith(t, tt.most, tt.every, func(t *testing.T, rl *ratelimit.RateLimiter) {
				rl.SetQuota("own", ratelimit.ModelQuota{MaxRPM: 5}) // needs no place
				tt.before(rl)
				reqs := append(requestsFor("own"), requestsFor(tt.models...)...)
				rs, d := rl.ReserveAll(reqs...)
				if rs != nil || d.Reason == "" || d.Code != tt.want.Code || d.Model != tt.want.Model ||
					d.RetryAfter != tt.want.RetryAfter || d.Never != tt.want.Never {
					t.Fatalf("%+v, want %+v", d, tt.want)
				}
				if s := rl.Stats(d.Model); d.Stats != s {
					t.Errorf("stats are %+v, those of %q %+v", d.Stats, d.Model, s)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
				defer cancel()
				started := time.Now()
				rs, err := rl.AcquireAll(ctx, reqs...)
				switch waited := time.Since(started); {
				case d.Never:
					if !errors.Is(err, ratelimit.ErrNeverFits) || waited != 0 {
						t.Errorf("AcquireAll: %v after %v", err, waited)
					}
				case tt.waits < 0:
					if err != context.DeadlineExceeded {
						t.Errorf("AcquireAll: %v after %v", err, waited)
					}
				case err != nil || waited != cmp.Or(tt.waits, d.RetryAfter) || len(rs) != len(reqs):
					t.Errorf("AcquireAll: %v after %v", err, waited)
				}
			})
		})
	}
}

// What "*" does not limit passes where there is no place, and is not counted.
func TestWhatNobodyLimitsNeedsNoPlace(t *testing.T) {
	bubbleWith(t, 2, ratelimit.ModelQuota{}, func(t *testing.T, rl *ratelimit.RateLimiter) {
		for i := range 10 {
			reserve(t, rl, fmt.Sprint("m", i), 1, 1)
		}
		if _, d := rl.ReserveAll(requestsFor("x", "y", "z")...); !d.Allowed {
			t.Errorf("%+v", d)
		}
		if n := len(rl.State); n != 2 {
			t.Errorf("%d models hold state", n)
		}
	})
}

// A denied batch passes after exactly RetryAfter, and not a nanosecond before, whatever is there;
// one that needs several places asks again, at most once for each of them.
func TestRetryAfterForPlacesIsExact(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 31))
			every := []ratelimit.ModelQuota{{MaxRPM: 2}, {MaxRPM: 2, MaxRPD: 5}, {MaxTPD: 50, DayZone: "America/New_York"}, {MaxRPM: 3, MaxInFlight: 2}}[random.IntN(4)]
			most := 1 + random.IntN(4)
			bubbleWith(t, most, every, func(t *testing.T, rl *ratelimit.RateLimiter) {
				rl.SetQuota("own", ratelimit.ModelQuota{MaxRPM: 4})
				var open []*ratelimit.Reservation
				name := func() string {
					if random.IntN(8) == 0 {
						return "own"
					}
					return string(rune('a' + random.IntN(8)))
				}
				draw := func() (reqs []ratelimit.Request) {
					for range 1 + random.IntN(most) {
						reqs = append(reqs, requestsFor(name())...)
					}
					return reqs
				}
				denials := 0
				for range 60 {
					switch random.IntN(8) {
					case 0, 1:
						rs, _ := rl.ReserveAll(draw()...)
						open = append(open, rs...)
					case 2:
						rl.RecordUsage(name(), 1, 1)
					case 3, 4:
						if n := len(open); n > 0 {
							i := random.IntN(n)
							if r := open[i]; random.IntN(2) == 0 {
								r.Cancel()
							} else {
								r.Commit(2, 2)
							}
							open = append(open[:i], open[i+1:]...)
						}
					case 5:
						time.Sleep(time.Duration(random.Int64N(int64(20 * time.Second))))
					case 6:
						if random.IntN(4) == 0 {
							rl.Reset(name())
						}
					case 7:
						reqs := draw()
						rs, d := rl.ReserveAll(reqs...)
						if rs != nil {
							open = append(open, rs...)
							continue
						}
						if d.RetryAfter == 0 {
							continue
						}
						denials++
						first := d
						for asks := 1; !d.Allowed && d.RetryAfter > 0; asks++ {
							time.Sleep(d.RetryAfter - 1)
							if _, early := rl.ReserveAll(reqs...); early.Allowed || len(reqs) == 1 && early.RetryAfter != 1 {
								t.Fatalf("%+v: %v before its time: %+v\nat first %+v", reqs, time.Nanosecond, early, first)
							}
							time.Sleep(time.Nanosecond)
							rs, d = rl.ReserveAll(reqs...)
							if !d.Allowed && asks == len(reqs) {
								t.Fatalf("%+v: at its time: %+v\nat first %+v", reqs, d, first)
							}
						}
						open = append(open, rs...)
					}
					if n := len(rl.State); n > most+1 {
						t.Fatalf("%d models hold state, want at most %d and own", n, most)
					}
				}
			})
		})
	}
}

// A waiter that needs one place has a deadline before the places come that another needs. Both
// stay, whatever happens meanwhile.
func TestPlacesForOneAndForTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{MaxModels: 2, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 2}}})
		rl.RecordUsage("x", 1, 1)
		time.Sleep(30 * time.Second)
		rl.RecordUsage("y", 1, 1)
		began := time.Now()
		served := make(chan time.Duration, 2)
		for most, models := range map[time.Duration][]string{40 * time.Second: {"one"}, 3 * time.Minute: {"first", "second"}} {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), most)
				defer cancel()
				all, err := rl.AcquireAll(ctx, requestsFor(models...)...)
				if err != nil {
					t.Errorf("%q: %v", models, err)
				}
				served <- time.Since(began)
				all.Cancel()
			}()
		}
		time.Sleep(time.Second)
		rl.RecordUsage("y", 1, 1)
		if one, two := <-served, <-served; one != 30*time.Second+1 || two != 61*time.Second+1 {
			t.Errorf("served after %v and %v, want 30s and 1m1s, and a nanosecond", one, two)
		}
	})
}
