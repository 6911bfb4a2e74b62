package catalog

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

var (
	pathPattern      = regexp.MustCompile(`(?s)^(?:(?:.*?/)??publishers/[^/]+/models/|models/)`)
	providerPattern  = regexp.MustCompile(`(?s)^[^/]+/`)
	extensionPattern = regexp.MustCompile(`(?s)^(?:-(?:` + strings.Join([]string{
		`(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])`,
		`(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])`,
		`(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])`,
		`\d\d\d`, `latest`, `v\d+`,
	}, "|") + `))*(?:[:@].*)?$`)
)

// formsOf returns model as it may be matched, the fullest first.
func formsOf(model string) []string {
	forms := []string{model}
	bare := model[len(pathPattern.FindString(model)):]
	if bare != model {
		forms = append(forms, bare)
	}
	if provider := providerPattern.FindString(bare); provider != "" {
		forms = append(forms, bare[len(provider):])
	}
	return forms
}

// slowMatch is Match as its rules read, by regular expressions.
func slowMatch(model string, known map[string]bool) string {
	if model != "" && model != "*" && known[model] {
		return model
	}
	if len(model) > maxLength {
		return ""
	}
	best := ""
	for _, form := range formsOf(model) {
		for i := range len(form) {
			base := form[:i+1]
			if known[base] && base != "*" && len(base) > len(best) && extensionPattern.MatchString(form[i+1:]) {
				best = base
			}
		}
	}
	return best
}

// FuzzMatch matches a model among names, one a line, and among beginnings of the model
// itself: bit i of cuts adds that of i bytes.
func FuzzMatch(f *testing.F) {
	for _, seed := range []struct {
		model, names string
		cuts         uint64
	}{
		{"gpt-4o-2024-08-06:free", "gpt-4o\ngpt-4", 0},
		{"openai/gpt-4o-mini-2024-07-18", "gpt-4o", 1 << 12},
		{"anthropic.claude-3-5-sonnet-20241022-v2:0", "anthropic.claude-3-5-sonnet", 1<<27 | 1<<36},
		{"projects/p/locations/l/publishers/google/models/gemini-2.5-pro-002", "gemini-2.5-pro", 0},
		{"models/google/gemini-1.5-flash-latest", "google/gemini-1.5-flash\ngemini-1.5-flash-latest", 0},
		{"publishers/a/publishers/b/models/m@x", "m", 0},
		{"publishers//models/publishers/x/models/m-v1-001-0101@x", "*\nm", 0},
		{"m-1231-2024-12-31-20241231-latest-v1", "m", 1<<6 | 1<<12},
		{"m-2024-13-01", "m\nm-2024\nm-2024-13", 0},
		{"*-latest", "*", 1<<1 | 1<<2},
		{":-@/", "", 1<<64 - 1},
		{strings.Repeat("-001", maxLength/4), "-", 1 << 4},
		{strings.Repeat("m:", maxLength/2) + ":", "m", 1},
	} {
		f.Add(seed.model, seed.names, seed.cuts)
	}
	f.Fuzz(func(t *testing.T, model, names string, cuts uint64) {
		if len(model) > 2*maxLength || len(names) > 1<<16 {
			t.Skip()
		}
		known := make(map[string]bool)
		for name := range strings.SplitSeq(names, "\n") {
			known[name] = true
		}
		forms := formsOf(model)
		for _, form := range forms {
			for i := range min(len(form)+1, 64) {
				if cuts>>i&1 != 0 {
					known[form[:i]] = true
				}
			}
		}
		got, ok := Match(model, func(name string) bool {
			if name == "" || name == "*" {
				t.Errorf("asked whether %q exists", name)
			}
			return known[name]
		})
		if want := slowMatch(model, known); got != want || ok != (want != "") {
			t.Fatalf("%q: %q, %v, want %q", model, got, ok, want)
		}
		if !ok {
			return
		}
		if !known[got] {
			t.Errorf("%q: %q does not exist", model, got)
		}
		if !slices.ContainsFunc(forms, func(form string) bool { return strings.HasPrefix(form, got) }) {
			t.Errorf("%q: %q is no part of it", model, got)
		}
		// What a name stands for is itself a name, and stands for itself.
		if again, _ := Match(got, func(name string) bool { return known[name] }); again != got {
			t.Errorf("%q: %q, and that: %q", model, got, again)
		}
	})
}

// TestMatchOfRandomParts tries what a fuzzer is slow to spell.
func TestMatchOfRandomParts(t *testing.T) {
	parts := []string{
		"m", "-", "-", "-", ":", "@", "/", "x", "*", "1", "-001", "-2024", "-05", "-13", "-12", "-00", "-0513", "-1305",
		"-2024-05-13", "-2024-13-05", "-20240513", "-latest", "-v", "-v2", "models/", "publishers/", "p/", "\n", "\xff",
	}
	random := rand.New(rand.NewPCG(1, 2))
	matched := 0
	for range 50_000 / racetest.Factor {
		var b strings.Builder
		for range 1 + random.IntN(9) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		model := b.String()
		known := make(map[string]bool)
		for _, form := range formsOf(model) {
			for range random.IntN(4) {
				known[form[:random.IntN(len(form)+1)]] = true
			}
		}
		want := slowMatch(model, known)
		got, ok := Match(model, func(name string) bool { return known[name] })
		if got != want || ok != (want != "") {
			t.Fatalf("%q among %q: %q, %v, want %q", model, slices.Sorted(maps.Keys(known)), got, ok, want)
		}
		if ok && got != model {
			matched++
		}
	}
	if matched < 5_000/racetest.Factor {
		t.Errorf("%d of the names matched another", matched)
	}
}
