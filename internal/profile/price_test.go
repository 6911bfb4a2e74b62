// Prices: the files in prices/, and which of them is that of a model.

package profile

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/money"
)

func builtinPrices(t testing.TB) Prices {
	t.Helper()
	prices, err := ParsePrices(os.DirFS("prices"))
	if err != nil {
		t.Fatal(err)
	}
	return prices
}

func TestPriceData(t *testing.T) {
	prices := builtinPrices(t)
	for name, list := range prices {
		if builtin(t).Provider(name) == nil {
			t.Errorf("%s has prices and no profile", name)
		}
		if !strings.HasPrefix(list.Licence, "MIT") {
			t.Errorf("%s: the licence is %q", name, list.Licence)
		}
		for _, r := range list.Rows {
			if day := r.ReadOn.Time(); day.After(time.Now()) || day.Before(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)) {
				t.Errorf("%s: %s were read on %s", name, r.Models, r.ReadOn)
			}
			for i := range r.Price.Rates {
				if rate := &r.Price.Rates[i]; rate.Above > 0 && rate.Input == 0 && r.Price.Input > 0 {
					t.Errorf("%s: %s: large calls are free", name, r.Models)
				}
			}
		}
	}
	if notice, err := os.ReadFile("prices/LICENSE"); err != nil || !strings.Contains(string(notice), "Pydantic") {
		t.Errorf("the notice of genai-prices: %v", err)
	}
}

func TestFindPrice(t *testing.T) {
	prices := builtinPrices(t)
	for _, tt := range []struct {
		provider, model string
		usage           money.Usage
		want            money.Amount // by the provider's page; -1 for no price
	}{
		{"openai", "gpt-5.5", money.Usage{Input: 300_000, Output: 10_000}, money.USD(3.45)},
		{"openai", "gpt-5.5-2026-04-23", money.Usage{Input: 272_000}, money.USD(1.36)},
		{"", "gpt-5.5", money.Usage{Input: 272_001}, money.USD(2.72001)},
		{"", "gpt-5.6-sol", money.Usage{Input: 272_000, Output: 1000}, money.USD(1.108)},
		{"", "gpt-6-astra", money.Usage{Input: 272_000, Output: 1000}, money.USD(2.77)},
		{"", "openai/gpt-5.5", money.Usage{Input: 100_000}, money.USD(0.5)},
		{"openai", "gpt-4.1", money.Usage{Input: 1_000_000}, money.USD(2)},
		{"", "claude-sonnet-4-5-20250929", money.Usage{CacheWriteHour: 100_000}, money.USD(0.6)},
		{"anthropic", "claude-opus-4-1-20250805", money.Usage{CachedInput: 1_000_000}, money.USD(1.5)},
		{"gemini", "gemini-2.5-pro", money.Usage{Input: 200_001}, 500_003},
		{"xai", "grok-4.7", money.Usage{Input: 199_999}, 399_998},
		{"xai", "grok-4.7", money.Usage{Input: 200_000, Output: 1000}, money.USD(0.812)},
		{"openai", "claude-opus-4-1", money.Usage{}, -1},
		{"azure", "my-deployment", money.Usage{}, -1},
		{"local", "llama3", money.Usage{}, -1},
		{"", "nobody-knows-this", money.Usage{}, -1},
		{"", "", money.Usage{}, -1},
		{"", "*", money.Usage{}, -1},
	} {
		row := prices.Find(tt.provider, tt.model)
		switch {
		case row == nil && tt.want != -1:
			t.Errorf("%s %s has no price", tt.provider, tt.model)
		case row != nil && tt.want == -1:
			t.Errorf("%s %s has the price of %q", tt.provider, tt.model, row.Models)
		case row != nil && tt.want >= 0 && row.Price.Cost(tt.usage) != tt.want:
			t.Errorf("%s %s: %v, want %v", tt.provider, tt.model, row.Price.Cost(tt.usage), tt.want)
		}
	}
}

// An hour of a cache costs twice the input at Anthropic, whichever the model.
func TestAnthropicCaches(t *testing.T) {
	for _, r := range builtinPrices(t)["anthropic"].Rows {
		if p := r.Price; p.CacheWriteHour != 0 && p.CacheWriteHour != 2*p.Input {
			t.Errorf("%s: %v for an hour, %v for input", r.Models, p.CacheWriteHour, p.Input)
		}
	}
}

func TestParsePrices(t *testing.T) {
	const head = `{"provider": "p", "source": "s", "read_on": "2026-09-23", "rows": [`
	for text, want := range map[string]string{
		head + `{"models": ["m"], "price": {"input": "$1"}}]}`:                                               "",
		head + `{"models": ["m"], "price": {"input": "$1"}}, {"models": ["m"], "price": {"output": "$1"}}]}`: `rows[1]: model "m" has two prices`,
		head + `{"models": [], "price": {"input": "$1"}}]}`:                                                  "rows[0]: no models",
		head + `{"models": ["*"], "price": {"input": "$1"}}]}`:                                               "not the name of one",
		head + `{"models": ["m"], "price": {}}]}`:                                                            "no price",
		head + `{"models": ["m"], "price": {"input": "-1"}}]}`:                                               "Input (input) is negative",
		head + `{"models": ["m"], "prices": {"input": "1"}}]}`:                                               `unknown field "prices"`,
		head + `{"models": ["m"], "source": "t", "price": {"input": "1"}}]}`:                                 "no source, or no day",
		head + `]} {}`:                  "more after the object",
		`{"provider": "q", "rows": []}`: `provider is "q"`,
		`{"provider": "p", "rows": [{"models": ["m"], "price": {"input": "$1"}}]}`: "no source, or no day",
	} {
		_, err := ParsePrices(fstest.MapFS{"p.json": {Data: []byte(text)}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What was looked for is remembered until other profiles are loaded.
func TestPriceOfLoaded(t *testing.T) {
	var l Loaded
	c := new(catalog.Catalog)
	row, first := l.PriceOf("gpt-5.5", "gpt-5.5", c)
	if row == nil || row.Provider != "openai" || !first {
		t.Fatalf("%+v, %v", row, first)
	}
	if again, first := l.PriceOf("gpt-5.5", "gpt-5.5", c); again != row || first {
		t.Errorf("%+v, %v", again, first)
	}
	l.Add("azure") // whose profile names no models, so that all are its deployments
	if row, first := l.PriceOf("a-deployment", "a-deployment", c); row != nil || !first {
		t.Errorf("%+v, %v", row, first)
	}
	if row, _ := l.PriceOf("counted", "gpt-4.1", c); row != nil && slices.Contains(row.Models, "counted") {
		t.Errorf("%+v", row)
	}
	for i := range 3 * mostFound {
		l.PriceOf("m", strings.Repeat("m", 1+i), c)
	}
	if n := len(l.prices.rows); n > mostFound+1 {
		t.Errorf("%d prices are remembered", n)
	}
}

// A model that no profile has a row of has the price of a provider that was loaded, whatever stands
// in front of its name.
func TestPriceOfLoadedProviders(t *testing.T) {
	c := new(catalog.Catalog)
	for _, tt := range []struct{ loaded, model, want string }{
		{"groq", "llama-3.3-70b-versatile", "groq"},
		{"openai groq", "llama-3.3-70b-versatile", "groq"},
		{"cerebras", "llama-3.3-70b", "cerebras"},
		{"openrouter", "anthropic/claude-opus-4.5", "openrouter"},
		{"openai", "llama-3.3-70b-versatile", ""},
		{"groq", "gpt-4.1", "openai"},
		{"", "llama-3.3-70b-versatile", ""},
	} {
		var l Loaded
		for provider := range strings.FieldsSeq(tt.loaded) {
			l.Add(provider)
		}
		row, _ := l.PriceOf(tt.model, tt.model, c)
		if row == nil && tt.want != "" || row != nil && row.Provider != tt.want {
			t.Errorf("with %q: %s has %+v, want a price of %q", tt.loaded, tt.model, row, tt.want)
		}
	}
}

func FuzzParsePrices(f *testing.F) {
	text, err := priceFiles.ReadFile("prices/deepseek.json") // which is not where CI runs this
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parsePrices(text)
		if err != nil {
			return
		}
		for i := range list.Rows {
			r := &list.Rows[i]
			if err := r.Price.Validate(); err != nil {
				t.Fatal(err)
			}
			for _, model := range r.Models {
				if list.find(strings.ReplaceAll(model, "*", "x")) == nil {
					t.Fatalf("no price for %q", model)
				}
			}
		}
	})
}
