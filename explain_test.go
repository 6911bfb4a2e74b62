// Explain: why a model waits, as a value and in words, with its pools and classes.

package ratelimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// explained returns the explanation of a model, with times in UTC.
func explained(rl *ratelimit.RateLimiter, model string) ratelimit.Explanation {
	e := rl.Explain(model)
	e.At = e.At.UTC()
	return e
}

// Each row: what happens to a model of five requests, 1,000 tokens and two calls at once, and what
// a person then reads. In the bubble it is midnight.
func TestExplainText(t *testing.T) {
	quota := ratelimit.ModelQuota{MaxRPM: 5, MaxTPM: 1000, MaxInFlight: 2}
	for _, tt := range []struct {
		name, model string
		do          func(rl *ratelimit.RateLimiter)
		want        string
	}{
		{"unused", "m", func(*ratelimit.RateLimiter) {}, `"m" does not wait: within the quota
  quota: its own, set by the program
  calls in flight: 0 of 2 used
  requests per minute: 0 of 5 used
  tokens per minute: 0 of 1000 used
  next room: for a request of one token now`},
		{"tokens used up, by others, too", "m", func(rl *ratelimit.RateLimiter) {
			rl.Observe("m", ratelimit.ProviderLimits{TPM: ratelimit.ProviderLimit{Remaining: 600, HasRemaining: true, Reset: 20 * time.Second}})
			time.Sleep(5 * time.Second)
			rl.RecordUsage("m", 400, 200)
			time.Sleep(5 * time.Second)
		}, `"m" waits: the provider reports fewer tokens per minute left
  quota: its own, set by the program
  calls in flight: 0 of 2 used
  requests per minute: 1 of 5 used
  tokens per minute: 600 of 1000 used, and 400 by others of the account, full for 10s
  next room: for a request of one token in 10s, at 00:00:20 UTC`},
		{"calls in flight, and a line behind them", "m-2024-08-06", func(rl *ratelimit.RateLimiter) {
			for range 2 {
				rl.Reserve("m", 100, 0)
			}
			go rl.Acquire(context.Background(), "m", 1, 0) // until Close
			synctest.Wait()
		}, `"m-2024-08-06", counted as "m", waits: calls in flight are at the limit; others wait for the model and come first
  quota: its own, set by the program
  calls in flight: 2 of 2 used
  requests per minute: 2 of 5 used
  tokens per minute: 200 of 1000 used
  in line: 1 caller, for 0s; the first asks for 1 input token
  next room: for a request of one token when the line has passed`},
		{"the day is used up", "other", func(rl *ratelimit.RateLimiter) {
			rl.RecordUsage("other", 1, 1)
			rl.CooldownFor("other", 30*time.Hour, ratelimit.CauseDailyQuota)
		}, `"other" waits: the model is in a cooldown: the provider said that the day's quota is used up
  quota: that of "*", set by the program
  requests per day: 1 of 10 used
  cooldown: until 2000-01-02 06:00:00 UTC, in 30h0m0s: the provider said that the day's quota is used up
  next room: for a request of one token in 30h0m0s, at 2000-01-02 06:00:00 UTC`},
		{"a burst", "paced", func(rl *ratelimit.RateLimiter) { rl.RecordUsage("paced", 1, 0) }, `"paced" waits: pace: requests are spread over the minute, and the burst is used up
  quota: its own, set by the program
  requests per minute: 1 of 60 used, full for 1s
  next room: for a request of one token in 1s, at 00:00:01 UTC`},
		{"output", "out", func(rl *ratelimit.RateLimiter) { rl.RecordUsage("out", 0, 10) }, `"out" waits: output tokens per minute are used up
  quota: its own, set by the program
  output tokens per minute: 10 of 10 used, full for 1m1s
  next room: for a request of one token in 1m1s, at 00:01:00 UTC`},
		{"found limits, spaced and overloaded", "found", func(rl *ratelimit.RateLimiter) {
			rl.Reserve("found", 1, 1)
			for _, problem := range []string{"rate_limited", "overloaded"} {
				rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{Model: "found", Problem: problem})
			}
			time.Sleep(500 * time.Millisecond)
		}, `"found" waits: requests are spaced by the rate that was found
  quota: its own, set by the program
  calls in flight: 1 of 9 used
  found: 57 requests per minute, evenly spaced, between 30 and 6000; the provider last refused at 60; lowered 500ms ago
  found: 3 calls in flight (1 now), between 2 and 64; the provider was last overloaded at 4; lowered 500ms ago
  next room: for a request of one token in 553ms, at 00:00:01 UTC`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{MatchVersions: true, Quotas: map[string]ratelimit.ModelQuota{
					"m": quota, "*": {MaxRPD: 10}, "paced": {MaxRPM: 60, Burst: time.Second}, "out": {MaxOTPM: 10}, "found": {
						MaxInFlight: 9, AdaptiveFloorRPM: 30, AdaptiveCeilingRPM: 6000, AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 64,
					},
				}})
				defer rl.Close()
				tt.do(rl)
				if got := explained(rl, tt.model).String(); got != tt.want {
					t.Errorf("got\n%s\nwant\n%s", got, tt.want)
				}
			})
		})
	}
}

// The value says what Decide and Stats say, and survives JSON, from which the same text is made.
func TestExplainAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Aliases: map[string]string{"fast": "m"}, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 2, MaxTPM: 100, MaxRPD: 9, MaxTPD: 900}},
		})
		rl.Reserve("m", 50, 0)
		rl.CooldownFor("m", time.Hour, ratelimit.CauseOverloaded)
		rl.Observe("m", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Remaining: 0, HasRemaining: true}})
		e := explained(rl, "fast")
		minute := e.At.Add(time.Minute)
		want := ratelimit.Explanation{
			Model: "fast", Counted: "m", Quota: "m", Origin: "program", At: time.Now().UTC(),
			Limits: []ratelimit.LimitState{
				{Limit: "max_rpd", Max: 9, Used: 1, Open: 1, Left: 8, Origin: "program"}, {Limit: "max_tpd", Max: 900, Used: 50, Open: 50, Left: 850, Origin: "program"},
				{Limit: "max_rpm", Max: 2, Used: 1, Open: 1, External: 1, RoomAt: minute, Origin: "program"}, {Limit: "max_tpm", Max: 100, Used: 50, Open: 50, Left: 50, Origin: "program"},
			},
			InFlight: 1, CooldownUntil: time.Now().Add(time.Hour), Cause: "overloaded", Next: rl.Decide("fast", 1),
		}
		e.Limits[2].RoomAt = e.Limits[2].RoomAt.UTC().Truncate(time.Second) // the charge leaves a nanosecond after the minute
		if !e.CooldownUntil.Equal(want.CooldownUntil) {
			t.Errorf("cooldown until %v", e.CooldownUntil)
		}
		e.CooldownUntil = want.CooldownUntil
		if !reflect.DeepEqual(e, want) {
			t.Errorf("got  %+v\nwant %+v", e, want)
		}
		var again ratelimit.Explanation
		text := jsonOf(t, e)
		if err := json.Unmarshal([]byte(text), &again); err != nil || again.String() != e.String() {
			t.Errorf("%v: %s\nagain %s", err, text, again)
		}
		for _, key := range []string{`"model":"fast"`, `"counted_as":"m"`, `"limit":"max_rpd"`, `"cause":"overloaded"`, `"next":{`, `"retry_after":"1h0m0s"`} {
			if !strings.Contains(text, key) {
				t.Errorf("%s lacks %s", text, key)
			}
		}
	})
}

// The limits that are searched for are as Stats has them, and survive JSON. The quota's own cap
// stays what it is.
func TestExplainFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
			"m": {AdaptiveFloorRPM: 30, AdaptiveFloorInFlight: 2, MaxInFlight: 9}, "rate": {AdaptiveCeilingRPM: 60}, "none": {MaxRPM: 1},
		}})
		for _, problem := range []string{"rate_limited", "overloaded", "other", "daily_quota", "exhausted"} {
			rl.ObserveRefusal(t.Context(), ratelimit.ProviderRefusal{Model: "m", Problem: problem})
		}
		lowered := time.Now()
		time.Sleep(3 * time.Second)
		e, stats := explained(rl, "m"), rl.Stats("m")
		if !e.Found.RateLoweredAt.Equal(lowered) || !e.Found.InFlightLoweredAt.Equal(lowered) {
			t.Errorf("lowered at %v and %v, want %v", e.Found.RateLoweredAt, e.Found.InFlightLoweredAt, lowered)
		}
		want := ratelimit.FoundLimits{
			RPM: 57, FloorRPM: 30, CeilingRPM: 1_000_000, RefusedRPM: 60, RateLoweredAt: e.Found.RateLoweredAt,
			InFlight: 3, FloorInFlight: 2, CeilingInFlight: 10_000, OverloadedInFlight: 4, InFlightLoweredAt: e.Found.InFlightLoweredAt,
		}
		if *e.Found != want || stats.AdaptiveRPM != 57 || stats.AdaptiveInFlight != 3 || stats.MaxInFlight != 9 || e.Limits[0].Max != 9 || e.Next.Stats != stats {
			t.Errorf("%+v of %+v, and stats %+v", *e.Found, e, stats)
		}
		var again ratelimit.Explanation
		if err := json.Unmarshal([]byte(jsonOf(t, e)), &again); err != nil || again.String() != e.String() {
			t.Errorf("%v: %s\nagain %s", err, e, again)
		}
		if e := rl.Explain("rate"); e.Found == nil || *e.Found != (ratelimit.FoundLimits{RPM: 2, FloorRPM: 1, CeilingRPM: 60}) {
			t.Errorf("%+v", e.Found)
		}
		if e := rl.Explain("none"); e.Found != nil {
			t.Errorf("%+v", e.Found)
		}
	})
}

// Where a quota comes from.
func TestExplainOrigin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(path, []byte("quotas:\n  stored:\n    max_rpm: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: path, LearnQuotas: true, Providers: []ratelimit.Provider{ratelimit.ProviderGemini},
		Quotas: map[string]ratelimit.ModelQuota{"own": {MaxRPM: 5}, "told": {MaxRPM: 5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rl.Load(); err != nil {
		t.Fatal(err)
	}
	rl.Observe("told", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 3}})
	var profile string
	for model := range ratelimit.DefaultProfiles()[ratelimit.ProviderGemini].Models {
		profile = model
	}
	for model, want := range map[string][2]string{
		"own": {"own", "program"}, "told": {"told", "learned"}, "stored": {"stored", "given"}, profile: {profile, "given"}, "none": {},
	} {
		if e := rl.Explain(model); e.Quota != want[0] || e.Origin != want[1] || e.Counted != model {
			t.Errorf("%s: %q, %q, counted as %q; want %q", model, e.Quota, e.Origin, e.Counted, want)
		}
	}
	rl.SetQuota("*", ratelimit.ModelQuota{MaxRPM: -1})
	if e := rl.Explain("none"); e.Quota != "*" || e.Origin != "program" || !e.Next.Never || !strings.Contains(e.String(), "never passes") {
		t.Errorf("%+v", e)
	}
}

// One limiter explains what another of the same store uses, and that the store is gone.
func TestExplainShared(t *testing.T) {
	needSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		cfg := ratelimit.Config{
			FilePath: filepath.Join(t.TempDir(), "state"), Backend: "sqlite", Shared: true, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 2}},
		}
		one, other := openLimiter(t, cfg), openLimiter(t, cfg)
		one.Reserve("m", 1, 1)
		one.RecordUsage("m", 1, 1)
		one.CooldownFor("m", time.Hour, ratelimit.CauseRateLimited)
		e := other.Explain("m")
		if e.Origin != "shared" || e.InFlight != 1 || e.Limits[0].Used != 2 || e.Cause != "rate_limited" || e.Next.Cause != "rate_limited" || e.StoreError != "" {
			t.Errorf("%+v", e)
		}
		loseDatabase(t, cfg.FilePath, other)
		if e := other.Explain("m"); e.StoreError == "" || !strings.Contains(e.String(), "shared database: cannot be used: ") || e.Limits[0].Used < 2 {
			t.Errorf("without its database: %+v", e)
		}
		other.Close()
		if e := other.Explain("m"); e.Next.Code != ratelimit.DecisionClosed || e.Next.Cause != "" {
			t.Errorf("closed: %+v", e)
		}
	})
}

// A pattern covers a model, and none is there for a name that is then denied.
func TestExplainPatternsAndUnknownModels(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Unknown: ratelimit.UnknownDeny, Quotas: map[string]ratelimit.ModelQuota{"gpt-*": {MaxRPM: 5}}})
	if e := rl.Explain("gpt-5"); e.Counted != "gpt-5" || e.Quota != "gpt-*" || e.Origin != "program" || !strings.Contains(e.String(), `that of "gpt-*"`) {
		t.Errorf("%s", e)
	}
	e := rl.Explain("gtp-5")
	d := rl.Decide("gtp-5", 1)
	if e.Quota != "" || e.Origin != "" || e.Next != d || d.Allowed || !strings.Contains(e.String(), "never passes") {
		t.Errorf("%s", e)
	}
}

func TestExplainConcurrently(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 50}, "*": {MaxTPM: 9}}, MaxModels: 3})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 200 {
				switch model := string(rune('k' + (i+n)%5)); (i + n) % 4 {
				case 0:
					rl.RecordUsage(model, 1, 1)
				case 1:
					rl.CooldownFor(model, time.Duration(n), "caller")
				case 2:
					rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: n})
				default:
					if e := rl.Explain(model); e.String() == "" || e.Counted != model {
						t.Errorf("%+v", e)
					}
				}
			}
		})
	}
	all.Wait()
	if e := (ratelimit.Explanation{}); e.String() == "" {
		t.Error("the zero value says nothing")
	}
}

// TestExplainPool: what is told of a pool, alone and with its models, wherever it is counted.
func TestExplainPool(t *testing.T) {
	onKinds(t, func(t *testing.T, p *place) {
		rl, other := p.pair(t, ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}},
			Classes: map[string]ratelimit.Class{"batch": {}, "people": {}},
			Prices:  map[string]money.Price{"*": {Input: money.USD(1)}},
			Pools: map[string]ratelimit.Pool{"org": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{
				MaxRPM: 3, MaxSpendPerDay: money.USD(1), MaxInFlight: 9, AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 8,
			}}, "n": {Models: []string{"n"}}},
		})
		first := reserve(t, rl, "m", 1000, 0)
		second := reserve(t, rl, "other", 500, 0)
		other.RecordUsage("m", 10, 0)
		time.Sleep(p.late)
		if _, d := rl.Reserve("m", 1, 0); d.Pool != "org" {
			t.Errorf("decision %+v", d)
		}
		done := make(chan *ratelimit.Reservation)
		for _, class := range []string{"batch", "people", "batch", "unknown"} {
			go func() {
				r, _ := rl.Acquire(ratelimit.WithClass(t.Context(), class), "m", 1, 0)
				done <- r
			}()
		}
		synctest.Wait()
		is, ok := rl.ExplainPool("org")
		if !ok || is.Pool != "org" || is.InFlight != 2 || is.Waiting != 4 || !is.CooldownUntil.IsZero() {
			t.Fatalf("%t %+v", ok, is)
		}
		if want := map[string]int{"batch": 2, "people": 1, "": 1}; !maps.Equal(is.WaitingByClass, want) {
			t.Errorf("by class %v", is.WaitingByClass)
		}
		limits := make(map[string][2]int)
		for _, l := range is.Limits {
			limits[l.Limit] = [2]int{l.Used, l.Max}
			if l.Origin != "program" {
				t.Errorf("%+v", l)
			}
		}
		if want := map[string][2]int{"max_rpm": {3, 3}, "max_in_flight": {2, 9}}; !maps.Equal(limits, want) {
			t.Errorf("limits %v, want %v", limits, want)
		}
		if f := is.Found; f == nil || f.InFlight != 4 || f.CeilingInFlight != 8 {
			t.Errorf("found %+v", f)
		}
		if b := is.Budgets; len(b) != 2 || b[0].Spent != 1510 || b[0].Max != money.USD(1) || b[1].Spent != 1510 || b[1].Max != 0 {
			t.Errorf("budgets %+v", b)
		}
		e := rl.Explain("m")
		if len(e.Pools) != 1 || !reflect.DeepEqual(e.Pools[0], is) {
			t.Errorf("Explain has %+v, want %+v", e.Pools, is)
		}
		if e.LastRefusal == nil || e.LastRefusal.Pool != "org" {
			t.Errorf("last refusal %+v", e.LastRefusal)
		}
		if want := map[string]int{"batch": 2, "people": 1, "": 1}; !maps.Equal(e.WaitingByClass, want) {
			t.Errorf("of the model by class %v", e.WaitingByClass)
		}
		if text := e.String(); !strings.Contains(text, `waits: the pool "org": requests per minute are used up`) {
			t.Errorf("the text is %s", text)
		}
		text, err := json.Marshal(is)
		for _, want := range []string{`"waiting_by_class":{"":1,"batch":2,"people":1}`, `"budgets":[`, `"found":{`} {
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("JSON %s, %v", text, err)
			}
		}
		for range 4 {
			time.Sleep(2 * time.Minute)
			(<-done).Cancel()
		}
		first.Cancel()
		second.Cancel()
		if is, _ := rl.ExplainPool("org"); is.Waiting != 0 || is.WaitingByClass != nil || is.InFlight != 0 {
			t.Errorf("at the end %+v", is)
		}
		if is, ok := rl.ExplainPool("n"); !ok || len(is.Limits) > 0 || is.Budgets != nil {
			t.Errorf("without limits: %t %+v", ok, is)
		}
		for _, name := range []string{"", "m", "none"} {
			if is, ok := rl.ExplainPool(name); ok || !reflect.DeepEqual(is, ratelimit.PoolState{}) {
				t.Errorf("%q: %+v", name, is)
			}
		}
	})
}

// TestHealthNamesThePool: where a pool refuses nearly all calls, the warning says which.
func TestHealthNamesThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			FilePath: filepath.Join(t.TempDir(), "state.yaml"), Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1000}},
			Pools: map[string]ratelimit.Pool{"org": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}}},
		})
		defer rl.Close()
		rl.RecordUsage("m", 1, 1)
		for range 200 {
			rl.Reserve("m", 1, 1)
		}
		warnings := rl.Health().Warnings
		if len(warnings) != 1 || !strings.Contains(warnings[0].Error(), `of "m" in the last minute were refused, the last because the pool "org": requests per minute are used up`) {
			t.Errorf("warnings %q", warnings)
		}
	})
}

// Each row: calls in the order of their arrival. The first of the line is always the one that is
// served when a call ends.
func TestExplainNext(t *testing.T) {
	for name, tt := range map[string]struct {
		classes map[string]ratelimit.Class
		calls   []ratelimit.Request
	}{
		"arrival": {nil, []ratelimit.Request{{PromptTokens: 5}, {PromptTokens: 4}, {PromptTokens: 3}}},
		"ahead": {map[string]ratelimit.Class{"batch": {}, "people": {Ahead: true}}, []ratelimit.Request{
			{PromptTokens: 5, Class: "batch"}, {PromptTokens: 4, Class: "batch"}, {PromptTokens: 3, Class: "people"}, {PromptTokens: 2, Class: "people"},
		}},
		"weights": {map[string]ratelimit.Class{"light": {}, "heavy": {Weight: 3}}, []ratelimit.Request{
			{PromptTokens: 9, Class: "light"}, {PromptTokens: 8, Class: "light"}, {PromptTokens: 7, Class: "light"},
			{PromptTokens: 6, Class: "heavy"}, {PromptTokens: 5, Class: "heavy"}, {PromptTokens: 4, Class: "heavy"}, {PromptTokens: 3, Class: "heavy"},
		}},
		"flows": {nil, []ratelimit.Request{
			{PromptTokens: 9, Flow: "a"}, {PromptTokens: 8, Flow: "a"}, {PromptTokens: 7, Flow: "a"}, {PromptTokens: 6, Flow: "b"}, {PromptTokens: 5, Flow: "c"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onKinds(t, func(t *testing.T, p *place) {
				l := &line{T: t, rl: p.open(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}}, Classes: tt.classes})}
				held, _ := l.rl.Reserve("m", 1, 0)
				for _, req := range tt.calls {
					req.Model = "m"
					l.comes(fmt.Sprint(req.PromptTokens), req)
				}
				var want []string
				for left := len(tt.calls); left > 0; left-- {
					e := l.rl.Explain("m")
					if len(e.Line) != left {
						t.Fatalf("%d in line, want %d", len(e.Line), left)
					}
					first := fmt.Sprint(e.Line[0].PromptTokens)
					if text := "; the first asks for " + first + " input tokens"; !strings.Contains(e.String(), text) {
						t.Errorf("%s\nlacks %q", e, text)
					}
					want = append(want, first)
					held.Commit(1, 0)
					l.expect(strings.Join(want, " "))
					held = l.kept[len(l.kept)-1]
				}
				held.Cancel()
			})
		})
	}
}

// A call whose context ended before it began has its class.
func TestClassOfEndedCall(t *testing.T) {
	ctx, cancel := context.WithCancel(ratelimit.WithClass(context.Background(), "people"))
	cancel()
	req := ratelimit.Request{Model: "m", PromptTokens: 1}
	named := ratelimit.Request{Model: "m", PromptTokens: 1, Class: "batch"}
	for name, call := range map[string]func(rl *ratelimit.RateLimiter, req ratelimit.Request) error{
		"Acquire": func(rl *ratelimit.RateLimiter, req ratelimit.Request) error {
			_, err := rl.Acquire(ratelimit.WithClass(ctx, classOr(req, "people")), req.Model, req.PromptTokens, 0)
			return err
		},
		"AcquireAll": func(rl *ratelimit.RateLimiter, req ratelimit.Request) error {
			_, err := rl.AcquireAll(ctx, req)
			return err
		},
		"AcquireAny": func(rl *ratelimit.RateLimiter, req ratelimit.Request) error {
			_, err := rl.AcquireAny(ctx, ratelimit.AnyOptions{}, req)
			return err
		},
		"WaitForCapacity": func(rl *ratelimit.RateLimiter, req ratelimit.Request) error {
			return rl.WaitForCapacity(ratelimit.WithClass(ctx, classOr(req, "people")), req.Model, req.PromptTokens)
		},
		"Do": func(rl *ratelimit.RateLimiter, req ratelimit.Request) error {
			return rl.Do(ctx, req, func(context.Context) (ratelimit.Usage, error) {
				return ratelimit.Usage{}, nil
			})
		},
	} {
		onKinds(t, func(t *testing.T, p *place) {
			var got []string
			rl := p.open(t, ratelimit.Config{
				Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}},
				Classes: map[string]ratelimit.Class{"batch": {}, "people": {Ahead: true}},
				Events: handling(func(_ context.Context, e *ratelimit.Event) {
					if e.Kind == ratelimit.EventRefused {
						got = append(got, e.Class)
					}
				}),
			})
			for _, req := range []ratelimit.Request{req, named} {
				if err := call(rl, req); err == nil {
					t.Errorf("%s was served", name)
				}
			}
			if want := "people batch"; strings.Join(got, " ") != want {
				t.Errorf("%s: the classes are %q, want %q", name, got, want)
			}
		})
	}
}

func classOr(req ratelimit.Request, class string) string {
	if req.Class != "" {
		return req.Class
	}
	return class
}
