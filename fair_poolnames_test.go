// Pools: their names, what makes them, and what a file has of them.

package ratelimit_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

// The models of a group of a profile share one bucket: what one of them uses, the others have not.
func TestGroupsOfProfilesAreBuckets(t *testing.T) {
	for _, provider := range []ratelimit.Provider{ratelimit.ProviderAnthropic, ratelimit.ProviderOpenAI, ratelimit.ProviderOpenRouter} {
		for _, tier := range ratelimit.Tiers(provider) {
			profile, err := ratelimit.Profile(provider, tier)
			if err != nil {
				t.Fatal(err)
			}
			rl := newLimiterWith(t, ratelimit.Config{Providers: []ratelimit.Provider{provider}, Tiers: map[ratelimit.Provider]string{provider: tier}})
			groups := make(map[string][]string)
			for model, source := range profile.Sources {
				if model = strings.ReplaceAll(model, "*", "x"); source.Group != "" {
					groups[source.Group] = append(groups[source.Group], model)
				} else if in := rl.PoolsOf(model); len(in) > 0 {
					t.Errorf("%s %s: %s is of no group, and is in %q", provider, tier, model, in)
				}
			}
			for group, models := range groups {
				slices.Sort(models)
				in := rl.PoolsOf(models[0])
				if len(in) != 1 {
					t.Errorf("%s %s: %s of group %s is in the pools %q", provider, tier, models[0], group, in)
					continue
				}
				for _, model := range models {
					if got := rl.PoolsOf(model); !slices.Equal(got, in) {
						t.Errorf("%s %s: %s is in %q, and %s of the same group in %q", provider, tier, model, got, models[0], in)
					}
				}
				before := rl.PoolStats(in[0])
				rl.RecordUsage(models[len(models)-1], 7, 3)
				if s := rl.PoolStats(in[0]); s.RPM != before.RPM+1 || s.TPM != before.TPM+10 {
					t.Errorf("%s %s: the pool %q has %+v after a call of %s", provider, tier, in[0], s, models[len(models)-1])
				}
				if pool, ok := rl.Pool(in[0]); !ok || pool.Quota == (ratelimit.ModelQuota{}) {
					t.Errorf("%s %s: the pool %q is %+v", provider, tier, in[0], pool)
				}
			}
		}
	}
}

// A pool may have any name, that of a model, of a pattern or of its own mark, and is no model.
func TestPoolNamesAreTheirOwn(t *testing.T) {
	names := []string{"m", "*", "m*", "\x1fpool:m", "a\nb", "päl ☃", "\x1f", "~", "null", "1", "a: b", strings.Repeat("long", 60)}
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			cfg := ratelimit.Config{Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"), Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}}
			rl := newLimiterWith(t, cfg)
			for i, name := range names {
				rl.SetPool(name, ratelimit.Pool{Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxRPM: 50 + i}})
			}
			rl.RecordUsage("m", 1, 1)
			check := func() {
				t.Helper()
				for i, name := range names {
					if s := rl.PoolStats(name); s.RPM != 1 || s.TPM != 2 || s.MaxRPM != 50+i {
						t.Errorf("%q: %+v", name, s)
					}
				}
				if s := rl.Stats("m"); s.RPM != 1 || s.MaxRPM != 100 {
					t.Errorf("the model m: %+v", s)
				}
				if s := rl.Stats("\x1fpool:m"); s.RPM != 0 || s.MaxRPM != 0 {
					t.Errorf("a model with the mark of a pool: %+v", s)
				}
				sorted := slices.Sorted(slices.Values(names))
				if got := slices.Collect(rl.Pools()); !slices.Equal(got, sorted) {
					t.Errorf("pools are %q", got)
				}
				if got := rl.PoolsOf("m"); !slices.Equal(got, sorted) {
					t.Errorf("m is in %q", got)
				}
				if got := slices.Collect(rl.Models()); !slices.Equal(got, []string{"m"}) {
					t.Errorf("models are %q", got)
				}
				if len(rl.State) != 1 || len(rl.Quotas) != 1 {
					t.Errorf("State has %d entries, Quotas %d", len(rl.State), len(rl.Quotas))
				}
			}
			check()
			if err := rl.Persist(); err != nil {
				t.Fatal(err)
			}
			limitertest.Close(t, rl)
			cfg.Quotas, cfg.Providers = nil, []ratelimit.Provider{ratelimit.ProviderLocal}
			rl = newLimiterWith(t, cfg)
			defer limitertest.Close(t, rl)
			if err := rl.Load(); err != nil {
				t.Fatal(err)
			}
			check()
		})
	}
}

// A limiter without pools writes a file as it always did, and one with them reads such a file.
func TestFilesWithoutPools(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml")
	cfg := ratelimit.Config{FilePath: path, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 3}}}
	rl := newLimiterWith(t, cfg)
	rl.RecordUsage("m", 1, 0)
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), "pool") {
		t.Errorf("%v: a file of no pool is\n%s", err, text)
	}
	cfg.Pools = map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 9}}}
	rl = newLimiterWith(t, cfg)
	if err := rl.Load(); err != nil {
		t.Fatal(err)
	}
	if s, p := rl.Stats("m"), rl.PoolStats("p"); s.RPM != 1 || p.RPM != 0 || p.MaxRPM != 9 {
		t.Errorf("loaded is %+v and %+v", s, p)
	}
}

// What the program says of a pool wins over the file, and what it does not say the file has.
func TestPoolsOfConfigWinOverTheFile(t *testing.T) {
	for _, backend := range backends {
		cfg := ratelimit.Config{Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"), Pools: map[string]ratelimit.Pool{
			"p": {Models: []string{"a"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}},
			"q": {Models: []string{"b"}, Quota: ratelimit.ModelQuota{MaxTPM: 2, DayZone: "Asia/Tokyo", Burst: 3 * time.Second}},
		}}
		rl := newLimiterWith(t, cfg)
		rl.RecordUsage("a", 1, 0)
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		limitertest.Close(t, rl)
		want := cfg.Pools["q"]
		cfg.Pools = map[string]ratelimit.Pool{"p": {Models: []string{"c", "a"}, Quota: ratelimit.ModelQuota{MaxRPM: 7}}}
		rl = newLimiterWith(t, cfg)
		if err := rl.Load(); err != nil {
			t.Fatal(err)
		}
		if p, _ := rl.Pool("p"); p.Quota.MaxRPM != 7 || !slices.Equal(p.Models, []string{"c", "a"}) || rl.PoolStats("p").RPM != 1 {
			t.Errorf("%s: p is %+v, %+v", backend, p, rl.PoolStats("p"))
		}
		if q, ok := rl.Pool("q"); !ok || q.Quota != want.Quota || !slices.Equal(q.Models, want.Models) {
			t.Errorf("%s: q is %+v", backend, q)
		}
		rl.RemovePool("q")
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		if err := rl.Load(); err != nil {
			t.Fatal(err)
		}
		if got := slices.Collect(rl.Pools()); !slices.Equal(got, []string{"p"}) {
			t.Errorf("%s: the pools are %q after one was removed", backend, got)
		}
		limitertest.Close(t, rl)
	}
}

// Config reads pools, and a bad one is an error that names it. A Decision keeps its pool in JSON.
func TestPoolsInConfig(t *testing.T) {
	cfg, err := ratelimit.ReadConfig(strings.NewReader("pools:\n  org:\n    models: [\"*\", m]\n    quota: {max_rpm: 7, burst: 10s}\n"))
	if p := cfg.Pools["org"]; err != nil || !slices.Equal(p.Models, []string{"*", "m"}) || p.Quota != (ratelimit.ModelQuota{MaxRPM: 7, Burst: 10 * time.Second}) {
		t.Errorf("%+v, %v", cfg.Pools, err)
	}
	for _, pool := range []ratelimit.Pool{
		{Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxTPM: -5}}, {Models: []string{"m"}, Quota: ratelimit.ModelQuota{DayZone: "Mars/Base"}},
	} {
		_, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: filepath.Join(t.TempDir(), "f"), Pools: map[string]ratelimit.Pool{"crooked": pool}})
		if err == nil || !strings.Contains(err.Error(), "crooked") {
			t.Errorf("%+v: %v", pool, err)
		}
	}
	want := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Reason: "r", Model: "m", Pool: "org", RetryAfter: time.Second}
	text, err := json.Marshal(want)
	var got ratelimit.Decision
	if err != nil || json.Unmarshal(text, &got) != nil || got != want || !strings.Contains(string(text), `"pool":"org"`) {
		t.Errorf("%s, %v: %+v", text, err, got)
	}
}
