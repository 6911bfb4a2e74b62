// Data: the files in data/.

package profile

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
)

// builtin returns the profiles of the files as they are now.
func builtin(t testing.TB) *Set {
	t.Helper()
	set, err := Parse(os.DirFS("data"))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Parse has checked patterns, sources and overlaps. Zones and the calendar are left.
func TestData(t *testing.T) {
	set := builtin(t)
	want := []string{
		"anthropic", "azure", "bedrock", "cerebras", "deepseek", "gemini", "groq", "local",
		"mistral", "openai", "openrouter", "vertex", "xai",
	}
	if got := set.Names(); !slices.Equal(got, want) {
		t.Errorf("providers %q, want %q", got, want)
	}
	for _, name := range set.Names() {
		p := set.Provider(name)
		used := make(map[Rule]bool)
		for i := range p.Rows {
			r := &p.Rows[i]
			q := r.Limits.Quota()
			if err := q.Validate(r.Models[0]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if day := r.ReadOn.Time(); day.After(time.Now()) || day.Before(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)) {
				t.Errorf("%s: %s was read on %s", name, r.Models, r.ReadOn)
			}
			if r.Limits.DayZone != "" && r.Limits.RPD == 0 && r.Limits.TPD == 0 {
				t.Errorf("%s: %s has a zone and nothing a day", name, r.Models)
			}
			for _, rule := range p.CountingOf(r) {
				used[rule] = true
			}
		}
		for _, rule := range p.Counting {
			if len(p.Rows) > 0 && !used[rule] {
				t.Errorf("%s: no row counts %s", name, rule)
			}
		}
		if name == "local" && (len(p.Rows) > 0 || len(p.Tiers) > 0) {
			t.Error("local inference has quotas")
		}
	}
}

// A program without MatchVersions asks for dated names, too, so each name of the providers that
// date theirs has a pattern for these.
func TestDatedNamesHavePatterns(t *testing.T) {
	for _, name := range []string{"anthropic", "openai"} {
		for _, r := range builtin(t).Provider(name).Rows {
			for _, model := range r.Models {
				if catalog.IsPattern(model) || r.Confidence == SourceDocument {
					continue
				}
				if _, ok := catalog.NewPatternIndex(slices.Values(r.Models)).Longest(model + "-20260102"); !ok {
					t.Errorf("%s %s: no pattern for %s with a date", name, r.Tiers, model)
				}
			}
		}
	}
}

// Figures as the pages of the providers had them: requests per minute, then tokens per minute or
// input and output tokens per minute.
func TestFigures(t *testing.T) {
	set := builtin(t)
	const (
		large = "claude-opus-5-5 claude-opus-5 claude-opus-4-5 claude-opus-4-6 claude-opus-4-7 claude-opus-4-8 claude-sonnet-5-5 claude-sonnet-5 claude-sonnet-4-5 claude-sonnet-4-6 claude-haiku-5-5 claude-haiku-4-5"
		fable = "claude-fable-5 claude-fable-5-1"
		sol   = "gpt-6-astra gpt-6-sol gpt-6.1-sol gpt-5.6-sol gpt-5.6-terra"
		gpt6  = "gpt-6-astra gpt-6-sol"
		gpt5  = "gpt-5.6-sol gpt-5.6-terra gpt-5.5"
		grok  = "grok-4.5 grok-4.6 grok-4.7"
		grok3 = "grok-4.3 grok-4.20-0309-reasoning grok-4.20-0309-non-reasoning grok-build-0.1"
	)
	for _, tt := range []struct{ provider, tier, models, want string }{
		{"anthropic", "start", large, "1000 in 2000000 out 400000"},
		{"anthropic", "build", large, "5000 in 5000000 out 1000000"},
		{"anthropic", "scale", large, "10000 in 10000000 out 2000000"},
		{"anthropic", "start", fable, "1000 in 500000 out 100000"},
		{"anthropic", "build", fable, "2000 in 1500000 out 300000"},
		{"anthropic", "scale", fable, "4000 in 4000000 out 800000"},
		{"anthropic", "start", "claude-3-5-haiku", "1000 in 100000 out 20000"},
		{"anthropic", "build", "claude-3-5-haiku", "2000 in 200000 out 40000"},
		{"anthropic", "scale", "claude-3-5-haiku", "4000 in 400000 out 80000"},
		{"anthropic", "start", "claude-opus-4-1 claude-opus-4 claude-sonnet-4", "none"},

		{"openai", "build", sol, "5000 all 1000000"},
		{"openai", "launch", sol, "10000 all 4000000"},
		{"openai", "grow", sol, "15000 all 40000000"},
		{"openai", "build", "gpt-6-luna", "5000 all 2000000"},
		{"openai", "launch", "gpt-6-luna", "10000 all 10000000"},
		{"openai", "grow", "gpt-6-luna", "30000 all 180000000"},
		{"openai", "1", gpt6 + " " + gpt5 + " gpt-6-luna gpt-5.6-luna", "500 all 500000"},
		{"openai", "2", gpt6, "5000 all 1000000"},
		{"openai", "3", gpt6 + " " + gpt5, "5000 all 2000000"},
		{"openai", "4", gpt6, "10000 all 4000000"},
		{"openai", "5", gpt6 + " " + gpt5, "15000 all 40000000"},
		{"openai", "2", "gpt-6-luna", "5000 all 2000000"},
		{"openai", "3", "gpt-6-luna gpt-5.6-luna", "5000 all 4000000"},
		{"openai", "4", "gpt-6-luna", "10000 all 10000000"},
		{"openai", "5", "gpt-6-luna gpt-5.6-luna", "30000 all 180000000"},
		{"openai", "1", "gpt-4o-20*", "500 all 30000"},
		{"openai", "2", "gpt-4o", "5000 all 450000"},
		{"openai", "5", "gpt-4o", "10000 all 30000000"},
		{"openai", "1", "gpt-4o-mini-20*", "500 all 200000 a day 10000"},
		{"openai", "5", "gpt-4o-mini", "30000 all 150000000"},
		{"openai", "build", "gpt-5 gpt-4.1 gpt-5.5 gpt-5.4-mini gpt-4o", "none"},
		{"openai", "1", "gpt-5.4-mini gpt-5.4 gpt-5.2-codex gpt-4o gpt-5 gpt-4.1", "none"},

		{"gemini", "free", "gemini-3.6-flash", "none"},
		{"gemini", "1", "gemini-3.6-flash gemini-2.5-flash gemini-2.5-pro", "none"},
		{"groq", "free", "openai/gpt-oss-120b qwen/qwen3.8-27b", "30 all 8000 a day 1000 tokens a day 200000"},
		{"groq", "free", "groq/compound groq/compound-mini", "30 all 70000 a day 250"},
		{"groq", "free", "llama-3.3-70b-versatile llama-3.1-8b-instant", "none"},
		{"xai", "0", grok, "7200 all 50000000"},
		{"xai", "2", grok, "9984 all 60000000"},
		{"xai", "4", grok, "24000 all 100000000"},
		{"xai", "0", grok3, "1776 all 10000000"},
		{"xai", "4", grok3, "9984 all 85000000"},
		{"xai", "0", "grok-4.20-multi-agent-0309", "432 all 2500000"},
		{"deepseek", "regular", "deepseek-flash deepseek-v4-flash", "0 open 2500"},
		{"deepseek", "regular", "deepseek-v4-pro", "0 open 500"},
		{"cerebras", "free", "gpt-oss-120b qwen-3.8-27b", "5 all 30000 tokens a day 1000000"},
		{"cerebras", "developer", "gpt-oss-120b", "1000 all 1000000"},
		{"openrouter", "free", "*:free", "20 a day 50 UTC"},
		{"openrouter", "credits", "*:free", "20 a day 1000 UTC"},
		{"bedrock", "default", "us.anthropic.claude-opus-4-5-* global.anthropic.claude-opus-4-5", "10000 all 2000000"},
		{"bedrock", "default", "eu.anthropic.claude-opus-5-5", "0 all 30000000"},
		{"vertex", "1", "publishers/google/models/gemini-*-pro", "0 all 500000"},
		{"vertex", "3", "publishers/google/models/gemini-*-flash-lite", "0 all 10000000"},
		{"vertex", "2", "publishers/anthropic/models/claude-sonnet-5-5", "2500 in 25000000 out 2500000"},
	} {
		models := set.Provider(tt.provider).Models(tt.tier)
		for model := range strings.FieldsSeq(tt.models) {
			if got := figures(models[model]); got != tt.want {
				t.Errorf("%s %s %s: %s, want %s", tt.provider, tt.tier, model, got, tt.want)
			}
		}
	}
}

// renewed is the day of the last renewal.
var renewed = time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)

// No row but those of the source document was older than FreshFor on the day of the last renewal.
func TestRowsAreFresh(t *testing.T) {
	set := builtin(t)
	for _, name := range set.Names() {
		for _, r := range set.Provider(name).Rows {
			if age := renewed.Sub(r.ReadOn.Time()); r.Confidence != SourceDocument && age > FreshFor {
				t.Errorf("%s: %s of the tiers %s was read on %s", name, r.Models, r.Tiers, r.ReadOn)
			}
		}
	}
}

// Each provider says what it counts, by a page of the last 90 days before the last renewal.
func TestStatements(t *testing.T) {
	set := builtin(t)
	for _, name := range set.Names() {
		p := set.Provider(name)
		if len(p.Statements) == 0 || p.NoFigure.Why == "" {
			t.Errorf("%s does not say what it counts, or which models have no figure", name)
		}
		for _, s := range p.Statements {
			if age := renewed.Sub(s.ReadOn.Time()); age > FreshFor || age < 0 {
				t.Errorf("%s: %q was read on %s", name, s.Counts, s.ReadOn)
			}
		}
	}
}

// No model has both a figure and the word that there is none.
func TestNoFigureOfModelsWithOne(t *testing.T) {
	set := builtin(t)
	for _, name := range set.Names() {
		p := set.Provider(name)
		for _, r := range p.Rows {
			for _, model := range r.Models {
				if r.Confidence != SourceDocument && p.NoFigure.has(strings.ReplaceAll(model, "*", "x")) {
					t.Errorf("%s: %s has a row, and no figure", name, model)
				}
			}
		}
	}
}

// figures returns what a row limits, in short.
func figures(r *Row) string {
	if r == nil {
		return "none"
	}
	l, text := r.Limits, fmt.Sprint(r.Limits.RPM)
	for _, limit := range []struct {
		word  string
		value int
	}{{"all", l.TPM}, {"in", l.ITPM}, {"out", l.OTPM}, {"a day", l.RPD}, {"tokens a day", l.TPD}, {"open", l.InFlight}} {
		if limit.value != 0 {
			text += fmt.Sprintf(" %s %d", limit.word, limit.value)
		}
	}
	return strings.TrimSpace(text + " " + l.DayZone)
}

// Figures of before are in no file, except for those that DefaultProfiles promises.
func TestNoOldFigures(t *testing.T) {
	set := builtin(t)
	promised := 0
	for _, name := range set.Names() {
		p := set.Provider(name)
		for _, r := range p.Rows {
			if r.Confidence == SourceDocument {
				promised += len(r.Models)
			}
		}
		for model, r := range p.Lowest() {
			if r.Confidence == SourceDocument || r.Limits.RPM == 50 || r.Limits.ITPM == 30_000 {
				t.Errorf("%s %s is an old figure: %+v", name, model, r.Limits)
			}
		}
	}
	if promised != 14 {
		t.Errorf("%d models of the source document, want 14", promised)
	}
	if old := slices.Collect(maps.Keys(set.Provider("gemini").Lowest())); len(old) > 0 {
		t.Errorf("Gemini's paid tiers have figures: %q", old)
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		builtin(b)
	}
}
