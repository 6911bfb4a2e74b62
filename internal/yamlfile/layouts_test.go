package yamlfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// indented is the sample with another indentation of maps and of lists.
func indented(step, list int) string {
	s := func(n int) string { return strings.Repeat(" ", n) }
	return strings.NewReplacer("\n        count", "\n"+s(2*step+list)+"  count", "\n      - ", "\n"+s(2*step+list)+"- ",
		"\n    ", "\n"+s(2*step), "\n  gem", "\n"+s(step)+"gem").Replace(statefile.Sample)
}

func TestSampleLoadsInEveryLayout(t *testing.T) {
	tests := map[string]string{
		"2 spaces":                             statefile.Sample,
		"4 spaces":                             indented(4, 4),
		"1 space":                              indented(1, 1),
		"lists not indented":                   indented(2, 0),
		"odd indents":                          indented(3, 7),
		"CRLF":                                 strings.ReplaceAll(statefile.Sample, "\n", "\r\n"),
		"CR":                                   strings.ReplaceAll(statefile.Sample, "\n", "\r"),
		"no newline at the end":                strings.TrimSuffix(statefile.Sample, "\n"),
		"empty lines":                          strings.ReplaceAll(statefile.Sample, "\n", "\n\n   \n"),
		"comments":                             "# head\n" + strings.ReplaceAll(statefile.Sample, "\n", " # naïve\n  # state:\n"),
		"comment lines":                        strings.ReplaceAll(statefile.Sample, "\n", "\n# state:\n"),
		"a comment with an old Mac's line end": "# hidden\rquotas: {gemini-3-pro-preview: {max_rpm: 150, max_tpm: 1000000, max_rpd: 1000}}\n" + statefile.Sample[strings.Index(statefile.Sample, "state:"):],
		"byte order mark":                      "\ufeff" + statefile.Sample,
		"document marks":                       "---\n" + statefile.Sample + "...\n",
		"YAML directive":                       "%YAML 1.1\n---\n" + statefile.Sample,
		"flow style": `{quotas: {gemini-3-pro-preview: {max_rpm: 150, max_tpm: 1000000, max_rpd: 1000}},
			state: {gemini-3-pro-preview: {requests: [2026-02-20T14:32:01.123456789Z],
			tokens: [{time: 2026-02-20T14:32:01.123456789Z, count: 1500}], day_start: 2026-02-20T00:00:00Z, day_count: 42}}}`,
		"JSON": `{"quotas":{"gemini-3-pro-preview":{"max_rpm":150,"max_tpm":1000000,"max_rpd":1000}},"state":{"gemini-3-pro-preview":` +
			`{"requests":["2026-02-20T14:32:01.123456789Z"],"tokens":[{"time":"2026-02-20T14:32:01.123456789Z","count":1500}],` +
			`"day_start":"2026-02-20T00:00:00Z","day_count":42}}}`,
		"quoted keys and times": strings.NewReplacer("gemini-3-pro-preview", `"gemini-3-pro-preview"`,
			"2026-02-20T14:32:01.123456789Z", `'2026-02-20T14:32:01.123456789Z'`, "max_rpm", `"max_rpm"`).Replace(statefile.Sample),
		"times of another zone": strings.ReplaceAll(statefile.Sample, "2026-02-20T14:32:01.123456789Z", "2026-02-20T23:32:01.123456789+09:00"),
		"the state first":       statefile.Sample[strings.Index(statefile.Sample, "state:"):] + statefile.Sample[:strings.Index(statefile.Sample, "state:")],
		"other order of fields": strings.NewReplacer("max_rpm: 150\n    max_tpm: 1000000", "max_tpm: 1000000\n    max_rpm: 150",
			"time: 2026-02-20T14:32:01.123456789Z\n        count: 1500", "count: 1500\n        time: 2026-02-20T14:32:01.123456789Z").Replace(statefile.Sample),
		"unknown keys": "version: 2\n" + strings.NewReplacer("max_rpd: 1000\n", "max_rpd: 1000\n    max_speed: [1.5, {a: -1}]\n",
			"count: 1500\n", "count: 1500\n        kind: prompt\n", "day_count: 42\n", "day_count: 42\n    note: |\n      state:\n").Replace(statefile.Sample),
		"integers with a plus": strings.ReplaceAll(statefile.Sample, "150\n", "+150\n"),
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := DecodeState(strings.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			wantQuotas := map[string]state.Quota{"gemini-3-pro-preview": {MaxRPM: 150, MaxTPM: 1_000_000, MaxRPD: 1_000}}
			if !maps.Equal(s.Quotas, wantQuotas) {
				t.Errorf("quotas = %v, want %v", s.Quotas, wantQuotas)
			}
			want := "\"gemini-3-pro-preview\" day 2026-02-20T00:00:00Z 42\n" +
				"\trequest 2026-02-20T14:32:01.123456789Z\n\ttokens 2026-02-20T14:32:01.123456789Z 1500\n"
			if got := usageText(s); got != want {
				t.Errorf("state =\n%swant\n%s", got, want)
			}
		})
	}
}

// What is missing is zero, and null is empty.
func TestPartialFilesLoad(t *testing.T) {
	tests := []struct{ name, content, state string }{
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
			s, err := DecodeState(strings.NewReader(test.content))
			if err != nil {
				t.Fatal(err)
			}
			if got := usageText(s); got != test.state || len(s.Quotas) != 0 {
				t.Errorf("read %v and\n%swant\n%s", s.Quotas, got, test.state)
			}
		})
	}
}

// A file larger than what is read in other layouts loads with comments in it.
func TestLargeFileMayHaveComments(t *testing.T) {
	var b strings.Builder
	b.WriteString("# by hand\nstate:\n  m:\n    requests:\n")
	for b.Len() < 2<<20 {
		b.WriteString("      - 2026-02-20T14:32:01.123456789Z\n  # another\n")
	}
	s, err := DecodeState(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(s.Usage["m"].Requests), strings.Count(b.String(), "Z\n"); got != want {
		t.Errorf("%d requests, want %d", got, want)
	}
}

// usageText shows the usage of a snapshot, with times in UTC.
func usageText(s *state.Snapshot) string {
	var b strings.Builder
	for _, model := range slices.Sorted(maps.Keys(s.Usage)) {
		u := s.Usage[model]
		fmt.Fprintf(&b, "%q day %s %d\n", model, timeText(u.DayStart), u.DayCount)
		for _, at := range u.Requests {
			fmt.Fprintf(&b, "\trequest %s\n", timeText(at))
		}
		for _, e := range u.Tokens {
			fmt.Fprintf(&b, "\ttokens %s %d\n", timeText(e.Time), e.Count)
		}
	}
	return b.String()
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
