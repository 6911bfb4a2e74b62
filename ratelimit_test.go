// The contract: what the document that go-ratelimit was written from says, row by row and in its
// order, through the public API; ratelimit_sqlite_test.go holds its chapter on SQLite. Where the
// library says more than the document (other limits, reservations, sharing), the file of that
// subject tests it.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// The types, the constants and the signatures compile as programs use them.
var (
	_ = ratelimit.Config{FilePath: "", Backend: "", Quotas: map[string]ratelimit.ModelQuota{}, Providers: []ratelimit.Provider{}}
	_ = ratelimit.ModelQuota{MaxRPM: 0, MaxTPM: 0, MaxRPD: 0}
	_ = ratelimit.UsageStats{Requests: []time.Time{}, Tokens: []ratelimit.TokenEntry{}, DayStart: time.Time{}, DayCount: 0}
	_ = ratelimit.TokenEntry{Time: time.Time{}, Count: 0}

	_ map[string]ratelimit.ModelQuota  = (&ratelimit.RateLimiter{}).Quotas
	_ map[string]*ratelimit.UsageStats = (&ratelimit.RateLimiter{}).State

	_ func() (*ratelimit.RateLimiter, error)                                        = ratelimit.New
	_ func(cfg ratelimit.Config) (*ratelimit.RateLimiter, error)                    = ratelimit.NewWithConfig
	_ func(dbPath string) (*ratelimit.RateLimiter, error)                           = ratelimit.NewWithSQLite
	_ func(dbPath string, cfg ratelimit.Config) (*ratelimit.RateLimiter, error)     = ratelimit.NewWithSQLiteConfig
	_ func() map[ratelimit.Provider]ratelimit.ProviderProfile                       = ratelimit.DefaultProfiles
	_ func(yamlPath, sqlitePath string) error                                       = ratelimit.MigrateYAMLToSQLite
	_ func(ctx context.Context, apiKey, model, text string) (tokens int, err error) = ratelimit.CountTokens
)

var _ interface {
	CanSend(model string, estimatedTokens int) bool
	Decide(model string, estimatedTokens int) ratelimit.Decision
	WaitForCapacity(ctx context.Context, model string, tokens int) error
	RecordUsage(model string, promptTokens, outputTokens int)
	Stats(model string) ratelimit.ModelStats
	AllStats() map[string]ratelimit.ModelStats
	Models() iter.Seq[string]
	Iter() iter.Seq2[string, ratelimit.ModelStats]
	SetQuota(model string, quota ratelimit.ModelQuota)
	AddProvider(provider ratelimit.Provider)
	Reset(model string)
	BackgroundPrune(interval time.Duration) func()
	Persist() error
	Load() error
	Close() error
} = (*ratelimit.RateLimiter)(nil)

func TestProvidersAreTheirNames(t *testing.T) {
	for provider, name := range map[ratelimit.Provider]string{
		ratelimit.ProviderGemini: "gemini", ratelimit.ProviderOpenAI: "openai",
		ratelimit.ProviderAnthropic: "anthropic", ratelimit.ProviderLocal: "local",
	} {
		if string(provider) != name {
			t.Errorf("provider %q, want %q", provider, name)
		}
	}
}

// Sliding window: an entry leaves when it is before now - 1 minute.
func TestWindowHoldsAnEntryForAMinute(t *testing.T) {
	for _, tt := range []struct {
		age   time.Duration
		stays bool
	}{
		{0, true},
		{30 * time.Second, true},
		{time.Minute - 1, true},
		{time.Minute, true},
		{time.Minute + 1, false},
		{time.Hour, false},
	} {
		for _, read := range []string{"CanSend", "Stats"} {
			t.Run(fmt.Sprint(read, " after ", tt.age), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 100})
					rl.RecordUsage("m", 70, 30)
					time.Sleep(tt.age)
					used := false
					if read == "CanSend" {
						used = !rl.CanSend("m", 1)
					} else {
						s := rl.Stats("m")
						used = s.RPM == 1 && s.TPM == 100
					}
					if used != tt.stays {
						t.Errorf("counts: %t, want %t", used, tt.stays)
					}
					if s := rl.State["m"]; (len(s.Requests) == 1) != tt.stays || (len(s.Tokens) == 1) != tt.stays {
						t.Errorf("it leaves %+v", s)
					}
				})
			})
		}
	}
}

// Check order: requests per day, requests per minute, tokens per minute. Zero is unlimited.
func TestLimitsAreCheckedInOrder(t *testing.T) {
	const rpd, rpm, tpm = ratelimit.DecisionRPDLimit, ratelimit.DecisionRPMLimit, ratelimit.DecisionTPMLimit
	tests := []struct {
		quota ratelimit.ModelQuota
		code  ratelimit.DecisionCode
		retry time.Duration
	}{
		{ratelimit.ModelQuota{MaxRPD: 1, MaxRPM: 1, MaxTPM: 10}, rpd, 24*time.Hour - time.Second},
		{ratelimit.ModelQuota{MaxRPD: 1, MaxRPM: 1}, rpd, 24*time.Hour - time.Second},
		{ratelimit.ModelQuota{MaxRPD: 1, MaxTPM: 10}, rpd, 24*time.Hour - time.Second},
		{ratelimit.ModelQuota{MaxRPD: 1}, rpd, 24*time.Hour - time.Second},
		{ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 10}, rpm, 59*time.Second + 1},
		{ratelimit.ModelQuota{MaxRPM: 1}, rpm, 59*time.Second + 1},
		{ratelimit.ModelQuota{MaxTPM: 10}, tpm, 59*time.Second + 1},
		{ratelimit.ModelQuota{MaxRPD: 2, MaxRPM: 1, MaxTPM: 10}, rpm, 59*time.Second + 1},
		{ratelimit.ModelQuota{MaxRPD: 2, MaxRPM: 2, MaxTPM: 10}, tpm, 59*time.Second + 1},
		{ratelimit.ModelQuota{MaxRPD: 2, MaxRPM: 2, MaxTPM: 11}, ratelimit.DecisionAllowed, 0},
		{ratelimit.ModelQuota{}, ratelimit.DecisionUnlimited, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d a day, %d and %d tokens a minute", tt.quota.MaxRPD, tt.quota.MaxRPM, tt.quota.MaxTPM), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, tt.quota)
				rl.RecordUsage("m", 6, 4)
				time.Sleep(time.Second)
				d := rl.Decide("m", 1)
				if d.Code != tt.code || d.RetryAfter != tt.retry || d.Allowed != (tt.retry == 0) || d.Never {
					t.Errorf("decided %+v, want %s and a wait of %v", d, tt.code, tt.retry)
				}
				if rl.CanSend("m", 1) != d.Allowed {
					t.Error("CanSend says another thing")
				}
			})
		})
	}
}

// Decide is structured and records nothing.
func TestDecideExplainsAndRecordsNothing(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
	for range 3 {
		if d := rl.Decide("m", 1); !d.Allowed || d.Reason == "" || d.Model != "m" || d.Stats != (ratelimit.ModelStats{MaxRPM: 1}) {
			t.Fatalf("decided %+v", d)
		}
	}
	rl.RecordUsage("m", 2, 3)
	d := rl.Decide("m", 1)
	if d.Allowed || d.Reason == "" || d.Stats != rl.Stats("m") || d.Stats.RPM != 1 || d.Stats.TPM != 5 || d.Stats.RPD != 1 {
		t.Errorf("decided %+v", d)
	}
}

// A model without a quota or without limits is allowed before any state is looked at.
func TestNothingIsLookedAtWithoutALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		for model, code := range map[string]ratelimit.DecisionCode{"m": ratelimit.DecisionUnlimited, "other": ratelimit.DecisionUnknownModel} {
			if d := rl.Decide(model, 1<<30); !rl.CanSend(model, 1<<30) || !d.Allowed || d.Code != code {
				t.Errorf("%s: decided %+v", model, d)
			}
		}
		if rl.CanSend("other", -1) || len(rl.State) != 0 {
			t.Errorf("a negative estimate is allowed, or state is %v", rl.State)
		}
		rl.RecordUsage("m", 1, 1)
		time.Sleep(time.Hour)
		rl.CanSend("m", 1)
		if s := rl.State["m"]; len(s.Requests) != 1 || len(s.Tokens) != 1 {
			t.Errorf("CanSend pruned a model without a limit: %+v", s)
		}
	})
}

// WaitForCapacity sleeps for RetryAfter: it neither polls nor wakes late.
func TestWaitForCapacityTakesTheHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		rl.RecordUsage("m", 1, 1)
		hint, started := rl.Decide("m", 1).RetryAfter, time.Now()
		if err := rl.WaitForCapacity(t.Context(), "m", 1); err != nil || time.Since(started) != hint || hint != time.Minute+1 {
			t.Errorf("waited %v, %v; want %v", time.Since(started), err, hint)
		}
	})
}

// Daily reset: 24 hours from the first request of the day, not from midnight.
func TestDayIsAnchoredToItsFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPD: 2})
		rl.State["m"] = &ratelimit.UsageStats{DayStart: time.Now()}
		rl.Stats("m")
		time.Sleep(20 * time.Hour)
		first := time.Now()
		rl.RecordUsage("m", 1, 1)
		rl.RecordUsage("m", 1, 1)
		if d := rl.Decide("m", 1); d.RetryAfter != 24*time.Hour || !d.Stats.DayStart.Equal(first) {
			t.Errorf("decided %+v", d)
		}
		time.Sleep(24*time.Hour - 1)
		if rl.CanSend("m", 1) {
			t.Error("allowed a nanosecond before the day ends")
		}
		time.Sleep(1 * time.Nanosecond)
		if !rl.CanSend("m", 1) || rl.Stats("m").RPD != 0 {
			t.Errorf("denied when the day ends: %+v", rl.Stats("m"))
		}
	})
}

// Background pruning: every model, at the interval, until it is stopped.
func TestBackgroundPruneForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 5})
		for i := range 1000 {
			rl.RecordUsage(fmt.Sprint(i), 1, 1)
		}
		rl.State["nil"] = nil
		stop := rl.BackgroundPrune(30 * time.Second)
		time.Sleep(91 * time.Second)
		stop()
		if len(rl.State) != 1000 {
			t.Errorf("%d models are left after a minute, want those with a day", len(rl.State))
		}
		for model, s := range rl.State {
			if len(s.Requests) != 0 || len(s.Tokens) != 0 {
				t.Fatalf("%s is still %+v after a minute", model, s)
			}
		}
		stop = rl.BackgroundPrune(time.Hour)
		time.Sleep(25 * time.Hour)
		stop()
		if len(rl.State) != 0 {
			t.Errorf("%d models are left after a day", len(rl.State))
		}
	})
}

// Memory: a model with neither entries nor a day is deleted from State.
func TestModelsThatAreOverAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 5})
		rl.RecordUsage("m", 1, 1)
		time.Sleep(2 * time.Minute)
		rl.CanSend("m", 1)
		if s := rl.State["m"]; s == nil || s.Requests != nil || s.Tokens != nil || s.DayCount != 1 {
			t.Errorf("State = %+v, want the day alone", s)
		}
		time.Sleep(24 * time.Hour)
		rl.CanSend("m", 1)
		if _, ok := rl.State["m"]; ok {
			t.Error("the entry is still there after the day")
		}
	})
}

// Quota resolution: profiles first, then Config.Quotas over them; Gemini's if there are neither.
// SetQuota and AddProvider change them later, and AddProvider removes none.
func TestQuotasResolve(t *testing.T) {
	profiles := ratelimit.DefaultProfiles()
	anthropic, openAI := len(profiles[ratelimit.ProviderAnthropic].Models), len(profiles[ratelimit.ProviderOpenAI].Models)
	own := map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 7}, "mine": {MaxTPM: 9}}
	tests := []struct {
		name  string
		cfg   ratelimit.Config
		has   []string
		count int
	}{
		{"neither providers nor quotas is Gemini", ratelimit.Config{}, []string{"gemini-2.5-pro"}, 5},
		{"an empty map of quotas is none", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{}}, []string{"gemini-2.5-pro"}, 5},
		{"quotas alone", ratelimit.Config{Quotas: own}, []string{"mine", "gpt-4o"}, 2},
		{"one provider", ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderAnthropic}}, []string{"claude-opus-4"}, anthropic},
		{"two providers", ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderAnthropic, ratelimit.ProviderOpenAI}}, []string{"claude-opus-4", "o1"}, anthropic + openAI},
		{"the local provider has none", ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderLocal}}, nil, 0},
		{"quotas win over providers", ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI}, Quotas: own}, []string{"mine", "gpt-4o", "o1"}, openAI + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rl := newLimiterWith(t, tt.cfg)
			if len(rl.Quotas) != tt.count {
				t.Errorf("%d quotas, want %d: %v", len(rl.Quotas), tt.count, rl.Quotas)
			}
			for _, model := range tt.has {
				if _, ok := rl.Quotas[model]; !ok {
					t.Errorf("no quota for %s", model)
				}
			}
			if q, ok := tt.cfg.Quotas["gpt-4o"]; ok && rl.Quotas["gpt-4o"] != q {
				t.Errorf("gpt-4o = %+v, want %+v", rl.Quotas["gpt-4o"], q)
			}
			if len(rl.State) != 0 || rl.State == nil {
				t.Errorf("state is %v", rl.State)
			}
		})
	}
	rl := newLimiterWith(t, ratelimit.Config{Quotas: own})
	rl.SetQuota("gpt-4o", ratelimit.ModelQuota{})
	if own["gpt-4o"].MaxRPM != 7 {
		t.Error("the limiter writes into the caller's map")
	}
	rl.AddProvider(ratelimit.ProviderOpenAI)
	if rl.Quotas["gpt-4o"] != profiles[ratelimit.ProviderOpenAI].Models["gpt-4o"] || rl.Quotas["mine"].MaxTPM != 9 {
		t.Errorf("after AddProvider: %v", rl.Quotas)
	}
	before := maps.Clone(rl.Quotas)
	rl.AddProvider("acme")
	if !maps.Equal(rl.Quotas, before) {
		t.Errorf("an unknown provider changed the quotas to %v", rl.Quotas)
	}
}

// Default quotas that the contract names, as of February 2026. provider_test.go has the others.
func TestDefaultProfiles(t *testing.T) {
	type row struct {
		provider      ratelimit.Provider
		model         string
		rpm, tpm, rpd int
	}
	rows := []row{
		{ratelimit.ProviderGemini, "gemini-3-pro-preview", 150, 1_000_000, 1_000},
		{ratelimit.ProviderGemini, "gemini-3-flash-preview", 150, 1_000_000, 1_000},
		{ratelimit.ProviderGemini, "gemini-2.5-pro", 150, 1_000_000, 1_000},
		{ratelimit.ProviderGemini, "gemini-2.0-flash", 150, 1_000_000, 0},
		{ratelimit.ProviderGemini, "gemini-2.0-flash-lite", 0, 0, 0},
		{ratelimit.ProviderOpenAI, "gpt-4o", 500, 30_000, 0},
		{ratelimit.ProviderOpenAI, "gpt-4o-mini", 500, 200_000, 0},
		{ratelimit.ProviderOpenAI, "gpt-4-turbo", 500, 30_000, 0},
		{ratelimit.ProviderOpenAI, "o1", 500, 30_000, 0},
		{ratelimit.ProviderOpenAI, "o1-mini", 500, 200_000, 0},
		{ratelimit.ProviderOpenAI, "o3-mini", 500, 200_000, 0},
		{ratelimit.ProviderAnthropic, "claude-opus-4", 50, 40_000, 0},
		{ratelimit.ProviderAnthropic, "claude-sonnet-4", 50, 40_000, 0},
		{ratelimit.ProviderAnthropic, "claude-haiku-3.5", 50, 50_000, 0},
	}
	profiles := ratelimit.DefaultProfiles()
	count := len(profiles)
	for provider, profile := range profiles {
		if profile.Provider != provider {
			t.Errorf("the profile of %q says it is of %q", provider, profile.Provider)
		}
	}
	for _, r := range rows {
		got, ok := profiles[r.provider].Models[r.model]
		if want := (ratelimit.ModelQuota{MaxRPM: r.rpm, MaxTPM: r.tpm, MaxRPD: r.rpd}); !ok || got != want {
			t.Errorf("%s = %+v, want %+v", r.model, got, want)
		}
	}
	if local := profiles[ratelimit.ProviderLocal]; local.Models == nil || len(local.Models) != 0 {
		t.Errorf("the local provider has %v", local.Models)
	}
	profiles[ratelimit.ProviderOpenAI].Models["gpt-4o"] = ratelimit.ModelQuota{}
	delete(profiles, ratelimit.ProviderGemini)
	if again := ratelimit.DefaultProfiles(); again[ratelimit.ProviderOpenAI].Models["gpt-4o"].MaxRPM != 500 || len(again) != count {
		t.Error("a caller's change shows in the next call")
	}
}

// Constructors: which backend, and whose profile.
func TestConstructors(t *testing.T) {
	openAI := ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI}}
	tests := []struct {
		name      string
		construct func(folder string) (*ratelimit.RateLimiter, error)
		file      string
		provider  ratelimit.Provider
	}{
		{"New", func(string) (*ratelimit.RateLimiter, error) { return ratelimit.New() },
			".core/ratelimits.yaml", ratelimit.ProviderGemini},
		{"NewWithConfig, empty", func(string) (*ratelimit.RateLimiter, error) { return ratelimit.NewWithConfig(ratelimit.Config{}) },
			".core/ratelimits.yaml", ratelimit.ProviderGemini},
		{"NewWithConfig", func(string) (*ratelimit.RateLimiter, error) { return ratelimit.NewWithConfig(openAI) },
			".core/ratelimits.yaml", ratelimit.ProviderOpenAI},
		{"NewWithSQLite", func(folder string) (*ratelimit.RateLimiter, error) {
			return ratelimit.NewWithSQLite(filepath.Join(folder, "a.db"))
		}, "a.db", ratelimit.ProviderGemini},
		{"NewWithSQLiteConfig, empty", func(folder string) (*ratelimit.RateLimiter, error) {
			return ratelimit.NewWithSQLiteConfig(filepath.Join(folder, "b.db"), ratelimit.Config{})
		}, "b.db", ratelimit.ProviderGemini},
		{"NewWithSQLiteConfig", func(folder string) (*ratelimit.RateLimiter, error) {
			return ratelimit.NewWithSQLiteConfig(filepath.Join(folder, "c.db"), openAI)
		}, "c.db", ratelimit.ProviderOpenAI},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasSuffix(tt.file, ".db") {
				needSQLite(t)
			}
			home := t.TempDir()
			t.Setenv("CORE_HOME", home)
			rl, err := tt.construct(home)
			if err != nil {
				t.Fatal(err)
			}
			if want := ratelimit.DefaultProfiles()[tt.provider].Models; !maps.Equal(rl.Quotas, want) {
				t.Errorf("quotas are %v, want those of %s", rl.Quotas, tt.provider)
			}
			if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
				t.Error(err)
			}
			head := make([]byte, len("SQLite format 3"))
			f, err := os.Open(filepath.Join(home, filepath.FromSlash(tt.file)))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			f.Read(head)
			if isDatabase := string(head) == "SQLite format 3"; isDatabase != strings.HasSuffix(tt.file, ".db") {
				t.Errorf("the file begins with %q", head)
			}
		})
	}
}

// Data flow: ask, call, record, persist; the next process loads.
func TestDataFlow(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			cfg := ratelimit.Config{
				Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"),
				Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 2, MaxTPM: 100}},
			}
			rl := newLimiterWith(t, cfg)
			if !rl.CanSend("m", 100) || rl.CanSend("m", 101) || len(rl.State) != 0 {
				t.Errorf("CanSend changed the state to %v, or decided wrongly", rl.State)
			}
			rl.RecordUsage("m", 40, 20)
			rl.RecordUsage("m", 10, 0)
			s := rl.State["m"]
			if len(s.Requests) != 2 || len(s.Tokens) != 2 || s.Tokens[0].Count != 60 || s.DayCount != 2 || rl.CanSend("m", 0) {
				t.Errorf("recorded %+v", s)
			}
			if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
				t.Fatal(err)
			}
			next := newLimiterWith(t, cfg)
			defer next.Close()
			if err := next.Load(); err != nil || next.CanSend("m", 0) || next.Stats("m").TPM != 70 || next.Stats("m").RPD != 2 {
				t.Errorf("the next process loads %+v, %v", next.Stats("m"), err)
			}
			next.Reset("m")
			if len(next.State) != 0 {
				t.Errorf("Reset leaves %v", next.State)
			}
		})
	}
}

// YAML: the keys and the layout of the document between two comments, RFC 3339 times, folders that
// are made.
func TestYAMLIsTheDocumented(t *testing.T) {
	const name = "gemini-3-pro-preview"
	at := time.Date(2026, 2, 20, 14, 32, 1, 123456789, time.UTC)
	path := filepath.Join(t.TempDir(), "new", "folder", "state.yaml")
	rl := limitertest.YAML(t, path)
	rl.Quotas[name] = ratelimit.ModelQuota{MaxRPM: 150, MaxTPM: 1_000_000, MaxRPD: 1_000}
	rl.State[name] = &ratelimit.UsageStats{
		Requests: []time.Time{at}, Tokens: []ratelimit.TokenEntry{{Time: at, Count: 1500}},
		DayStart: time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC), DayCount: 42,
	}
	limitertest.Save(t, rl)
	lines := func(text string) []string { return strings.Fields(strings.ReplaceAll(text, "- ", "-\n")) }
	if got, want := lines(statefile.Content(t, path)), lines(statefile.Sample); !slices.Equal(got, want) {
		t.Errorf("the file is\n%s", statefile.Read(t, path))
	}
	again := limitertest.YAML(t, path)
	limitertest.Load(t, again)
	if !maps.Equal(again.Quotas, rl.Quotas) || limitertest.Text(again.State) != limitertest.Text(rl.State) {
		t.Errorf("loaded %v and\n%s", again.Quotas, limitertest.Text(again.State))
	}
}

// Load: a missing file is empty, a corrupt one or one that cannot be read an error.
func TestLoadOfBadFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		place func(path string) error
		fails bool
	}{
		"missing":      {func(string) error { return nil }, false},
		"empty":        {func(path string) error { return os.WriteFile(path, nil, 0o600) }, true},
		"no YAML":      {func(path string) error { return os.WriteFile(path, []byte("\x00"), 0o600) }, true},
		"wrong types":  {func(path string) error { return os.WriteFile(path, []byte("quotas: 5\n"), 0o600) }, true},
		"not readable": {func(path string) error { return os.Mkdir(path, 0o700) }, true},
		"a cut of ours": {func(path string) error {
			return os.WriteFile(path, []byte(statefile.Sample[:len(statefile.Sample)/2]), 0o600)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.yaml")
			if err := tt.place(path); err != nil {
				t.Fatal(err)
			}
			if err := limitertest.YAML(t, path).Load(); (err != nil) != tt.fails || tt.fails && !errors.Is(err, ratelimit.ErrCorruptState) {
				t.Errorf("Load = %v", err)
			}
		})
	}
}

// Iterators: sorted, of Quotas and State together, without duplicates.
func TestModelsAndIter(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"b": {MaxRPM: 5}, "d": {}}})
	rl.RecordUsage("c", 1, 2)
	rl.RecordUsage("a", 1, 2)
	rl.RecordUsage("b", 3, 4)
	want := []string{"a", "b", "c", "d"}
	if got := slices.Collect(rl.Models()); !slices.Equal(got, want) {
		t.Errorf("Models = %v, want %v", got, want)
	}
	all := rl.AllStats()
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Errorf("AllStats has %v, want %v", got, want)
	}
	var names []string
	for model, stats := range rl.Iter() {
		names = append(names, model)
		if stats != all[model] || stats != rl.Stats(model) {
			t.Errorf("%s: Iter says %+v, AllStats %+v", model, stats, all[model])
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("Iter visits %v, want %v", names, want)
	}
	if b := all["b"]; b.RPM != 1 || b.TPM != 7 || b.RPD != 1 || b.MaxRPM != 5 {
		t.Errorf("b = %+v", b)
	}
}

// CountTokens asks Gemini, and for a model's name alone.
func TestCountTokensIsGeminis(t *testing.T) {
	previous := http.DefaultClient.Transport
	t.Cleanup(func() { http.DefaultClient.Transport = previous })
	asked := 0
	http.DefaultClient.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if asked++; r.URL.Host != "generativelanguage.googleapis.com" || r.Header.Get("X-Goog-Api-Key") != "key" {
			t.Errorf("asked %s with %v", r.URL.Host, r.Header)
		}
		return replying(200, `{"totalTokens": 5}`)(r)
	})
	if n, err := ratelimit.CountTokens(t.Context(), "key", "gpt-4o", "text"); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := ratelimit.CountTokens(t.Context(), "key", "", "text"); err == nil || asked != 1 {
		t.Errorf("without a model: %v after %d requests", err, asked)
	}
}

// Concurrency: 20 goroutines at once, and nothing is lost.
func TestConcurrentUse(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1 << 30, MaxTPM: 1 << 30, MaxRPD: 1 << 30})
	stop := rl.BackgroundPrune(time.Millisecond)
	defer stop()
	const goroutines, calls = 20, 200
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range calls {
				rl.RecordUsage("m", 1, 1)
				rl.CanSend("m", 10)
				rl.Decide("m", 10)
				rl.Stats("m")
				switch i % 40 {
				case 0:
					rl.AllStats()
				case 1:
					for range rl.Iter() {
					}
				case 2:
					rl.SetQuota("n", ratelimit.ModelQuota{MaxRPM: i})
					rl.Reset("n")
				case 3:
					rl.AddProvider(ratelimit.ProviderAnthropic)
				case 4:
					if err := rl.Persist(); err != nil {
						t.Error(err)
					}
				case 5:
					rl.RecordUsage("n", 1, 1)
				}
			}
		})
	}
	wg.Wait()
	if s := rl.Stats("m"); s.RPM != goroutines*calls || s.TPM != 2*goroutines*calls || s.RPD != goroutines*calls {
		t.Errorf("Stats = %+v, want %d of each", s, goroutines*calls)
	}
}
