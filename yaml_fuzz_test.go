// YAML files of any bytes.

package ratelimit

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

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
