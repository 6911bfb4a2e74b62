package provenance_test

import (
	"maps"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/provenance"
)

// In these tests a quota is its only limit.
type quotas = provenance.Quotas[int]
type correction = provenance.Correction[int]

func TestSuppliedUntilTheProgramSetsAnother(t *testing.T) {
	var p quotas
	if p.IsSupplied("m", 0) {
		t.Error("the zero value has supplied a quota")
	}
	p.Supply("m", 5)
	for q, want := range map[int]bool{5: true, 6: false} {
		if got := p.IsSupplied("m", q); got != want {
			t.Errorf("IsSupplied(%d) = %v", q, got)
		}
	}
	supplied := p.Supplied()
	if !maps.Equal(supplied, map[string]int{"m": 5}) {
		t.Errorf("Supplied: %v", supplied)
	}
	supplied["m"] = 6
	if p.IsSupplied("m", 6) {
		t.Error("Supplied is no copy")
	}
	p.Set("m")
	if p.IsSupplied("m", 5) {
		t.Error("supplied although the program set it")
	}
}

// What is remembered of a correction, by whose quota was corrected.
func TestLearn(t *testing.T) {
	for _, tt := range []struct {
		name       string
		c          correction
		remembered bool
		supplied   bool
	}{
		{"a quota of a profile follows the provider", correction{Is: 4}, false, true},
		{"one of the program is remembered", correction{Is: 4, Said: 5, ByHand: true}, true, false},
		{"until it is back", correction{Is: 5, Said: 5, ByHand: true}, false, false},
		{"a copy is remembered", correction{Is: 4, Copied: true}, true, true},
		{"also one of what the program said", correction{Is: 4, Said: 5, ByHand: true, Copied: true}, true, true},
	} {
		var p quotas
		p.Learn("m", correction{Is: 3, Said: 5, ByHand: true}) // an earlier one
		p.Supply("m", 9)
		p.Learn("m", tt.c)
		got, ok := p.Correction("m", tt.c.Is)
		if ok != tt.remembered || ok && got != tt.c {
			t.Errorf("%s: %+v, %v", tt.name, got, ok)
		}
		if _, ok := p.Correction("m", 7); ok {
			t.Errorf("%s: a correction of a quota that the model has not", tt.name)
		}
		if p.IsSupplied("m", tt.c.Is) != tt.supplied {
			t.Errorf("%s: supplied is not %v", tt.name, tt.supplied)
		}
		if want := tt.c.Copied; p.IsCopy("m") != want {
			t.Errorf("%s: IsCopy is not %v", tt.name, want)
		}
		p.Unlearn("m")
		if _, ok := p.Correction("m", tt.c.Is); ok || p.IsCopy("m") {
			t.Errorf("%s: not unlearned", tt.name)
		}
	}
}

// Copies go with the quota that they are of, unless the program has replaced them.
func TestCopies(t *testing.T) {
	var p quotas
	quotas := map[string]int{"*": 5, "copy": 4, "replaced": 8, "own": 3}
	p.Learn("copy", correction{Is: 4, Said: 5, ByHand: true, Copied: true})
	p.Learn("replaced", correction{Is: 4, Said: 5, ByHand: true, Copied: true})
	p.Learn("own", correction{Is: 3, Said: 6, ByHand: true})

	want := map[string]int{"*": 5, "replaced": 8, "own": 3}
	if got := p.Stored(quotas); !maps.Equal(got, want) {
		t.Errorf("Stored: %v, want %v", got, want)
	}
	if quotas["copy"] != 4 {
		t.Error("Stored is no copy")
	}

	names := p.UnlearnCopies(quotas)
	if len(names) != 1 || names[0] != "copy" || !maps.Equal(quotas, want) {
		t.Errorf("UnlearnCopies: %v, and %v remain, want %v", names, quotas, want)
	}
	if p.IsCopy("copy") || p.IsCopy("replaced") || p.IsSupplied("copy", 4) {
		t.Error("a copy is remembered")
	}
	if _, ok := p.Correction("own", 3); !ok {
		t.Error("the correction of another model is forgotten")
	}
}
