// Names of models: aliases, patterns, the quota of every model, how many hold state.

package ratelimit_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// QuotaFor returns the quota by which the limiter limits a model, with and without MatchVersions.
func TestQuotaFor(t *testing.T) {
	tests := []struct{ model, exact, versions string }{
		{"gpt-4o", "gpt-4o", "gpt-4o"},
		{"gpt-4o-2024-08-06", "gpt-4o-2024-08-06", "gpt-4o-2024-08-06"},
		{"gpt-4o-2024-11-20", "", "gpt-4o"},
		{"gpt-4o-mini", "", ""},
		{"openai/gpt-4o", "", "gpt-4o"},
		{"claude-opus-4-20250514", "", "claude-opus-4"},
		{"claude-opus-4-1", "", ""},
		{"claude-opus-4@20250514", "", "claude-opus-4"},
		{"fast", "gpt-4o", "gpt-4o"},
		{"fast-2024-11-20", "", "gpt-4o"},
		{"my-team", "shared", "shared"},
		{"dated", "", "gpt-4o"},
		{"nowhere", "", ""},
		{"", "", ""},
	}
	for _, versions := range []bool{false, true} {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{
				"gpt-4o": {MaxRPM: 1}, "gpt-4o-2024-08-06": {MaxRPM: 2}, "claude-opus-4": {MaxRPM: 3}, "shared": {MaxRPM: 4},
			},
			Aliases:       map[string]string{"fast": "gpt-4o", "my-team": "shared", "dated": "gpt-4o-2099-01-01", "nowhere": "nothing"},
			MatchVersions: versions,
		})
		for _, wildcard := range []bool{false, true} {
			if wildcard {
				rl.SetQuota("*", ratelimit.ModelQuota{MaxRPM: 9})
			}
			for _, tt := range tests {
				want := tt.exact
				if versions {
					want = tt.versions
				}
				if wildcard && want == "" {
					want = "*"
				}
				name, quota, ok := rl.QuotaFor(tt.model)
				if name != want || ok != (want != "") || quota != rl.Quotas[want] {
					t.Errorf("versions %v: QuotaFor(%q) = %q, %+v, %v, want %q", versions, tt.model, name, quota, ok, want)
				}
				if d := rl.Decide(tt.model, 1); ok != (d.Code != ratelimit.DecisionUnknownModel) || ok && d.Stats.MaxRPM != quota.MaxRPM {
					t.Errorf("versions %v: QuotaFor(%q) is ok: %v, but the limiter decides %+v", versions, tt.model, ok, d)
				}
			}
		}
	}
}

func TestNamesThatShareABucket(t *testing.T) {
	tests := []struct {
		name   string
		config ratelimit.Config
		other  string
		shared bool
	}{
		{"a dated name is another by default", ratelimit.Config{}, "m-2024-08-06", false},
		{"a dated name", ratelimit.Config{MatchVersions: true}, "m-2024-08-06", true},
		{"a provider's", ratelimit.Config{MatchVersions: true}, "openai/m", true},
		{"another model", ratelimit.Config{MatchVersions: true}, "m-1", false},
		{"an alias", ratelimit.Config{Aliases: map[string]string{"other": "m"}}, "other", true},
		{"a dated alias", ratelimit.Config{Aliases: map[string]string{"other": "m"}}, "other-latest", false},
		{"a dated alias, matched", ratelimit.Config{Aliases: map[string]string{"other": "m"}, MatchVersions: true}, "other-latest", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.config.Quotas = map[string]ratelimit.ModelQuota{"m": {MaxRPM: 3}}
				rl := newLimiterWith(t, tt.config)
				rl.RecordUsage(tt.other, 1, 1)
				reserve(t, rl, tt.other, 1, 1)
				if err := rl.WaitForCapacity(t.Context(), tt.other, 1); err != nil {
					t.Error(err)
				}
				rl.Cooldown(tt.other, time.Now().Add(time.Hour))
				if got := rl.Stats("m").RPM == 2; got != tt.shared {
					t.Errorf("m has used %+v", rl.Stats("m"))
				}
				if d := rl.Decide("m", 1); (d.Code == ratelimit.DecisionCooldown) != tt.shared || d.Model != "m" {
					t.Errorf("%+v", d)
				}
				if rl.CanSend(tt.other, 1) || rl.Decide(tt.other, 1).Model != tt.other {
					t.Errorf("%+v", rl.Decide(tt.other, 1))
				}
				rl.Reset(tt.other)
				if s := rl.Stats("m"); s.RPM != 0 || s.InFlight != map[bool]int{true: 1}[tt.shared] {
					t.Errorf("%+v after a Reset", s)
				}
				if tt.shared && len(rl.AllStats()) != 1 {
					t.Errorf("models %v", slices.Collect(rl.Models()))
				}
			})
		})
	}
}

func TestQuotaOfEveryModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"own": {MaxRPM: 5}, "*": {MaxRPM: 1, MaxRPD: 2}}})
		for _, model := range []string{"a", "b"} {
			if d := rl.Decide(model, 1); !d.Allowed || d.Code != ratelimit.DecisionAllowed || d.Stats.MaxRPM != 1 {
				t.Errorf("%s: %+v", model, d)
			}
			reserve(t, rl, model, 1, 1)
			if d := rl.Decide(model, 1); d.Code != ratelimit.DecisionRPMLimit {
				t.Errorf("%s: %+v", model, d)
			}
		}
		reserve(t, rl, "own", 1, 1)
		reserve(t, rl, "own", 1, 1)
		if got := slices.Collect(rl.Models()); !slices.Equal(got, []string{"a", "b", "own"}) {
			t.Errorf("models are %q", got)
		}
	})
}

func TestMaxModels(t *testing.T) {
	const most = 3
	tests := []struct {
		name  string
		every *ratelimit.ModelQuota // nil: no quota at all
		after func(rl *ratelimit.RateLimiter, held []*ratelimit.Reservation)
		place bool // for another model
	}{
		{"all are in use", &ratelimit.ModelQuota{MaxRPM: 5}, nil, false},
		{"all are in use, without a quota", nil, nil, false},
		{"one is cancelled", &ratelimit.ModelQuota{MaxRPM: 5}, func(_ *ratelimit.RateLimiter, held []*ratelimit.Reservation) { held[1].Cancel() }, true},
		{"one is reset", &ratelimit.ModelQuota{MaxRPM: 5}, func(rl *ratelimit.RateLimiter, held []*ratelimit.Reservation) {
			held[1].Commit(1, 1)
			rl.Reset("b")
		}, true},
		{"one is in flight, the rest settled, a minute later", &ratelimit.ModelQuota{MaxRPM: 5}, func(_ *ratelimit.RateLimiter, held []*ratelimit.Reservation) {
			held[0].Commit(1, 1)
			held[1].Commit(1, 1)
			time.Sleep(time.Minute + 1)
		}, true},
		{"all are in flight, which nobody limits, a minute later", &ratelimit.ModelQuota{MaxRPM: 5},
			func(*ratelimit.RateLimiter, []*ratelimit.Reservation) { time.Sleep(time.Hour) }, true},
		{"all hold slots, a minute later", &ratelimit.ModelQuota{MaxInFlight: 5}, func(*ratelimit.RateLimiter, []*ratelimit.Reservation) { time.Sleep(time.Hour) }, false},
		{"settled, but the day is limited", &ratelimit.ModelQuota{MaxRPD: 5}, func(_ *ratelimit.RateLimiter, held []*ratelimit.Reservation) {
			settleAll(held)
			time.Sleep(time.Hour)
		}, false},
		{"settled, and the day is over", &ratelimit.ModelQuota{MaxTPD: 500}, func(_ *ratelimit.RateLimiter, held []*ratelimit.Reservation) {
			settleAll(held)
			time.Sleep(24 * time.Hour)
		}, true},
		{"settled, a moment too early", nil, func(_ *ratelimit.RateLimiter, held []*ratelimit.Reservation) {
			settleAll(held)
			time.Sleep(time.Minute - most)
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quotas := map[string]ratelimit.ModelQuota{"own": {MaxRPM: 5}, "other": {}}
				if tt.every != nil {
					quotas["*"] = *tt.every
				}
				rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas, MaxModels: most})
				var held []*ratelimit.Reservation
				for _, model := range []string{"a", "b", "c"} {
					held = append(held, reserve(t, rl, model, 1, 1))
					time.Sleep(1 * time.Nanosecond)
				}
				if tt.after != nil {
					tt.after(rl, held)
				}
				reserve(t, rl, "own", 1, 1) // which have a quota of their own always have a place
				reserve(t, rl, "other", 1, 1)
				denied := !tt.place && tt.every != nil
				if d := rl.Decide("new", 1); d.Allowed == denied || denied && d.Code != ratelimit.DecisionTooManyModels {
					t.Errorf("%+v", d)
				}
				r, d := rl.Reserve("new", 7, 7)
				if d.Allowed == denied || (r == nil) != denied {
					t.Errorf("%+v", d)
				}
				if got := rl.Stats("new").RPM == 1; got != tt.place {
					t.Errorf("the new one: %+v", rl.Stats("new"))
				}
				if !denied && r.Model() != "new" {
					t.Errorf("model %q", r.Model())
				}
				rl.RecordUsage("newer", 1, 1)
				r.Arrived(time.Now())
				r.Commit(1, 1)
				if n := len(rl.State); n > most+2 {
					t.Errorf("%d models hold state", n)
				}
				for _, r := range held {
					r.Cancel()
				}
				r.Cancel()
			})
		})
	}
}

func settleAll(held []*ratelimit.Reservation) {
	for _, r := range held {
		r.Commit(1, 1)
	}
}

func TestMaxModelsForgetsTheOneUsedLeastRecently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 5}}, MaxModels: 3})
		for _, model := range []string{"a", "b", "c", "a"} {
			rl.RecordUsage(model, 1, 1)
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		for _, step := range []struct{ uses, goes string }{{"d", "b"}, {"e", "c"}, {"a", ""}, {"f", ""}} {
			_, had := rl.State[step.goes]
			rl.RecordUsage(step.uses, 1, 1)
			if _, has := rl.State[step.goes]; has || !had && step.goes != "" {
				t.Errorf("%q was to go for %q, there are %v", step.goes, step.uses, rl.State)
			}
		}
		if _, counted := rl.State["f"]; counted || len(rl.State) != 3 {
			t.Errorf("there are %v", rl.State)
		}
	})
}

func TestAcquireWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxInFlight: 1}}, MaxModels: 1})
		held := reserve(t, rl, "a", 1, 1)
		if d := rl.Decide("b", 1); d.RetryAfter != 0 || d.Never {
			t.Errorf("a place that an event frees: %+v", d)
		}
		time.AfterFunc(30*time.Second, func() { held.Commit(1, 1) })
		started := time.Now()
		time.AfterFunc(45*time.Second, func() {
			if d := rl.Decide("c", 1); d.Code != ratelimit.DecisionTooManyModels || d.RetryAfter != 15*time.Second+1 {
				t.Errorf("%+v", d)
			}
		})
		if _, err := rl.Acquire(t.Context(), "b", 1, 1); err != nil || time.Since(started) != time.Minute+1 {
			t.Errorf("%v after %v", err, time.Since(started))
		}
	})
}

// A program that takes names from its users must not grow by them.
func TestManyNames(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {}}, MaxModels: 100})
	for i := range 10_000 {
		name := fmt.Sprint("name", i)
		rl.RecordUsage(name, 1, 1)
		rl.CanSend(name, 1)
		rl.Cooldown(name, time.Now().Add(time.Hour))
		if r, d := rl.Reserve(name, 1, 1); r == nil && d.Code != ratelimit.DecisionCooldown {
			t.Fatalf("%+v", d)
		}
	}
	if n := len(rl.State); n != 100 {
		t.Errorf("%d models hold state", n)
	}
	cooled := 0
	for i := range 10_000 {
		if !rl.CanSend(fmt.Sprint("name", i), 1) {
			cooled++
		}
	}
	if cooled != 100 {
		t.Errorf("%d models have a cooldown", cooled)
	}
}

// bubbleWith runs a test in a bubble with a limiter under the quota "*".
func bubbleWith(t *testing.T, most int, every ratelimit.ModelQuota, test func(t *testing.T, rl *ratelimit.RateLimiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": every}, MaxModels: most}))
	})
}

// wantServed acquires while something happens, and wants to be served after
// exactly that long.
func wantServed(t *testing.T, rl *ratelimit.RateLimiter, model string, want time.Duration, meanwhile func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	started := time.Now()
	done := make(chan error)
	go func() {
		_, err := rl.Acquire(ctx, model, 1, 1)
		done <- err
	}()
	synctest.Wait()
	meanwhile()
	if err := <-done; err != nil || time.Since(started) != want {
		t.Errorf("%s: %v after %v, want %v", model, err, time.Since(started), want)
	}
}

func TestPlaceIsNoticed(t *testing.T) {
	rpm := ratelimit.ModelQuota{MaxRPM: 1}
	tests := []struct {
		name string
		most int
		test func(t *testing.T, rl *ratelimit.RateLimiter)
	}{
		{"when a waiter leaves", 1, func(t *testing.T, rl *ratelimit.RateLimiter) {
			reserve(t, rl, "a", 1, 1).Commit(1, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go rl.Acquire(ctx, "a", 1, 1)
			synctest.Wait()
			wantServed(t, rl, "b", time.Minute+1, func() { time.Sleep(10 * time.Second); cancel() })
		}},
		{"when a waiter that charges nothing was served", 1, func(t *testing.T, rl *ratelimit.RateLimiter) {
			rl.RecordUsage("a", 1, 1)
			go rl.WaitForCapacity(t.Context(), "a", 1)
			synctest.Wait()
			wantServed(t, rl, "b", time.Minute+1, func() {})
		}},
		{"of a model that came later", 2, func(t *testing.T, rl *ratelimit.RateLimiter) {
			rl.SetQuota("*", ratelimit.ModelQuota{MaxInFlight: 1})
			held := reserve(t, rl, "y", 1, 1)
			rl.RecordUsage("x", 1, 1)
			time.Sleep(2 * time.Minute)
			rl.RecordUsage("z", 1, 1) // in place of x
			time.Sleep(2 * time.Minute)
			wantServed(t, rl, "w", 0, func() {})
			held.Cancel()
		}},
		{"of a model that gets a quota of its own", 1, func(t *testing.T, rl *ratelimit.RateLimiter) {
			reserve(t, rl, "a", 1, 1)
			wantServed(t, rl, "b", 0, func() { rl.SetQuota("a", rpm) })
		}},
		{"of reservations that nobody settles", 2, func(t *testing.T, rl *ratelimit.RateLimiter) {
			reserve(t, rl, "a", 1, 1)
			late := reserve(t, rl, "b", 1, 1)
			time.Sleep(48 * time.Hour)
			wantServed(t, rl, "c", 0, func() {})
			wantServed(t, rl, "d", 0, func() {})
			late.Commit(2, 2)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { bubbleWith(t, tt.most, rpm, tt.test) })
	}
}

func TestReserveAllOfNewModels(t *testing.T) {
	bubbleWith(t, 2, ratelimit.ModelQuota{MaxRPM: 1}, func(t *testing.T, rl *ratelimit.RateLimiter) {
		type req = ratelimit.Request
		if rs, d := rl.ReserveAll(req{Model: "a"}, req{Model: "b"}, req{Model: "c"}); rs != nil || d.Code != ratelimit.DecisionTooManyModels || !d.Never {
			t.Errorf("%+v", d)
		}
		rl.RecordUsage("c", 1, 1)
		time.Sleep(time.Second)
		reserve(t, rl, "d", 1, 1).Commit(1, 1)
		time.Sleep(2 * time.Minute)
		// One of the two has to go, and it must not be the one that is asked for.
		rs, d := rl.ReserveAll(req{Model: "new"}, req{Model: "c"})
		if !d.Allowed || rl.Stats("c").RPM != 1 || rl.Stats("new").RPM != 1 || len(rl.State) != 2 {
			t.Errorf("%+v, %v", d, rl.State)
		}
		if _, d := rl.ReserveAll(req{Model: "e"}, req{Model: "f"}); d.Allowed || d.Never {
			t.Errorf("%+v", d)
		}
		rs.Cancel()
		if _, d := rl.ReserveAll(req{Model: "e"}, req{Model: "f"}); !d.Allowed || len(rl.State) != 2 {
			t.Errorf("%+v, %v", d, rl.State)
		}
	})
}

// A name may come to stand for another model while somebody waits under it.
func TestNamesChangeWhileSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := ratelimit.ModelQuota{MaxInFlight: 1}
		rl := newLimiterWith(t, ratelimit.Config{MatchVersions: true, Quotas: map[string]ratelimit.ModelQuota{"*": slots}})
		dated, plain := reserve(t, rl, "m-2024-08-06", 1, 1), reserve(t, rl, "m", 1, 1)
		rl.Cooldown("n-latest", time.Now().Add(time.Hour))
		wantServed(t, rl, "m-2024-08-06", time.Minute, func() {
			rl.SetQuota("m", slots)
			rl.SetQuota("n", slots)
			if d := rl.Decide("m", 1); d.Code != ratelimit.DecisionQueued {
				t.Errorf("%+v", d)
			}
			if d := rl.Decide("n-latest", 1); d.Code != ratelimit.DecisionCooldown || rl.CanSend("n", 1) {
				t.Errorf("%+v", d)
			}
			time.AfterFunc(time.Minute, plain.Cancel)
		})
		dated.Cancel()
	})
}

func TestPatternPrecedence(t *testing.T) {
	quotas := map[string]ratelimit.ModelQuota{
		"*": {MaxRPM: 1}, "gpt-*": {MaxRPM: 2}, "gpt-4*": {MaxRPM: 3}, "*/gpt-4o": {MaxRPM: 4}, "gpt-4o": {MaxRPM: 5},
		"*-mini": {MaxRPM: 6}, "gpt-*-mini": {MaxRPM: 7}, "a.b*": {MaxRPM: 8},
	}
	for _, tt := range []struct {
		model         string
		exact         string // the quota, and
		exactAs       string // the name under which it is counted
		versions      string // the same with MatchVersions
		versionsAs    string
		whatItIsAbout string
	}{
		{"gpt-4o", "gpt-4o", "gpt-4o", "gpt-4o", "gpt-4o", "the exact name"},
		{"gpt-4o-2024-08-06", "gpt-4*", "gpt-4o-2024-08-06", "gpt-4o", "gpt-4o", "a version beats a pattern"},
		{"openai/gpt-4o", "*/gpt-4o", "openai/gpt-4o", "gpt-4o", "gpt-4o", "a prefix is a version, too"},
		{"a/b/gpt-4o", "*/gpt-4o", "a/b/gpt-4o", "*/gpt-4o", "a/b/gpt-4o", "* stands for /, too"},
		{"gpt-4-turbo", "gpt-4*", "gpt-4-turbo", "gpt-4*", "gpt-4-turbo", "the longest pattern"},
		{"gpt-5", "gpt-*", "gpt-5", "gpt-*", "gpt-5", "the only pattern"},
		{"gpt-4-mini", "gpt-*-mini", "gpt-4-mini", "gpt-*-mini", "gpt-4-mini", "the longest of four"},
		{"o3-mini", "*-mini", "o3-mini", "*-mini", "o3-mini", "a pattern that begins with *"},
		{"a.b", "a.b*", "a.b", "a.b*", "a.b", "* stands for nothing, too"},
		{"axb", "*", "axb", "*", "axb", "no other byte is special"},
		{"claude", "*", "claude", "*", "claude", "no pattern"},
		{"mine", "gpt-4*", "gpt-4-own", "gpt-4*", "gpt-4-own", "a pattern covers what an alias stands for"},
	} {
		for _, versions := range []bool{false, true} {
			rl := openLimiter(t, ratelimit.Config{
				Quotas: quotas, MatchVersions: versions, Aliases: map[string]string{"mine": "gpt-4-own"},
			})
			want, as := tt.exact, tt.exactAs
			if versions {
				want, as = tt.versions, tt.versionsAs
			}
			if got := rl.Stats(tt.model).MaxRPM; got != quotas[want].MaxRPM {
				t.Errorf("%s: %q has %d requests a minute, want the %d of %q (versions: %t)", tt.whatItIsAbout, tt.model, got, quotas[want].MaxRPM, want, versions)
			}
			if got := rl.CountedAs(tt.model); got != as {
				t.Errorf("%s: %q is counted as %q, want %q (versions: %t)", tt.whatItIsAbout, tt.model, got, as, versions)
			}
			rl.RecordUsage(tt.model, 1, 1)
			if rl.State[as] == nil {
				t.Errorf("%s: %q has no state under %q", tt.whatItIsAbout, tt.model, as)
			}
			if name, q, ok := rl.QuotaFor(tt.model); name != want || q != quotas[want] || !ok {
				t.Errorf("%s: QuotaFor(%q) is %q, want %q", tt.whatItIsAbout, tt.model, name, want)
			}
		}
	}
}

// A pattern limits each model that it covers by itself, as "*" does, and is no model.
func TestPatternCountsEachModel(t *testing.T) {
	rl := openLimiter(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt-*": {MaxRPM: 1}}})
	for _, model := range []string{"gpt-1", "gpt-2"} {
		if r, _ := rl.Reserve(model, 1, 1); r == nil {
			t.Errorf("the first call of %s is denied", model)
		}
		if r, d := rl.Reserve(model, 1, 1); r != nil || d.Code != ratelimit.DecisionRPMLimit {
			t.Errorf("the second call of %s is judged %s", model, d.Code)
		}
	}
	if got := slices.Collect(rl.Models()); !slices.Equal(got, []string{"gpt-1", "gpt-2"}) {
		t.Errorf("the models are %q", got)
	}
	rl.SetQuota("gpt-*", ratelimit.ModelQuota{MaxRPM: 2})
	if !rl.CanSend("gpt-1", 1) {
		t.Error("a new quota of a pattern does not hold")
	}
	rl.SetQuota("gpt-1*", ratelimit.ModelQuota{MaxRPM: 1})
	if rl.CanSend("gpt-1", 1) || !rl.CanSend("gpt-2", 1) {
		t.Error("a new, longer pattern does not hold")
	}
}

// The models under a pattern are bounded by MaxModels, and their days keep them.
func TestPatternModelsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := openLimiter(t, ratelimit.Config{
			MaxModels: 2,
			Quotas:    map[string]ratelimit.ModelQuota{"day-*": {MaxRPD: 5}, "*": {MaxRPM: 5}},
		})
		reserve := func(model string) ratelimit.DecisionCode {
			r, d := rl.Reserve(model, 1, 1)
			r.Commit(1, 1)
			return d.Code
		}
		reserve("day-1")
		reserve("minute")
		if code := reserve("other"); code != ratelimit.DecisionTooManyModels {
			t.Errorf("a third model is judged %s", code)
		}
		time.Sleep(2 * time.Minute)
		if code := reserve("other"); code != ratelimit.DecisionAllowed {
			t.Errorf("once a minute is over, a third model is judged %s", code)
		}
		if rl.State["day-1"] == nil || rl.State["minute"] != nil {
			t.Errorf("of a model with a day and an idle one, %v stays", slices.Collect(rl.Models()))
		}
		rl.SetQuota("day-*", ratelimit.ModelQuota{MaxRPM: 5})
		if code := reserve("more"); code != ratelimit.DecisionAllowed {
			t.Errorf("once the pattern has no day, a further model is judged %s", code)
		}
	})
}

func ExampleRateLimiter_CountedAs() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath:      filepath.Join(tempDir(), "ratelimits.yaml"),
		Quotas:        map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500}, "llama*": {MaxInFlight: 2}},
		Aliases:       map[string]string{"fast": "gpt-4o"},
		MatchVersions: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, model := range []string{"gpt-4o-2024-08-06", "fast", "llama3:8b"} {
		fmt.Println(model, "is counted as", rl.CountedAs(model))
	}
	// Output:
	// gpt-4o-2024-08-06 is counted as gpt-4o
	// fast is counted as gpt-4o
	// llama3:8b is counted as llama3:8b
}

// What was learned of a model under a pattern, or "*", does not outlive that: a quota that the
// program sets for it, or for a pattern that covers it more closely, is never exceeded.
func TestPatternBeatsWhatWasLearnedUnderAnother(t *testing.T) {
	for _, before := range []string{"*", "gpt-*"} {
		for _, after := range []string{before, "gpt-4*"} {
			for _, backend := range append(slices.Clone(backends), "shared") {
				cfg := ratelimit.Config{
					FilePath: filepath.Join(t.TempDir(), "state"), Backend: backend, LearnQuotas: true,
					Quotas: map[string]ratelimit.ModelQuota{before: {MaxRPM: 100}},
				}
				if backend == "shared" {
					if !slices.Contains(backends, "sqlite") {
						continue
					}
					cfg.Backend, cfg.Shared = "sqlite", true
				}
				rl, err := ratelimit.NewWithConfig(cfg)
				if err != nil {
					t.Fatal(err)
				}
				for _, model := range []string{"gpt-4o", "gpt-5"} {
					rl.Observe(model, ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 10}})
				}
				rl.SetQuota(after, ratelimit.ModelQuota{MaxRPM: 5})
				want := 10 // the copy of a quota that is still there
				if after == before {
					want = 5
				}
				if of, beside := rl.Stats("gpt-4o").MaxRPM, rl.Stats("gpt-5").MaxRPM; of != 5 || beside != want {
					t.Errorf("%s, %q after %q: %d and %d requests a minute, want 5 and %d", backend, after, before, of, beside, want)
				}
				rl.Close()
			}
		}
	}
}
