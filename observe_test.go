// Observe: what a provider says of its limits denies and admits.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// left is what a provider says is left.
func left(n int) ratelimit.ProviderLimit {
	return ratelimit.ProviderLimit{Remaining: n, HasRemaining: true}
}

func leftFor(n int, reset time.Duration) ratelimit.ProviderLimit {
	return ratelimit.ProviderLimit{Remaining: n, HasRemaining: true, Reset: reset}
}

func leftRounded(n, rounding int) ratelimit.ProviderLimit {
	return ratelimit.ProviderLimit{Remaining: n, HasRemaining: true, Rounding: rounding}
}

type limits = ratelimit.ProviderLimits

// Each row: three calls of 10 input and 5 output tokens at once, ten seconds later what
// the provider says, then how many calls, or tokens, still fit, and when the next does.
func TestObserveRemaining(t *testing.T) {
	const span = time.Minute
	rpm, tpm := ratelimit.ModelQuota{MaxRPM: 10}, ratelimit.ModelQuota{MaxTPM: 1000}
	itpm, otpm := ratelimit.ModelQuota{MaxITPM: 1000}, ratelimit.ModelQuota{MaxOTPM: 1000}
	rpd, tpd := ratelimit.ModelQuota{MaxRPD: 10}, ratelimit.ModelQuota{MaxTPD: 1000}
	tests := []struct {
		name  string
		quota ratelimit.ModelQuota
		says  limits
		fit   int           // so many requests or tokens
		then  time.Duration // when more do
	}{
		{"nothing is said", rpm, limits{}, 7, 50*time.Second + 1},
		{"as many are left as here", rpm, limits{RPM: left(7)}, 7, 50*time.Second + 1},
		{"more are left than here", rpm, limits{RPM: left(9)}, 7, 50*time.Second + 1},
		{"fewer are left", rpm, limits{RPM: left(2)}, 2, 50*time.Second + 1},
		{"none is left", rpm, limits{RPM: left(0)}, 0, 50*time.Second + 1},
		{"a reset before the charges leave", rpm, limits{RPM: leftFor(2, 20*time.Second)}, 2, 20 * time.Second},
		{"a reset of a nanosecond", rpm, limits{RPM: leftFor(0, 1)}, 0, 1},
		{"a reset of a minute", rpm, limits{RPM: leftFor(0, span)}, 0, 50*time.Second + 1},
		{"a reset in a year", rpm, limits{RPM: leftFor(0, 365*24*time.Hour)}, 0, 50*time.Second + 1},
		{"a negative reset", rpm, limits{RPM: leftFor(0, -1)}, 0, 50*time.Second + 1},
		{"negative", rpm, limits{RPM: left(-1)}, 7, 50*time.Second + 1},
		{"not said", rpm, limits{RPM: ratelimit.ProviderLimit{Limit: 1}}, 7, 50*time.Second + 1},
		{"far more than there can be", rpm, limits{RPM: left(math.MaxInt)}, 7, 50*time.Second + 1},
		{"a dimension without a limit", rpm, limits{TPM: left(0), RPD: left(0)}, 7, 50*time.Second + 1},
		{"many were charged when the call was sent, and have left since", rpm, limits{RPM: left(2), Counted: ratelimit.ModelStats{RPM: 8}}, 7, 50*time.Second + 1},
		{"fewer were than now", rpm, limits{RPM: left(2), Counted: ratelimit.ModelStats{RPM: 1}}, 2, 50*time.Second + 1},
		{"the same, and others", rpm, limits{RPM: left(2), Counted: ratelimit.ModelStats{RPM: 6}}, 5, 50*time.Second + 1},
		{"the same in tokens", tpm, limits{TPM: left(100), Counted: ratelimit.ModelStats{TPM: 500}}, 555, 50*time.Second + 1},
		{"calls on their way do not lessen that", rpm, limits{RPM: left(2), UncountedRequests: 3, Counted: ratelimit.ModelStats{RPM: 8}}, 7, 50*time.Second + 1},
		{"two calls were on their way", rpm, limits{RPM: left(6), UncountedRequests: 2}, 4, 50*time.Second + 1},
		{"as many calls on their way as are left", rpm, limits{RPM: left(2), UncountedRequests: 2}, 0, 50*time.Second + 1},
		{"all calls were on their way", rpm, limits{RPM: left(10), UncountedRequests: math.MaxInt}, 7, 50*time.Second + 1},
		{"more calls on their way than charged", rpm, limits{RPM: left(5), UncountedRequests: 9}, 2, 50*time.Second + 1},
		{"less than no call on its way", rpm, limits{RPM: left(5), UncountedRequests: -4}, 5, 50*time.Second + 1},
		{"tokens", tpm, limits{TPM: left(300)}, 300, 50*time.Second + 1},
		{"tokens, rounded", tpm, limits{TPM: leftRounded(300, 100)}, 350, 50*time.Second + 1},
		{"tokens, rounded far too much", tpm, limits{TPM: leftRounded(300, math.MaxInt)}, 955, 50*time.Second + 1},
		{"tokens, rounded to less than nothing", tpm, limits{TPM: leftRounded(300, math.MinInt)}, 300, 50*time.Second + 1},
		{"tokens on their way", tpm, limits{TPM: left(300), Uncounted: ratelimit.Usage{PromptTokens: 10, OutputTokens: 5}}, 285, 50*time.Second + 1},
		{"input tokens", itpm, limits{ITPM: left(300)}, 300, 50*time.Second + 1},
		{"input tokens on their way", itpm, limits{ITPM: left(300), Uncounted: ratelimit.Usage{PromptTokens: 10, OutputTokens: 5}}, 290, 50*time.Second + 1},
		{"output tokens", otpm, limits{OTPM: left(300)}, 300, 50*time.Second + 1},
		{"output tokens on their way", otpm, limits{OTPM: left(300), Uncounted: ratelimit.Usage{PromptTokens: 10, OutputTokens: 5}}, 295, 50*time.Second + 1},
		{"of the day", rpd, limits{RPD: left(2)}, 2, 24*time.Hour - 10*time.Second},
		{"of the day, with a reset", rpd, limits{RPD: leftFor(2, time.Hour)}, 2, time.Hour},
		{"of the day, with a reset after its end", rpd, limits{RPD: leftFor(2, 48*time.Hour)}, 2, 24*time.Hour - 10*time.Second},
		{"of the day, a call on its way", rpd, limits{RPD: left(2), UncountedRequests: 1}, 1, 24*time.Hour - 10*time.Second},
		{"tokens of the day", tpd, limits{TPD: left(300)}, 300, 24*time.Hour - 10*time.Second},
		{"tokens of the day, with a reset", tpd, limits{TPD: leftFor(300, time.Hour)}, 300, time.Hour},
		{"tokens of the day on their way", tpd, limits{TPD: left(300), Uncounted: ratelimit.Usage{PromptTokens: 10, OutputTokens: 5}}, 285, 24*time.Hour - 10*time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, tt.quota)
				for range 3 {
					rl.RecordUsage("m", 10, 5)
				}
				time.Sleep(10 * time.Second)
				before := rl.Stats("m")
				rl.Observe("m", tt.says)
				want := before // but for what others use, which is what is missing of the limit
				want.ExternalRPM, want.ExternalRPD = max(before.MaxRPM-before.RPM-tt.fit, 0), max(before.MaxRPD-before.RPD-tt.fit, 0)
				want.ExternalTPM, want.ExternalTPD = max(before.MaxTPM-before.TPM-tt.fit, 0), max(before.MaxTPD-before.TPD-tt.fit, 0)
				want.ExternalITPM, want.ExternalOTPM = max(before.MaxITPM-before.ITPM-tt.fit, 0), max(before.MaxOTPM-before.OTPM-tt.fit, 0)
				if got := rl.Stats("m"); got != want {
					t.Errorf("stats are %+v, want %+v", got, want)
				}
				ask := func(n int) []ratelimit.Request {
					switch {
					case tt.quota.MaxRPM+tt.quota.MaxRPD > 0:
						reqs := make([]ratelimit.Request, n)
						for i := range reqs {
							reqs[i].Model = "m"
						}
						return reqs
					case tt.quota.MaxOTPM > 0:
						return []ratelimit.Request{{Model: "m", OutputTokens: n}}
					}
					return []ratelimit.Request{{Model: "m", PromptTokens: n}}
				}
				try := func(n int) ratelimit.Decision {
					rs, d := rl.ReserveAll(ask(n)...)
					rs.Cancel()
					return d
				}
				if d := try(tt.fit); !d.Allowed {
					t.Errorf("%d do not fit: %+v", tt.fit, d)
				}
				d := try(tt.fit + 1)
				if d.Allowed || d.Never || d.RetryAfter != tt.then {
					t.Fatalf("%d: %+v, want in %v", tt.fit+1, d, tt.then)
				}
				time.Sleep(tt.then - 1)
				if try(tt.fit + 1).Allowed {
					t.Error("it passes a nanosecond earlier")
				}
				time.Sleep(time.Nanosecond)
				if d := try(tt.fit + 1); !d.Allowed {
					t.Errorf("then: %+v", d)
				}
			})
		})
	}
}

// Each row: what the provider says one after the other, a second apart, to a limiter
// with 10 requests per minute that charged nothing; how many fit at the end.
func TestObserveOneAfterTheOther(t *testing.T) {
	type word struct {
		left  int
		sent  time.Duration // after the start; zero is when it is observed
		reset time.Duration
	}
	tests := []struct {
		name  string
		words []word
		fit   int
		then  time.Duration // after the last of them
	}{
		{"a newer one says less", []word{{left: 5}, {left: 2}}, 2, time.Minute},
		{"a newer one says more", []word{{left: 2}, {left: 5}}, 5, time.Minute},
		{"a newer one says that nobody else is there", []word{{left: 2}, {left: 10}}, 10, time.Minute},
		{"an older one says less", []word{{left: 5, sent: 900 * time.Millisecond}, {left: 2, sent: 1}}, 2, time.Minute},
		{"an older one says more", []word{{left: 2, sent: 900 * time.Millisecond}, {left: 5, sent: 1}}, 2, 59 * time.Second},
		{"250 ms older is as new", []word{{left: 2, sent: 900 * time.Millisecond}, {left: 5, sent: 650 * time.Millisecond}}, 5, time.Minute},
		{"and a nanosecond more is not", []word{{left: 2, sent: 900 * time.Millisecond}, {left: 5, sent: 650*time.Millisecond - 1}}, 2, 59 * time.Second},
		{"what raised is no newer for that", []word{{left: 5, sent: 900 * time.Millisecond}, {left: 2, sent: 1}, {left: 4, sent: 500 * time.Millisecond}}, 2, 59 * time.Second},
		{"an older one does not end it sooner", []word{{left: 5, sent: 900 * time.Millisecond}, {2, 1, time.Second}}, 2, 59 * time.Second},
		{"a newer one ends it sooner", []word{{left: 5}, {5, 0, time.Second}}, 5, time.Second},
		{"from the future is now", []word{{left: 2, sent: time.Hour}, {left: 5}}, 5, time.Minute},
		{"older than what is over", []word{{2, 900 * time.Millisecond, time.Second}, {left: 5, sent: 1}}, 5, time.Minute},
		{"before there was time", []word{{left: 5, sent: math.MinInt64}, {left: 2, sent: math.MinInt64}}, 2, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
				start := time.Now()
				for _, w := range tt.words {
					time.Sleep(time.Second)
					says := limits{RPM: leftFor(w.left, w.reset)}
					if w.sent != 0 {
						says.SentAt = start.Add(w.sent)
					}
					rl.Observe("m", says)
				}
				for i := range tt.fit {
					if r, d := rl.Reserve("m", 0, 0); r == nil {
						t.Fatalf("after %d: %+v", i, d)
					}
				}
				if d := rl.Decide("m", 0); tt.fit < 10 && d.RetryAfter != tt.then || d.Allowed {
					t.Errorf("%+v, want in %v", d, tt.then)
				}
			})
		})
	}
}

func TestObserveTellsWhy(t *testing.T) {
	all := limits{RPM: left(0), TPM: left(0), ITPM: left(0), OTPM: left(0), RPD: left(0), TPD: left(0)}
	for code, quota := range map[ratelimit.DecisionCode]ratelimit.ModelQuota{
		ratelimit.DecisionRPMLimit: {MaxRPM: 9}, ratelimit.DecisionTPMLimit: {MaxTPM: 9},
		ratelimit.DecisionITPMLimit: {MaxITPM: 9}, ratelimit.DecisionOTPMLimit: {MaxOTPM: 9},
		ratelimit.DecisionRPDLimit: {MaxRPD: 9}, ratelimit.DecisionTPDLimit: {MaxTPD: 9},
	} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, quota)
			rl.Observe("m", all)
			rl.Observe("other", all)
			d := rl.DecideRequest(ratelimit.Request{Model: "m", PromptTokens: 5, OutputTokens: 3})
			if d.Code != code || d.Reason != otherReasons[code] || d.Never {
				t.Errorf("%+v", d)
			}
			d = rl.DecideRequest(ratelimit.Request{Model: "m", PromptTokens: 50, OutputTokens: 30})
			if (d.Reason == otherReasons[code]) == d.Never {
				t.Errorf("too much: %+v", d)
			}
			if !rl.CanSend("other", 5) || len(rl.State) != 0 || len(rl.Quotas) != 1 {
				t.Errorf("what is observed of an unknown model leaves %v, %v", rl.State, rl.Quotas)
			}
		})
	}
}

func TestObserveIsForgotten(t *testing.T) {
	config := ratelimit.Config{
		Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10, MaxRPD: 100}, "n": {MaxRPM: 10}},
		Aliases: map[string]string{"a": "m"}, MatchVersions: true,
	}
	tests := []struct {
		name  string
		does  func(rl *ratelimit.RateLimiter)
		holds bool
	}{
		{"nothing", func(*ratelimit.RateLimiter) {}, true},
		{"Reset", func(rl *ratelimit.RateLimiter) { rl.Reset("m") }, false},
		{"Reset of an alias", func(rl *ratelimit.RateLimiter) { rl.Reset("a") }, false},
		{"Reset of a version", func(rl *ratelimit.RateLimiter) { rl.Reset("m-latest") }, false},
		{"Reset of all", func(rl *ratelimit.RateLimiter) { rl.Reset("") }, false},
		{"Reset of another", func(rl *ratelimit.RateLimiter) { rl.Reset("n") }, true},
		{"Load", func(rl *ratelimit.RateLimiter) { rl.Persist(); rl.Load() }, false},
		{"Load without a file", func(rl *ratelimit.RateLimiter) { rl.Load() }, true},
		{"SetQuota", func(rl *ratelimit.RateLimiter) { rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 9}) }, true},
		{"a prune", func(rl *ratelimit.RateLimiter) {
			stop := rl.BackgroundPrune(time.Second)
			time.Sleep(2 * time.Second)
			stop()
		}, true},
		{"another window", func(rl *ratelimit.RateLimiter) { delete(rl.State, "m") }, true},
		{"most of a minute", func(rl *ratelimit.RateLimiter) { time.Sleep(time.Minute - 1) }, true},
		{"a minute", func(rl *ratelimit.RateLimiter) { time.Sleep(time.Minute) }, false},
	}
	for _, tt := range tests {
		for _, used := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, %d used", tt.name, used), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					config.FilePath = filepath.Join(t.TempDir(), "state.yaml")
					rl := newLimiterWith(t, config)
					for range used {
						rl.RecordUsage("m", 1, 1)
					}
					rl.Observe("a", limits{RPM: left(0), UncountedRequests: used})
					tt.does(rl)
					if got := !rl.CanSend("m-latest", 1); got != tt.holds {
						t.Errorf("%+v", rl.Decide("m", 1))
					}
				})
			})
		}
	}
}

// What is held back moves with the name of its model.
func TestObserveFollowsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{MatchVersions: true, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 10}}})
		rl.Observe("m-001", limits{RPM: left(2)})
		rl.Observe("m-002", limits{RPM: left(1)})
		rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 10})
		if rs, _ := rl.ReserveAll(make3("m-001")[:2]...); rs != nil {
			t.Error("two fit")
		}
		if !rl.CanSend("m", 0) {
			t.Error("one does not fit")
		}
	})
}

func make3(model string) []ratelimit.Request {
	return []ratelimit.Request{{Model: model}, {Model: model}, {Model: model}}
}

// The models that only "*" covers have as much held back as Config.MaxModels.
func TestObserveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{MaxModels: 3, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 10}, "m": {MaxRPM: 10}}})
		held := func() (n int) {
			for i := range 20 {
				if !rl.CanSend(fmt.Sprint(i), 1) {
					n++
				}
			}
			return n
		}
		for i := range 20 {
			rl.Observe(fmt.Sprint(i), limits{RPM: leftFor(0, 30*time.Second)})
		}
		if n := held(); n != 3 {
			t.Errorf("%d models are held back, want 3", n)
		}
		if rl.Observe("m", limits{RPM: left(0)}); rl.CanSend("m", 1) {
			t.Error("there is no place for a model with a quota")
		}
		time.Sleep(30 * time.Second)
		for i := range 20 {
			rl.Observe(fmt.Sprint(19-i), limits{RPM: left(0)}) // others first
		}
		if rl.CanSend("19", 1) {
			t.Error("those whose time is over keep others out")
		}
		if n := held(); n != 2 { // beside m
			t.Errorf("%d models are held back later, want 2", n)
		}
	})
}

func TestObserveAndWaiters(t *testing.T) {
	tests := []struct {
		name string
		does func(rl *ratelimit.RateLimiter)
		got  time.Duration
	}{
		{"nothing more", func(*ratelimit.RateLimiter) {}, time.Minute},
		{"nobody else any more", func(rl *ratelimit.RateLimiter) { rl.Observe("m", limits{RPM: left(10)}) }, 10 * time.Second},
		{"one left", func(rl *ratelimit.RateLimiter) { rl.Observe("m", limits{RPM: left(1)}) }, 10 * time.Second},
		{"none left, for shorter", func(rl *ratelimit.RateLimiter) { rl.Observe("m", limits{RPM: leftFor(0, time.Second)}) }, 11 * time.Second},
		{"none left, for longer", func(rl *ratelimit.RateLimiter) { rl.Observe("m", limits{RPM: left(0)}) }, 70 * time.Second},
		{"an older answer", func(rl *ratelimit.RateLimiter) {
			rl.Observe("m", limits{RPM: left(10), SentAt: time.Now().Add(-time.Minute)})
		}, time.Minute},
		{"another model", func(rl *ratelimit.RateLimiter) { rl.Observe("n", limits{RPM: left(10)}) }, time.Minute},
		{"Reset", func(rl *ratelimit.RateLimiter) { rl.Reset("m") }, 10 * time.Second},
	}
	for _, tt := range tests {
		for name, wait := range waysToWait {
			t.Run(name+", "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}, "n": {MaxRPM: 10}, "free": {}}})
					start := time.Now()
					rl.Observe("m", limits{RPM: left(0)})
					var got time.Duration
					var err error
					go func() {
						err = wait(t.Context(), rl)
						got = time.Since(start)
					}()
					time.Sleep(10 * time.Second)
					tt.does(rl)
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					if err != nil || got != tt.got {
						t.Errorf("served after %v, want %v: %v", got, tt.got, err)
					}
				})
			})
		}
	}
	t.Run("a deadline before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
			rl.Observe("m", limits{RPM: left(0)})
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute-1)
			defer cancel()
			if _, err := rl.Acquire(ctx, "m", 1, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		})
	})
}

// The day of a zone ends at its midnight, also where nothing was used in it yet.
func TestObserveTheDayOfAZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPD: 10, DayZone: "America/Los_Angeles"})
		rl.Observe("m", limits{RPD: left(0)})
		if d := rl.Decide("m", 1); d.RetryAfter != 8*time.Hour { // bubbles begin at midnight UTC
			t.Errorf("%+v", d)
		}
	})
}

// What a provider reports to one limiter is held back by all that share the quota, and what others
// of them have charged is not of others.
func TestObserveShared(t *testing.T) {
	onPairs(t, ratelimit.Config{LearnQuotas: true, Quotas: quotas{"m": {MaxRPM: 10}}}, func(t *testing.T, a, b *ratelimit.RateLimiter, late time.Duration) {
		for range 4 {
			b.RecordUsage("m", 1, 1)
		}
		time.Sleep(late)
		a.Observe("m", limits{RPM: left(6)})
		if rs, d := a.ReserveAll(append(make3("m"), make3("m")...)...); rs == nil {
			t.Errorf("what another limiter charged is held back, too: %+v", d)
		} else {
			rs.Cancel()
		}
		a.Observe("m", limits{RPM: left(0)})
		b.RecordUsage("m", 1, 1) // which is replayed
		time.Sleep(late)
		if d := a.Decide("m", 1); d.Code != ratelimit.DecisionRPMLimit || d.Stats.RPM != 5 {
			t.Errorf("%+v", d)
		}
		if d := b.Decide("m", 1); d.Code != ratelimit.DecisionRPMLimit || d.Stats.ExternalRPM != 6 {
			t.Errorf("it is not held back in another process: %+v", d)
		}
		done := make(chan error, 1)
		go func() {
			_, err := a.Acquire(t.Context(), "m", 1, 1)
			done <- err
		}()
		synctest.Wait()
		a.Observe("m", limits{RPM: ratelimit.ProviderLimit{Limit: 9, Remaining: 4, HasRemaining: true}})
		if err := <-done; err != nil {
			t.Error(err)
		}
		quotasAre := func(what string, want int) {
			t.Helper()
			time.Sleep(late)
			for _, rl := range []*ratelimit.RateLimiter{a, b} {
				if _, q, _ := rl.QuotaFor("m"); q.MaxRPM != want {
					t.Errorf("%s: %d, want %d", what, q.MaxRPM, want)
				}
			}
		}
		// The quota was told by hand, so that is the most.
		for _, tt := range []struct{ limit, want int }{{7, 7}, {1000, 10}, {8, 8}} {
			a.Observe("m", limits{RPM: ratelimit.ProviderLimit{Limit: tt.limit}})
			quotasAre(fmt.Sprint("limit ", tt.limit), tt.want)
		}
		b.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 20})
		quotasAre("set by another process", 20)
		a.Observe("m", limits{RPM: ratelimit.ProviderLimit{Limit: 1000}})
		quotasAre("more than was said elsewhere", 20)
		a.Close()
		a.Observe("m", limits{RPM: ratelimit.ProviderLimit{Limit: 1, HasRemaining: true}})
	})
}

func TestObserveAtOnce(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{
		FilePath: filepath.Join(t.TempDir(), "state.yaml"), LearnQuotas: true, MatchVersions: true, MaxModels: 20,
		AutoPersist: ratelimit.AutoPersist{Delay: time.Millisecond},
		Quotas:      map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1 << 30, MaxTPM: 1 << 30}, "*": {MaxRPM: 1 << 30}},
	})
	stop := rl.BackgroundPrune(time.Millisecond)
	defer stop()
	work := []func(model string, i int){
		func(model string, i int) {
			rl.Observe(model, limits{RPM: ratelimit.ProviderLimit{Limit: 1<<30 - i%3, Remaining: 1<<30 - 1000*(i%2), HasRemaining: true, Reset: time.Millisecond}})
		},
		func(model string, i int) {
			if r, err := rl.Acquire(t.Context(), model, i%100, 1); err != nil {
				t.Error(err)
			} else {
				r.Commit(i%7, 1)
			}
		},
		func(model string, i int) { rl.Decide(model, i); rl.CanSend(model, i) },
		func(model string, i int) { rl.Stats(model); rl.AllStats() },
		func(model string, i int) {
			switch i % 50 {
			case 0:
				rl.Reset("")
			case 1:
				rl.SetQuota("*", ratelimit.ModelQuota{MaxRPM: 1 << 30})
			case 2:
				rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 1 << 30, MaxTPM: 1 << 30})
			case 3:
				rl.AddProvider(ratelimit.ProviderOpenAI)
			case 4:
				if err := rl.Load(); err != nil {
					t.Error(err)
				}
			case 5:
				if err := rl.Persist(); err != nil {
					t.Error(err)
				}
			}
		},
	}
	var all sync.WaitGroup
	for _, do := range work {
		for k := range 2 {
			all.Go(func() {
				for i := range 300 {
					do([]string{"m", "m-001", "x", "y-2024-01-01"}[(i+k)%4], i)
				}
			})
		}
	}
	all.Wait()
	if err := rl.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkObserve(b *testing.B) {
	rl := newLimiterWith(b, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 5000, MaxTPM: 1_000_000}}})
	for range 100 {
		rl.RecordUsage("m", 100, 100)
	}
	says := limits{
		RPM: ratelimit.ProviderLimit{Limit: 5000, Remaining: 4950, HasRemaining: true, Reset: time.Second},
		TPM: ratelimit.ProviderLimit{Limit: 1_000_000, Remaining: 990_000, HasRemaining: true, Reset: time.Second},
	}
	b.Run("no change", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			rl.Observe("m", says)
		}
	})
	says.RPM.Remaining, says.SentAt = 100, time.Now()
	b.Run("held back", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			rl.Observe("m", says)
		}
	})
}

var otherReasons = map[ratelimit.DecisionCode]string{
	ratelimit.DecisionRPMLimit:  "the provider reports fewer requests per minute left",
	ratelimit.DecisionTPMLimit:  "the provider reports fewer tokens per minute left",
	ratelimit.DecisionITPMLimit: "the provider reports fewer input tokens per minute left",
	ratelimit.DecisionOTPMLimit: "the provider reports fewer output tokens per minute left",
	ratelimit.DecisionRPDLimit:  "the provider reports fewer requests per day left",
	ratelimit.DecisionTPDLimit:  "the provider reports fewer tokens per day left",
}
