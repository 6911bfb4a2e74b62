package yamlfile

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// names are model names that YAML would read as something else if they were
// written as they are.
var names = []string{
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

func TestKeepsEveryModelName(t *testing.T) {
	now := time.Now()
	want := state.NewSnapshot()
	for i, name := range names {
		want.Quotas[name] = state.Quota{MaxRPM: i + 1}
		want.Usage[name] = &state.Usage{Requests: []time.Time{now}, Tokens: []state.Token{{Time: now, Count: i}}, DayStart: now, DayCount: i}
	}
	if len(want.Quotas) != len(names) {
		t.Fatal("a name is there twice")
	}
	var file bytes.Buffer
	if err := EncodeState(&file, want, now); err != nil {
		t.Fatal(err)
	}
	got, err := DecodeState(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := differs(want, got); diff != "" {
		t.Error(diff)
	}

	// Another reader sees the same.
	var other struct {
		Quotas map[string]struct {
			MaxRPM int `yaml:"max_rpm"`
		}
		State map[string]struct {
			Requests []time.Time
			Tokens   []struct {
				Time  time.Time
				Count int
			}
			DayStart time.Time `yaml:"day_start"`
			DayCount int       `yaml:"day_count"`
		}
	}
	if err := yaml.Unmarshal(file.Bytes(), &other); err != nil {
		t.Fatal(err)
	}
	read := state.NewSnapshot()
	for name, q := range other.Quotas {
		read.Quotas[name] = state.Quota{MaxRPM: q.MaxRPM}
	}
	for name, u := range other.State {
		var tokens []state.Token
		for _, e := range u.Tokens {
			tokens = append(tokens, state.Token{Time: e.Time, Count: e.Count})
		}
		read.Usage[name] = &state.Usage{Requests: u.Requests, Tokens: tokens, DayStart: u.DayStart, DayCount: u.DayCount}
	}
	if diff := differs(want, read); diff != "" {
		t.Errorf("the YAML library reads otherwise: %s", diff)
	}
}
