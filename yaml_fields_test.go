// Every field, through both backends, and YAML files of any bytes.

package ratelimit

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

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

// FuzzLoadYAML loads arbitrary files: either the error is short and wraps
// ErrCorruptState and the limiter stays as it was, or what was loaded is stored
// and loaded again as it is.
func FuzzLoadYAML(f *testing.F) {
	for _, seed := range loadSeeds {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "state.yaml")
	open := func(t *testing.T) *RateLimiter {
		rl, err := NewWithConfig(Config{FilePath: path, Providers: []Provider{ProviderLocal}})
		if err != nil {
			t.Fatal(err)
		}
		return rl
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		rl := open(t)
		rl.RecordUsage("before", 1, 1)
		before := rl.State
		if err := rl.Load(); err != nil {
			text := err.Error()
			if !errors.Is(err, ErrCorruptState) || len(text) > 1024 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x00\u202e") {
				t.Errorf("Load = %q", text)
			}
			if len(rl.Quotas) != 0 || len(rl.State) != 1 || rl.State["before"] != before["before"] {
				t.Errorf("the limiter changed")
			}
			return
		}
		loaded := rl.content()
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		again := open(t)
		if err := again.Load(); err != nil {
			t.Fatal(err)
		}
		stored := again.content()
		if diff := loaded.differs(stored); diff != "" {
			t.Errorf("%s after Persist and Load", diff)
		}
		if got, want := poolsAndSpend(again), poolsAndSpend(rl); got != want {
			t.Errorf("after Persist and Load\n%s\nwant\n%s", got, want)
		}
	})
}

// poolsAndSpend returns the pools of a limiter and what counts of the spend, as text.
func poolsAndSpend(rl *RateLimiter) string {
	var text strings.Builder
	for name := range rl.Pools() {
		p, _ := rl.Pool(name)
		stats := rl.PoolStats(name)
		fmt.Fprintf(&text, "%q %q %+v %v %v\n", name, p.Models, p.Quota, stats.RPD, stats.SpendMonth)
	}
	all := (&saving{rl: rl}).walk(func() {}, func(*account.Account, account.Now) {}).Spend
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%q %+v\n", name, all[name])
	}
	return text.String()
}

// loadSeeds are files of every layout, good and bad.
var loadSeeds = []string{
	"",
	"quotas:\n  m:\n    max_rpm: 150\n    max_tpm: 1000000\n    max_rpd: 1000\nstate:\n  m:\n    requests:\n      - 2026-02-20T14:32:01.123456789Z\n" +
		"    tokens:\n      - time: 2026-02-20T14:32:01.123456789Z\n        count: 1500\n    day_start: 2026-02-20T00:00:00Z\n    day_count: 42\n",
	"quotas: {}\nstate:\n    m:\n        requests: []\n        tokens: []\n        day_start: 0001-01-01T00:00:00Z\n        day_count: 0\n",
	"state:\n m:\n  requests:\n  - 2026-02-20T14:32:01Z\n  - 2026-02-20T14:32:01+05:30\n  tokens:\n  - time: 9999-12-31T23:59:59Z\n    count: 0\n",
	"# comment\nquotas:\r\n  \"a\\nb\":\r\n    max_rpm: 1\r\n  !!binary \"/w==\":\n    max_rpd: 7\n  ? long\n  :\n    max_tpm: 3\n\n",
	`{"quotas":{"m":{"max_rpm":1,"max_tpm":2,"max_rpd":3}},"state":{"m":{"requests":["2026-01-01T00:00:00Z"],"tokens":[{"time":"2026-01-01T00:00:00Z","count":5}]}}}`,
	"quotas: {m: {max_rpm: -1}}", "quotas: {m: {max_rpm: 1.5}}", "quotas: {m: {max_rpm: 1, max_rpm: 1}}", "state: {m: {day_count: 99999999999999999999}}",
	"a: &a [*a]\n", "<<: {}\n", "quotas: !!map {}\n", "---\n---\n", "...\n", "%YAML 1.1\n---\nquotas:\n", "? a\n: b\n", "- - - a\n", "[[[[[]]]]]", "{{{}}}",
	"unknown: |\n  text\n\n  more\nquotas: ~\n", "state: {m: {requests: [2026-01-01, 2026-1-1 0:0:0, \"2026-01-01T00:00:00Z\"]}}\n", "\ufeffquotas:\n", "quotas:\u2028  m: {}\n",
	"quotas:\n\n  # a\n  m: # b\n    # c\n    max_rpm: 1 # d\n# e\n", "'a': 'b''c'\n\"d\": \"\\u0041\\x41\"\n", "a: >-\n  b\n  c\n", "quotas:\n  m:\n    max_rpm: 1\n   # odd\n  n: {}\n",
	"# A state file of go-ratelimit, cut off unless it ends with the line \"# end of state\".\nquotas: {}\nstate:\n  m:\n    day_count: 1\n# end of state\n",
	"# A state file of go-ratelimit, cut off unless it ends with the line \"# end of state\".\nquotas: {}\n", "# A state", "# end of state\n",
	"#\rquotas:\nstate:\n", "quotas:\n  2026-01-01T00:00:00Z:\n    max_rpm: 0\n  1:2:3:\n    max_rpm: 0\n",
	"quotas:\n  m:\n    max_rpm: 1\n    max_itpm: 2\n    max_otpm: 3\n    max_tpd: 4\n    max_in_flight: 5\n    day_zone: America/Los_Angeles\n" +
		"state:\n  m:\n    requests: []\n    tokens:\n      - time: 2026-02-20T14:32:01Z\n        count: 9\n        input: 7\n" +
		"      - time: 2026-02-20T14:32:01Z\n        count: 9\n    day_count: 1\n    day_tokens: 9\ncooldowns:\n  m:\n    until: 9999-12-31T23:59:59.5Z\n",
	"quotas:\n  m:\n    day_zone: \"UTC\"\n  n:\n    day_zone: \"\"\n  o:\n    day_zone: Etc/GMT+5\ncooldowns: {}\n",
	"cooldowns:\n  m:\n    until: 9999-12-31T23:59:59Z\n    cause: daily_quota\n  n:\n    until: 9999-12-31T23:59:59Z\n    cause: \"on\"\n  o:\n    cause: [1]\n",
	"quotas: {m: {day_zone: 'Asia/Kolkata', max_itpm: 1}}\ncooldowns: {m: {until: \"9999-12-31T23:59:59-05:00\", why: 429}, n: {}, o: ~}\n",
	"quotas:\n  m:\n    adaptive_floor_rpm: 1\n    adaptive_ceiling_rpm: 2\n", "quotas: {m: {adaptive_floor_in_flight: 2, adaptive_ceiling_in_flight: 1}}",
	"found:\n  m:\n    rate_level: 1152921504606846976\n    slots_streak: 2\n    at: -5\n    told: 1\n  n:\n    at: 0\n", "found: {m: {rate_level: -1}}",
	"quotas:\n  m:\n    burst: 10s\n  n:\n    burst: 1m0s\n", "quotas: {m: {burst: 1.5s}, n: {burst: 0}, o: {burst: \"2h\"}}", "quotas: {m: {burst: -1s}}", "quotas: {m: {burst: 10}}",
	"quotas:\n  m:\n    day_zone: Mars/Base\n", "quotas:\n  m:\n    day_zone: UTC #\n", "quotas:\n  m:\n    day_zone: no\n", "quotas: {m: {day_zone: [UTC]}}",
	"state:\n  m:\n    tokens:\n    - time: 2026-02-20T14:32:01Z\n      count: 1\n      input: 2\n", "state: {m: {tokens: [{input: 1}]}}",
	"cooldowns:\n  m:\n    until: 9999-01-01T00:00:00Z\n    until: 9999-01-01T00:00:00Z\n", "cooldowns:\n  m:\n    until: soon\n", "cooldowns:\ncooldowns:\n",
	"quotas:\n  m:\n    max_rpm: 0\n    max_spend_per_day: $0.005\n    max_spend_per_month: 12\n", "quotas: {m: {max_spend_per_day: -1}}", "quotas: {m: {max_spend_per_month: 1e3}}",
	"spend:\n  m:\n    day: $0.00003\n    day_begin: 2026-02-20T00:00:00Z\n    day_end: 2026-02-21T00:00:00Z\n    month: $12.50\n" +
		"    month_begin: 2026-02-01T00:00:00Z\n    month_end: 2026-03-01T00:00:00Z\n  \"\\x1fother\":\n    month: 5\n    month_begin: 9999-12-01T00:00:00Z\n    month_end: 9999-12-31T00:00:00Z\n",
	"spend: {m: {day: -5, day_begin: 2026-01-01, day_end: 2026-01-02}}", "spend: {m: {day: 5, day_begin: 2026-01-03, day_end: 2026-01-02}}", "spend: {m: {month: 1, month: 2}}", "spend:\nspend:\n",
	"pools:\n  p:\n    models:\n      - m\n      - \"*\"\n    max_rpm: 5\n    max_spend_per_month: $2.00\n  q:\n    models: []\npool_state:\n  p:\n    requests:\n      - 2026-02-20T14:32:01Z\n" +
		"    tokens:\n      - time: 2026-02-20T14:32:01Z\n        count: 9\n        input: 7\n    day_start: 2026-02-20T00:00:00Z\n    day_count: 1\n" +
		"pool_spend:\n  p:\n    month: $2.00\n    month_begin: 9999-12-01T00:00:00Z\n    month_end: 9999-12-31T00:00:00Z\n",
	"pools: {p: {models: [m, !!binary /w==]}}", "pools: {p: {models: [~]}}", "pools: {p: {models: m}}", "pools: {\"\": {models: [m]}}", "pools: {p: {}, p: {}}", "pool_state: {p: {day_count: -1}}", "pool_found: {p: {at: 1}}\npool_origins: {p: 5}\n",
	"quotas: {\"\\x1fpool:p\": {max_rpm: 1}}\nstate: {\"\\x1fpool:p\": {day_count: 1}}\nspend: {\"\\x1fpool:p\": {month: 1}}\n",
}

// differs names what is not the same in two snapshots. Times that a file cannot
// express are the zero time.
func (s *contents) differs(other *contents) string {
	same := func(a, b time.Time) bool { return inYAML(a).Equal(inYAML(b)) }
	switch {
	case !maps.Equal(s.quotas, other.quotas):
		return "quotas differ"
	case len(s.state) != len(other.state):
		return "models differ"
	}
	for model, a := range s.state {
		b := other.state[model]
		switch {
		case b == nil:
			return "a model is missing"
		case !slices.EqualFunc(a.Requests, b.Requests, same):
			return "requests differ"
		case !slices.EqualFunc(a.Tokens, b.Tokens, func(a, b TokenEntry) bool {
			return same(a.Time, b.Time) && a.Count == b.Count && a.Input == b.Input
		}):
			return "tokens differ"
		case !same(a.DayStart, b.DayStart) || a.DayCount != b.DayCount || a.DayTokens != b.DayTokens:
			return "days differ"
		}
	}
	if !maps.EqualFunc(s.cooldowns, other.cooldowns, func(a, b state.Cooldown) bool {
		return inFile(a.Until).Equal(inFile(b.Until)) && a.Cause == b.Cause
	}) {
		return "cooldowns differ"
	}
	return ""
}

func inYAML(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return time.Time{}
	}
	return t
}

// inFile returns a time as a file can express it.
func inFile(t time.Time) time.Time {
	if t.UTC().Year() > 9999 {
		return time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	}
	return t
}
