// YAML files that were cut off.

package persist

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
	"dappco.re/go/core/go-ratelimit/money"
)

// yamlFull persists a limiter with something in every section, and returns it with the file.
func yamlFull(t *testing.T) (rl *ratelimit.RateLimiter, path, whole string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.yaml")
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: path, Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 150, MaxSpendPerDay: money.USD(9)}, "\xff": {}},
		Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxTPD: 1_000_000}}},
		Prices: map[string]money.Price{"m": {Input: money.USD(1), Output: money.USD(2)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rl.SetAccountQuotas(map[string]ratelimit.ModelQuota{"account": {MaxTPM: 5}})
	for i := range 3 {
		rl.RecordUsage("m", i, 2)
		rl.RecordUsage("n", 0, i)
	}
	rl.Cooldown("n", time.Now().Add(time.Hour))
	rl.ObserveAnswer("m", ratelimit.Usage{PromptTokens: 2}, ratelimit.Usage{PromptTokens: 3, OutputTokens: 4})
	limitertest.Save(t, rl)
	return rl, path, statefile.Read(t, path)
}

// Of a file that Persist wrote, no beginning loads, at whichever line it ends: a constructor with
// AutoPersist fails, and what Persist writes all the same leaves the beginning aside.
func TestYAMLCutFileIsRefused(t *testing.T) {
	t.Parallel()
	_, path, whole := yamlFull(t)
	kept := 0
	for n := range len(whole) {
		// Every byte is the turn of a test in internal/yamlfile, which is faster.
		if n > 0 && n < len(whole)-1 && whole[n-1] != '\n' && whole[n] != '\n' {
			continue
		}
		cut := whole[:n]
		if err := os.WriteFile(path, []byte(cut), 0o600); err != nil {
			t.Fatal(err)
		}
		rl := limitertest.YAML(t, path)
		rl.RecordUsage("before", 1, 2)
		if err := rl.Load(); !errors.Is(err, ratelimit.ErrCorruptState) || rl.Stats("before").TPM != 3 || len(rl.Quotas) != 0 {
			t.Fatalf("cut after %d of %d bytes: Load = %v, with %v and\n%s", n, len(whole), err, rl.Quotas, limitertest.Text(rl.State))
		}
		auto, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: path, AutoPersist: ratelimit.AutoPersist{Delay: time.Hour}})
		if !errors.Is(err, ratelimit.ErrCorruptState) {
			auto.Close()
			t.Fatalf("cut after %d bytes: a constructor with AutoPersist returns %v", n, err)
		}
		if err := ratelimit.MigrateYAMLToSQLite(path, path+".db"); !errors.Is(err, ratelimit.ErrCorruptState) && !errors.Is(err, ratelimit.ErrNoSQLite) {
			t.Fatalf("cut after %d bytes: MigrateYAMLToSQLite = %v", n, err)
		}
		if got := statefile.Read(t, path); got != cut {
			t.Fatalf("cut after %d bytes: the file is %q", n, got)
		}
		limitertest.Save(t, rl)
		kept++
		aside := statefile.Litter(t, path)
		if len(aside) != kept || !strings.HasPrefix(aside[kept-1], "state.yaml.corrupt-") ||
			statefile.Read(t, filepath.Join(filepath.Dir(path), aside[kept-1])) != cut {
			t.Fatalf("cut after %d bytes: beside the file lies %q", n, aside)
		}
		again := limitertest.YAML(t, path)
		limitertest.Load(t, again)
		if again.Stats("before").TPM != 3 {
			t.Fatalf("cut after %d bytes: persisted anew\n%s", n, limitertest.Text(again.State))
		}
	}
}
