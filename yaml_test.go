package ratelimit_test

import (
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gopkg.in/yaml.v3"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/racetest"
)

type (
	yamlQuotas = map[string]ratelimit.ModelQuota
	yamlState  = map[string]*ratelimit.UsageStats
)

// yamlLimiter returns a limiter without quotas that keeps its state in path.
func yamlLimiter(t testing.TB, path string) *ratelimit.RateLimiter {
	t.Helper()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: path, Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// yamlWrite writes a file into a folder of its own and returns its path.
func yamlWrite(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func yamlRead(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func yamlPersist(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
}

func yamlLoad(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	if err := rl.Load(); err != nil {
		t.Fatal(err)
	}
}

// yamlText shows a state, with times in UTC and without what is not exported.
func yamlText(state yamlState) string {
	var b strings.Builder
	for _, model := range slices.Sorted(maps.Keys(state)) {
		stats := state[model]
		if stats == nil {
			fmt.Fprintf(&b, "%q nil\n", model)
			continue
		}
		fmt.Fprintf(&b, "%q day %s %d\n", model, yamlTime(stats.DayStart), stats.DayCount)
		for _, at := range stats.Requests {
			fmt.Fprintf(&b, "\trequest %s\n", yamlTime(at))
		}
		for _, e := range stats.Tokens {
			fmt.Fprintf(&b, "\ttokens %s %d\n", yamlTime(e.Time), e.Count)
		}
	}
	return b.String()
}

func yamlTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// yamlLitter lists what is in the folder of path beside path.
func yamlLitter(t testing.TB, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != filepath.Base(path) {
			names = append(names, entry.Name())
		}
	}
	return names
}

// yamlSample is the sample of the documentation.
const yamlSample = `quotas:
  gemini-3-pro-preview:
    max_rpm: 150
    max_tpm: 1000000
    max_rpd: 1000
state:
  gemini-3-pro-preview:
    requests:
      - 2026-02-20T14:32:01.123456789Z
    tokens:
      - time: 2026-02-20T14:32:01.123456789Z
        count: 1500
    day_start: 2026-02-20T00:00:00Z
    day_count: 42
`

// yamlIndented is the sample with another indentation of maps and of lists.
func yamlIndented(step, list int) string {
	s := func(n int) string { return strings.Repeat(" ", n) }
	return strings.NewReplacer("\n        count", "\n"+s(2*step+list)+"  count", "\n      - ", "\n"+s(2*step+list)+"- ",
		"\n    ", "\n"+s(2*step), "\n  gem", "\n"+s(step)+"gem").Replace(yamlSample)
}

func TestYAMLSampleLoadsInEveryLayout(t *testing.T) {
	tests := map[string]string{
		"2 spaces":                             yamlSample,
		"4 spaces":                             yamlIndented(4, 4),
		"1 space":                              yamlIndented(1, 1),
		"lists not indented":                   yamlIndented(2, 0),
		"odd indents":                          yamlIndented(3, 7),
		"CRLF":                                 strings.ReplaceAll(yamlSample, "\n", "\r\n"),
		"CR":                                   strings.ReplaceAll(yamlSample, "\n", "\r"),
		"no newline at the end":                strings.TrimSuffix(yamlSample, "\n"),
		"empty lines":                          strings.ReplaceAll(yamlSample, "\n", "\n\n   \n"),
		"comments":                             "# head\n" + strings.ReplaceAll(yamlSample, "\n", " # naïve\n  # state:\n"),
		"comment lines":                        strings.ReplaceAll(yamlSample, "\n", "\n# state:\n"),
		"a comment with an old Mac's line end": "# hidden\rquotas: {gemini-3-pro-preview: {max_rpm: 150, max_tpm: 1000000, max_rpd: 1000}}\n" + yamlSample[strings.Index(yamlSample, "state:"):],
		"byte order mark":                      "\ufeff" + yamlSample,
		"document marks":                       "---\n" + yamlSample + "...\n",
		"YAML directive":                       "%YAML 1.1\n---\n" + yamlSample,
		"flow style": `{quotas: {gemini-3-pro-preview: {max_rpm: 150, max_tpm: 1000000, max_rpd: 1000}},
			state: {gemini-3-pro-preview: {requests: [2026-02-20T14:32:01.123456789Z],
			tokens: [{time: 2026-02-20T14:32:01.123456789Z, count: 1500}], day_start: 2026-02-20T00:00:00Z, day_count: 42}}}`,
		"JSON": `{"quotas":{"gemini-3-pro-preview":{"max_rpm":150,"max_tpm":1000000,"max_rpd":1000}},"state":{"gemini-3-pro-preview":` +
			`{"requests":["2026-02-20T14:32:01.123456789Z"],"tokens":[{"time":"2026-02-20T14:32:01.123456789Z","count":1500}],` +
			`"day_start":"2026-02-20T00:00:00Z","day_count":42}}}`,
		"quoted keys and times": strings.NewReplacer("gemini-3-pro-preview", `"gemini-3-pro-preview"`,
			"2026-02-20T14:32:01.123456789Z", `'2026-02-20T14:32:01.123456789Z'`, "max_rpm", `"max_rpm"`).Replace(yamlSample),
		"times of another zone": strings.ReplaceAll(yamlSample, "2026-02-20T14:32:01.123456789Z", "2026-02-20T23:32:01.123456789+09:00"),
		"the state first":       yamlSample[strings.Index(yamlSample, "state:"):] + yamlSample[:strings.Index(yamlSample, "state:")],
		"other order of fields": strings.NewReplacer("max_rpm: 150\n    max_tpm: 1000000", "max_tpm: 1000000\n    max_rpm: 150",
			"time: 2026-02-20T14:32:01.123456789Z\n        count: 1500", "count: 1500\n        time: 2026-02-20T14:32:01.123456789Z").Replace(yamlSample),
		"unknown keys": "version: 2\n" + strings.NewReplacer("max_rpd: 1000\n", "max_rpd: 1000\n    max_speed: [1.5, {a: -1}]\n",
			"count: 1500\n", "count: 1500\n        kind: prompt\n", "day_count: 42\n", "day_count: 42\n    note: |\n      state:\n").Replace(yamlSample),
		"integers with a plus": strings.ReplaceAll(yamlSample, "150\n", "+150\n"),
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			rl := yamlLimiter(t, yamlWrite(t, content))
			yamlLoad(t, rl)
			wantQuotas := yamlQuotas{"gemini-3-pro-preview": {MaxRPM: 150, MaxTPM: 1_000_000, MaxRPD: 1_000}}
			if !reflect.DeepEqual(rl.Quotas, wantQuotas) {
				t.Errorf("quotas = %v, want %v", rl.Quotas, wantQuotas)
			}
			want := "\"gemini-3-pro-preview\" day 2026-02-20T00:00:00Z 42\n" +
				"\trequest 2026-02-20T14:32:01.123456789Z\n\ttokens 2026-02-20T14:32:01.123456789Z 1500\n"
			if got := yamlText(rl.State); got != want {
				t.Errorf("state =\n%swant\n%s", got, want)
			}
		})
	}
}

// What is missing is zero, and null is empty.
func TestYAMLPartialFilesLoad(t *testing.T) {
	tests := []struct{ name, content, state string }{
		{"an empty file", "", ""},
		{"nothing but a comment", "# nothing\n", ""},
		{"null", "null\n", ""},
		{"an empty map", "{}\n", ""},
		{"empty sections", "quotas:\nstate:\n", ""},
		{"null sections", "quotas: ~\nstate: null\n", ""},
		{"only unknown keys", "a: [1]\n", ""},
		{"a model without anything", "state:\n  m:\n", "\"m\" day 0001-01-01T00:00:00Z 0\n"},
		{"null lists", "state: {m: {requests: , tokens: ~, day_count: 3}}\n", "\"m\" day 0001-01-01T00:00:00Z 3\n"},
		{"a token entry without a count", "state: {m: {tokens: [{time: 2026-01-01T00:00:00Z}]}}\n",
			"\"m\" day 0001-01-01T00:00:00Z 0\n\ttokens 2026-01-01T00:00:00Z 0\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rl := yamlLimiter(t, yamlWrite(t, test.content))
			rl.RecordUsage("before", 1, 1)
			yamlLoad(t, rl)
			if got := yamlText(rl.State); got != test.state || len(rl.Quotas) != 0 {
				t.Errorf("loaded %v and\n%swant\n%s", rl.Quotas, got, test.state)
			}
		})
	}
}

// yamlNames are model names that YAML would read as something else if they were
// written as they are.
var yamlNames = []string{
	"gemini-2.5-pro", "llama3:8b", "org/model@2026-01-01", "a+b_c", "",
	"null", "Null", "NULL", "~", "true", "FALSE", "yes", "No", "on", "OFF", "y", "N",
	"123", "-1", "+1", "1e3", "0x10", "0o7", "1_000", ".5", ".inf", "-.INF", ".nan", "12:30:45", "2026-02-20", "2026-02-20T14:32:01Z",
	"<<", "=", "-", "- a", "--- ", "---", "...", "?", "? a", ":", ": a", "a: b", "a:", "a :b", ":a", "#", "#a", "a #b", "a#b",
	"[a]", "{a}", "a, b", "&a", "*a", "!a", "!!str a", "|", ">", "%YAML", "@a", "`a", "'", "''", `"`, `""`, `\`, `\n`, `a"b`, `a\`,
	" ", " a", "a ", "a  b", "\t", "\n", "a\nb", "a\n\nb\n", "\r\n", "a\x00b", "\x01\x1b\x7f", "\u0085", "\u00a0", "\u2028", "\u2029", "\ufeff", "\ufffd", "\ufffe", "\uffff",
	"модель", "模型-1", "🤖", "e\u0301", "\u202eabc", "\U0010ffff",
	"\xff", "a\xc3", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80",
	"quotas", "state", "max_rpm", "requests",
	strings.Repeat("x", 127), strings.Repeat("n", 999), strings.Repeat("n", 1000), strings.Repeat("n", 1001), strings.Repeat("n", 1024),
	strings.Repeat("x", 2000), strings.Repeat("é", 1000), strings.Repeat("\xfe", 2000), strings.Repeat(" ", 2000), strings.Repeat("a: ", 700),
}

func TestYAMLKeepsEveryModelName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := yamlLimiter(t, path)
	want := make(yamlQuotas)
	for i, name := range yamlNames {
		want[name] = ratelimit.ModelQuota{MaxRPM: i + 1}
		rl.SetQuota(name, want[name])
		rl.RecordUsage(name, i, 0)
	}
	if len(want) != len(yamlNames) {
		t.Fatal("a name is there twice")
	}
	yamlPersist(t, rl)

	again := yamlLimiter(t, path)
	yamlLoad(t, again)
	if !reflect.DeepEqual(again.Quotas, want) {
		t.Errorf("quotas = %v", again.Quotas)
	}
	if got, want := yamlText(again.State), yamlText(rl.State); got != want {
		t.Errorf("state =\n%swant\n%s", got, want)
	}

	// Another reader sees the same.
	var other struct {
		Quotas yamlQuotas
		State  yamlState
	}
	if err := yaml.Unmarshal([]byte(yamlRead(t, path)), &other); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(other.Quotas, want) {
		t.Errorf("the YAML library reads the quotas %v", other.Quotas)
	}
	if got, want := yamlText(other.State), yamlText(rl.State); got != want {
		t.Errorf("the YAML library reads the state\n%swant\n%s", got, want)
	}
}

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
	rl := yamlLimiter(t, yamlWrite(t, string(data)))
	yamlLoad(t, rl)
	if got, want := yamlText(rl.State), yamlText(content["state"].(yamlState)); got != want {
		t.Errorf("state =\n%swant\n%s", got, want)
	}
	if !reflect.DeepEqual(rl.Quotas, content["quotas"]) {
		t.Errorf("quotas = %v", rl.Quotas)
	}
}

func TestYAMLKeepsUsage(t *testing.T) {
	// In the bubble it is midnight of 2000-01-01.
	type entry = ratelimit.TokenEntry
	zero := time.Time{}
	tests := []struct {
		name  string
		stats func(now time.Time) *ratelimit.UsageStats
		want  string // "" for no model at all
	}{
		{"an unused model", func(now time.Time) *ratelimit.UsageStats { return &ratelimit.UsageStats{} },
			"day 0001-01-01T00:00:00Z 0\n"},
		{"nil", func(now time.Time) *ratelimit.UsageStats { return nil }, ""},
		{"every nanosecond", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{
				Requests: []time.Time{now.Add(-1e9 + 1), now.Add(-5e8), now.Add(-1e9 + 999_999_999), now.Add(-1)},
				Tokens:   []entry{{Time: now.Add(-123_456_789), Count: 7}},
				DayStart: now.Add(-1), DayCount: 1,
			}
		}, "day 1999-12-31T23:59:59.999999999Z 1\n\trequest 1999-12-31T23:59:59.000000001Z\n\trequest 1999-12-31T23:59:59.5Z\n" +
			"\trequest 1999-12-31T23:59:59.999999999Z\n\trequest 1999-12-31T23:59:59.999999999Z\n\ttokens 1999-12-31T23:59:59.876543211Z 7\n"},
		{"times without a monotonic reading and of other zones", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{
				Requests: []time.Time{now.Add(-2).Round(0), now.Add(-1).In(time.FixedZone("", -12*3600+1))},
				Tokens:   []entry{{Time: now.UTC(), Count: 1}, {Time: now.Round(0), Count: 2}},
				DayStart: now.In(time.FixedZone("", 14*3600)),
			}
		}, "day 2000-01-01T00:00:00Z 0\n\trequest 1999-12-31T23:59:59.999999998Z\n\trequest 1999-12-31T23:59:59.999999999Z\n" +
			"\ttokens 2000-01-01T00:00:00Z 1\n\ttokens 2000-01-01T00:00:00Z 2\n"},
		{"entries in disorder", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{Requests: []time.Time{now, now.Add(-3e9), now.Add(-1e9)}}
		}, "day 0001-01-01T00:00:00Z 0\n\trequest 1999-12-31T23:59:57Z\n\trequest 1999-12-31T23:59:59Z\n\trequest 2000-01-01T00:00:00Z\n"},
		{"the largest counts", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{Tokens: []entry{{Time: now, Count: math.MaxInt}}, DayCount: math.MaxInt}
		}, fmt.Sprintf("day 0001-01-01T00:00:00Z %d\n\ttokens 2000-01-01T00:00:00Z %[1]d\n", math.MaxInt)},
		{"negative counts are none", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{Tokens: []entry{{Time: now, Count: -1}, {Time: now, Count: math.MinInt}}, DayCount: -5}
		}, "day 0001-01-01T00:00:00Z 0\n\ttokens 2000-01-01T00:00:00Z 0\n\ttokens 2000-01-01T00:00:00Z 0\n"},
		{"long past times", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{
				Requests: []time.Time{zero, time.Date(0, 1, 1, 0, 0, 0, 5, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 5, time.UTC), time.Unix(0, 0)},
				DayStart: time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), DayCount: 9,
			}
		}, "day 1500-01-01T00:00:00Z 9\n\trequest 0001-01-01T00:00:00Z\n\trequest 0000-01-01T00:00:00.000000005Z\n" +
			"\trequest 0001-01-01T00:00:00.000000005Z\n\trequest 1970-01-01T00:00:00Z\n"},
		{"times that RFC 3339 has no words for are long past", func(now time.Time) *ratelimit.UsageStats {
			bc := time.Date(-1, 1, 1, 0, 0, 0, 5, time.UTC)
			return &ratelimit.UsageStats{Requests: []time.Time{bc, bc.AddDate(-1e6, 0, 0), now}, DayStart: bc}
		}, "day 0001-01-01T00:00:00Z 0\n\trequest 0001-01-01T00:00:00Z\n\trequest 0001-01-01T00:00:00Z\n\trequest 2000-01-01T00:00:00Z\n"},
		{"times from the future are now", func(now time.Time) *ratelimit.UsageStats {
			return &ratelimit.UsageStats{
				Requests: []time.Time{now.Add(1), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
				Tokens:   []entry{{Time: time.Date(400_000, 1, 1, 0, 0, 0, 0, time.UTC), Count: 3}, {Time: now.Add(time.Hour), Count: -3}},
				DayStart: now.AddDate(300, 0, 0), DayCount: 2,
			}
		}, "day 2000-01-01T00:00:00Z 2\n\trequest 2000-01-01T00:00:00Z\n\trequest 2000-01-01T00:00:00Z\n" +
			"\ttokens 2000-01-01T00:00:00Z 3\n\ttokens 2000-01-01T00:00:00Z 0\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state.yaml")
				rl := yamlLimiter(t, path)
				rl.State = yamlState{"m": test.stats(time.Now())}
				yamlPersist(t, rl)
				again := yamlLimiter(t, path)
				yamlLoad(t, again)
				want := test.want
				if want != "" {
					want = `"m" ` + want
				}
				if got := yamlText(again.State); got != want {
					t.Errorf("state =\n%swant\n%s", got, want)
				}
				first := yamlRead(t, path)
				yamlPersist(t, again)
				if second := yamlRead(t, path); second != first && test.name != "entries in disorder" {
					t.Errorf("persisted again as\n%safter\n%s", second, first)
				}
			})
		})
	}
}

func TestYAMLLoadedUsageCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		quota := ratelimit.ModelQuota{MaxRPM: 2, MaxTPM: 100, MaxRPD: 10}
		rl := yamlLimiter(t, path)
		rl.SetQuota("m", quota)
		rl.RecordUsage("m", 20, 10)
		time.Sleep(20 * time.Second)
		rl.RecordUsage("m", 20, 10)
		yamlPersist(t, rl)
		time.Sleep(10 * time.Second)

		again := yamlLimiter(t, path)
		yamlLoad(t, again)
		if got, want := again.Stats("m"), rl.Stats("m"); !got.DayStart.Equal(want.DayStart) || got.RPM != 2 || got.TPM != 60 || got.RPD != 2 {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
		got := again.Decide("m", 1)
		if got.Code != ratelimit.DecisionRPMLimit || got.RetryAfter != 30*time.Second+1 {
			t.Errorf("Decide = %+v", got)
		}
		time.Sleep(got.RetryAfter)
		if !again.CanSend("m", 70) || again.CanSend("m", 71) {
			t.Error("a loaded entry leaves the window like one recorded here")
		}
	})
}

func TestYAMLLoadReplacesUsage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := yamlLimiter(t, path)
	rl.RecordUsage("kept", 1, 0)
	yamlPersist(t, rl)
	want := yamlText(rl.State)
	rl.RecordUsage("kept", 2, 0)
	rl.RecordUsage("later", 3, 0)
	yamlLoad(t, rl)
	if got := yamlText(rl.State); got != want {
		t.Errorf("state =\n%swant\n%s", got, want)
	}
}

func TestYAMLMissingFileChangesNothing(t *testing.T) {
	tests := map[string]func(t *testing.T) string{
		"no file":            func(t *testing.T) string { return filepath.Join(t.TempDir(), "state.yaml") },
		"no folder":          func(t *testing.T) string { return filepath.Join(t.TempDir(), "a", "b", "state.yaml") },
		"a dangling symlink": func(t *testing.T) string { return yamlSymlink(t, filepath.Join(t.TempDir(), "none", "state.yaml")) },
	}
	for name, path := range tests {
		t.Run(name, func(t *testing.T) {
			path := path(t)
			rl := yamlLimiter(t, path)
			rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 1})
			rl.RecordUsage("m", 1, 0)
			want := yamlText(rl.State)
			yamlLoad(t, rl)
			if got := yamlText(rl.State); got != want || rl.CanSend("m", 1) {
				t.Errorf("state =\n%swant\n%s", got, want)
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("Load made a file")
			}
		})
	}
}

func yamlSymlink(t testing.TB, to string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(to, path); err != nil {
		t.Skip(err)
	}
	return path
}

func TestYAMLQuotaPrecedence(t *testing.T) {
	const file = "quotas:\n  gpt-4o:\n    max_rpm: 7\n"
	const changed = "quotas:\n  gpt-4o:\n    max_rpm: 9\n"
	inFile, inChanged := ratelimit.ModelQuota{MaxRPM: 7}, ratelimit.ModelQuota{MaxRPM: 9}
	said := ratelimit.ModelQuota{MaxTPM: 3}
	inProfile := ratelimit.DefaultProfiles()[ratelimit.ProviderOpenAI].Models["gpt-4o"]
	openAI := ratelimit.Config{Providers: []ratelimit.Provider{ratelimit.ProviderOpenAI}}
	config := ratelimit.Config{Quotas: yamlQuotas{"gpt-4o": said}}
	load := func(t *testing.T, rl *ratelimit.RateLimiter, _ string) { yamlLoad(t, rl) }
	loadOther := func(content string) func(*testing.T, *ratelimit.RateLimiter, string) {
		return func(t *testing.T, rl *ratelimit.RateLimiter, path string) {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			yamlLoad(t, rl)
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
			steps{func(t *testing.T, rl *ratelimit.RateLimiter, path string) { os.Remove(path); yamlLoad(t, rl) }}, inProfile},
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
			test.cfg.FilePath = yamlWrite(t, file)
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
	rl := yamlLimiter(t, path)
	rl.SetQuota("good", ratelimit.ModelQuota{MaxRPM: 1})
	rl.SetQuota("bad", ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: -1})
	yamlPersist(t, rl)
	again := yamlLimiter(t, path)
	yamlLoad(t, again)
	if want := (yamlQuotas{"good": {MaxRPM: 1}}); !reflect.DeepEqual(again.Quotas, want) {
		t.Errorf("quotas = %v, want %v", again.Quotas, want)
	}
}

// A million entries take the way through the file and back.
func TestYAMLMillionEntries(t *testing.T) {
	const entries = 1_000_000 / racetest.Factor
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := yamlLimiter(t, path)
	now := time.Now()
	stats := &ratelimit.UsageStats{DayStart: now.Add(-time.Minute).Round(0), DayCount: entries}
	for i := range entries {
		at := now.Add(time.Duration(i-entries) * 10 * time.Microsecond)
		stats.Requests = append(stats.Requests, at)
		stats.Tokens = append(stats.Tokens, ratelimit.TokenEntry{Time: at, Count: i})
	}
	rl.State = yamlState{"m": stats}
	yamlPersist(t, rl)
	again := yamlLimiter(t, path)
	yamlLoad(t, again)
	got := again.State["m"]
	if !slices.EqualFunc(got.Requests, stats.Requests, time.Time.Equal) {
		t.Error("requests differ")
	}
	if !slices.EqualFunc(got.Tokens, stats.Tokens, func(a, b ratelimit.TokenEntry) bool {
		return a.Time.Equal(b.Time) && a.Count == b.Count
	}) {
		t.Error("tokens differ")
	}
	if !got.DayStart.Equal(stats.DayStart) || got.DayCount != stats.DayCount {
		t.Errorf("day = %v %d, want %v %d", got.DayStart, got.DayCount, stats.DayStart, stats.DayCount)
	}
}

// A file larger than what is read in other layouts loads with comments in it.
func TestYAMLLargeFileMayHaveComments(t *testing.T) {
	var b strings.Builder
	b.WriteString("# by hand\nstate:\n  m:\n    requests:\n")
	for b.Len() < 2<<20 {
		b.WriteString("      - 2026-02-20T14:32:01.123456789Z\n  # another\n")
	}
	rl := yamlLimiter(t, yamlWrite(t, b.String()))
	yamlLoad(t, rl)
	if got, want := len(rl.State["m"].Requests), strings.Count(b.String(), "Z\n"); got != want {
		t.Errorf("%d requests, want %d", got, want)
	}
}

func TestYAMLConcurrentPersistNeverGoesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := yamlLimiter(t, path)
	yamlPersist(t, rl)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 12 {
				rl.RecordUsage("m", 1, 0)
				before := rl.Stats("m").RPD
				if err := rl.Persist(); err != nil {
					t.Error(err)
					return
				}
				again := yamlLimiter(t, path)
				if err := again.Load(); err != nil {
					t.Error(err)
					return
				}
				if got := again.State["m"].DayCount; got < before {
					t.Errorf("the file counts %d requests after Persist of %d", got, before)
				}
				if got := again.State["m"]; got.DayCount != len(got.Requests) || got.DayCount != len(got.Tokens) {
					t.Errorf("the file holds %d requests and %d token entries of %d", len(got.Requests), len(got.Tokens), got.DayCount)
				}
			}
		})
	}
	wg.Wait()
	if litter := yamlLitter(t, path); litter != nil {
		t.Errorf("left behind: %q", litter)
	}
}

func TestYAMLFilesAreTheOwnersAlone(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a", "b", "state.yaml")
	rl := yamlLimiter(t, path)
	if err := os.RemoveAll(filepath.Join(root, "a")); err != nil { // Persist makes the folders too
		t.Fatal(err)
	}
	yamlPersist(t, rl)
	for name, want := range map[string]fs.FileMode{"a": 0o700, "a/b": 0o700, "a/b/state.yaml": 0o600} {
		info, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want && os.PathSeparator == '/' {
			t.Errorf("%s has mode %v, want %v", name, got, want)
		}
	}
}
