// Pools in files: what is saved, what comes back, and what a file may say.

package persist

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

var somePools = map[string]ratelimit.Pool{
	"org":      {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 10, MaxTPD: 1000, DayZone: "Asia/Tokyo"}},
	"a b*":     {Models: []string{"m", "x*", "", "ü: \"y\"\n"}, Quota: ratelimit.ModelQuota{MaxTPM: 500, Burst: 10 * time.Second}},
	"\x00\xff": {Quota: ratelimit.ModelQuota{MaxInFlight: 2, AdaptiveFloorRPM: 3}},
}

// poolsConfig is a limiter of a backend with a file.
func poolsConfig(t *testing.T, backend string) ratelimit.Config {
	t.Helper()
	return ratelimit.Config{
		Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"),
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}},
	}
}

// wantPools compares all that the public API says of pools.
func wantPools(t *testing.T, rl *ratelimit.RateLimiter, want map[string]ratelimit.Pool) {
	t.Helper()
	if got := slices.Collect(rl.Pools()); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("the pools are %q, want %q", got, slices.Sorted(maps.Keys(want)))
	}
	for name, pool := range want {
		got, ok := rl.Pool(name)
		if !ok || got.Quota != pool.Quota || !slices.Equal(got.Models, pool.Models) {
			t.Errorf("pool %q is %+v, %t, want %+v", name, got, ok, pool)
		}
	}
	for name := range rl.Models() {
		if strings.HasPrefix(name, "\x1f") {
			t.Errorf("the model %q", name)
		}
	}
}

func TestPoolsAreSaved(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			cfg := poolsConfig(t, backend)
			with := cfg
			with.Pools = somePools
			rl := limitertest.With(t, with)
			for range 2 {
				rl.RecordUsage("m", 3, 4)
			}
			r, d := rl.Reserve("other", 5, 6)
			if !d.Allowed {
				t.Fatal(d)
			}
			r.Commit(5, 6)
			for range 2 { // what was loaded is saved again
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
				want := rl.PoolStats("org")
				rl.Close()
				rl = limitertest.With(t, cfg)
				if err := rl.Load(); err != nil {
					t.Fatal(err)
				}
				wantPools(t, rl, somePools)
				if got := rl.PoolStats("org"); got.RPM != 3 || got.TPD != want.TPD || got.TPM != 25 || !got.DayStart.Equal(want.DayStart) {
					t.Errorf("org has %+v, had %+v", got, want)
				}
				if got := rl.PoolStats("a b*"); got.RPM != 2 || got.TPM != 14 {
					t.Errorf("a b* has %+v", got)
				}
				if got := rl.PoolsOf("m"); !slices.Equal(got, []string{"a b*", "org"}) {
					t.Errorf("m is in %q", got)
				}
			}
			rl.RemovePool("org")
			rl.SetPool("a b*", ratelimit.Pool{Models: []string{"n"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}})
			if err := errors.Join(rl.Load(), rl.Persist(), rl.Close()); err != nil {
				t.Fatal(err)
			}
			rl = limitertest.With(t, cfg)
			defer rl.Close()
			if err := rl.Load(); err != nil {
				t.Fatal(err)
			}
			left := maps.Clone(somePools)
			delete(left, "org")
			left["a b*"] = ratelimit.Pool{Models: []string{"n"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}}
			wantPools(t, rl, left)
			if _, ok := rl.Pool("org"); ok || rl.PoolStats("org") != (ratelimit.ModelStats{}) {
				t.Error("a removed pool came back")
			}
		})
	}
}

// The program's pools win over those of a file, and those of a file over profiles.
func TestPoolsOfProgramWinOverFile(t *testing.T) {
	for _, backend := range backends {
		cfg := poolsConfig(t, backend)
		cfg.Pools = map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}}}
		rl := limitertest.With(t, cfg)
		if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
			t.Fatal(err)
		}
		cfg.Pools = map[string]ratelimit.Pool{"p": {Models: []string{"n"}, Quota: ratelimit.ModelQuota{MaxRPM: 2}}}
		rl = limitertest.With(t, cfg)
		if err := rl.Load(); err != nil {
			t.Fatal(err)
		}
		wantPools(t, rl, cfg.Pools)
		rl.Close()
	}
}

// AutoPersist saves pools and their usage by itself.
func TestPoolsAutoPersist(t *testing.T) {
	for _, backend := range backends {
		cfg := poolsConfig(t, backend)
		cfg.AutoPersist = ratelimit.AutoPersist{Delay: time.Hour}
		rl := limitertest.With(t, cfg)
		rl.SetPool("p", somePools["org"])
		rl.RecordUsage("m", 1, 2)
		if err := rl.Close(); err != nil {
			t.Fatal(err)
		}
		rl = limitertest.With(t, cfg)
		if s := rl.PoolStats("p"); s.RPM != 1 || s.TPD != 3 || s.MaxRPM != 10 {
			t.Errorf("%s: %+v", backend, s)
		}
		rl.Close()
	}
}

// A pool whose quota is invalid is not saved, as no Load would accept it.
func TestInvalidPoolIsNotSaved(t *testing.T) {
	for _, backend := range backends {
		cfg := poolsConfig(t, backend)
		rl := limitertest.With(t, cfg)
		rl.SetPool("bad", ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: -1}})
		if d := rl.Decide("m", 1); d.Allowed || d.Code != ratelimit.DecisionInvalidQuota || d.Pool != "bad" || !d.Never {
			t.Errorf("the decision is %+v", d)
		}
		if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
			t.Fatal(err)
		}
		rl = limitertest.With(t, cfg)
		if err := rl.Load(); err != nil {
			t.Fatal(err)
		}
		wantPools(t, rl, nil)
		rl.Close()
	}
}

// A YAML file without pools is as it was before there were any.
func TestYAMLOfPools(t *testing.T) {
	cfg := poolsConfig(t, "yaml")
	read := func() string {
		text, err := os.ReadFile(cfg.FilePath)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rl := limitertest.With(t, cfg)
	rl.Persist()
	without := read()
	rl.SetPool("org", somePools["org"])
	rl.RecordUsage("m", 1, 2)
	rl.CooldownFor("m", time.Minute, ratelimit.CauseCaller)
	rl.Persist()
	with := read()
	if strings.Contains(without, "pool") || !strings.Contains(with, "pools:\n    org:\n        models:\n            - \"*\"\n        max_rpm: 10\n") ||
		!strings.Contains(with, "\npool_state:\n    org:\n") || strings.Contains(with, "x1f") {
		t.Errorf("without pools:\n%s\nwith one:\n%s", without, with)
	}
	rl.RemovePool("org")
	rl.Reset("")
	rl.Persist()
	if got := read(); got != without {
		t.Errorf("after the pool:\n%s", got)
	}
}

func TestYAMLOfPoolsIsChecked(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"pools:\n  p: {models: [m], max_rpm: 3}\n", ""},
		{"pools:\n  p:\n    max_rpm: 3\n", ""},
		{"pools:\n  p: {models: m}\n", "pools.p.models"},
		{"pools:\n  p: {models: [1]}\n", "pools.p.models[0]"},
		{"pools:\n  p: {max_rpm: -1}\n", "pools.p.max_rpm"},
		{"pools: [p]\n", "pools"},
		{"pools:\n  p: {max_rpm: 1}\n  p: {max_rpm: 1}\n", "pools.p"},
		{"pool_state:\n  p: {requests: x}\n", "pool_state.p.requests"},
	} {
		cfg := poolsConfig(t, "yaml")
		if err := os.WriteFile(cfg.FilePath, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		rl := limitertest.With(t, cfg)
		err := rl.Load()
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, ratelimit.ErrCorruptState) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s%v, want %q", tt.text, err, tt.want)
		}
	}
}

// A model of a file that is named as a pool inside is still a model.
func TestFileNamesNoPoolByAModel(t *testing.T) {
	cfg := poolsConfig(t, "yaml")
	cfg.Pools = map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxRPM: 5}}}
	text := "quotas:\n  \"\\x1fpool:p\": {max_rpm: 1}\nstate:\n  \"\\x1fpool:p\": {day_start: 2026-01-01T00:00:00Z, day_count: 3}\n"
	if err := os.WriteFile(cfg.FilePath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	rl := limitertest.With(t, cfg)
	if err := rl.Load(); err != nil {
		t.Fatal(err)
	}
	if p, _ := rl.Pool("p"); p.Quota.MaxRPM != 5 {
		t.Errorf("the pool is %+v", p)
	}
	if s := rl.PoolStats("p"); s.RPD != 0 {
		t.Errorf("it has %+v", s)
	}
}

// ReadConfig reads pools, and names what is wrong with them.
func TestReadConfigOfPools(t *testing.T) {
	cfg, err := ratelimit.ReadConfig(strings.NewReader("pools:\n  org:\n    models: ['*']\n    quota: {max_rpm: 60, burst: 10s}\n"))
	want := map[string]ratelimit.Pool{"org": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 60, Burst: 10 * time.Second}}}
	if err != nil || !reflect.DeepEqual(cfg.Pools, want) {
		t.Errorf("%+v, %v", cfg.Pools, err)
	}
	for _, tt := range []struct{ text, want string }{
		{"pools:\n  org: {quota: {max_rpm: -1}}\n", `pool "org": MaxRPM (max_rpm) is -1`},
		{"pools:\n  org: {quota: {day_zone: Nowhere}}\n", `pool "org": DayZone`},
		{"pools:\n  org: {model: [m]}\n", "model"},
		{"pools:\n  '': {models: [m]}\n", "Pools"},
		{"pools:\n  org: {models: m}\n", "models"},
	} {
		if _, err := ratelimit.ReadConfig(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s%v, want %s", tt.text, err, tt.want)
		}
	}
	if got, err := json.Marshal(want["org"]); err != nil || string(got) != `{"models":["*"],"quota":{"max_rpm":60,"burst":"10s"}}` {
		t.Errorf("as JSON %s", got)
	}
	_, err = ratelimit.NewWithConfig(ratelimit.Config{Pools: map[string]ratelimit.Pool{"p": {Models: []string{"\xff"}}}})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", "\xff")) {
		t.Errorf("a name that is no text: %v", err)
	}
}
