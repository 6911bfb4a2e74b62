// Config.LearnQuotas: quotas learned from what providers say.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

func limit(n int) ratelimit.ProviderLimit { return ratelimit.ProviderLimit{Limit: n} }

// Each row: what happens to a limiter that learns, and the quota of "m" after it.
func TestLearnQuotas(t *testing.T) {
	type q = ratelimit.ModelQuota
	type step = func(rl *ratelimit.RateLimiter)
	says := func(model string, l limits) step {
		return func(rl *ratelimit.RateLimiter) { rl.Observe(model, l) }
	}
	set := func(model string, quota q) step {
		return func(rl *ratelimit.RateLimiter) { rl.SetQuota(model, quota) }
	}
	rpm := func(n int) step { return says("m", limits{RPM: limit(n)}) }
	hand := ratelimit.Config{Quotas: map[string]q{"m": {MaxRPM: 100, MaxInFlight: 3}}}
	star := ratelimit.Config{Quotas: map[string]q{"*": {MaxRPM: 100, MaxTPM: 5000, DayZone: "America/Los_Angeles"}}}
	none := ratelimit.Config{Quotas: map[string]q{"other": {MaxRPM: 7}}}
	file := ratelimit.Config{Quotas: map[string]q{"other": {MaxRPM: 7}}, FilePath: "m: {MaxRPM: 100}"}
	openAI := ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI}, Aliases: map[string]string{"m": "gpt-4o"}}
	all := limits{RPM: limit(1), TPM: limit(2), ITPM: limit(3), OTPM: limit(4), RPD: limit(5), TPD: limit(6)}
	tests := []struct {
		name   string
		config ratelimit.Config
		steps  []step
		want   q
	}{
		{"nothing said", hand, []step{says("m", limits{RPM: left(1)})}, q{MaxRPM: 100, MaxInFlight: 3}},
		{"by hand: lower", hand, []step{rpm(50)}, q{MaxRPM: 50, MaxInFlight: 3}},
		{"by hand: never higher", hand, []step{rpm(500)}, q{MaxRPM: 100, MaxInFlight: 3}},
		{"by hand: lower, and back", hand, []step{rpm(50), rpm(80), rpm(500)}, q{MaxRPM: 100, MaxInFlight: 3}},
		{"by hand: back, and lower", hand, []step{rpm(50), rpm(500), rpm(60)}, q{MaxRPM: 60, MaxInFlight: 3}},
		{"by hand: unlimited is infinite", hand, []step{says("m", all)}, q{MaxRPM: 1, MaxTPM: 2, MaxRPD: 5, MaxITPM: 3, MaxOTPM: 4, MaxTPD: 6, MaxInFlight: 3}},
		{"by hand: and goes up and down", hand, []step{says("m", all), says("m", limits{TPM: limit(900)})}, q{MaxRPM: 1, MaxTPM: 900, MaxRPD: 5, MaxITPM: 3, MaxOTPM: 4, MaxTPD: 6, MaxInFlight: 3}},
		{"by hand: all unlimited", ratelimit.Config{Quotas: map[string]q{"m": {}}}, []step{rpm(5), rpm(900)}, q{MaxRPM: 900}},
		{"by hand, in the map", ratelimit.Config{}, []step{func(rl *ratelimit.RateLimiter) { rl.Quotas["m"] = q{MaxRPM: 10} }, rpm(5), rpm(20)}, q{MaxRPM: 10}},
		{"by hand, in the map over a profile", openAI, []step{func(rl *ratelimit.RateLimiter) { rl.Quotas["gpt-4o"] = q{MaxRPM: 10} }, rpm(5), rpm(500)}, q{MaxRPM: 10}},
		{"by hand, in the map after a lesson", hand, []step{rpm(50), func(rl *ratelimit.RateLimiter) { rl.Quotas["m"] = q{MaxRPM: 70} }, rpm(500)}, q{MaxRPM: 70}},
		{"SetQuota starts afresh", hand, []step{rpm(50), set("m", q{MaxRPM: 200})}, q{MaxRPM: 200}},
		{"SetQuota is by hand", hand, []step{rpm(50), set("m", q{MaxRPM: 200}), rpm(60), rpm(900)}, q{MaxRPM: 200}},
		{"SetQuota of what was learned", hand, []step{rpm(50), set("m", q{MaxRPM: 50}), rpm(100)}, q{MaxRPM: 50}},
		{"a profile: lower", openAI, []step{rpm(50)}, q{MaxRPM: 50, MaxTPM: 30_000}},
		{"a profile: higher", openAI, []step{rpm(5000)}, q{MaxRPM: 5000, MaxTPM: 30_000}},
		{"a profile: up and down", openAI, []step{rpm(50), rpm(5000), rpm(70)}, q{MaxRPM: 70, MaxTPM: 30_000}},
		{"AddProvider starts afresh", openAI, []step{rpm(50), func(rl *ratelimit.RateLimiter) { rl.AddProvider(ratelimit.ProviderOpenAI) }}, q{MaxRPM: 500, MaxTPM: 30_000}},
		{"AddProvider over what was by hand", openAI, []step{set("gpt-4o", q{MaxRPM: 5}), rpm(4), func(rl *ratelimit.RateLimiter) { rl.AddProvider(ratelimit.ProviderOpenAI) }, rpm(5000)}, q{MaxRPM: 5000, MaxTPM: 30_000}},
		{"AddProvider of what was learned", openAI, []step{set("gpt-4o", q{MaxRPM: 600, MaxTPM: 30_000}), rpm(500), func(rl *ratelimit.RateLimiter) { rl.AddProvider(ratelimit.ProviderOpenAI) }, rpm(5000)}, q{MaxRPM: 5000, MaxTPM: 30_000}},
		{"by hand, in the map over a file, and what was learned is the file's", file, []step{func(rl *ratelimit.RateLimiter) { rl.Quotas["m"] = q{MaxRPM: 200} }, rpm(100), func(rl *ratelimit.RateLimiter) { rl.Load() }, rpm(500)}, q{MaxRPM: 200}},
		{"a file: up and down", file, []step{rpm(5000), rpm(70)}, q{MaxRPM: 70}},
		{"a file: read again", file, []step{rpm(5000), func(rl *ratelimit.RateLimiter) { rl.Load() }}, q{MaxRPM: 100}},
		{"unknown", none, []step{rpm(50)}, q{MaxRPM: 50}},
		{"unknown: up and down", none, []step{says("m", all), rpm(50), rpm(7)}, q{MaxRPM: 7, MaxTPM: 2, MaxRPD: 5, MaxITPM: 3, MaxOTPM: 4, MaxTPD: 6}},
		{"unknown: nothing said", none, []step{says("m", limits{RPM: left(0)})}, q{}},
		{"unknown: another model", none, []step{says("n", all)}, q{}},
		{"*: lower", star, []step{rpm(50)}, q{MaxRPM: 50, MaxTPM: 5000, DayZone: "America/Los_Angeles"}},
		{"*: by hand, never higher", star, []step{rpm(50), rpm(500), says("m", limits{TPM: limit(6000)})}, q{MaxRPM: 100, MaxTPM: 5000, DayZone: "America/Los_Angeles"}},
		{"*: set again", star, []step{rpm(50), set("*", q{MaxRPM: 200})}, q{MaxRPM: 200}},
		{"*: set again, and higher", star, []step{rpm(50), set("*", q{MaxRPM: 200}), rpm(900)}, q{MaxRPM: 200}},
		{"*: and the model itself", star, []step{rpm(50), set("m", q{MaxRPM: 900}), set("*", q{MaxRPM: 200}), rpm(901)}, q{MaxRPM: 900}},
		{"*: a model of that name", star, []step{says("*", all)}, star.Quotas["*"]},
		{"*: learns nothing from a model of that name", none, []step{says("*", all)}, q{}},
		{"a model without a name", none, []step{says("", all)}, q{}},
		{"nonsense", hand, []step{rpm(0), rpm(-1), rpm(math.MinInt), says("m", limits{TPM: limit(math.MaxInt)})}, map[bool]q{true: {MaxRPM: 100, MaxInFlight: 3}, false: {MaxRPM: 100, MaxTPM: math.MaxInt, MaxInFlight: 3}}[math.MaxInt > math.MaxInt32]},
		{"an invalid quota stays", hand, []step{set("m", q{MaxRPM: -1}), rpm(5)}, q{MaxRPM: -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, learns := range []bool{true, false} {
				cfg := tt.config
				cfg.LearnQuotas = learns
				text := cfg.FilePath
				cfg.FilePath = filepath.Join(t.TempDir(), "state.yaml")
				if text != "" {
					if err := os.WriteFile(cfg.FilePath, []byte("quotas:\n  m: {max_rpm: 100, max_tpm: 0, max_rpd: 0}\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				rl := newLimiterWith(t, cfg)
				if err := rl.Load(); err != nil {
					t.Fatal(err)
				}
				if !learns {
					before := fmt.Sprint(rl.Quotas)
					rl.Observe("m", all)
					if after := fmt.Sprint(rl.Quotas); after != before {
						t.Errorf("without LearnQuotas %v became %v", before, after)
					}
					continue
				}
				for _, do := range tt.steps {
					do(rl)
				}
				if got := rl.Decide("m", 1).Stats; quotaOfStats(got) != withoutZone(tt.want) {
					t.Errorf("the quota is %+v, want %+v", quotaOfStats(got), tt.want)
				}
				if _, got, _ := rl.QuotaFor("m"); got != tt.want {
					t.Errorf("QuotaFor says %+v, want %+v", got, tt.want)
				}
			}
		})
	}
}

func quotaOfStats(s ratelimit.ModelStats) ratelimit.ModelQuota {
	return ratelimit.ModelQuota{
		MaxRPM: s.MaxRPM, MaxTPM: s.MaxTPM, MaxRPD: s.MaxRPD,
		MaxITPM: s.MaxITPM, MaxOTPM: s.MaxOTPM, MaxTPD: s.MaxTPD, MaxInFlight: s.MaxInFlight,
	}
}

func withoutZone(q ratelimit.ModelQuota) ratelimit.ModelQuota {
	q.DayZone = ""
	return q
}

// What is learned goes to the model that the name stands for.
func TestLearnQuotasByNames(t *testing.T) {
	tests := []struct {
		says, counted string
		match         bool
	}{
		{"m", "m", false}, {"alias", "m", false}, {"alias", "m", true},
		{"m-2024-08-06", "m", true}, {"m-2024-08-06", "m-2024-08-06", false},
		{"openai/m", "m", true}, {"m-mini", "m-mini", true},
	}
	for _, tt := range tests {
		rl := newLimiterWith(t, ratelimit.Config{
			LearnQuotas: true, MatchVersions: tt.match, Aliases: map[string]string{"alias": "m"},
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}},
		})
		rl.Observe(tt.says, limits{RPM: limit(50)})
		if got := rl.Quotas[tt.counted].MaxRPM; got != 50 {
			t.Errorf("%+v: quotas are %v", tt, rl.Quotas)
		}
		if tt.counted != "m" && rl.Quotas["m"].MaxRPM != 100 {
			t.Errorf("%+v: another model has learned: %v", tt, rl.Quotas)
		}
	}
}

func TestLearnQuotasIsBounded(t *testing.T) {
	for _, star := range []bool{false, true} {
		rl := newLimiterWith(t, ratelimit.Config{LearnQuotas: true, MaxModels: 5, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}})
		if star {
			rl.SetQuota("*", ratelimit.ModelQuota{MaxRPM: 100})
		}
		for i := range 100 {
			rl.Observe(fmt.Sprint(i), limits{RPM: limit(50)})
		}
		if n := len(rl.Quotas); n != 5 {
			t.Errorf("%d quotas, want 5", n)
		}
		if rl.Observe("m", limits{RPM: limit(50)}); rl.Quotas["m"].MaxRPM != 50 {
			t.Error("a model with a quota learns no more")
		}
	}
}

// Models that lose their own quota count to Config.MaxModels again.
func TestLearnQuotasGivesGuestsBack(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{LearnQuotas: true, MaxModels: 3, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 100}}})
	rl.Observe("c", limits{RPM: limit(50)})
	rl.Observe("d", limits{RPM: limit(50)})
	for _, model := range []string{"a", "c", "d", "e"} {
		reserve(t, rl, model, 1, 1)
	}
	rl.SetQuota("*", ratelimit.ModelQuota{MaxRPM: 100})
	if _, d := rl.Reserve("f", 1, 1); d.Code != ratelimit.DecisionTooManyModels {
		t.Errorf("a fifth guest: %+v", d)
	}
}

func TestLearnQuotasAndWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000}}})
		rl.Observe("m", limits{TPM: limit(100)})
		rl.RecordUsage("m", 100, 0)
		var errs [2]error
		for i, tokens := range []int{60, 40} {
			go func() { _, errs[i] = rl.Acquire(t.Context(), "m", tokens, 0) }()
			synctest.Wait()
		}
		if n := rl.Stats("m").Waiting; n != 2 {
			t.Fatalf("%d wait", n)
		}
		rl.Observe("m", limits{TPM: limit(50)})
		synctest.Wait()
		if !errors.Is(errs[0], ratelimit.ErrNeverFits) || rl.Stats("m").Waiting != 1 {
			t.Errorf("what fits no more: %v, and %d wait", errs[0], rl.Stats("m").Waiting)
		}
		rl.Observe("m", limits{TPM: limit(500)})
		synctest.Wait()
		if got := rl.Stats("m"); got.Waiting != 0 || got.TPM != 140 || errs[1] != nil {
			t.Errorf("with more: %+v, %v", got, errs[1])
		}
	})
}

// A round trip through either file, by Persist or by itself.
func TestLearnQuotasPersists(t *testing.T) {
	for _, backend := range backends {
		for _, auto := range []bool{false, true} {
			t.Run(fmt.Sprint(backend, " auto ", auto), func(t *testing.T) {
				cfg := ratelimit.Config{
					FilePath: filepath.Join(t.TempDir(), "state"), Backend: backend, LearnQuotas: true,
					Quotas:    map[string]ratelimit.ModelQuota{"hand": {MaxRPM: 100}, "*": {MaxRPM: 100}},
					Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI},
				}
				if auto {
					cfg.AutoPersist = ratelimit.AutoPersist{Delay: time.Millisecond}
				}
				open := func() *ratelimit.RateLimiter {
					rl := newLimiterWith(t, cfg)
					if err := rl.Load(); err != nil {
						t.Fatal(err)
					}
					return rl
				}
				rl := open()
				for _, model := range []string{"hand", "o1", "unknown"} {
					rl.Observe(model, limits{RPM: limit(50)})
				}
				if auto {
					for range 1000 { // before Close would write it
						if there := open().Quotas["o1"].MaxRPM; there == 50 {
							break
						}
						time.Sleep(5 * time.Millisecond)
					}
					if there := open().Quotas["o1"].MaxRPM; there != 50 {
						t.Errorf("the quota in the file is %d", there)
					}
				} else if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
				limitertest.Close(t, rl)
				rl = open()
				for model, want := range map[string][2]int{"hand": {100, 100}, "o1": {50, 5000}, "unknown": {100, 100}} {
					_, before, _ := rl.QuotaFor(model)
					rl.Observe(model, limits{RPM: limit(5000)})
					_, after, _ := rl.QuotaFor(model)
					if got := [2]int{before.MaxRPM, after.MaxRPM}; got != want {
						t.Errorf("%s: read and learned %v, want %v", model, got, want)
					}
				}
				limitertest.Close(t, rl)
			})
		}
	}
}

func TestLimitErrorOfOthers(t *testing.T) {
	tests := []struct {
		decision ratelimit.Decision
		err      error
		is       error
		text     string
	}{
		{ratelimit.Decision{Reason: "tokens per minute are used up", RetryAfter: time.Second}, nil, context.DeadlineExceeded,
			`acquire: model "m": tokens per minute are used up, free in 1s: context deadline exceeded`},
		{ratelimit.Decision{Reason: "the request is too large", Never: true}, nil, ratelimit.ErrNeverFits,
			`acquire: model "m": the request is too large: request never fits its quota`},
		{ratelimit.Decision{}, nil, context.DeadlineExceeded, `acquire: model "m": refused: context deadline exceeded`},
		{ratelimit.Decision{Reason: "requests per minute are used up", RetryAfter: time.Second}, ratelimit.ErrMaxWait, ratelimit.ErrMaxWait,
			`acquire: model "m": requests per minute are used up, free in 1s: maximum wait exceeded`},
		{ratelimit.Decision{Reason: "the request is too large", Never: true}, io.ErrUnexpectedEOF, io.ErrUnexpectedEOF,
			`acquire: model "m": the request is too large: unexpected EOF`},
	}
	for _, tt := range tests {
		err := fmt.Errorf("call: %w", &ratelimit.LimitError{Model: "m", Decision: tt.decision, Err: tt.err})
		var limited *ratelimit.LimitError
		if !errors.As(err, &limited) || !errors.Is(err, tt.is) || limited.Error() != tt.text {
			t.Errorf("%v: is %v: %v", err, tt.is, errors.Is(err, tt.is))
		}
		if tt.err != nil && errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is a deadline", err)
		}
	}
}

// A shared database that takes the place of one that was deleted is told what was said by
// hand, not what was learned.
func TestLearnedQuotasAreNotRestored(t *testing.T) {
	needSQLite(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shared.db")
	open := func(quotas map[string]ratelimit.ModelQuota) *ratelimit.RateLimiter {
		rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{
			Shared: true, LearnQuotas: true, FreshStart: true, Quotas: quotas,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rl.Close() })
		return rl
	}
	a := open(map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}})
	a.Observe("m", limits{RPM: limit(5)})
	if got := a.Stats("m").MaxRPM; got != 5 {
		t.Fatalf("learned %d", got)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		os.Remove(path + suffix)
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		a.RecordUsage("m", 1, 1)
		if _, err := os.Stat(path); err == nil && a.Err() == nil {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal(a.Err())
		}
	}
	b := open(map[string]ratelimit.ModelQuota{"other": {}})
	if got := b.Stats("m").MaxRPM; got != 5 {
		t.Errorf("the new file says %d, want 5", got)
	}
}
