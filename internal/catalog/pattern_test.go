package catalog

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		covers  string // names, between spaces
		not     string
	}{
		{"gpt-*", "gpt- gpt-4o gpt-*", "gpt GPT-4o xgpt-4o"},
		{"*:free", ":free a/b:free a:free:free", "free a:freer"},
		{"*claude-opus-4*", "claude-opus-4 us.anthropic.claude-opus-4-6-v1 a/claude-opus-4@1", "claude-opus-5"},
		{"publishers/*/models/gemini-*", "publishers/google/models/gemini-2.5-pro publishers/a/b/models/gemini-", "publishers/models/gemini-1"},
		{"a*b*c", "abc aXbYc abcbc abbc aXbXbc", "ab acb abcd bac aXcXb"},
		{"a*a", "aa aXa aaa", "a"},
		{"**", "a aa", ""},
		{"*", "a a/b", ""},
		{"a**b", "ab aXb", "a b"},
		{"gpt-4o", "gpt-4o", "gpt-4 gpt-4o-mini"},
		{"gpt-4?", "gpt-4?", "gpt-4o"},
		{"gpt-[45]*", "gpt-[45]o", "gpt-4o gpt-5"},
		{`a.b\*`, `a.b\x`, "aXb"},
		{"\xff*\x00", "\xff\x00 \xffa\x00", "\xff"},
	} {
		for name := range strings.FieldsSeq(tt.covers) {
			if !Covers(tt.pattern, name) {
				t.Errorf("%q does not cover %q", tt.pattern, name)
			}
		}
		for name := range strings.FieldsSeq(tt.not) {
			if Covers(tt.pattern, name) {
				t.Errorf("%q covers %q", tt.pattern, name)
			}
		}
	}
	for _, pattern := range []string{"*", "**", ""} {
		if !Covers(pattern, "") {
			t.Errorf("%q does not cover the empty name", pattern)
		}
	}
	if Covers("a*", "") || Covers("", "a") {
		t.Error("a byte is covered by none")
	}
}

// A pattern that makes a matcher go back for each "*" would take years here.
func TestCoversTakesLinearTime(t *testing.T) {
	const parts = 2_000
	pattern, name := strings.Repeat("*a", parts)+"*b", strings.Repeat("a", 100*parts)
	start := time.Now()
	if Covers(pattern, name) {
		t.Error("a name without b is covered")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestIsPattern(t *testing.T) {
	for name, want := range map[string]bool{"": false, "*": false, "gpt-4o": false, "gpt-*": true, "**": true, "*a": true} {
		if got := IsPattern(name); got != want {
			t.Errorf("IsPattern(%q) = %v", name, got)
		}
	}
}

func TestOverlap(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a*", "ab", true},
		{"a*", "*b", true},
		{"a*c", "ab*", true},
		{"a*c", "b*c", false},
		{"*a", "*b", false},
		{"*", "", true},
		{"gpt-5.5-20*", "gpt-5.4-20*", false},
		{"gpt-5.5-*", "*-mini", true},
		{"a*b*c", "*x*", true},
		{"ab*", "a", false},
	} {
		if got, back := Overlap(tt.a, tt.b), Overlap(tt.b, tt.a); got != tt.want || back != tt.want {
			t.Errorf("Overlap(%q, %q) = %v, and %v the other way round", tt.a, tt.b, got, back)
		}
	}
}

func TestLongestPattern(t *testing.T) {
	for _, tt := range []struct {
		model, names, want string
	}{
		{"gpt-4o-mini", "gpt-* gpt-4o-* *", "gpt-4o-*"},
		{"gpt-4o-mini", "gpt-4o-* gpt-* *", "gpt-4o-*"},
		{"gpt-4o-mini", "gpt-4o-mini *", ""},
		{"gpt-4o-mini", "gpt-4* *-mini", "*-mini"}, // as long: "*" comes before "g"
		{"gpt-4o-mini", "*-mini gpt-4o*", "gpt-4o*"},
		{"gpt-4o-mini", "o1-* claude-*", ""},
		{"o1", "**", "**"},
		{"gpt-*", "gpt-*", "gpt-*"},
		{"", "a*", ""},
	} {
		if got, ok := NewPatternIndex(strings.FieldsSeq(tt.names)).Longest(tt.model); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q of %q: %q, %v; want %q", tt.model, tt.names, got, ok, tt.want)
		}
	}
	if NewPatternIndex(slices.Values([]string{"*", "gpt-4o", ""})) != nil {
		t.Error("an index without patterns is not nil")
	}
}

func TestLongestAllocatesNothing(t *testing.T) {
	index := NewPatternIndex(slices.Values([]string{"claude-opus-4-5-20*", "*:free", "a*b*c"}))
	if n := testing.AllocsPerRun(100, func() { index.Longest("meta-llama/llama-3.2-3b-instruct:free") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzCovers compares Covers with a regular expression, and Overlap with both.
func FuzzCovers(f *testing.F) {
	for _, seed := range [][3]string{
		{"gpt-*", "gpt-4o", "*-4o"},
		{"*a*b*", "xaybz", "x*z"},
		{"a*a", "a", "*"},
		{"**", "", "a"},
		{"*aab", "aaab", "aaab"},
		{"\xff*", "\xff\xfe", "*\xfe"},
		{"a.b*", "axb", "a*"},
		{"*/models/*@*", "publishers/x/models/m@2025", "publishers/*"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, pattern, name, other string) {
		if len(pattern)+len(name)+len(other) > 1_000 {
			t.Skip()
		}
		if got, want := Covers(pattern, name), slowCovers(pattern, name); got != want {
			t.Errorf("Covers(%q, %q) = %v", pattern, name, got)
		}
		if Covers(pattern, name) && Covers(other, name) && !Overlap(pattern, other) {
			t.Errorf("%q and %q cover %q and do not overlap", pattern, other, name)
		}
		if !strings.Contains(other, "*") && Overlap(pattern, other) != Covers(pattern, other) {
			t.Errorf("%q overlaps the name %q: %v", pattern, other, Overlap(pattern, other))
		}
		if Overlap(pattern, other) != Overlap(other, pattern) {
			t.Errorf("the overlap of %q and %q has a direction", pattern, other)
		}
	})
}

// FuzzLongest compares Longest with a look at each pattern, one a line.
func FuzzLongest(f *testing.F) {
	for _, seed := range [][2]string{
		{"gpt-*\ngpt-4*\n*\n*o\ngpt-4o\ngpt-4o*", "gpt-4o"},
		{"a*\nab*\nabc*\nabd*\nb*", "abcx"},
		{"a*\nab*\nabc*\nabd*\nb*", "abe"},
		{"*b\na*", "ab"},
		{"**\n*\n\n\xff*", "\xff"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, lines, model string) {
		names, want := strings.Split(lines, "\n"), ""
		for _, name := range names {
			better := len(name) > len(want) || len(name) == len(want) && name < want
			if IsPattern(name) && Covers(name, model) && better {
				want = name
			}
		}
		if got, ok := NewPatternIndex(slices.Values(names)).Longest(model); got != want || ok != (want != "") {
			t.Errorf("%q of %q: %q, %v; want %q", model, names, got, ok, want)
		}
	})
}

// slowCovers compares runes that are bytes, since a regular expression takes invalid UTF-8 for a
// rune that all invalid bytes share.
func slowCovers(pattern, name string) bool {
	parts := strings.Split(latin(pattern), "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(latin(name))
}

func latin(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteRune(rune(text[i]))
	}
	return b.String()
}

// The profiles bring some 30 patterns; a model that none covers is compared with all of them.
func BenchmarkLongest(b *testing.B) {
	var names []string
	for i := range 30 {
		names = append(names, "claude-opus-"+string(rune('a'+i))+"-20*")
	}
	for _, bb := range []struct {
		name  string
		index *PatternIndex
	}{{"none", nil}, {"30", NewPatternIndex(slices.Values(names))}} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				bb.index.Longest("claude-sonnet-4-5")
			}
		})
	}
}
