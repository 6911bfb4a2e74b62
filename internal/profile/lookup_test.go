package profile

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestLookup(t *testing.T) {
	set, err := Parse(fstest.MapFS{
		"acme.json": {Data: []byte(acme)},
		"bare.json": {Data: []byte(`{"provider": "bare", "source": "https://bare.example"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Names(); !slices.Equal(got, []string{"acme", "bare"}) || set.Provider("amce") != nil {
		t.Errorf("names %q", got)
	}
	p, bare := set.Provider("acme"), set.Provider("bare")
	if got := p.TierNames(); !slices.Equal(got, []string{"free", "basic", "1"}) || len(bare.TierNames()) != 0 {
		t.Errorf("tiers %q", got)
	}
	if p.LowestPaid() != "basic" || bare.LowestPaid() != "" {
		t.Errorf("lowest paid tiers %q and %q", p.LowestPaid(), bare.LowestPaid())
	}
	for _, tt := range []struct {
		name   string
		models map[string]*Row
		want   string // names and their rows
	}{
		{"free", p.Models("free"), "a-1=1 a-1-20*=1"},
		{"an earlier tier", p.Models("1"), "a-1=2 a-2=2"},
		{"a tier that is none", p.Models("2"), ""},
		{"no tier", p.Models(""), ""},
		{"lowest", p.Lowest(), "a-1=1 a-1-20*=1 a-2=2"},
		{"defaults", p.Defaults(), "a-0=0 a-1=1 a-1-20*=1 a-2=2"},
		{"without rows", bare.Defaults(), ""},
	} {
		var got []string
		for _, name := range slices.Sorted(maps.Keys(tt.models)) {
			row := slices.IndexFunc(p.Rows, func(r Row) bool { return r.ReadOn == tt.models[name].ReadOn })
			got = append(got, name+"="+string(rune('0'+row)))
		}
		if strings.Join(got, " ") != tt.want || tt.models == nil {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	for name, want := range map[string]string{
		"free": "free", "FREE": "free", " Basic ": "basic", "1": "1", "Tier 1": "1", "tier1": "1",
		"": "", "2": "", "tier": "", "Tier basics": "",
	} {
		if got, ok := p.FindTier(name); got.Name != want || ok != (want != "") {
			t.Errorf("tier %q: %+v, %v", name, got, ok)
		}
	}
	if rules := p.CountingOf(&p.Rows[1]); !slices.Equal(rules, []Rule{CacheReadsFree}) {
		t.Errorf("a row's own rules are %q", rules)
	}
	if rules := p.CountingOf(&p.Rows[2]); !slices.Equal(rules, []Rule{InputOnly}) {
		t.Errorf("the rules of a row without any are %q", rules)
	}
}
