package ratelimit_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

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
	total := 0
	for provider, profile := range profiles {
		if profile.Provider != provider {
			t.Errorf("the profile of %q says it is of %q", provider, profile.Provider)
		}
		total += len(profile.Models)
	}
	if total != len(rows) || len(profiles) != 4 {
		t.Errorf("%d models of %d providers, want %d of 4", total, len(profiles), len(rows))
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
	if again := ratelimit.DefaultProfiles(); again[ratelimit.ProviderOpenAI].Models["gpt-4o"].MaxRPM != 500 || len(again) != 4 {
		t.Error("a caller's change shows in the next call")
	}
}

func TestQuotasResolve(t *testing.T) {
	profiles := ratelimit.DefaultProfiles()
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
		{"one provider", ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderAnthropic}}, []string{"claude-opus-4"}, 3},
		{"two providers", ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderAnthropic, ratelimit.ProviderOpenAI}}, []string{"claude-opus-4", "o1"}, 9},
		{"the local provider has none", ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderLocal}}, nil, 0},
		{"an unknown provider has none", ratelimit.Config{Providers: []ratelimit.Provider{"acme"}}, nil, 0},
		{"quotas win over providers", ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI}, Quotas: own}, []string{"mine", "gpt-4o", "o1"}, 7},
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

func TestBadConfig(t *testing.T) {
	tests := []struct {
		name string
		cfg  ratelimit.Config
		is   error
		says []string
	}{
		{"unknown backend", ratelimit.Config{Backend: "redis"}, nil, []string{"redis", "yaml", "sqlite"}},
		{"negative margin", ratelimit.Config{Margin: -time.Second}, nil, []string{"margin", "-1s"}},
		{"margin too large", ratelimit.Config{Margin: 1 << 62}, nil, []string{"margin"}},
		{"negative requests per minute", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt": {MaxRPM: -5}}}, ratelimit.ErrInvalidQuota, []string{"gpt", "MaxRPM", "-5"}},
		{"negative tokens per minute", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt": {MaxTPM: -6}}}, ratelimit.ErrInvalidQuota, []string{"gpt", "MaxTPM", "-6"}},
		{"negative requests per day", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt": {MaxRPD: -7}}}, ratelimit.ErrInvalidQuota, []string{"gpt", "MaxRPD", "-7"}},
	}
	for _, tt := range tests {
		for _, backend := range []string{"yaml", "sqlite"} {
			t.Run(tt.name+" "+backend, func(t *testing.T) {
				cfg := tt.cfg
				if cfg.Backend == "" {
					cfg.Backend = backend
				}
				cfg.FilePath = filepath.Join(t.TempDir(), "folder", "state")
				rl, err := ratelimit.NewWithConfig(cfg)
				if err == nil || rl != nil {
					t.Fatalf("got %v, %v", rl, err)
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("%v is not %v", err, tt.is)
				}
				for _, text := range tt.says {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%q does not say %q", err, text)
					}
				}
				if _, err := os.Stat(filepath.Dir(cfg.FilePath)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("a refused config made a folder: %v", err)
				}
			})
		}
	}
}

func TestStateFileLocation(t *testing.T) {
	tests := []struct {
		name                     string
		coreHome, home, userHome string
		backend                  string
		want                     string
	}{
		{"CORE_HOME first", "core", "home", "user", "", "core/.core/ratelimits.yaml"},
		{"then HOME", "", "home", "user", "yaml", "home/.core/ratelimits.yaml"},
		{"then USERPROFILE", "", "", "user", " YAML\t", "user/.core/ratelimits.yaml"},
		{"sqlite", "", "home", "", "SQLite", "home/.core/ratelimits.db"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for env, home := range map[string]string{"CORE_HOME": tt.coreHome, "HOME": tt.home, "USERPROFILE": tt.userHome} {
				if home != "" {
					home = filepath.Join(dir, home)
				}
				t.Setenv(env, home)
			}
			rl, err := ratelimit.NewWithConfig(ratelimit.Config{Backend: tt.backend})
			if err != nil {
				t.Fatal(err)
			}
			defer rl.Close()
			if err := rl.Persist(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, filepath.FromSlash(tt.want))
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
	for _, env := range []string{"CORE_HOME", "HOME", "USERPROFILE"} {
		t.Setenv(env, "")
	}
	if _, err := ratelimit.New(); err == nil || !strings.Contains(err.Error(), "CORE_HOME") {
		t.Errorf("without a home folder: %v", err)
	}
	if _, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: filepath.Join(t.TempDir(), "s.yaml")}); err != nil {
		t.Errorf("with a path no home folder is needed: %v", err)
	}
}

func TestConstructorsDoNotLoad(t *testing.T) {
	for _, backend := range []string{"yaml", "sqlite"} {
		t.Run(backend, func(t *testing.T) {
			cfg := ratelimit.Config{Backend: backend, FilePath: filepath.Join(t.TempDir(), "state")}
			first := newLimiterWith(t, cfg)
			first.RecordUsage("gemini-2.5-pro", 1, 1)
			if err := errors.Join(first.Persist(), first.Close()); err != nil {
				t.Fatal(err)
			}
			second := newLimiterWith(t, cfg)
			defer second.Close()
			if len(second.State) != 0 {
				t.Errorf("state is %v", second.State)
			}
			if err := second.Load(); err != nil || second.Stats("gemini-2.5-pro").RPM != 1 {
				t.Errorf("after Load: %+v, %v", second.Stats("gemini-2.5-pro"), err)
			}
		})
	}
}

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

func TestIteratorsHoldNoLock(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{})
	for model := range rl.Models() {
		rl.SetQuota(model, ratelimit.ModelQuota{MaxRPM: 3})
		rl.SetQuota("new-"+model, ratelimit.ModelQuota{})
	}
	for model, stats := range rl.Iter() {
		rl.RecordUsage(model, 1, 1)
		if stats.RPM != 0 {
			t.Errorf("%s was visited after its record", model)
		}
		rl.Reset("")
		if model == "gemini-2.5-pro" {
			break
		}
	}
	for range rl.Models() {
		break
	}
}
