//go:build !nosqlite && unix

// Inspect: a shared quota that is looked at without a part in it.

package ratelimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/money"
)

// timeless returns a value as JSON has it, without what depends on the moment.
func timeless(t *testing.T, v any) (is any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	if err != nil {
		t.Fatal(err)
	}
	drop(is)
	return is
}

func drop(v any) {
	switch v := v.(type) {
	case []any:
		for _, of := range v {
			drop(of)
		}
	case map[string]any:
		for key, of := range v {
			switch key {
			case "at", "room_at", "until", "waited", "oldest_open", "retry_after", "day_start", "cooldown_until":
				delete(v, key)
			}
			drop(of)
		}
	}
}

// What Inspect tells is what a limiter tells that has a part in the quota, but for the moment.
func TestInspectAgrees(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	cfg := ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{
			"slots": {MaxRPM: 10, MaxInFlight: 1}, "budget": {MaxTPM: 1000, MaxTPD: 5000, MaxSpendPerDay: money.Dollar},
			"*": {MaxRPM: 3}, "searched": {AdaptiveFloorRPM: 5, AdaptiveCeilingRPM: 50},
		},
		Pools:   map[string]ratelimit.Pool{"all": {Models: []string{"slots", "budget"}, Quota: ratelimit.ModelQuota{MaxRPM: 20}}},
		Classes: map[string]ratelimit.Class{"chat": {Weight: 3}},
		Prices:  map[string]money.Price{"budget": {Input: money.Dollar, Output: money.Dollar}},
		Aliases: map[string]string{"short": "slots"},
		Margin:  250 * time.Millisecond,
	}
	rl := openFile(t, path, cfg)
	other := openFile(t, path, cfg)
	defer limitertest.Reserve(t, rl, "slots", 10, 20).Cancel()
	limitertest.Reserve(t, rl, "budget", 100, 20).Commit(90, 10)
	defer limitertest.Reserve(t, other, "budget", 100, 20).Cancel()
	other.RecordUsage("covered", 5, 5)
	other.CooldownFor("covered", time.Hour, ratelimit.CauseOverloaded)
	ctx, cancel := context.WithCancel(ratelimit.WithClass(t.Context(), "chat"))
	var waiters sync.WaitGroup
	waiters.Go(func() { other.Acquire(ctx, "short", 7, 8) })
	defer waiters.Wait()
	defer cancel()
	for rl.Explain("slots").Waiting == 0 {
		time.Sleep(time.Millisecond)
	}

	cfg.FilePath = path
	is, err := ratelimit.Inspect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range is.Models {
		names = append(names, e.Model)
		if got, want := timeless(t, e), timeless(t, rl.Explain(e.Model)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: Inspect tells\n%v\nand Explain\n%v", e.Model, got, want)
		}
	}
	if want := "[budget covered searched slots]"; fmt.Sprint(names) != want {
		t.Errorf("models %v, want %s", names, want)
	}
	pool, _ := rl.ExplainPool("all")
	if got, want := timeless(t, is.Pools), timeless(t, []ratelimit.PoolState{pool}); !reflect.DeepEqual(got, want) {
		t.Errorf("Inspect tells\n%v\nand ExplainPool\n%v", got, want)
	}
	var parts []string
	for _, p := range is.Processes {
		if ago := time.Since(p.HeardAt); ago < -time.Second || ago > time.Minute {
			t.Errorf("process %s was heard %v ago", p.ID, ago)
		}
		parts = append(parts, fmt.Sprint(p.InFlight, p.Tokens, p.Waiting))
	}
	if want := "[map[slots:1] map[slots:30] map[] map[budget:1] map[budget:120] map[slots:1]]"; fmt.Sprint(parts) != want {
		t.Errorf("parts %v, want %s", parts, want)
	}
	is, err = ratelimit.Inspect(t.Context(), cfg, "short", "unheard")
	if err != nil || len(is.Models) != 2 || is.Models[0].Counted != "slots" || is.Models[0].InFlight != 1 || is.Models[1].Quota != "*" {
		t.Errorf("%+v, error %v", is, err)
	}
}

func TestInspectFails(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CORE_HOME", home)
	for _, tt := range []struct {
		cfg  ratelimit.Config
		want string
	}{
		{ratelimit.Config{}, filepath.Join(home, ".core", "ratelimits.db")},
		{ratelimit.Config{Margin: -1}, "Margin"},
		{ratelimit.Config{Store: fakestore.New()}, "cannot be looked at"},
		{ratelimit.Config{FilePath: "\x00"}, "path"},
	} {
		is, err := ratelimit.Inspect(t.Context(), tt.cfg)
		if err == nil || !strings.HasPrefix(err.Error(), "inspect: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v, error %v, want %q", is, err, tt.want)
		}
	}
	if left, err := os.ReadDir(home); len(left) > 0 || err != nil {
		t.Errorf("made %v, error %v", left, err)
	}
	t.Setenv("CORE_HOME", "")
	t.Setenv("HOME", "")
	t.Setenv("USERPROFILE", "")
	if _, err := ratelimit.Inspect(t.Context(), ratelimit.Config{}); err == nil || strings.Contains(err.Error(), fs.ErrNotExist.Error()) {
		t.Errorf("without a home folder: %v", err)
	}
}
