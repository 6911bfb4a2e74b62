package profile

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// acme is a file in which all is right.
const acme = `{
	"provider": "acme",
	"source": "https://acme.example/limits",
	"tiers": [{"name": "free"}, {"name": "basic", "paid": true}, {"name": "1", "paid": true, "earlier": true}],
	"counting": ["input only"],
	"rows": [
		{"models": ["a-0"], "limits": {}, "source": "a document", "read_on": "2026-02-01", "confidence": "source document"},
		{
			"tiers": ["free", "basic"], "models": ["a-1", "a-1-20*"], "group": "a", "limits": {"rpm": 5, "day_zone": "UTC"},
			"counting": ["cache reads free"], "source": "https://acme.example/a", "read_on": "2026-10-04",
			"confidence": "published", "note": "A note."
		},
		{"tiers": ["1"], "models": ["a-1", "a-2"], "limits": {"tpm": 7}, "source": "https://acme.example/b", "read_on": "2026-08-01", "confidence": "second-hand"}
	]
}`

func parseText(text string) (*Set, error) {
	return Parse(fstest.MapFS{"acme.json": {Data: []byte(text)}})
}

func TestParse(t *testing.T) {
	set, err := parseText(acme)
	if err != nil {
		t.Fatal(err)
	}
	p := set.Provider("acme")
	row := p.Models("basic")["a-1-20*"]
	if row == nil || row.Limits != (Limits{RPM: 5, DayZone: "UTC"}) || row.Group != "a" || row.Note != "A note." ||
		row.ReadOn.String() != "2026-10-04" || row.Confidence != Published || row.Source != "https://acme.example/a" {
		t.Errorf("the row is %+v", row)
	}
	if set, err := Parse(fstest.MapFS{"readme.txt": {}, "in/b.json": {}}); err != nil || len(set.Names()) != 0 {
		t.Errorf("without files: %v, %v", set, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, old, new string // old and new of acme
		want           string // part of the error
	}{
		{"an unknown field", `"group": "a"`, `"groups": "a"`, `"groups"`},
		{"an unknown limit", `"rpm": 5`, `"rpm": 5, "rps": 6`, `"rps"`},
		{"a field in another case", `"rpm": 5`, `"RPM": 5`, `"RPM"`},
		{"a field that comes twice", `"rpm": 5`, `"rpm": 5, "rpm": 6`, `"rpm" comes twice`},
		{"a field of another type", `"rpm": 5`, `"rpm": "5"`, "rpm"},
		{"a limit that is no integer", `"rpm": 5`, `"rpm": 5.5`, "rpm"},
		{"a negative limit", `"rpm": 5`, `"rpm": -5`, "rows[1]: limits: -5"},
		{"no limit", `"rpm": 5, `, ``, "rows[1]: limits has no figure"},
		{"no day", `"read_on": "2026-08-01", `, ``, "read_on"},
		{"a day that is none", `2026-10-04`, `2026-13-04`, "2026-13-04"},
		{"a month", `2026-10-04`, `2026-10`, "2026-10"},
		{"an unknown confidence", `"published"`, `"sure"`, `"sure"`},
		{"no confidence", `"second-hand"`, `""`, `rows[2]: confidence is ""`},
		{"no source of a row", `https://acme.example/a`, ``, `rows[1]: source is ""`},
		{"a source without https", `https://acme.example/a`, `http://acme.example`, `rows[1]: source`},
		{"no source of the provider", `"source": "https://acme.example/limits",`, ``, `source is ""`},
		{"no models", `["a-0"]`, `[]`, "rows[0]: models is empty"},
		{"a model of no name", `["a-0"]`, `[""]`, `models: ""`},
		{"the quota of all models", `"a-2"`, `"*"`, `models: "*"`},
		{"two stars", `"a-2"`, `"b**"`, `models: "b**"`},
		{"a space in a name", `"a-2"`, `"a 2"`, `"a 2"`},
		{"a control character in a name", `"a-2"`, `"a\u00002"`, `rows[2]: models`},
		{"a name twice in a row", `"a-2"`, `"a-1"`, `rows[2]: models: "a-1" comes twice`},
		{"a tier that is not listed", `["1"]`, `["2"]`, `rows[2]: tiers: "2"`},
		{"a tier twice in a row", `["1"]`, `["1", "1"]`, `tiers: "1"`},
		{"no tier", `["1"]`, `[]`, "tiers is empty"},
		{"a tier twice", `{"name": "free"}`, `{"name": "free"}, {"name": "free"}`, `tiers[1]: name "free"`},
		{"a tier in upper case", `{"name": "free"}`, `{"name": "Free"}`, `tiers[0]: name "Free"`},
		{"a tier after an earlier one", `{"name": "free"}`, `{"name": "old", "earlier": true}, {"name": "free"}`, "tiers[1]"},
		{"an unknown rule", `"input only"`, `"output only"`, `counting: "output only"`},
		{"an unknown rule of a row", `"cache reads free"`, `""`, `rows[1]: counting: ""`},
		{"tiers of the source document", `{"models": ["a-0"]`, `{"tiers": ["free"], "models": ["a-0"]`, "rows[0]"},
		{"a pattern of the source document", `"a-0"`, `"a-*"`, "rows[0]"},
		{"a name twice at a tier", `{"tiers": ["1"]`, `{"tiers": ["1", "basic"]`, `rows[1] and rows[2] cover the same names: "a-1" and "a-1"`},
		{"patterns of a length that meet", `{"tiers": ["1"], "models": ["a-1", "a-2"]`, `{"tiers": ["free"], "models": ["*a-1-20"]`, `"a-1-20*" and "*a-1-20"`},
		{"a name of the source document at the lowest tier", `["a-0"]`, `["a-1"]`, "rows[0] and rows[1]"},
		{"a name of the source document at the lowest earlier tier", `["a-0"]`, `["a-2"]`, "rows[0] and rows[2]"},
		{"another name than the file's", `"provider": "acme"`, `"provider": "amce"`, `"amce"`},
		{"text after the object", "\t]\n}", "\t]\n} {}", "more after"},
		{"models without a figure, and no why", `"counting": ["input only"]`, `"counting": ["input only"], "no_figure": {"models": ["b"]}`, "no_figure: models and why"},
		{"a why, and no models", `"counting": ["input only"]`, `"counting": ["input only"], "no_figure": {"why": "b"}`, "no_figure: models and why"},
		{"a model without a figure twice", `"counting": ["input only"]`, `"counting": ["input only"], "no_figure": {"models": ["b", "*", "b"], "why": "c"}`, `no_figure: models: "b" comes twice`},
		{"a statement of nothing", `"counting": ["input only"]`, `"counting": ["input only"], "statements": [{"source": "https://acme.example", "read_on": "2026-10-04"}]`, "statements[0]: counts is empty"},
		{"a statement without a day", `"counting": ["input only"]`, `"counting": ["input only"], "statements": [{"source": "https://acme.example", "counts": "a"}]`, "statements[0]: read_on"},
		{"a statement without a source", `"counting": ["input only"]`, `"counting": ["input only"], "statements": [{"counts": "a", "read_on": "2026-10-04"}]`, "statements[0]: source"},
		{"half a file", "\t]\n}", "\t]", "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Count(acme, tt.old) < 1 {
				t.Fatalf("%q is not in the file", tt.old)
			}
			_, err := parseText(strings.Replace(acme, tt.old, tt.new, 1))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "parse profiles: acme.json: ") {
				t.Errorf("error %v, want one of acme.json with %s", err, tt.want)
			}
		})
	}
}

// FuzzParse parses a file. What it takes has the properties that the limiter relies on, and is
// the same when it is written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(acme))
	for _, seed := range []string{``, `{}`, `[]`, `null`, `{"provider":"acme"}`, `{"rows":[{}]}`, `{"a":{"b":[1,{"c":2}]}}`, `{"tiers":null,"provider":"acme","source":"https://a"}`, `{"":0,"":1}`, `]`, `{"a"`} {
		f.Add([]byte(seed))
	}
	for _, name := range []string{"openrouter", "gemini"} {
		text, err := os.ReadFile("data/" + name + ".json")
		if err == nil { // not where the binary of the tests runs elsewhere
			f.Add(bytes.Replace(text, []byte(`"`+name+`"`), []byte(`"acme"`), 1))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := parseText(string(text))
		if err != nil {
			if set != nil || !strings.HasPrefix(err.Error(), "parse profiles: acme.json: ") {
				t.Errorf("%v, %v", set, err)
			}
			return
		}
		p := set.Provider("acme")
		for name, row := range p.Defaults() {
			if q := row.Limits.Quota(); q.MaxRPM < 0 || q.MaxTPM < 0 || row.ReadOn.Time().IsZero() || name == "*" {
				t.Errorf("%q: %+v", name, row)
			}
		}
		for _, tier := range p.TierNames() {
			if _, ok := p.FindTier(tier); !ok {
				t.Errorf("no tier %q", tier)
			}
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseText(string(again)); err != nil {
			t.Errorf("%v in %s", err, again)
		}
	})
}
