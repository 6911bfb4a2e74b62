// YAML files: layouts, and whose quota counts.

package persist

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// A file that the YAML library wrote loads like one of Persist.
func TestYAMLOfTheLibraryLoads(t *testing.T) {
	now := time.Now()
	stats := &ratelimit.UsageStats{DayStart: now.Add(-time.Hour), DayCount: 2_000}
	for i := range 2_000 {
		at := now.Add(time.Duration(i-2_001) * time.Millisecond)
		stats.Requests = append(stats.Requests, at)
		stats.Tokens = append(stats.Tokens, ratelimit.TokenEntry{Time: at, Count: i})
	}
	content := map[string]any{"quotas": yamlQuotas{"m": {MaxRPM: 5}, "n": {}}, "state": yamlState{"m": stats, "n": {}}}
	data, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	rl := limitertest.YAML(t, statefile.Write(t, string(data)))
	limitertest.Load(t, rl)
	if got, want := limitertest.Text(rl.State), limitertest.Text(content["state"].(yamlState)); got != want {
		t.Errorf("state =\n%swant\n%s", got, want)
	}
	if !reflect.DeepEqual(rl.Quotas, content["quotas"]) {
		t.Errorf("quotas = %v", rl.Quotas)
	}
}

func TestYAMLLoadReplacesUsage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := limitertest.YAML(t, path)
	rl.RecordUsage("kept", 1, 0)
	limitertest.Save(t, rl)
	want := limitertest.Text(rl.State)
	rl.RecordUsage("kept", 2, 0)
	rl.RecordUsage("later", 3, 0)
	limitertest.Load(t, rl)
	if got := limitertest.Text(rl.State); got != want {
		t.Errorf("state =\n%swant\n%s", got, want)
	}
}

func TestYAMLMissingFileChangesNothing(t *testing.T) {
	tests := map[string]func(t *testing.T) string{
		"no file":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "state.yaml") },
		"no folder": func(t *testing.T) string { return filepath.Join(t.TempDir(), "a", "b", "state.yaml") },
		"a dangling symlink": func(t *testing.T) string {
			return statefile.Symlink(t, filepath.Join(t.TempDir(), "none", "state.yaml"))
		},
	}
	for name, path := range tests {
		t.Run(name, func(t *testing.T) {
			path := path(t)
			rl := limitertest.YAML(t, path)
			rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 1})
			rl.RecordUsage("m", 1, 0)
			want := limitertest.Text(rl.State)
			limitertest.Load(t, rl)
			if got := limitertest.Text(rl.State); got != want || rl.CanSend("m", 1) {
				t.Errorf("state =\n%swant\n%s", got, want)
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("Load made a file")
			}
		})
	}
}

func TestYAMLQuotaPrecedence(t *testing.T) {
	const file = "quotas:\n  gpt-4o:\n    max_rpm: 7\n"
	const changed = "quotas:\n  gpt-4o:\n    max_rpm: 9\n"
	inFile, inChanged := ratelimit.ModelQuota{MaxRPM: 7}, ratelimit.ModelQuota{MaxRPM: 9}
	said := ratelimit.ModelQuota{MaxTPM: 3}
	inProfile := ratelimit.DefaultProfiles()[ratelimit.ProviderOpenAI].Models["gpt-4o"]
	openAI := ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI}}
	config := ratelimit.Config{Quotas: yamlQuotas{"gpt-4o": said}}
	load := func(t *testing.T, rl *ratelimit.RateLimiter, _ string) { limitertest.Load(t, rl) }
	loadOther := func(content string) func(*testing.T, *ratelimit.RateLimiter, string) {
		return func(t *testing.T, rl *ratelimit.RateLimiter, path string) {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			limitertest.Load(t, rl)
		}
	}
	do := func(f func(rl *ratelimit.RateLimiter)) func(*testing.T, *ratelimit.RateLimiter, string) {
		return func(_ *testing.T, rl *ratelimit.RateLimiter, _ string) { f(rl) }
	}
	setQuota := do(func(rl *ratelimit.RateLimiter) { rl.SetQuota("gpt-4o", said) })
	addProvider := do(func(rl *ratelimit.RateLimiter) { rl.AddProvider(ratelimit.ProviderOpenAI) })
	type steps = []func(*testing.T, *ratelimit.RateLimiter, string)

	tests := []struct {
		name  string
		cfg   ratelimit.Config
		steps steps
		want  ratelimit.ModelQuota
	}{
		{"nobody but the file says it", ratelimit.Config{}, steps{load}, inFile},
		{"the file wins over a profile", openAI, steps{load}, inFile},
		{"the file wins over AddProvider", ratelimit.Config{}, steps{addProvider, load}, inFile},
		{"AddProvider after Load replaces the file's", ratelimit.Config{}, steps{load, addProvider}, inProfile},
		{"and the next Load takes the file's again", ratelimit.Config{}, steps{load, addProvider, load}, inFile},
		{"Config.Quotas wins over the file", config, steps{load}, said},
		{"Config.Quotas wins over the file at every Load", config, steps{load, loadOther(changed)}, said},
		{"Config.Quotas that says unlimited wins too", ratelimit.Config{Quotas: yamlQuotas{"gpt-4o": {}}}, steps{load}, ratelimit.ModelQuota{}},
		{"Config.Quotas wins over profile and file",
			ratelimit.Config{Providers: openAI.Providers, Quotas: config.Quotas}, steps{load}, said},
		{"SetQuota before Load wins", openAI, steps{setQuota, load}, said},
		{"SetQuota after Load wins", openAI, steps{load, setQuota}, said},
		{"SetQuota between two Loads wins", openAI, steps{load, setQuota, loadOther(changed)}, said},
		{"a quota written into the map wins", openAI,
			steps{do(func(rl *ratelimit.RateLimiter) { rl.Quotas["gpt-4o"] = said }), load}, said},
		{"a map of the program's own wins", openAI,
			steps{do(func(rl *ratelimit.RateLimiter) { rl.Quotas = yamlQuotas{"gpt-4o": said} }), load}, said},
		{"a quota deleted from the map comes back from the file", openAI,
			steps{do(func(rl *ratelimit.RateLimiter) { delete(rl.Quotas, "gpt-4o") }), load}, inFile},
		{"a second Load takes what changed in the file", openAI, steps{load, loadOther(changed)}, inChanged},
		{"a model that left the file keeps its quota", openAI, steps{load, loadOther("state: {}\n")}, inFile},
		{"a file without the model changes nothing", openAI, steps{loadOther("quotas: {}\n")}, inProfile},
		{"a missing file changes nothing", openAI,
			steps{func(t *testing.T, rl *ratelimit.RateLimiter, path string) { os.Remove(path); limitertest.Load(t, rl) }}, inProfile},
		{"a file that cannot be read changes nothing", openAI,
			steps{func(t *testing.T, rl *ratelimit.RateLimiter, path string) {
				os.WriteFile(path, []byte(changed+"    max_tpm: -1\n"), 0o600)
				if rl.Load() == nil {
					t.Error("it loads")
				}
			}}, inProfile},
		{"Persist changes nothing", config,
			steps{do(func(rl *ratelimit.RateLimiter) { rl.Persist() }), load}, said},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.cfg.FilePath = statefile.Write(t, file)
			rl, err := ratelimit.NewWithConfig(test.cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range test.steps {
				step(t, rl, test.cfg.FilePath)
			}
			if got := rl.Quotas["gpt-4o"]; got != test.want {
				t.Errorf("quota = %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestYAMLLeavesInvalidQuotasOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := limitertest.YAML(t, path)
	rl.SetQuota("good", ratelimit.ModelQuota{MaxRPM: 1})
	rl.SetQuota("bad", ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: -1})
	limitertest.Save(t, rl)
	again := limitertest.YAML(t, path)
	limitertest.Load(t, again)
	if want := (yamlQuotas{"good": {MaxRPM: 1}}); !reflect.DeepEqual(again.Quotas, want) {
		t.Errorf("quotas = %v, want %v", again.Quotas, want)
	}
}
