// Config: what is refused, where the state file lies, that constructors do not load.

package ratelimit_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func TestBadConfig(t *testing.T) {
	tests := []struct {
		name string
		cfg  ratelimit.Config
		is   error
		says []string
	}{
		{"unknown backend", ratelimit.Config{Backend: "redis"}, nil, []string{"redis", "yaml", "sqlite"}},
		{"negative margin", ratelimit.Config{Margin: -time.Second}, nil, []string{"Margin", "-1s"}},
		{"margin too large", ratelimit.Config{Margin: 1 << 62}, nil, []string{"Margin"}},
		{"the largest margin", ratelimit.Config{Margin: 1<<63 - 1}, nil, []string{"Margin", "24h"}},
		{"negative requests per minute", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt": {MaxRPM: -5}}}, ratelimit.ErrInvalidQuota, []string{"gpt", "MaxRPM", "-5"}},
		{"negative tokens per minute", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt": {MaxTPM: -6}}}, ratelimit.ErrInvalidQuota, []string{"gpt", "MaxTPM", "-6"}},
		{"negative requests per day", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt": {MaxRPD: -7}}}, ratelimit.ErrInvalidQuota, []string{"gpt", "MaxRPD", "-7"}},
	}
	for _, tt := range tests {
		for _, backend := range backends {
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
			if strings.HasSuffix(tt.want, ".db") {
				needSQLite(t)
			}
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

// A limiter that never persists leaves nothing in the home folder.
func TestConstructorWritesNothing(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CORE_HOME", home)
	rl, err := ratelimit.New()
	if err != nil {
		t.Fatal(err)
	}
	rl.RecordUsage("gemini-2.5-pro", 1, 1)
	if err := errors.Join(rl.Load(), rl.Close()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(home)
	if err != nil || len(entries) > 0 {
		t.Errorf("the home folder has %v (%v), want nothing", entries, err)
	}
}

func TestConstructorsDoNotLoad(t *testing.T) {
	for _, backend := range backends {
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
