// Health: whether the store can be used, what a person should look at, and what asking costs.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// warned returns the texts of the warnings.
func warned(rl *ratelimit.RateLimiter) (texts []string) {
	for _, err := range rl.Health().Warnings {
		texts = append(texts, err.Error())
	}
	return texts
}

func reserveTimes(rl *ratelimit.RateLimiter, model string, n int) {
	for range n {
		rl.Reserve(model, 1, 1)
	}
}

// Each row: calls of a model of five requests and two calls at once, and whether it is warned of,
// with what.
func TestHealthDenials(t *testing.T) {
	for _, tt := range []struct {
		name  string
		quota ratelimit.ModelQuota
		do    func(rl *ratelimit.RateLimiter)
		want  string // a part of the warning; empty for none
	}{
		{"99 of 100", ratelimit.ModelQuota{MaxRPM: 1}, func(rl *ratelimit.RateLimiter) { reserveTimes(rl, "m", 100) },
			`99 of 100 calls of "m" in the last minute were refused, the last because requests per minute are used up: wait for Decision.RetryAfter`},
		{"95 of 100", ratelimit.ModelQuota{MaxRPM: 5}, func(rl *ratelimit.RateLimiter) { reserveTimes(rl, "m", 100) }, "95 of 100"},
		{"94 of 100", ratelimit.ModelQuota{MaxRPM: 6}, func(rl *ratelimit.RateLimiter) { reserveTimes(rl, "m", 100) }, ""},
		{"98 of 99", ratelimit.ModelQuota{MaxRPM: 1}, func(rl *ratelimit.RateLimiter) { reserveTimes(rl, "m", 99) }, ""},
		{"all at once", ratelimit.ModelQuota{MaxRPM: 1}, func(rl *ratelimit.RateLimiter) {
			rl.Reserve("m", 1, 1)
			for range 100 {
				rl.ReserveAll(ratelimit.Request{Model: "m"}, ratelimit.Request{Model: "x"})
			}
		}, "100 of 101"},
		{"by Acquire", ratelimit.ModelQuota{MaxTPM: 10}, func(rl *ratelimit.RateLimiter) {
			rl.Reserve("m", 1, 1)
			for range 100 {
				rl.Acquire(context.Background(), "m", 11, 0)
			}
		}, "100 of 101"},
		{"checks are no calls", ratelimit.ModelQuota{MaxRPM: 1}, func(rl *ratelimit.RateLimiter) {
			rl.Reserve("m", 1, 1)
			for range 200 {
				rl.Decide("m", 1)
				rl.CanSend("m", 1)
			}
		}, ""},
		{"over a minute ago", ratelimit.ModelQuota{MaxRPM: 1}, func(rl *ratelimit.RateLimiter) {
			reserveTimes(rl, "m", 1000)
			time.Sleep(70 * time.Second)
		}, ""},
		{"some ten seconds ago", ratelimit.ModelQuota{MaxRPM: 1}, func(rl *ratelimit.RateLimiter) {
			for range 5 {
				reserveTimes(rl, "m", 100)
				time.Sleep(9 * time.Second)
			}
		}, "499 of 500"},
		{"calls in flight", ratelimit.ModelQuota{MaxInFlight: 2}, func(rl *ratelimit.RateLimiter) { reserveTimes(rl, "m", 200) }, ": settle each reservation"},
		{"a day", ratelimit.ModelQuota{MaxRPD: 2}, func(rl *ratelimit.RateLimiter) { reserveTimes(rl, "m", 200) }, ": send to another model"},
		{"a cooldown", ratelimit.ModelQuota{MaxRPM: 2}, func(rl *ratelimit.RateLimiter) {
			rl.Reserve("m", 1, 1)
			rl.CooldownFor("m", time.Hour, ratelimit.CauseOverloaded)
			reserveTimes(rl, "m", 200)
		}, ": the provider asked for a pause"},
		{"a line", ratelimit.ModelQuota{MaxRPM: 1}, func(rl *ratelimit.RateLimiter) {
			rl.Reserve("m", 1, 1)
			go rl.Acquire(context.Background(), "m", 1, 1)
			synctest.Wait()
			reserveTimes(rl, "m", 200)
		}, ": wait in line, too"},
		{"a slip", ratelimit.ModelQuota{MaxRPM: 1}, func(rl *ratelimit.RateLimiter) {
			rl.Reserve("m", 1, 1)
			for range 200 {
				rl.Reserve("m", -1, 1)
			}
		}, ": correct the program"},
		{"nothing", ratelimit.ModelQuota{MaxRPM: 1}, func(*ratelimit.RateLimiter) {}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": tt.quota, "x": {}}})
				defer rl.Close()
				tt.do(rl)
				h := rl.Health()
				if h.Err != nil {
					t.Error(h.Err)
				}
				got := warned(rl)
				if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
					t.Errorf("warned of %q, want %q", got, tt.want)
				}
				var denials *ratelimit.DenialsError
				if tt.want != "" && (!errors.As(h.Warnings[0], &denials) || denials.Model != "m" || denials.Code == "" || denials.Refused >= denials.Calls) {
					t.Errorf("%+v", denials)
				}
			})
		})
	}
}

// Of limiters that share a quota each counts its own calls.
func TestHealthDenialsShared(t *testing.T) {
	onKinds(t, func(t *testing.T, p *place) {
		if p.kind == alone {
			t.Skip("shares nothing")
		}
		lucky, refused := p.pair(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}})
		reserveTimes(lucky, "m", 99)
		time.Sleep(p.late)
		reserveTimes(refused, "m", 101)
		reserveTimes(lucky, "m", 100)
		if got := warned(refused); len(got) != 1 || !strings.Contains(got[0], "100 of 101 calls") {
			t.Errorf("the one that gets nothing warns of %q", got)
		}
		if got := warned(lucky); len(got) != 0 {
			t.Errorf("the one that got half of its calls warns of %q", got)
		}
	})
}

// Each row: what 40 calls estimate and use, and what is said of it.
func TestHealthEstimates(t *testing.T) {
	eachKind(t, func(t *testing.T, p *place) {
		for _, tt := range []struct {
			estimated, used int
			want            string
		}{
			{1000, 1000, ""}, {1000, 250, ""}, {1000, 2000, ""}, {1000, 0, ""},
			{1000, 100, `calls of "m" use 0.1 times the tokens that they estimate, and the rest keeps others waiting: estimate less`},
			{1000, 2150, `calls of "m" use 2.1 times the tokens that they estimate, so the provider may refuse some: estimate more`},
			{1000, 1, `use less than 0.01 times`},
			{10, 1234, `use 123 times`},
			{0, 10, `calls of "m" estimate no tokens, and use 400: estimate them`},
		} {
			rl := p.open(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {}}})
			for i := range 40 {
				r, _ := rl.Reserve("m", tt.estimated, 0)
				r.Commit(tt.used, 0)
				r.Commit(1, 1) // which does nothing
				if got := warned(rl); i < 31 && len(got) > 0 {
					t.Fatalf("after %d calls it is warned of %q", i+1, got)
				}
			}
			released, _ := rl.Reserve("m", 1<<30, 0)
			released.Cancel() // which tells nothing of the estimate
			got := warned(rl)
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("of %d estimated and %d used is warned %q, want %q", tt.estimated, tt.used, got, tt.want)
			}
			rl.Close()
		}
	})
}

// What was never settled by the program says nothing of its estimates.
func TestHealthEstimatesOfExpiredCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{HoldTTL: time.Minute, Quotas: map[string]ratelimit.ModelQuota{"m": {}}})
		defer rl.Close()
		var open []*ratelimit.Reservation
		for range 40 {
			r, _ := rl.Reserve("m", 100, 0)
			open = append(open, r)
		}
		time.Sleep(2 * time.Minute)
		for _, r := range open {
			r.Commit(1, 0)
		}
		if got := warned(rl); len(got) != 0 {
			t.Errorf("%q", got)
		}
	})
}

// An old row of a profile is warned of for each model that is used by it, also without OnError.
func TestHealthStaleProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2027, 12, 1, 0, 0, 0, 0, time.UTC)))
		rl := newLimiterWith(t, ratelimit.Config{
			Providers: []ratelimit.Provider{"openai", "anthropic"}, Quotas: map[string]ratelimit.ModelQuota{"o1": {MaxRPM: 500, MaxTPM: 30_001}},
		})
		defer rl.Close()
		if got := warned(rl); len(got) != 0 {
			t.Errorf("of unused models is warned %q", got)
		}
		for _, model := range []string{"o1", "own", "gpt-4o", "claude-sonnet-4-5-20250929", "gpt-4-turbo"} {
			rl.RecordUsage(model, 1, 1)
		}
		h := rl.Health()
		var models []string
		for _, warning := range h.Warnings {
			var stale *ratelimit.StaleProfileError
			if !errors.As(warning, &stale) || stale.ReadOn.IsZero() || stale.Provider == "" || !strings.Contains(stale.Error(), "look up your account's limits, and set them") {
				t.Errorf("warned of %v", warning)
				continue
			}
			models = append(models, stale.Model)
		}
		if want := []string{"claude-sonnet-4-5-20250929", "gpt-4-turbo", "gpt-4o"}; !reflect.DeepEqual(models, want) {
			t.Errorf("warned of %q, want %q", models, want)
		}
		rl.SetQuota("gpt-4o", ratelimit.ModelQuota{MaxRPM: 1})
		rl.Reset("gpt-4-turbo")
		if got := warned(rl); len(got) != 1 || !strings.Contains(got[0], "claude") {
			t.Errorf("warned of %q", got)
		}
	})
}

// The most urgent come first, and there are at most a hundred.
func TestHealthIsBoundedAndSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quotas := make(map[string]ratelimit.ModelQuota)
		for i := range 120 {
			quotas[fmt.Sprintf("m%03d", i)] = ratelimit.ModelQuota{}
		}
		quotas["z"] = ratelimit.ModelQuota{MaxRPM: 1}
		rl := newLimiterWith(t, ratelimit.Config{Quotas: quotas})
		defer rl.Close()
		for i := range 99 {
			offEstimates(rl, fmt.Sprintf("m%03d", i))
		}
		reserveTimes(rl, "z", 200)
		got := warned(rl)
		if len(got) != 100 || !strings.Contains(got[0], `"z"`) || !strings.Contains(got[1], `"m000"`) || !strings.Contains(got[99], `"m098"`) {
			t.Errorf("%d warnings: %q", len(got), got)
		}
		for i := range 120 {
			offEstimates(rl, fmt.Sprintf("m%03d", i))
		}
		got = warned(rl)
		if len(got) != 100 || !strings.Contains(got[98], `"m097"`) || got[99] != "22 more warnings are left out: correct these first" {
			t.Errorf("%d warnings: %q", len(got), got)
		}
		if again := warned(rl); !reflect.DeepEqual(again, got) {
			t.Errorf("again %q", again)
		}
	})
}

func offEstimates(rl *ratelimit.RateLimiter, model string) {
	for range 32 {
		r, _ := rl.Reserve(model, 100, 0)
		r.Commit(1, 0)
	}
}

// Err is that of the shared database.
func TestHealthErr(t *testing.T) {
	needSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		cfg := ratelimit.Config{FilePath: filepath.Join(t.TempDir(), "state"), Backend: "sqlite", Shared: true}
		rl := openLimiter(t, cfg)
		if err := rl.Health().Err; err != nil {
			t.Error(err)
		}
		loseDatabase(t, cfg.FilePath, rl)
		if err := rl.Health().Err; err == nil {
			t.Error("without its database it is well")
		}
	})
}

// loseDatabase takes a database away, and has a limiter write until it finds that.
func loseDatabase(t *testing.T, path string, rl *ratelimit.RateLimiter) {
	t.Helper()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil { // so that it cannot be made anew
		t.Fatal(err)
	}
	for began := time.Now(); rl.Err() == nil; rl.RecordUsage("m", 1, 1) {
		if time.Since(began) > time.Minute {
			t.Fatal("it does not find its database gone")
		}
	}
}

func TestHealthConcurrently(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 9}}, MaxModels: 30})
	defer rl.Close()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 300 {
				model := fmt.Sprint("m", (i*7+n)%40)
				if r, _ := rl.Reserve(model, 100, 1); r != nil {
					r.Commit(1, 1)
				}
				if n%10 == i {
					rl.Health()
				}
				if n%50 == i {
					rl.Reset(model)
				}
			}
		})
	}
	all.Wait()
	if h := rl.Health(); len(h.Warnings) > 100 || h.Err != nil {
		t.Errorf("%+v", h)
	}
}

// A limiter that nobody made says that it is well.
func TestHealthOfTheZeroLimiter(t *testing.T) {
	var rl ratelimit.RateLimiter
	if h := rl.Health(); h.Err != nil || h.Warnings != nil {
		t.Errorf("%+v", h)
	}
}

// Each row: why every call of "m" is refused. None of them leaves an entry in State.
func TestAllRefused(t *testing.T) {
	quotas := func(q ratelimit.ModelQuota) ratelimit.Config {
		return ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": q, "x": {}}}
	}
	for _, tt := range []struct {
		name   string
		cfg    ratelimit.Config
		before func(rl *ratelimit.RateLimiter)
		code   ratelimit.DecisionCode
	}{
		{name: "unpriced", cfg: quotas(ratelimit.ModelQuota{MaxSpendPerDay: money.USD(1)}), code: ratelimit.DecisionUnpriced},
		{name: "invalid quota", cfg: quotas(ratelimit.ModelQuota{}), before: func(rl *ratelimit.RateLimiter) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: -1})
		}, code: ratelimit.DecisionInvalidQuota},
		{name: "never fits", cfg: quotas(ratelimit.ModelQuota{MaxTPM: 1}), code: ratelimit.DecisionTPMLimit},
		{name: "cooldown", cfg: quotas(ratelimit.ModelQuota{MaxRPM: 10}), before: func(rl *ratelimit.RateLimiter) {
			rl.CooldownFor("m", time.Hour, ratelimit.CauseOverloaded)
		}, code: ratelimit.DecisionCooldown},
		{name: "cooldown without a quota", cfg: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"x": {}}}, before: func(rl *ratelimit.RateLimiter) {
			rl.CooldownFor("m", time.Hour, ratelimit.CauseOverloaded)
		}, code: ratelimit.DecisionCooldown},
		{name: "pool full", cfg: ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {}, "x": {}},
			Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPD: 1}}},
		}, before: func(rl *ratelimit.RateLimiter) { rl.RecordUsage("x", 1, 1) }, code: ratelimit.DecisionRPDLimit},
		{name: "unknown", cfg: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"x": {}}, Unknown: ratelimit.UnknownDeny}, code: ratelimit.DecisionUnknownModel},
		{name: "never fits under *", cfg: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxTPM: 1}}}, code: ratelimit.DecisionTPMLimit},
		{name: "too many models", cfg: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 5}}, MaxModels: 1},
			before: func(rl *ratelimit.RateLimiter) { rl.Reserve("x", 1, 1) }, code: ratelimit.DecisionTooManyModels},
	} {
		for way, call := range map[string]func(rl *ratelimit.RateLimiter){
			"Reserve":    func(rl *ratelimit.RateLimiter) { rl.Reserve("m", 1, 1) },
			"ReserveAll": func(rl *ratelimit.RateLimiter) { rl.ReserveAll(ratelimit.Request{Model: "m", PromptTokens: 2}) },
			"Acquire": func(rl *ratelimit.RateLimiter) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				if _, err := rl.Acquire(ctx, "m", 1, 1); err == nil {
					t.Errorf("%s: it was served", tt.name)
				}
			},
			"reads": func(rl *ratelimit.RateLimiter) {
				rl.CanSend("m", 2)
				rl.Decide("m", 2)
				rl.Stats("m")
				rl.Explain("m")
			},
		} {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				onKinds(t, func(t *testing.T, p *place) {
					rl := p.open(t, tt.cfg)
					if tt.before != nil {
						tt.before(rl)
					}
					for range 200 {
						call(rl)
					}
					if stats := rl.State["m"]; stats != nil {
						t.Errorf("it is in State: %+v", stats)
					}
					h, last := rl.Health(), rl.Explain("m").LastRefusal
					if way == "reads" {
						if len(h.Warnings) > 0 || last != nil {
							t.Errorf("a read is taken for a call: %v, %+v", h.Warnings, last)
						}
						return
					}
					if last == nil || last.Code != tt.code || last.Reason == "" || !last.At.Equal(time.Now()) {
						t.Errorf("the last refusal is %+v, want %s", last, tt.code)
					}
					var denials *ratelimit.DenialsError
					if len(h.Warnings) != 1 || !errors.As(h.Warnings[0], &denials) ||
						denials.Model != "m" || denials.Refused != 200 || denials.Calls != 200 || denials.Code != tt.code {
						t.Errorf("warned of %v, want 200 of 200", h.Warnings)
					}
					time.Sleep(70 * time.Second)
					if got := warned(rl); len(got) > 0 {
						t.Errorf("a minute later: %q", got)
					}
				})
			})
		}
	}
}

// Refusals outlive the upkeep of a model that is not used, and 10,000 names that somebody invents.
func TestRefusalsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"own": {MaxTPM: 1}, "pruned": {MaxTPM: 10}}, Unknown: ratelimit.UnknownDeny,
		})
		defer rl.Close()
		rl.RecordUsage("pruned", 1, 0)
		time.Sleep(25 * time.Hour)
		for range 200 {
			rl.Reserve("own", 2, 0)
			rl.Reserve("pruned", 11, 0)
		}
		defer rl.BackgroundPrune(time.Second)()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i := range 10_000 {
			rl.Reserve(fmt.Sprint("invented", i), 1, 1)
			if i%100 == 0 {
				rl.Reserve("meant", 1, 1)
				rl.Reserve("meant", 1, 1)
			}
		}
		if len(rl.State) > 0 {
			t.Errorf("%d entries in State", len(rl.State))
		}
		got := strings.Join(warned(rl), "\n")
		for _, want := range []string{`200 of 200 calls of "own"`, `200 of 200 calls of "pruned"`, `200 of 200 calls of "meant"`} {
			if !strings.Contains(got, want) {
				t.Errorf("warned of\n%s\nwithout %s", got, want)
			}
		}
		if rl.Explain("invented9999").LastRefusal == nil || rl.Explain("invented0").LastRefusal != nil {
			t.Error("of the invented names not the last are remembered")
		}
		if rl.Reset(""); len(warned(rl)) > 0 || rl.Explain("own").LastRefusal != nil {
			t.Error("refusals outlive a Reset")
		}
	})
}

// A call that has no place under MaxModels counts in its pool only, whose name is no model's.
func TestHealthNamesNoPool(t *testing.T) {
	onKinds(t, func(t *testing.T, p *place) {
		rl := p.open(t, ratelimit.Config{MaxModels: 1, Pools: map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 1000}}}})
		held, _ := rl.Reserve("a", 1, 0)
		defer held.Cancel()
		for range 40 {
			r, d := rl.Reserve("b", 1000, 0)
			if r == nil {
				t.Fatal(d.Reason)
			}
			r.Commit(1, 0)
		}
		if got := warned(rl); strings.Contains(strings.Join(got, ""), "pool:") {
			t.Errorf("warned of %q", got)
		}
	})
}

// observedLimiter returns a limiter of 1,000 models, each with usage, an open call and refusals.
func observedLimiter(b *testing.B) *ratelimit.RateLimiter {
	quotas := make(map[string]ratelimit.ModelQuota)
	for i := range 1000 {
		quotas[fmt.Sprint("model-", i)] = ratelimit.ModelQuota{MaxRPM: 2, MaxTPM: 1000, MaxRPD: 100, MaxInFlight: 5}
	}
	rl := newLimiterWith(b, ratelimit.Config{Quotas: quotas, Providers: []ratelimit.Provider{"openai"}})
	b.Cleanup(func() { rl.Close() })
	for model := range quotas {
		r, _ := rl.Reserve(model, 1, 1)
		r.Commit(1, 1)
		reserveTimes(rl, model, 2)
	}
	return rl
}

// What a scrape does for 1,000 models.
func BenchmarkExplain1000Models(b *testing.B) {
	rl := observedLimiter(b)
	b.ReportAllocs()
	for b.Loop() {
		for model := range rl.Models() {
			rl.Explain(model)
		}
	}
}

func BenchmarkHealth1000Models(b *testing.B) {
	rl := observedLimiter(b)
	b.ReportAllocs()
	for b.Loop() {
		rl.Health()
	}
}

// A refusal, which is noted for Explain and Health.
func BenchmarkRefused(b *testing.B) {
	rl := newLimiter(b, ratelimit.ModelQuota{MaxRPM: 1})
	defer rl.Close()
	b.ReportAllocs()
	for b.Loop() {
		rl.Reserve("m", 1, 1)
	}
}

// What an event costs whose level is off, a refusal that is left out, and one that is written.
func BenchmarkLogEvents(b *testing.B) {
	for _, bb := range []struct {
		name  string
		level slog.Level
		every int
		event ratelimit.Event
	}{
		{"off", slog.LevelInfo, 0, ratelimit.Event{Kind: ratelimit.EventAdmitted, ID: 1, Model: "m"}},
		{"left out", slog.LevelInfo, 1 << 30, ratelimit.Event{Kind: ratelimit.EventRefused, ID: 1, Model: "m", Decision: &ratelimit.Decision{Code: "rpm_exceeded"}}},
		{"written", slog.LevelDebug, 0, ratelimit.Event{Kind: ratelimit.EventAdmitted, ID: 1, Model: "m"}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			logger := slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: bb.level}))
			h := ratelimit.LogEvents(logger, ratelimit.LogOptions{DenialsEvery: bb.every})
			b.ReportAllocs()
			for b.Loop() {
				h.HandleEvent(context.Background(), &bb.event)
			}
		})
	}
}
