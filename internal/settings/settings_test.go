// Backends by name, default paths, and what is out of range.

package settings_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/settings"
)

func TestParseBackend(t *testing.T) {
	for name, want := range map[string]settings.Backend{
		"": settings.YAML, "yaml": settings.YAML, " YAML\t": settings.YAML, "SQLite": settings.SQLite,
	} {
		if got, err := settings.ParseBackend(name); got != want || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	const want = `unknown backend: "Redis ", want "yaml" or "sqlite"`
	if got, err := settings.ParseBackend("Redis "); got != "" || err == nil || err.Error() != want {
		t.Errorf("got %q, %v, want %s", got, err, want)
	}
}

func TestDefaultPath(t *testing.T) {
	homes := []string{"CORE_HOME", "HOME", "USERPROFILE"}
	for _, env := range homes {
		t.Setenv(env, env)
	}
	for _, env := range homes {
		for backend, name := range map[settings.Backend]string{
			settings.YAML: "ratelimits.yaml", settings.SQLite: "ratelimits.db",
		} {
			if got, err := backend.DefaultPath(); got != filepath.Join(env, ".core", name) || err != nil {
				t.Errorf("%s, first of the set variables %s: %q, %v", backend, env, got, err)
			}
		}
		t.Setenv(env, "")
	}
	if got, err := settings.YAML.DefaultPath(); err == nil || !strings.Contains(err.Error(), "CORE_HOME") {
		t.Errorf("without a home folder: %q, %v", got, err)
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		options settings.Options
		want    string // "" for none
	}{
		{settings.Options{}, ""},
		{settings.Options{
			Margin: 24 * time.Hour, HoldTTL: 1, MaxQueue: 1, MaxModels: 1, LeaseTTL: 1, Durability: "power",
			AutoPersist: settings.AutoPersist{Delay: time.Second, MaxWait: time.Second},
		}, ""},
		{settings.Options{Durability: "process", AutoPersist: settings.AutoPersist{MaxWait: 1}}, ""},
		{settings.Options{Margin: -time.Second}, "Margin is -1s, want 0 to 24h"},
		{settings.Options{Margin: 24*time.Hour + 1}, "Margin is 24h0m0.000000001s, want 0 to 24h"},
		{settings.Options{Margin: math.MaxInt64}, "Margin is 2562047h47m16.854775807s, want 0 to 24h"},
		{settings.Options{HoldTTL: -1, MaxQueue: -2}, "HoldTTL is -1, want 0 or more"},
		{settings.Options{MaxQueue: -2}, "MaxQueue is -2, want 0 or more"},
		{settings.Options{MaxModels: -3}, "MaxModels is -3, want 0 or more"},
		{settings.Options{LeaseTTL: -4}, "LeaseTTL is -4, want 0 or more"},
		{settings.Options{Durability: "disk"}, `Durability is "disk", want "process" or "power"`},
		{settings.Options{AutoPersist: settings.AutoPersist{Delay: -1}}, "AutoPersist.Delay is -1ns, want 0 or more"},
		{settings.Options{AutoPersist: settings.AutoPersist{MaxWait: -1}}, "AutoPersist.MaxWait is -1ns, want 0 or more"},
		{
			settings.Options{AutoPersist: settings.AutoPersist{Delay: time.Second, MaxWait: time.Millisecond}},
			"AutoPersist.MaxWait is 1ms, want 0 or at least Delay, which is 1s",
		},
	} {
		err := tt.options.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
			t.Errorf("%+v: %v, want %s", tt.options, err, tt.want)
		}
	}
}
