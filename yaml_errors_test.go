// YAML files that are refused, and what the error says.

package ratelimit_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// yamlRefusals are files that Load refuses, with the error's text behind the
// path of the file.
var yamlRefusals = []struct{ name, content, text string }{
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
	{"a second document", yamlSample + "---\nquotas: {}\n", `a second document`},
	{"a second document, empty", yamlSample + "---\n", `a second document`},
	{"a second document, broken", yamlSample + "---\n\"", `yaml: line 16: found unexpected end of stream`},

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

func TestYAMLRefusesWhatIsWrong(t *testing.T) {
	for _, test := range yamlRefusals {
		t.Run(test.name, func(t *testing.T) {
			path := yamlWrite(t, test.content)
			err := yamlRefused(t, path)
			if got, want := err.Error(), "load: corrupt state: "+path+": "+test.text; got != want {
				t.Errorf("error\n%s, want\n%s", got, want)
			}
			if got, want := errors.Is(err, ratelimit.ErrInvalidQuota), strings.Contains(test.text, "invalid quota"); got != want {
				t.Errorf("the error is ErrInvalidQuota: %v, want %v", got, want)
			}
		})
	}
}

// What comes from a file may be long and odd, the error is neither.
func TestYAMLErrorsAreShortAndPlain(t *testing.T) {
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
			text := yamlRefused(t, yamlWrite(t, content)).Error()
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
		if text := yamlRefused(t, path).Error(); !strings.HasSuffix(text, "state.yaml: quotas.m.max_rpm: invalid quota: -1 is negative") {
			t.Errorf("error %q", text)
		}
	})
}

// yamlRefused checks that the file at path cannot be loaded, that the error is
// as it has to be, and that limiter and file stay as they were. It returns the
// error.
func yamlRefused(t *testing.T, path string) error {
	t.Helper()
	rl := yamlLimiter(t, path)
	rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 2})
	rl.AddProvider(ratelimit.ProviderOpenAI)
	rl.RecordUsage("m", 5, 0)
	rl.RecordUsage("gpt-4o", 6, 0)
	quotas, state, content := len(rl.Quotas), yamlText(rl.State), yamlRead(t, path)

	err := rl.Load()
	if !errors.Is(err, ratelimit.ErrCorruptState) {
		t.Fatalf("Load = %v, want ErrCorruptState", err)
	}
	if text := err.Error(); len(text) > 1024 || !utf8.ValidString(text) {
		t.Errorf("the error is of %d bytes: %q", len(text), text)
	}
	if yamlText(rl.State) != state || len(rl.Quotas) != quotas || rl.Quotas["m"] != (ratelimit.ModelQuota{MaxRPM: 2}) ||
		rl.Quotas["gpt-4o"] != ratelimit.DefaultProfiles()[ratelimit.ProviderOpenAI].Models["gpt-4o"] {
		t.Errorf("the limiter changed to %v and\n%s", rl.Quotas, yamlText(rl.State))
	}
	if yamlRead(t, path) != content {
		t.Error("the file changed")
	}
	if litter := yamlLitter(t, path); litter != nil {
		t.Errorf("Load left %q", litter)
	}
	return err
}

// The file that could not be loaded is kept when Persist writes a new one.
func TestYAMLPersistKeepsWhatCouldNotBeLoaded(t *testing.T) {
	const broken = "quotas: {m: {max_rpm: -1}}\n"
	path := yamlWrite(t, broken)
	rl := yamlLimiter(t, path)
	rl.RecordUsage("m", 5, 0)
	want := yamlText(rl.State)
	if rl.Load() == nil {
		t.Fatal("it loads")
	}
	yamlPersist(t, rl)

	kept := yamlLitter(t, path)
	if len(kept) != 1 || !strings.HasPrefix(kept[0], "state.yaml.corrupt-2") {
		t.Fatalf("beside the file lies %q", kept)
	}
	keptPath := filepath.Join(filepath.Dir(path), kept[0])
	if got := yamlRead(t, keptPath); got != broken {
		t.Errorf("%s holds %q", keptPath, got)
	}
	again := yamlLimiter(t, path)
	yamlLoad(t, again)
	if got := yamlText(again.State); got != want {
		t.Errorf("state =\n%swant\n%s", got, want)
	}

	// What was written in its place is good, and is not kept.
	yamlPersist(t, rl)
	yamlPersist(t, again)
	if got := yamlLitter(t, path); !reflect.DeepEqual(got, kept) {
		t.Errorf("beside the file lies %q, want %q", got, kept)
	}

	// The next broken one is, and the first stays.
	if err := os.WriteFile(path, []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again.Load() == nil {
		t.Fatal("it loads")
	}
	yamlPersist(t, again)
	if got := yamlLitter(t, path); len(got) != 2 || yamlRead(t, keptPath) != broken {
		t.Errorf("beside the file lies %q", got)
	}
}

func TestYAMLPersistKeepsNothingElse(t *testing.T) {
	tests := map[string]func(t *testing.T, rl *ratelimit.RateLimiter, path string){
		"a file that nobody loaded": func(*testing.T, *ratelimit.RateLimiter, string) {},
		"a file that was removed after it could not be loaded": func(t *testing.T, rl *ratelimit.RateLimiter, path string) {
			if rl.Load() == nil {
				t.Fatal("it loads")
			}
			os.Remove(path)
		},
		"a file that was put right and loaded": func(t *testing.T, rl *ratelimit.RateLimiter, path string) {
			if rl.Load() == nil {
				t.Fatal("it loads")
			}
			os.WriteFile(path, []byte(yamlSample), 0o600)
			yamlLoad(t, rl)
		},
		"a file that was gone at the next Load": func(t *testing.T, rl *ratelimit.RateLimiter, path string) {
			if rl.Load() == nil {
				t.Fatal("it loads")
			}
			os.Remove(path)
			yamlLoad(t, rl)
			os.WriteFile(path, []byte("?"), 0o600)
		},
	}
	for name, before := range tests {
		t.Run(name, func(t *testing.T) {
			path := yamlWrite(t, "[")
			rl := yamlLimiter(t, path)
			before(t, rl, path)
			yamlPersist(t, rl)
			if litter := yamlLitter(t, path); litter != nil {
				t.Errorf("beside the file lies %q", litter)
			}
		})
	}
}

// A file system error keeps its kind.
func TestYAMLRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	rl := yamlLimiter(t, dir)
	err := rl.Load()
	if !errors.Is(err, ratelimit.ErrCorruptState) || err.Error() != "load: corrupt state: "+dir+": not a regular file" {
		t.Errorf("Load of a folder = %v", err)
	}
	if err := rl.Persist(); err == nil || err.Error() != "persist: "+dir+": not a regular file" {
		t.Errorf("Persist to a folder = %v", err)
	}

	below := filepath.Join(yamlWrite(t, yamlSample), "state.yaml")
	rl = yamlLimiter(t, below)
	if err := rl.Load(); err != nil && !errors.Is(err, ratelimit.ErrCorruptState) { // on Windows it is merely missing
		t.Errorf("Load below a file = %v", err)
	}
	if err := rl.Persist(); err == nil || errors.Is(err, fs.ErrExist) {
		t.Errorf("Persist below a file = %v", err)
	}
}

// A large file is read in the layout of Persist alone, and the error says where
// it departs from that.
func TestYAMLRefusesLargeFilesOfOtherLayouts(t *testing.T) {
	long := "state:\n  m:\n    requests:\n" + strings.Repeat("      - 2026-02-20T14:32:01.123456789Z\n", 40_000)
	tests := map[string]struct{ content, text string }{
		"another layout":  {long + "    day_count:  1\n", "line 40004: not the layout that Persist writes"},
		"an unknown key":  {long + "    day: 1\n", "line 40004: not the layout that Persist writes"},
		"a model twice":   {long + "  m:\n    day_count: 1\n", "line 40005: state.m: a duplicate key"},
		"a field twice":   {long + "    requests: []\n", "line 40004: not the layout that Persist writes"},
		"nothing we know": {"#" + strings.Repeat("é", 1<<20), "line 1: not the layout that Persist writes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := yamlWrite(t, test.content)
			want := "load: corrupt state: " + path + ": larger than 1048576 bytes and not in the layout that Persist writes: " + test.text
			if err := yamlRefused(t, path); err.Error() != want {
				t.Errorf("error\n%v, want\n%s", err, want)
			}
		})
	}
}

func TestYAMLWithoutAFile(t *testing.T) {
	rl := &ratelimit.RateLimiter{}
	rl.RecordUsage("m", 1, 1)
	for name, err := range map[string]error{"load": rl.Load(), "persist": rl.Persist()} {
		if err == nil || errors.Is(err, ratelimit.ErrCorruptState) || err.Error() != name+": the limiter has no state file: make it with a constructor" {
			t.Errorf("%s without a constructor: %v", name, err)
		}
	}
	if rl.Stats("m").TPM != 2 {
		t.Error("the limiter lost what was used")
	}
}
