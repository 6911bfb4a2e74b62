// Every field, through both backends.

package ratelimit

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// fieldsLimiter returns a limiter without quotas of its own on a file.
func fieldsLimiter(t testing.TB, backend, path string) *RateLimiter {
	t.Helper()
	rl, err := NewWithConfig(Config{Backend: backend, FilePath: path, Providers: []Provider{ProviderLocal}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

// contents is what a limiter stores.
type contents struct {
	quotas    map[string]ModelQuota
	state     map[string]*UsageStats
	cooldowns map[string]state.Cooldown
}

// fieldsSample is a snapshot with every field set, in one of its models.
func fieldsSample(now time.Time) *contents {
	at := now.Add(-time.Second).Round(0)
	return &contents{
		quotas: map[string]ModelQuota{
			"full": {MaxRPM: 1, MaxTPM: 2, MaxRPD: 3, MaxITPM: 4, MaxOTPM: 5, MaxTPD: 6, MaxInFlight: 7, DayZone: "America/Los_Angeles", Burst: 90 * time.Second,
				AdaptiveFloorRPM: 8, AdaptiveCeilingRPM: 9, AdaptiveFloorInFlight: 10, AdaptiveCeilingInFlight: 11},
			"old": {MaxRPM: 1, MaxTPM: 2, MaxRPD: 3},
			"odd": {DayZone: "Etc/GMT+5"},
		},
		state: map[string]*UsageStats{
			"full": {
				Requests: []time.Time{at, at},
				Tokens:   []TokenEntry{{Time: at, Count: 100, Input: 70}, {Time: at, Count: 5}, {Time: at, Count: 8, Input: 8}},
				DayStart: at, DayCount: 2, DayTokens: 113,
			},
			"old":     {Requests: []time.Time{at}, Tokens: []TokenEntry{{Time: at, Count: 1}}, DayStart: at, DayCount: 1},
			"largest": {Tokens: []TokenEntry{{Time: at, Count: math.MaxInt, Input: math.MaxInt}}, DayStart: at, DayCount: 1, DayTokens: math.MaxInt},
		},
		cooldowns: map[string]state.Cooldown{
			"full":     {Until: now.Add(time.Hour).Round(0), Cause: "daily_quota"},
			"not used": {Until: now.Add(time.Minute + 1).Round(0), Cause: "caller"},
		},
	}
}

// take puts a snapshot into a limiter, as a program and its calls would.
func (rl *RateLimiter) take(s *contents) {
	rl.Quotas, rl.State = s.quotas, s.state
	rl.setCooldowns(s.cooldowns)
}

func (rl *RateLimiter) content() *contents { return &contents{rl.Quotas, rl.State, rl.cooldowns()} }

// cooldowns returns all cooldowns that are not over.
func (rl *RateLimiter) cooldowns() map[string]state.Cooldown {
	return (&saving{rl: rl}).walk(func() {}, func(*account.Account, account.Now) {}).Cooldowns
}

// setCooldowns replaces all cooldowns.
func (rl *RateLimiter) setCooldowns(cooldowns map[string]state.Cooldown) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now := rl.nowLocked()
	for a := range rl.engine.Accounts {
		a.Cool(0, "")
	}
	for model, c := range cooldowns {
		rl.engine.LoadCooldown(model, clock.UnixNano(c.Until), c.Cause, now)
	}
}

// The file is what yaml.Marshal writes of the exported types, but for the quotes of odd names.
func TestYAMLIsWhatMarshalWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		rl := fieldsLimiter(t, "yaml", path)
		s := fieldsSample(time.Now())
		delete(s.state, "largest")
		rl.take(s)
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		type cooldown struct {
			Until time.Time `yaml:"until"`
			Cause string    `yaml:"cause,omitempty"`
		}
		content := struct {
			Quotas    map[string]ModelQuota  `yaml:"quotas"`
			State     map[string]*UsageStats `yaml:"state"`
			Cooldowns map[string]cooldown    `yaml:"cooldowns"`
		}{s.quotas, s.state, map[string]cooldown{}}
		for model, c := range s.cooldowns {
			content.Cooldowns[model] = cooldown{c.Until.UTC(), strings.TrimPrefix(c.Cause, "caller")}
		}
		for _, stats := range s.state {
			stats.DayStart = stats.DayStart.UTC()
			for i := range stats.Requests {
				stats.Requests[i] = stats.Requests[i].UTC()
			}
			for i := range stats.Tokens {
				stats.Tokens[i].Time = stats.Tokens[i].Time.UTC()
			}
		}
		want, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if yamlSections(got) != strings.Replace(string(want), "not used", `"not used"`, 1) {
			t.Errorf("wrote\n%s\nwant\n%s", got, want)
		}
	})
}

// yamlSections returns a file without its first line and its last one, which are comments.
func yamlSections(file []byte) string {
	return regexp.MustCompile(`\A#.*\n|#.*\n\z`).ReplaceAllString(string(file), "")
}

// fieldsBackends are run by the tests of what both backends do alike.
var fieldsBackends = []string{"yaml"}

func init() {
	if sqlitestate.Enabled {
		fieldsBackends = append(fieldsBackends, "sqlite")
	}
}

func TestEveryFieldIsPersisted(t *testing.T) {
	for _, backend := range fieldsBackends {
		t.Run(backend, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			rl := fieldsLimiter(t, backend, path)
			rl.take(fieldsSample(time.Now()))
			for range 2 {
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
			}
			again := fieldsLimiter(t, backend, path)
			if err := again.Load(); err != nil {
				t.Fatal(err)
			}
			if diff := rl.content().differs(again.content()); diff != "" {
				t.Errorf("%s\n%+v\n%+v", diff, rl.content(), again.content())
			}
		})
	}
}

func TestCooldownsArePersisted(t *testing.T) {
	caused := func(n float64, cause string) state.Cooldown {
		return state.Cooldown{Until: time.Now().Add(time.Duration(n * float64(time.Hour))), Cause: cause}
	}
	hour := func(n float64) state.Cooldown { return caused(n, "caller") }
	nanosecond := func(c state.Cooldown) state.Cooldown { c.Until = c.Until.Add(1); return c }
	far := state.Cooldown{Until: time.Date(23_456, 1, 1, 0, 0, 0, 0, time.UTC), Cause: "caller"}
	type cooldowns = map[string]state.Cooldown
	tests := []struct {
		name                string
		before, after, want func() cooldowns // in the file; in memory at Load; in memory after it
	}{
		{"none", func() cooldowns { return nil }, func() cooldowns { return nil }, func() cooldowns { return nil }},
		{"one", func() cooldowns { return cooldowns{"m": hour(1)} }, func() cooldowns { return nil }, func() cooldowns { return cooldowns{"m": hour(1)} }},
		{"over ones go", func() cooldowns { return cooldowns{"m": hour(0), "n": hour(-1), "o": {}} }, func() cooldowns { return nil }, func() cooldowns { return nil }},
		{"the file has none", func() cooldowns { return nil }, func() cooldowns { return cooldowns{"m": hour(1)} }, func() cooldowns { return cooldowns{"m": hour(1)} }},
		{"the file has a later one", func() cooldowns { return cooldowns{"m": hour(2)} }, func() cooldowns { return cooldowns{"m": hour(1)} }, func() cooldowns { return cooldowns{"m": hour(2)} }},
		{"memory has a later one", func() cooldowns { return cooldowns{"m": hour(1)} }, func() cooldowns { return cooldowns{"m": hour(2)} }, func() cooldowns { return cooldowns{"m": hour(2)} }},
		{"each model apart", func() cooldowns { return cooldowns{"m": hour(1), "n": hour(2), "o": hour(3)} },
			func() cooldowns { return cooldowns{"m": hour(2), "n": hour(1), "p": hour(4)} },
			func() cooldowns { return cooldowns{"m": hour(2), "n": hour(2), "o": hour(3), "p": hour(4)} }},
		{"odd names", func() cooldowns { return cooldowns{"": hour(1), "a\x00b": hour(1), "\xff": hour(1)} }, func() cooldowns { return nil },
			func() cooldowns { return cooldowns{"": hour(1), "a\x00b": hour(1), "\xff": hour(1)} }},
		{"causes", func() cooldowns {
			return cooldowns{"m": caused(1, "daily_quota"), "n": caused(1, "rate_limited"), "o": caused(1, "overloaded"), "p": caused(1, "on"), "q": caused(1, "007")}
		}, func() cooldowns { return nil }, func() cooldowns {
			return cooldowns{"m": caused(1, "daily_quota"), "n": caused(1, "rate_limited"), "o": caused(1, "overloaded"), "p": caused(1, "on"), "q": caused(1, "007")}
		}},
		{"the later one has its cause", func() cooldowns { return cooldowns{"m": caused(2, "daily_quota"), "n": caused(1, "daily_quota")} },
			func() cooldowns { return cooldowns{"m": caused(1, "overloaded"), "n": caused(2, "overloaded")} },
			func() cooldowns { return cooldowns{"m": caused(2, "daily_quota"), "n": caused(2, "overloaded")} }},
		{"of two with one end the first stays", func() cooldowns { return cooldowns{"m": caused(1, "daily_quota")} },
			func() cooldowns { return cooldowns{"m": caused(1, "overloaded")} }, func() cooldowns { return cooldowns{"m": caused(1, "overloaded")} }},
		{"no cause", func() cooldowns { return cooldowns{"m": caused(1, ""), "n": caused(1, "Ünknown")} },
			func() cooldowns { return nil }, func() cooldowns { return cooldowns{"m": hour(1), "n": hour(1)} }},
		{"to the nanosecond", func() cooldowns { return cooldowns{"m": nanosecond(hour(1))} }, func() cooldowns { return nil }, func() cooldowns { return cooldowns{"m": nanosecond(hour(1))} }},
		{"memory knows more years than a file", func() cooldowns { return cooldowns{"m": far} }, func() cooldowns { return cooldowns{"m": far} }, func() cooldowns { return cooldowns{"m": far} }},
	}
	for _, tt := range tests {
		for _, backend := range fieldsBackends {
			t.Run(tt.name+", "+backend, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "state")
					writer, reader := fieldsLimiter(t, backend, path), fieldsLimiter(t, backend, path)
					writer.setCooldowns(tt.before())
					reader.setCooldowns(tt.after())
					if err := writer.Persist(); err != nil {
						t.Fatal(err)
					}
					if err := reader.Load(); err != nil {
						t.Fatal(err)
					}
					if want := tt.want(); !maps.EqualFunc(reader.cooldowns(), want, state.Cooldown.Same) {
						t.Errorf("cooldowns %v, want %v", reader.cooldowns(), want)
					}
				})
			})
		}
	}
}

// A cooldown ends at the last instant of int64 nanoseconds at the latest. So it does where a file
// has a later one, as those of before had.
func TestCooldownsOfFarYears(t *testing.T) {
	last := time.Unix(0, math.MaxInt64)
	for _, backend := range fieldsBackends {
		for _, until := range []time.Time{last.Add(-1), last, last.Add(1), time.Date(23_456, 1, 1, 0, 0, 0, 0, time.UTC)} {
			want := until
			if want.After(last) {
				want = last
			}
			path := filepath.Join(t.TempDir(), "state")
			writer, reader := fieldsLimiter(t, backend, path), fieldsLimiter(t, backend, path)
			writer.Cooldown("m", until)
			if got := writer.Stats("m").CooldownUntil; !got.Equal(want) {
				t.Errorf("%s: a cooldown until %v is shown to end at %v", backend, until, got)
			}
			if err := errors.Join(writer.Persist(), reader.Load()); err != nil {
				t.Fatal(err)
			}
			if got := reader.Stats("m").CooldownUntil; !got.Equal(want) {
				t.Errorf("%s: a cooldown until %v is loaded as one until %v", backend, until, got)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "state")
	rl := fieldsLimiter(t, "yaml", path)
	if err := os.WriteFile(path, []byte("cooldowns:\n  m:\n    until: 9999-12-31T23:59:59.999999999Z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rl.Load(); err != nil {
		t.Fatal(err)
	}
	if got := rl.Stats("m").CooldownUntil; !got.Equal(last) {
		t.Errorf("a cooldown of the year 9999 is loaded as one until %v", got)
	}
}

// Cooldowns come and go while others persist and load.
func TestCooldownsDuringPersistAndLoad(t *testing.T) {
	for _, backend := range fieldsBackends {
		path := filepath.Join(t.TempDir(), "state")
		rl := fieldsLimiter(t, backend, path)
		until := time.Now().Add(time.Hour)
		var other sync.WaitGroup
		other.Go(func() {
			for i := range 20_000 {
				rl.Cooldown(fmt.Sprint("m", i%100), until.Add(time.Duration(i)))
				rl.Reset(fmt.Sprint("m", (i+50)%100))
			}
		})
		for range 5 {
			if err := errors.Join(rl.Persist(), rl.Load()); err != nil {
				t.Fatal(err)
			}
		}
		other.Wait()
		want := len(rl.cooldowns())
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		again := fieldsLimiter(t, backend, path)
		if err := again.Load(); err != nil || len(again.cooldowns()) != want {
			t.Errorf("%s: %v, %d cooldowns stored, want %d", backend, err, len(again.cooldowns()), want)
		}
	}
}
