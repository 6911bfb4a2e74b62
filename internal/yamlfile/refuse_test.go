package yamlfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// refusals are files that ReadState refuses, with the error's text behind the path of the file.
var refusals = []struct{ name, content, text string }{
	// Of the wrong type.
	{"a fraction for a limit", "quotas:\n  m:\n    max_rpm: 1.5\n", `quotas.m.max_rpm: invalid quota: "1.5" is not an integer`},
	{"an exponent for a limit", "quotas: {m: {max_tpm: 1e3}}", `quotas.m.max_tpm: invalid quota: "1e3" is not an integer`},
	{"a word for a limit", "quotas: {m: {max_rpd: many}}", `quotas.m.max_rpd: invalid quota: "many" is not an integer`},
	{"a text for a limit", `quotas: {m: {max_rpd: "5"}}`, `quotas.m.max_rpd: invalid quota: "5" is not an integer`},
	{"a boolean for a limit", "quotas: {m: {max_rpd: true}}", `quotas.m.max_rpd: invalid quota: "true" is not an integer`},
	{"null for a limit", "quotas: {m: {max_rpd: ~}}", `quotas.m.max_rpd: invalid quota: "~" is not an integer`},
	{"nothing for a limit", "quotas:\n  m:\n    max_rpd:\n", `quotas.m.max_rpd: invalid quota: "" is not an integer`},
	{"not a number for a limit", "quotas: {m: {max_rpm: .nan}}", `quotas.m.max_rpm: invalid quota: ".nan" is not an integer`},
	{"infinity for a limit", "quotas: {m: {max_rpm: .inf}}", `quotas.m.max_rpm: invalid quota: ".inf" is not an integer`},
	{"octal for a limit", "quotas:\n  m:\n    max_rpm: 010\n", `quotas.m.max_rpm: invalid quota: "010" is not an integer`},
	{"hexadecimal for a limit", "quotas: {m: {max_rpm: 0x10}}", `quotas.m.max_rpm: invalid quota: "0x10" is not an integer`},
	{"a list for a limit", "quotas: {m: {max_rpm: [1]}}", `quotas.m.max_rpm: invalid quota: a list is not an integer`},
	{"a map for a limit", "quotas: {m: {max_rpm: {a: 1}}}", `quotas.m.max_rpm: invalid quota: a map is not an integer`},
	{"a number for a quota", "quotas: {m: 5}", `quotas.m: invalid quota: "5" is not a map`},
	{"a list for the quotas", "quotas: [m]", `quotas: a list is not a map`},
	{"a word for the state", "state: gone", `state: "gone" is not a map`},
	{"a list for a state", "state: {m: []}", `state.m: a list is not a map`},
	{"a map for the requests", "state: {m: {requests: {a: b}}}", `state.m.requests: a map is not a list`},
	{"a number for a request", "state: {m: {requests: [2026-01-01T00:00:00Z, 17]}}", `state.m.requests[1]: "17" is not a time of RFC 3339`},
	{"a list for a request", "state: {m: {requests: [[]]}}", `state.m.requests[0]: a list is not a time of RFC 3339`},
	{"null for a request", "state: {m: {requests: [~]}}", `state.m.requests[0]: "~" is not a time of RFC 3339`},
	{"a time that is none", "state:\n  m:\n    requests:\n      - 2026-02-30T00:00:00Z\n", `state.m.requests[0]: "2026-02-30T00:00:00Z" is not a time of RFC 3339`},
	{"a word for a token entry", "state: {m: {tokens: [a]}}", `state.m.tokens[0]: "a" is not a map`},
	{"null for a token entry", "state: {m: {tokens: [~]}}", `state.m.tokens[0]: "~" is not a map`},
	{"a fraction for tokens", "state: {m: {tokens: [{}, {count: 0.5}]}}", `state.m.tokens[1].count: "0.5" is not an integer`},
	{"a number for a token's time", "state: {m: {tokens: [{time: 5}]}}", `state.m.tokens[0].time: "5" is not a time of RFC 3339`},
	{"a date", "state: {m: {day_start: 2026-01-01}}", `state.m.day_start: "2026-01-01" is not a time of RFC 3339`},
	{"a time without a zone", "state: {m: {day_start: 2026-01-01 12:00:00}}", `state.m.day_start: "2026-01-01 12:00:00" is not a time of RFC 3339`},
	{"a word for the day's start", "state: {m: {day_start: today}}", `state.m.day_start: "today" is not a time of RFC 3339`},
	{"a time for the day's count", "state: {m: {day_count: 2026-01-01T00:00:00Z}}", `state.m.day_count: "2026-01-01T00:00:00Z" is not an integer`},
	{"a list for a document", "- quotas\n", `a list is not a map`},
	{"a word for a document", "hello", `"hello" is not a map`},

	// Out of range.
	{"a negative limit", "quotas:\n  m:\n    max_tpm: -1\n", `quotas.m.max_tpm: invalid quota: -1 is negative`},
	{"a huge negative limit", "quotas: {m: {max_rpm: -99999999999999999999}}", `quotas.m.max_rpm: invalid quota: "-99999999999999999999" is out of range`},
	{"a huge limit", "quotas:\n  m:\n    max_rpm: 9223372036854775808\n", `quotas.m.max_rpm: invalid quota: "9223372036854775808" is out of range`},
	{"a negative count of tokens", "state: {m: {tokens: [{count: -7}]}}", `state.m.tokens[0].count: -7 is negative`},
	{"a negative count of the day", "state:\n  m:\n    day_count: -42\n", `state.m.day_count: -42 is negative`},

	{"a negative limit of input tokens", "quotas: {m: {max_itpm: -1}}", `quotas.m.max_itpm: invalid quota: -1 is negative`},
	{"a negative limit of output tokens", "quotas: {m: {max_otpm: -2}}", `quotas.m.max_otpm: invalid quota: -2 is negative`},
	{"a negative limit of tokens a day", "quotas: {m: {max_tpd: -3}}", `quotas.m.max_tpd: invalid quota: -3 is negative`},
	{"a negative limit of calls at once", "quotas:\n  m:\n    max_in_flight: -4\n", `quotas.m.max_in_flight: invalid quota: -4 is negative`},
	{"negative input tokens", "state: {m: {tokens: [{count: 1, input: -1}]}}", `state.m.tokens[0].input: -1 is negative`},
	{"more input than tokens", "state:\n  m:\n    tokens:\n    - time: 2026-01-01T00:00:00Z\n      count: 5\n      input: 7\n", `state.m.tokens[0].input: 7 is more than the count, 5`},
	{"input without a count", "state: {m: {tokens: [{}, {input: 1}]}}", `state.m.tokens[1].input: 1 is more than the count, 0`},
	{"a negative count of the day's tokens", "state:\n  m:\n    day_tokens: -42\n", `state.m.day_tokens: -42 is negative`},

	// Zones and cooldowns.
	{"a number for a burst", "quotas: {m: {burst: 10}}", `quotas.m.burst: invalid quota: "10" is not a duration, as 10s`},
	{"null for a burst", "quotas:\n  m:\n    burst:\n", `quotas.m.burst: invalid quota: "" is not a duration, as 10s`},
	{"a list for a burst", "quotas: {m: {burst: [10s]}}", `quotas.m.burst: invalid quota: a list is not a duration, as 10s`},
	{"a burst in the notation of 60", "quotas: {m: {burst: 1:30}}", `quotas.m.burst: invalid quota: "1:30" is not a duration, as 10s`},
	{"a negative burst", "quotas:\n  m:\n    burst: -10s\n", `quotas.m.burst: invalid quota: -10s is negative`},
	{"a number for a zone", "quotas: {m: {day_zone: 5}}", `quotas.m.day_zone: invalid quota: "5" is not a text`},
	{"null for a zone", "quotas:\n  m:\n    day_zone:\n", `quotas.m.day_zone: invalid quota: "" is not a text`},
	{"a list for a zone", "quotas: {m: {day_zone: [UTC]}}", `quotas.m.day_zone: invalid quota: a list is not a text`},
	{"a zone that is not known", "quotas:\n  m:\n    day_zone: Mars/Base\n", `quotas.m.day_zone: invalid quota: unknown time zone "Mars/Base", ` +
		`want an IANA name such as "America/Los_Angeles"; without a time zone database on the machine, import _ "time/tzdata": unknown time zone Mars/Base`},
	{"a zone of the machine", "quotas: {m: {day_zone: Local}}", `quotas.m.day_zone: invalid quota: unknown time zone "Local", ` +
		`want an IANA name such as "America/Los_Angeles"; without a time zone database on the machine, import _ "time/tzdata": not an IANA name`},
	{"a zone in other words", "quotas: {m: {day_zone: ./UTC}}", `quotas.m.day_zone: invalid quota: unknown time zone "./UTC", ` +
		`want an IANA name such as "America/Los_Angeles"; without a time zone database on the machine, import _ "time/tzdata": not an IANA name`},
	{"a time for a cooldown", "cooldowns: {m: 2026-01-01T00:00:00Z}", `cooldowns.m: "2026-01-01T00:00:00Z" is not a map`},
	{"a duration for a cooldown", "cooldowns:\n  m:\n    until: 5m\n", `cooldowns.m.until: "5m" is not a time of RFC 3339`},
	{"a list for the cooldowns", "cooldowns: [m]", `cooldowns: a list is not a map`},
	{"a number for what was learned", "answers: {m: 5}", `answers.m: "5" is not a map`},
	{"a negative number of answers", "answers:\n  m:\n    count: -1\n", `answers.m.count: -1 is negative`},
	{"a correction out of range", "answers:\n  m:\n    prompts: 1\n    correction: 5000\n", `answers.m: correction is 5000, want 0 to 4000`},
	{"a list of errors", "answers:\n  m:\n    errors: [1]\n", `answers.m.errors: a list is not a row of integers`},
	{"a floor that is negative", "quotas: {m: {adaptive_floor_rpm: -1}}", `quotas.m.adaptive_floor_rpm: invalid quota: -1 is negative`},
	{"a floor above the ceiling", "quotas:\n  m:\n    adaptive_floor_rpm: 6\n    adaptive_ceiling_rpm: 5\n",
		`quotas.m: invalid quota: AdaptiveFloorRPM (adaptive_floor_rpm) is 6, want at most the ceiling, 5`},
	{"a ceiling that is too high", "origins: {m: {account: {adaptive_ceiling_in_flight: 1000001}}}",
		`origins.m.account: invalid quota: AdaptiveCeilingInFlight (adaptive_ceiling_in_flight) is 1000001, want 0 to 1000000`},
	{"a number for what was found", "found: {m: 5}", `found.m: "5" is not a map`},
	{"a limit found that is negative", "found:\n  m:\n    rate_level: -1\n", `found.m: rate_level is -1, want 0 to 1152921504606846976`},
	{"refusals out of range", "found: {m: {slots_streak: 2147483648}}", `found.m: slots_streak is 2147483648, want 0 to 2147483647`},
	{"a time beyond all times", "found: {m: {at: 9223372036854775808}}", `found.m.at: "9223372036854775808" is out of range`},
	{"a text for what was told", "found: {m: {told: yes}}", `found.m.told: "yes" is not an integer`},
	{"a number for what was told", "found:\n  m:\n    told: 2\n", `found.m.told: 2 is not 0 or 1`},
	{"what was found twice", "found:\n  m:\n    at: 1\n  m:\n    at: 1\n", `found.m: a duplicate key`},
	{"what was learned twice", "answers:\n  m:\n    count: 1\n  m:\n    count: 1\n", `answers.m: a duplicate key`},
	{"a cooldown twice", "cooldowns:\n  m:\n    until: 2026-01-01T00:00:00Z\n  m:\n    until: 2026-01-01T00:00:00Z\n", `cooldowns.m: a duplicate key`},

	// Twice.
	{"a section twice", "quotas:\nstate:\nquotas:\n", `quotas: a duplicate key`},
	{"a model twice", "quotas:\n  m:\n    max_rpm: 1\n  m:\n    max_rpm: 2\n", `quotas.m: a duplicate key`},
	{"a model twice in the state", "state:\n  m:\n    day_count: 1\n  m:\n    day_count: 1\n", `state.m: a duplicate key`},
	{"a model twice in other words", `quotas: {m: {}, "\x6d": {}}`, `quotas.m: a duplicate key`},
	{"a model twice, in base64", `quotas: {m: {}, !!binary bQ==: {}}`, `quotas.m: a duplicate key`},
	{"a field twice", "quotas: {m: {max_rpm: 1, max_rpm: 1}}", `quotas.m.max_rpm: a duplicate key`},
	{"a field of an entry twice", "state: {m: {tokens: [{count: 1, count: 1}]}}", `state.m.tokens[0].count: a duplicate key`},
	{"an unknown key twice", "a: [{b: 1, b: 2}]", `a[0].b: a duplicate key`},
	{"a second document", statefile.Sample + "---\nquotas: {}\n", `a second document`},
	{"a second document, empty", statefile.Sample + "---\n", `a second document`},
	{"a second document, broken", statefile.Sample + "---\n\"", `yaml: line 16: found unexpected end of stream`},

	// Hostile.
	{"an alias", "quotas: {m: &a {max_rpm: 1}, n: *a}", `quotas.m: an anchor &a`},
	{"an anchor on a key", "quotas: {&a m: {}}", `quotas: an anchor &a`},
	{"an unknown alias", "quotas: *a", `yaml: unknown anchor 'a' referenced`},
	{"an anchor in an unknown place", "a: [&b c]", `a[0]: an anchor &b`},
	{"a merge key", "quotas: {m: {<<: {max_rpm: 1}}}", `quotas.m: a key "<<"`},
	{"a tag", "quotas: {m: {max_rpm: !!int 5}}", `quotas.m.max_rpm: a tag "!!int"`},
	{"a tag of a map", "quotas: !!map {}", `quotas: a tag "!!map"`},
	{"a tag of a key", "quotas: {!!str m: {}}", `quotas: a tag "!!str"`},
	{"a null key", "quotas: {~: {}}", `quotas: a key "~"`},
	{"a list for a key", "quotas: {[a]: {}}", `quotas: a key that is not text`},
	{"a key that is not base64", "quotas: {!!binary '=': {}}", `quotas: a key that is not base64: "="`},
	{"a name that is another line", "quotas: {\"a\\nFATAL: b\\u202e\": {max_rpm: -1}}", `quotas."a\nFATAL: b\u202e".max_rpm: invalid quota: -1 is negative`},

	// No YAML.
	{"an empty file", "", `the file is empty: it was cut off`},
	{"an open list", "quotas: [", `yaml: line 1: did not find expected node content`},
	{"a tab for an indentation", "quotas:\n\tm: {}\n", `yaml: line 2: found character that cannot start any token`},
	{"control characters", "quotas: \x01", `yaml: control characters are not allowed`},
	{"no UTF-8", "quotas: \xff", `yaml: invalid leading UTF-8 octet`},
	{"NULs", strings.Repeat("\x00", 4096), `yaml: control characters are not allowed`},
	{"a SQLite database", "SQLite format 3\x00", `yaml: control characters are not allowed`},
}

func TestRefusesWhatIsWrong(t *testing.T) {
	for _, test := range refusals {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, test.content)
			err := refused(t, path)
			if got, want := err.Error(), "corrupt state: "+path+": "+test.text; got != want {
				t.Errorf("error\n%s, want\n%s", got, want)
			}
			if got, want := errors.Is(err, state.ErrInvalidQuota), strings.Contains(test.text, "invalid quota"); got != want {
				t.Errorf("the error is ErrInvalidQuota: %v, want %v", got, want)
			}
		})
	}
}

// What comes from a file may be long and odd, the error is neither.
func TestErrorsAreShortAndPlain(t *testing.T) {
	long := strings.Repeat("\u202e\\x00", 20_000)
	tests := map[string]string{
		"a long value":        "quotas: {m: {max_rpm: " + strings.Repeat("9", 1<<17) + "}}",
		"a long text":         `state: {m: {day_start: "` + long + `"}}`,
		"a long name":         `quotas: {? "` + long + `" : {max_rpm: -1}}`,
		"a long unknown name": `{? "` + long + `" : {? "` + long + `" : [[{a: 1, a: 2}]]}}`,
		"a long duplicate":    `{? "` + long + `" : 1, ? "` + long + `" : 1}`,
		"a long anchor":       "a: &" + strings.Repeat("b", 1<<17) + " c",
		"a long alias":        "a: *" + strings.Repeat("b", 1<<17),
		"a long tag":          "a: !" + strings.Repeat("b", 1<<17) + " c",
		"a long way down":     strings.Repeat("{abcdefghijklmnopqrstuvwxyz: [", 2_000) + "{a: 1, a: 2}" + strings.Repeat("]}", 2_000),
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			text := refused(t, write(t, content)).Error()
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\u202e' }) {
				t.Errorf("characters that do not belong into an error: %q", text)
			}
		})
	}
	t.Run("a long path", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), strings.Repeat("d", 200), strings.Repeat("é", 100), strings.Repeat("d", 200), strings.Repeat("d", 200))
		path := filepath.Join(dir, "state.yaml")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Skip(err)
		}
		if err := os.WriteFile(path, []byte("quotas: {m: {max_rpm: -1}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if text := refused(t, path).Error(); !strings.HasSuffix(text, "state.yaml: quotas.m.max_rpm: invalid quota: -1 is negative") {
			t.Errorf("error %q", text)
		}
	})
}

// A large file is read in the layout of EncodeState alone, and the error says where it departs from
// that.
func TestRefusesLargeFilesOfOtherLayouts(t *testing.T) {
	long := "state:\n  m:\n    requests:\n" + strings.Repeat("      - 2026-02-20T14:32:01.123456789Z\n", 40_000)
	tests := map[string]struct{ content, text string }{
		"another layout":  {long + "    day_count:  1\n", "line 40004: not the layout that Persist writes"},
		"an unknown key":  {long + "    day: 1\n", "line 40004: not the layout that Persist writes"},
		"a model twice":   {long + "  m:\n    day_count: 1\n", "line 40005: state.m: a duplicate key"},
		"a field twice":   {long + "    requests: []\n", "line 40004: not the layout that Persist writes"},
		"nothing we know": {"#" + strings.Repeat("é", 1<<20), "line 1: not the layout that Persist writes"},
		"an unknown zone": {long + "quotas:\n  m:\n    day_zone: Mars/Base\n", `line 40006: day_zone: invalid quota: unknown time zone "Mars/Base", ` +
			`want an IANA name such as "America/Los_Angeles"; without a time zone database on the machine, import _ "time/tzdata": unknown time zone Mars/Base`},
		"more input than tokens": {long + "  n:\n    tokens:\n      - time: 2026-02-20T14:32:01Z\n        count: 1\n        input: 2\n",
			"line 40008: input: 2 is more than the count, 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := write(t, test.content)
			want := "corrupt state: " + path + ": larger than 1048576 bytes and not in the layout that Persist writes: " + test.text
			err := refused(t, path)
			if err.Error() != want {
				t.Errorf("error\n%v, want\n%s", err, want)
			}
			if errors.Is(err, state.ErrInvalidQuota) != strings.Contains(want, "invalid quota") {
				t.Errorf("%v; is it ErrInvalidQuota?", err)
			}
		})
	}
}

// write writes a file into a folder of its own, and returns its path.
func write(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// refused has ReadState refuse a file, checks what is so of each error, and returns it.
func refused(t *testing.T, path string) error {
	t.Helper()
	s, err := ReadState(path)
	if s != nil || !errors.Is(err, state.ErrCorrupt) {
		t.Fatalf("ReadFile = %v, %v, want ErrCorrupt", s, err)
	}
	if text := err.Error(); len(text) > 1010 || !utf8.ValidString(text) {
		t.Errorf("the error is of %d bytes: %q", len(text), text)
	}
	return err
}
