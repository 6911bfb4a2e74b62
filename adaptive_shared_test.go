//go:build !nosqlite

// Limits that are found: processes that share them.

package ratelimit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// What one limiter finds is what all have, those that come later, too, and the calls of all of them
// together are spaced.
func TestAdaptiveIsShared(t *testing.T) {
	for _, group := range adaptiveGroups[1:] {
		t.Run(group, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, open := adaptiveGroup(t, group, ratelimit.Config{Quotas: adaptiveApart})
				rate, slots := adaptiveLearned(t, all[0])
				agree := func(when string, limiters ...*ratelimit.RateLimiter) {
					t.Helper()
					adaptiveCatchUp(t, limiters...)
					for i, rl := range limiters {
						if gotRate, gotSlots := rl.Stats("m").AdaptiveRPM, rl.Stats("slots").AdaptiveInFlight; gotRate != rate || gotSlots != slots {
							t.Errorf("%s: limiter %d has %d a minute and %d slots, the first %d and %d", when, i, gotRate, gotSlots, rate, slots)
						}
					}
				}
				agree("after it was found", all...)
				late := open()
				agree("in one that comes later", late)
				time.Sleep(3 * time.Second)
				adaptiveRefuse(late, "m", "rate_limited")
				adaptiveRefuse(late, "slots", "overloaded")
				lower, fewer := late.Stats("m").AdaptiveRPM, late.Stats("slots").AdaptiveInFlight
				if lower >= rate || fewer >= slots {
					t.Errorf("refusals lower %d to %d, and %d to %d", rate, lower, slots, fewer)
				}
				rate, slots = lower, fewer
				agree("after the later one lowered it", append(all, late)...)
				if err := late.Close(); err != nil {
					t.Error(err)
				}
				agree("after it was closed", append(all, open())...)

				time.Sleep(time.Minute)
				all[0].SetQuota("m", adaptiveFixed(60))
				adaptiveCatchUp(t, all...)
				passed := 0
				for range 100 { // all ask ten times a second
					for _, rl := range all {
						if r, _ := rl.Reserve("m", 0, 0); r != nil {
							r.Commit(0, 0)
							passed++
						}
					}
					time.Sleep(time.Second / 10)
				}
				if passed != 10 {
					t.Errorf("together %d calls pass in 10 s at one a second", passed)
				}
			})
		})
	}
}

// What headers say is known to the process that reads them, as its corrections are. The others
// go on spacing by what all have found.
func TestAdaptiveHeadersAreOfOneProcess(t *testing.T) {
	for _, group := range adaptiveGroups[1:] {
		synctest.Test(t, func(t *testing.T) {
			all, open := adaptiveGroup(t, group, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveBoth}})
			all[0].Observe("m", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 5000}})
			adaptiveRefuse(all[0], "m", "overloaded") // which all are told of
			adaptiveCatchUp(t, all...)
			late := open()
			for name, rl := range map[string]*ratelimit.RateLimiter{"another": all[1], "one that comes later": late} {
				if !adaptiveSpaced(t, rl, "m") {
					t.Errorf("%s: %s does not space its calls", group, name)
				}
				if n := rl.Stats("m").AdaptiveInFlight; n != 19 {
					t.Errorf("%s: %s has %d slots, want 19", group, name, n)
				}
			}
			if adaptiveSpaced(t, all[0], "m") {
				t.Errorf("%s: the one with the headers spaces its calls", group)
			}
		})
	}
}

// Slots that were found are those of all together, and slots that end wake waiters anywhere.
func TestAdaptiveSlotsAreShared(t *testing.T) {
	for _, group := range adaptiveGroups[1:] {
		t.Run(group, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, _ := adaptiveGroup(t, group, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
					"m": {AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 2},
				}})
				a, b := reserve(t, all[0], "m", 0, 0), reserve(t, all[1], "m", 0, 0)
				for _, rl := range all {
					if r, d := rl.Reserve("m", 0, 0); r != nil || d.Code != ratelimit.DecisionInFlightLimit {
						t.Errorf("a third call: %+v", d)
					}
				}
				passed := make(chan time.Time, 1)
				began := time.Now()
				go func() {
					r, err := all[2].Acquire(context.Background(), "m", 0, 0)
					if err != nil {
						t.Error(err)
					}
					passed <- time.Now()
					r.Commit(0, 0)
				}()
				time.Sleep(time.Second)
				a.Commit(0, 0)
				if took := (<-passed).Sub(began); took > time.Second+sharedHandOver {
					t.Errorf("a waiter has the slot after %v", took)
				}
				b.Commit(0, 0)
			})
		})
	}
}

// While the store is down each limiter goes on by what was found, in its bounds, and afterwards
// all agree again.
func TestAdaptiveWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := sharedlogtest.NewFake()
		var all []*ratelimit.RateLimiter
		for range 3 {
			all = append(all, adaptiveOpen(t, ratelimit.Config{Store: fake, Quotas: adaptiveApart}))
		}
		adaptiveLearned(t, all[0])
		adaptiveCatchUp(t, all...)
		fake.Fail(errors.New("down"))
		for i, rl := range all {
			for range 5 + 5*i {
				if r, d := rl.Reserve("m", 0, 0); r != nil {
					r.Commit(0, 0)
				} else if d.RetryAfter <= 0 || d.RetryAfter > time.Minute {
					t.Fatalf("limiter %d, while the store is down: %+v", i, d)
				}
				time.Sleep(time.Second)
			}
			adaptiveRefuse(rl, "m", "rate_limited")
			adaptiveRefuse(rl, "slots", "overloaded")
			wantBetween(t, "the rate", rl.Stats("m").AdaptiveRPM, 60, 6000)
			wantBetween(t, "the slots", rl.Stats("slots").AdaptiveInFlight, 2, 1000)
		}
		fake.Fail(nil)
		for _, rl := range all {
			for rl.Err() != nil {
				rl.Persist()
			}
		}
		adaptiveCatchUp(t, all...)
		for _, model := range []string{"m", "slots"} {
			want := adaptiveFound(all[0], model)
			for i, rl := range all[1:] {
				if got := adaptiveFound(rl, model); got != want {
					t.Errorf("%s: limiter %d has %s, the first %s", model, i+1, got, want)
				}
			}
		}
	})
}

// A store whose clock is ahead, or behind: it is still known which calls were sent before.
func TestAdaptiveStoreClock(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			fake := sharedlogtest.NewFake()
			fake.Ahead = ahead
			rl := adaptiveOpen(t, ratelimit.Config{Store: fake, Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveBoth}})
			refuse := func(sent time.Time, want string) {
				t.Helper()
				for _, problem := range []string{"rate_limited", "overloaded"} {
					rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{Model: "m", Problem: problem, SentAt: sent})
				}
				if got := adaptiveFound(rl, "m"); !adaptiveNear(got, want) {
					t.Errorf("%v ahead, sent %v ago: %s, want %s", ahead, time.Since(sent), got, want)
				}
			}
			time.Sleep(10 * time.Second)
			refuse(time.Now().Add(-time.Second), "114/19")
			time.Sleep(10 * time.Second)
			refuse(time.Now().Add(-11*time.Second), "114/19")
			refuse(time.Now().Add(-time.Second), "102/17")
		})
	}
}

func init() {
	// A process that finds lower limits, says them, and is killed while it waits.
	sqliteChildren["adaptive"] = func(in io.Reader, args []string) error {
		var plan sharedPlan
		if err := json.Unmarshal([]byte(args[0]), &plan); err != nil {
			return err
		}
		rl, err := ratelimit.NewWithSQLiteConfig(plan.Path, plan.config())
		if err != nil {
			return err
		}
		adaptiveRefuse(rl, "m", "rate_limited")
		adaptiveRefuse(rl, "m", "overloaded")
		fmt.Println(adaptiveFound(rl, "m"))
		bufio.NewScanner(in).Scan()
		return rl.Close()
	}
}

// Processes see what the others find, and the death of one changes nothing.
func TestAdaptiveSurvivesKill(t *testing.T) {
	t.Parallel()
	plan := sharedPlan{Path: sqlitePath(t), Quotas: map[string]ratelimit.ModelQuota{"m": adaptiveBoth}}
	here := sharedLimiter(t, plan)
	if got := adaptiveFound(here, "m"); got != "120/20" {
		t.Fatalf("it begins with %s", got)
	}
	cmd, _, out := sqliteChild(t, "adaptive", jsonOf(t, plan))
	if !out.Scan() || out.Text() != "114/19" {
		t.Fatalf("another process says %q, want 114/19", out.Text())
	}
	for _, when := range []string{"while it lives", "after it was killed"} {
		if got := adaptiveFound(here, "m"); !adaptiveNear(got, "114/19") {
			t.Errorf("%s: %s, want 114/19", when, got)
		}
		late := sharedLimiter(t, plan)
		if got := adaptiveFound(late, "m"); !adaptiveNear(got, "114/19") {
			t.Errorf("%s, one that comes later: %s, want 114/19", when, got)
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
}
