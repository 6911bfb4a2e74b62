// Limits that are found: which refusal moves which limit, and between which bounds.

package foundlimits

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

// A quota finds the rate if one of its fields is set, and the calls in flight likewise.
func TestAdaptiveStarts(t *testing.T) {
	type quota = ratelimit.ModelQuota
	for _, tt := range []struct {
		name  string
		quota quota
		want  string
	}{
		{"no field", quota{MaxRPM: 5}, "0/0"},
		{"twice the floor", quota{AdaptiveFloorRPM: 60, AdaptiveCeilingRPM: 600}, "120/0"},
		{"at most the ceiling", quota{AdaptiveFloorRPM: 60, AdaptiveCeilingRPM: 100}, "100/0"},
		{"nothing between", quota{AdaptiveFloorRPM: 7, AdaptiveCeilingRPM: 7}, "7/0"},
		{"only a floor", quota{AdaptiveFloorRPM: 60}, "120/0"},
		{"only a ceiling", quota{AdaptiveCeilingRPM: 600}, "2/0"},
		{"a ceiling of one", quota{AdaptiveCeilingRPM: 1}, "1/0"},
		{"slots", quota{AdaptiveFloorInFlight: 5, AdaptiveCeilingInFlight: 50}, "0/10"},
		{"slots up to the ceiling", quota{AdaptiveFloorInFlight: 5, AdaptiveCeilingInFlight: 7}, "0/7"},
		{"only a floor of slots", quota{AdaptiveFloorInFlight: 5}, "0/10"},
		{"only a ceiling of slots", quota{AdaptiveCeilingInFlight: 9}, "0/2"},
		{"one slot", quota{AdaptiveCeilingInFlight: 1}, "0/1"},
		{"both", adaptiveBoth, "120/20"},
		{"beside caps", quota{MaxRPM: 3, MaxInFlight: 2, AdaptiveFloorRPM: 60, AdaptiveFloorInFlight: 5}, "120/10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := limitertest.Of(t, tt.quota)
				if got := adaptiveFound(rl, "m"); got != tt.want {
					t.Errorf("it begins with %s, want %s", got, tt.want)
				}
				if s := rl.Decide("m", 0).Stats; s != rl.Stats("m") {
					t.Errorf("Decide says %+v, Stats %+v", s, rl.Stats("m"))
				}
				if rl.AllStats()["m"] != rl.Stats("m") {
					t.Errorf("AllStats says %+v, Stats %+v", rl.AllStats()["m"], rl.Stats("m"))
				}
			})
		})
	}
}

func TestAdaptiveInvalidQuotas(t *testing.T) {
	type quota = ratelimit.ModelQuota
	for _, tt := range []struct {
		quota quota
		want  string
	}{
		{quota{AdaptiveFloorRPM: -1}, "AdaptiveFloorRPM"},
		{quota{AdaptiveCeilingRPM: -1}, "AdaptiveCeilingRPM"},
		{quota{AdaptiveFloorInFlight: -1}, "AdaptiveFloorInFlight"},
		{quota{AdaptiveCeilingInFlight: -1}, "AdaptiveCeilingInFlight"},
		{quota{AdaptiveFloorRPM: -math.MaxInt - 1, AdaptiveCeilingRPM: 5}, "AdaptiveFloorRPM"},
		{quota{AdaptiveFloorRPM: 6, AdaptiveCeilingRPM: 5}, "AdaptiveFloorRPM"},
		{quota{AdaptiveFloorInFlight: 6, AdaptiveCeilingInFlight: 5}, "AdaptiveFloorInFlight"},
		{quota{AdaptiveFloorRPM: math.MaxInt, AdaptiveCeilingRPM: math.MaxInt - 1}, "AdaptiveFloorRPM"},
	} {
		_, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: "/dev/null/none", Quotas: map[string]ratelimit.ModelQuota{"m": tt.quota}})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `"m"`) {
			t.Errorf("%+v: error %v, want one with %s", tt.quota, err, tt.want)
		}
		rl := limitertest.Of(t, ratelimit.ModelQuota{})
		rl.SetQuota("m", tt.quota)
		for range 2 {
			r, d := rl.Reserve("m", 1, 1)
			if r != nil || rl.CanSend("m", 1) || !d.Never || d.Code != ratelimit.DecisionInvalidQuota || !strings.Contains(d.Reason, tt.want) {
				t.Errorf("%+v: %+v", tt.quota, d)
			}
			rl.RecordUsage("m", 1, 1) // and nothing breaks
			adaptiveRefuse(rl, "m", "rate_limited")
			adaptiveRefuse(rl, "m", "overloaded")
		}
		rl.SetQuota("m", adaptiveBoth)
		if got := adaptiveFound(rl, "m"); got != "120/20" {
			t.Errorf("a valid quota after %+v begins with %s", tt.quota, got)
		}
	}
}

// Each row: what a refusal does to the rate, which begins with 120 a minute, and to the calls in
// flight, which begin with 20. Each takes off 5 %.
func TestAdaptiveRefusalsMove(t *testing.T) {
	for _, tt := range []struct {
		problem string
		status  int
		want    string
	}{
		{"rate_limited", 429, "114/20"},
		{"rate_limited", 0, "114/20"},
		{"rate_limited", 503, "114/20"}, // some providers say their quota so
		{"overloaded", 503, "120/19"},
		{"overloaded", 529, "120/19"},
		{"overloaded", 429, "120/19"},
		{"timeout", 0, "120/19"},
		{"timeout", 504, "120/19"},
		{"daily_quota", 429, "120/20"},
		{"exhausted", 429, "120/20"},
		{"exhausted", 402, "120/20"},
		{"other", 400, "120/20"},
		{"other", 401, "120/20"},
		{"other", 429, "120/20"},
		{"other", 503, "120/20"},
		{"", 400, "120/20"},
		{"", 429, "120/20"},
		{"RATE_LIMITED", 429, "120/20"},
		{"no such word", 529, "120/20"},
	} {
		synctest.Test(t, func(t *testing.T) {
			rl := limitertest.Of(t, adaptiveBoth)
			was := rl.Decide("m", 0)
			rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{Model: "m", Status: tt.status, Problem: tt.problem, RetryAfter: time.Minute})
			if got := adaptiveFound(rl, "m"); got != tt.want {
				t.Errorf("%q with %d: %s, want %s", tt.problem, tt.status, got, tt.want)
			}
			if d := rl.Decide("m", 0); d.Allowed != was.Allowed || !d.Stats.CooldownUntil.IsZero() {
				t.Errorf("%q with %d begins a cooldown: %+v", tt.problem, tt.status, d)
			}
			if s := rl.Stats("m"); s.RPM != 0 || s.RPD != 0 || s.InFlight != 0 {
				t.Errorf("%q with %d is counted: %+v", tt.problem, tt.status, s)
			}
		})
	}
}

// A quota that finds only one limit, or none, keeps the others as they are.
func TestAdaptiveRefusalsMoveNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, quota := range map[string]ratelimit.ModelQuota{
			"0/0":   {MaxRPM: 100, MaxInFlight: 5},
			"114/0": {AdaptiveFloorRPM: 60, MaxInFlight: 5},
			"0/19":  {AdaptiveFloorInFlight: 10, MaxRPM: 100},
		} {
			rl := limitertest.Of(t, quota)
			for _, problem := range []string{"rate_limited", "overloaded"} {
				adaptiveRefuse(rl, "m", problem)
			}
			adaptiveRefuse(rl, "no quota", "rate_limited")
			adaptiveRefuse(rl, "", "overloaded")
			if got := adaptiveFound(rl, "m"); got != want {
				t.Errorf("%+v: %s, want %s", quota, got, want)
			}
			s := rl.Stats("m")
			if s.MaxRPM != quota.MaxRPM || s.MaxInFlight != quota.MaxInFlight {
				t.Errorf("%+v: %+v", quota, s)
			}
			if _, q, _ := rl.QuotaFor("m"); q != quota {
				t.Errorf("the quota is %+v, want %+v", q, quota)
			}
		}
	})
}

// Twenty refusals of one event are one decrease, whoever is told of them and whether it is known
// when their calls were sent. Those of calls that were sent before do nothing however late they
// come, and the first one of a call that was sent since lowers again.
func TestAdaptiveOneEventIsOneDecrease(t *testing.T) {
	const s = time.Second
	for _, group := range adaptiveGroups {
		t.Run(group, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, _ := adaptiveGroup(t, group, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveBoth}})
				refuse := func(ago time.Duration, problem string) {
					for i := range 20 {
						r := ratelimit.ProviderRefusal{Model: "m", Status: 429, Problem: problem}
						if ago >= 0 {
							r.SentAt = time.Now().Add(-ago)
						}
						all[i%len(all)].ObserveRefusal(context.Background(), r)
					}
				}
				began := time.Now()
				time.Sleep(30 * s)
				sent := time.Now()
				time.Sleep(s)
				for step, tt := range []struct {
					pause time.Duration
					ago   time.Duration // when the calls were sent; negative for not known
					want  string        // after refusals of both kinds
				}{
					{0, time.Since(sent), "114/19"},
					{0, -1, "114/19"},     // within the cool-down
					{s, 0, "114/19"},      // within it, of calls that were sent since
					{9 * s, 10*s + 1, ""}, // sent when it was lowered, or before
					{0, 31 * s, ""},       //
					{0, 100 * 24 * 60 * 60 * s, ""},
					{0, 5 * s, "102/17"}, // sent since: the second in a row takes 10 %
					{30 * s, 31 * s, ""}, // before that
				} {
					time.Sleep(tt.pause)
					was := adaptiveFound(all[0], "m")
					refuse(tt.ago, "rate_limited")
					refuse(tt.ago, "overloaded")
					adaptiveCatchUp(t, all...)
					for i, rl := range all {
						got := adaptiveFound(rl, "m")
						if tt.want == "" && got != was || tt.want != "" && !adaptiveNear(got, tt.want) {
							t.Errorf("step %d, %v after the start: limiter %d has %s, want %q (was %s)", step, time.Since(began), i, got, tt.want, was)
						}
					}
				}
			})
		})
	}
}

// However long refusals go on, and however little is refused, nothing leaves the bounds.
func TestAdaptiveBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := limitertest.With(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
			"m":     {AdaptiveFloorRPM: 60, AdaptiveCeilingRPM: 700},
			"slots": {AdaptiveFloorInFlight: 3, AdaptiveCeilingInFlight: 17},
		}})
		check := func(when string) {
			t.Helper()
			rate, slots := rl.Stats("m").AdaptiveRPM, rl.Stats("slots").AdaptiveInFlight
			if rate < 60 || rate > 700 || slots < 3 || slots > 17 {
				t.Fatalf("%s: %d a minute, %d slots", when, rate, slots)
			}
		}
		for range 30 {
			adaptiveDrive(t, rl, "m", 3*time.Second)
			adaptiveFill(rl, "slots", 5*time.Second)
			check("while calls pass")
		}
		adaptiveDrive(t, rl, "m", 15*time.Second)
		if rate, slots := rl.Stats("m").AdaptiveRPM, rl.Stats("slots").AdaptiveInFlight; rate != 700 || slots != 17 {
			t.Errorf("after minutes without a refusal: %d a minute, %d slots", rate, slots)
		}
		for range 40 {
			time.Sleep(3 * time.Second)
			adaptiveRefuse(rl, "m", "rate_limited")
			adaptiveRefuse(rl, "slots", "timeout")
			check("while calls are refused")
		}
		if rate, slots := rl.Stats("m").AdaptiveRPM, rl.Stats("slots").AdaptiveInFlight; rate != 60 || slots != 3 {
			t.Errorf("after minutes of refusals: %d a minute, %d slots", rate, slots)
		}
		if n := adaptiveDrive(t, rl, "m", 10*time.Second); n < 10 {
			t.Errorf("at the floor %d calls pass in 10 s", n)
		}
	})
}

// A limit grows only where it was really used: not by time, nor by questions, nor by few calls.
func TestAdaptiveGrowsByUse(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name string
		use  func(t *testing.T, rl *ratelimit.RateLimiter)
		rate bool // it grows
		slot bool
	}{
		{"nothing", func(t *testing.T, rl *ratelimit.RateLimiter) { time.Sleep(30 * s) }, false, false},
		{"questions", func(t *testing.T, rl *ratelimit.RateLimiter) {
			for range 500 {
				rl.CanSend("m", 1)
				rl.Stats("m")
				rl.Explain("m")
				time.Sleep(s / 10)
			}
		}, false, false},
		{"a tenth of the calls", func(t *testing.T, rl *ratelimit.RateLimiter) {
			for range 20 {
				limitertest.Reserve(t, rl, "m", 0, 0).Commit(0, 0)
				time.Sleep(5 * s)
			}
		}, false, false},
		{"half of the calls", func(t *testing.T, rl *ratelimit.RateLimiter) {
			for range 100 {
				limitertest.Reserve(t, rl, "m", 0, 0).Commit(0, 0)
				time.Sleep(s)
			}
		}, false, false},
		{"calls that were cancelled", func(t *testing.T, rl *ratelimit.RateLimiter) {
			for range 100 {
				r, _ := rl.Reserve("m", 0, 0)
				time.Sleep(s / 2)
				if r != nil {
					r.Cancel()
				}
			}
		}, false, false},
		{"all calls", func(t *testing.T, rl *ratelimit.RateLimiter) { adaptiveDrive(t, rl, "m", 30*s) }, true, false},
		{"all calls, while others are overloaded", func(t *testing.T, rl *ratelimit.RateLimiter) {
			for range 60 {
				adaptiveRefuse(rl, "m", "overloaded")
				adaptiveDrive(t, rl, "m", s/2)
			}
		}, false, false},
		{"all calls, and refusals that were no fault of the rate", func(t *testing.T, rl *ratelimit.RateLimiter) {
			for range 60 {
				adaptiveRefuse(rl, "m", "other")
				adaptiveDrive(t, rl, "m", s/2)
			}
		}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := limitertest.Of(t, adaptiveBoth)
				tt.use(t, rl)
				got := rl.Stats("m")
				if rate := got.AdaptiveRPM > 125; rate != tt.rate {
					t.Errorf("%d a minute, grows %v", got.AdaptiveRPM, rate)
				}
				if slot := got.AdaptiveInFlight > 20; slot != tt.slot {
					t.Errorf("%d slots, grow %v", got.AdaptiveInFlight, slot)
				}
			})
		})
	}
}

// Slots grow where all of them are used, beside a rate that does not.
func TestAdaptiveSlotsGrowByUse(t *testing.T) {
	for most, grows := range map[int]bool{9: false, 100: true} { // what the program has in flight at once
		synctest.Test(t, func(t *testing.T) {
			rl := limitertest.Of(t, ratelimit.ModelQuota{AdaptiveFloorInFlight: 5, AdaptiveCeilingInFlight: 500})
			var open []*ratelimit.Reservation
			for range 300 {
				for len(open) < most {
					r, _ := rl.Reserve("m", 0, 0)
					if r == nil {
						break
					}
					open = append(open, r)
				}
				time.Sleep(time.Second / 10)
				for range (len(open) + 9) / 10 {
					open[0].Commit(0, 0)
					open = open[1:]
				}
			}
			if n := rl.Stats("m").AdaptiveInFlight; grows != (n > 15) || n < 10 {
				t.Errorf("with %d calls at once there are %d slots", most, n)
			}
			for _, r := range open {
				r.Cancel()
			}
		})
	}
}

// From the floor to a hundred times as much takes three minutes at most.
func TestAdaptiveConverges(t *testing.T) {
	for _, floor := range []int{6, 60} {
		synctest.Test(t, func(t *testing.T) {
			rl := limitertest.Of(t, ratelimit.ModelQuota{AdaptiveFloorRPM: floor, AdaptiveCeilingRPM: 100 * floor})
			for range 12 { // down to the floor
				adaptiveRefuse(rl, "m", "rate_limited")
				time.Sleep(3 * time.Second)
			}
			if got := rl.Stats("m").AdaptiveRPM; got != floor {
				t.Fatalf("after refusals it is %d, want %d", got, floor)
			}
			began := time.Now()
			for rl.Stats("m").AdaptiveRPM < 100*floor && time.Since(began) < 10*time.Minute {
				adaptiveDrive(t, rl, "m", time.Second)
			}
			if took := time.Since(began); took > 3*time.Minute {
				t.Errorf("from %d it takes %v", floor, took)
			}
		})
	}
}

// In an outage few calls are in flight, and when it ends the provider is not met by everybody.
func TestAdaptiveAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := limitertest.Of(t, ratelimit.ModelQuota{AdaptiveFloorInFlight: 1, AdaptiveCeilingInFlight: 100})
		var down atomic.Bool
		most := 0
		ctx, cancel := context.WithCancel(context.Background())
		for range 80 {
			go func() {
				for {
					r, err := rl.Acquire(ctx, "m", 0, 0)
					if err != nil {
						return
					}
					sent, was := time.Now(), down.Load()
					time.Sleep(time.Second)
					if was {
						rl.ObserveRefusal(ctx, ratelimit.ProviderRefusal{Model: "m", Status: 503, Problem: "overloaded", SentAt: sent})
					}
					r.Commit(0, 0)
				}
			}()
		}
		watch := func(lasts time.Duration) {
			most = 0
			for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Second / 2) {
				most = max(most, rl.Stats("m").InFlight)
			}
		}
		watch(time.Minute)
		if most < 80 {
			t.Errorf("of 80 callers %d were in flight at once", most)
		}
		down.Store(true)
		watch(time.Minute)
		down.Store(false)
		watch(2 * time.Second)
		if most > 8 {
			t.Errorf("when it is back, %d calls come at once", most)
		}
		watch(2 * time.Minute)
		if most < 60 {
			t.Errorf("minutes later %d are in flight", most)
		}
		cancel()
		time.Sleep(2 * time.Second) // until the calls have ended
	})
}
