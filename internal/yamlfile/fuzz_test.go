package yamlfile

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// seeds are files of every layout, good and bad.
var seeds = []string{
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
	"#\rquotas:\nstate:\n", "quotas:\n  2026-01-01T00:00:00Z:\n    max_rpm: 0\n  1:2:3:\n    max_rpm: 0\n",
	"quotas:\n  m:\n    max_rpm: 1\n    max_itpm: 2\n    max_otpm: 3\n    max_tpd: 4\n    max_in_flight: 5\n    day_zone: America/Los_Angeles\n" +
		"state:\n  m:\n    requests: []\n    tokens:\n      - time: 2026-02-20T14:32:01Z\n        count: 9\n        input: 7\n" +
		"      - time: 2026-02-20T14:32:01Z\n        count: 9\n    day_count: 1\n    day_tokens: 9\ncooldowns:\n  m:\n    until: 9999-12-31T23:59:59.5Z\n",
	"quotas:\n  m:\n    day_zone: \"UTC\"\n  n:\n    day_zone: \"\"\n  o:\n    day_zone: Etc/GMT+5\ncooldowns: {}\n",
	"cooldowns:\n  m:\n    until: 9999-12-31T23:59:59Z\n    cause: daily_quota\n  n:\n    until: 9999-12-31T23:59:59Z\n    cause: \"on\"\n  o:\n    cause: [1]\n",
	"quotas: {m: {day_zone: 'Asia/Kolkata', max_itpm: 1}}\ncooldowns: {m: {until: \"9999-12-31T23:59:59-05:00\", why: 429}, n: {}, o: ~}\n",
	"quotas:\n  m:\n    burst: 10s\n  n:\n    burst: 1m0s\n", "quotas: {m: {burst: 1.5s}, n: {burst: 0}, o: {burst: \"2h\"}}", "quotas: {m: {burst: -1s}}", "quotas: {m: {burst: 10}}",
	"quotas:\n  m:\n    day_zone: Mars/Base\n", "quotas:\n  m:\n    day_zone: UTC #\n", "quotas:\n  m:\n    day_zone: no\n", "quotas: {m: {day_zone: [UTC]}}",
	"state:\n  m:\n    tokens:\n    - time: 2026-02-20T14:32:01Z\n      count: 1\n      input: 2\n", "state: {m: {tokens: [{input: 1}]}}",
	"answers:\n  m:\n    count: 3\n    prompts: 2\n    correction: 1500\n    peak: 9\n    last_peak: 8\n    generation: 7\n    errors: 1 22 333\n",
	"answers: {m: {count: 1, errors: 5, else: x}, n: ~, o: {}}\n", "answers:\n  m:\n    errors: 1  2\n", "answers: {m: {errors: [1, 2]}}", "answers: {}\n",
	"answers: {m: {correction: 5000}}", "answers:\n  m:\n    prompts: 1\n", "answers:\n  m:\n    errors: -1\n", "answers:\n  m:\n    count: 1\nanswers:\n",
	"quotas:\n  m:\n    adaptive_floor_rpm: 1\n    adaptive_ceiling_rpm: 2\n  n:\n    adaptive_floor_in_flight: 3\n    adaptive_ceiling_in_flight: 4\n",
	"quotas: {m: {adaptive_floor_rpm: 2, adaptive_ceiling_rpm: 1}}", "quotas:\n  m:\n    adaptive_floor_in_flight: 1000001\n", "quotas: {m: {adaptive_floor_rpm: -1}}",
	"origins:\n  m:\n    account:\n      adaptive_floor_rpm: 2\n      adaptive_ceiling_rpm: 1\n", "origins: {m: {program: {adaptive_floor_rpm: 2}}}",
	"found:\n  m:\n    rate_level: 1152921504606846976\n    rate_streak: 2\n    slots_lowered: 3\n    at: -5\n    told: 1\n  n:\n    at: 0\n",
	"found: {m: {rate_level: +1, at: 5, told: 0, else: x}, n: ~, o: {}}\n", "found: {}\n", "found:\n  m:\n    at: 1\n    at: 2\n", "found:\n  m:\n    told: 2\n",
	"found:\n  m:\n    rate_level: -1\n", "found: {m: {slots_streak: 2147483648}}", "found:\n  m:\n    at: -0\n", "found:\n  m:\n    at: 9223372036854775808\n",
	"cooldowns:\n  m:\n    until: 9999-01-01T00:00:00Z\n    until: 9999-01-01T00:00:00Z\n", "cooldowns:\n  m:\n    until: soon\n", "cooldowns:\ncooldowns:\n",
}

// FuzzScanAgreesWithParse compares the two readers: what the fast one accepts,
// the other reads alike.
func FuzzScanAgreesWithParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		scanned, err := scan(bytes.NewReader(data))
		if err != nil || len(data) > maxForeign || tooDense(data) {
			return
		}
		parsed, err := parse(data)
		if err != nil {
			t.Fatalf("only scan accepts it: %v", err)
		}
		if diff := differs(scanned, parsed); diff != "" {
			t.Error(diff)
		}
	})
}

// FuzzModelName stores arbitrary names, and has both readers read them.
func FuzzModelName(f *testing.F) {
	for _, seed := range []string{
		"gemini-2.5-pro", "llama3:8b", "", "null", "true", "123", "1e3", "-", "#a", "a: b", "a #b", `"`, `\`, "\n", "\x00", "\x7f", "\u0085", "\u2028", "\ufeff",
		"модель", "🤖", "\xff", "<<", "~", "? a", "!!binary \"YQ==\"", strings.Repeat("a", 1001), strings.Repeat("\u00a0", 200),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s := &state.Snapshot{
			Quotas: map[string]state.Quota{name: {MaxRPM: 1}, name + "2": {}},
			Usage:  map[string]*state.Usage{name: {DayCount: 3}, "2" + name: {Requests: []time.Time{time.Unix(0, 5)}}},

			Answers: map[string]state.Answers{name: {Count: 2, Errors: state.Row{3}}, name + "4": {}},
			Found:   map[string]state.Found{name: {Rate: state.Search{Level: 2}}, name + "5": {}},
			Cooldowns: map[string]state.Cooldown{
				name: {Until: time.Now().Add(time.Hour), Cause: name}, name + "3": {Until: time.Date(12_345, 6, 7, 8, 9, 10, 11, time.UTC)},
			},
		}
		var file bytes.Buffer
		if err := EncodeState(&file, s, time.Now()); err != nil {
			t.Fatal(err)
		}
		scanned, err := scan(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatalf("scan: %v of\n%s", err, file.Bytes())
		}
		if diff := differs(s, scanned); diff != "" {
			t.Errorf("scan: %s:\n%s", diff, file.Bytes())
		}
		if file.Len() > maxForeign || tooDense(file.Bytes()) {
			return
		}
		parsed, err := parse(file.Bytes())
		if err != nil {
			t.Fatalf("parse: %v of\n%s", err, file.Bytes())
		}
		if diff := differs(s, parsed); diff != "" {
			t.Errorf("parse: %s:\n%s", diff, file.Bytes())
		}
	})
}

// differs names what is not the same in two snapshots. Times that a file cannot
// express are the zero time.
func differs(s, other *state.Snapshot) string {
	same := func(a, b time.Time) bool { return inYAML(a).Equal(inYAML(b)) }
	switch {
	case !maps.Equal(s.Quotas, other.Quotas):
		return "quotas differ"
	case len(s.Usage) != len(other.Usage):
		return "models differ"
	}
	for model, a := range s.Usage {
		b := other.Usage[model]
		switch {
		case b == nil:
			return "a model is missing"
		case !slices.EqualFunc(a.Requests, b.Requests, same):
			return "requests differ"
		case !slices.EqualFunc(a.Tokens, b.Tokens, func(a, b state.Token) bool {
			return same(a.Time, b.Time) && a.Count == b.Count && a.Input == b.Input
		}):
			return "tokens differ"
		case !same(a.DayStart, b.DayStart) || a.DayCount != b.DayCount || a.DayTokens != b.DayTokens:
			return "days differ"
		}
	}
	if !maps.EqualFunc(s.Answers, other.Answers, func(a, b state.Answers) bool { return state.AnswersText(a) == state.AnswersText(b) }) {
		return "answers differ"
	}
	if !maps.Equal(s.Found, other.Found) {
		return "what was found differs"
	}
	if !maps.Equal(s.Said, other.Said) {
		return "origins differ"
	}
	if !maps.EqualFunc(s.Cooldowns, other.Cooldowns, func(a, b state.Cooldown) bool {
		return inFourDigits(a.Until).Equal(inFourDigits(b.Until)) && state.KeptCause(a.Cause) == state.KeptCause(b.Cause)
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
