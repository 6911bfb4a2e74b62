package catalog

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

func TestPricesFind(t *testing.T) {
	of := func(a money.Amount) money.Price { return money.Price{Input: a} }
	p := NewPrices(map[string]money.Price{"counted": of(1), "asked": of(2), "gpt-4o": of(3), "gpt-*": of(4), "gpt-5*": of(5)}, false)
	versions := Names{MatchVersions: true}
	for _, c := range []struct {
		why, name, model string
		naming           *Names
		want             money.Amount // 0 for none
	}{
		{"the counted name is first", "counted", "asked", &Names{}, 1},
		{"then the name that was asked for", "another", "asked", &Names{}, 2},
		{"then the model of which it is a version", "gpt-4o-2024-08-06", "gpt-4o-2024-08-06", &versions, 3},
		{"a version is a name of its own without MatchVersions", "gpt-4o-2024-08-06", "gpt-4o-2024-08-06", &Names{}, 4},
		{"then the longest pattern", "gpt-5-mini", "gpt-5-mini", &Names{}, 5},
		{"else there is none", "claude", "claude", &Names{}, 0},
	} {
		price, ok := p.Find(c.naming, c.name, c.model)
		if price.Input != c.want || ok != (c.want != 0) {
			t.Errorf("%s: Find(%q, %q) = %v, %v, want %v", c.why, c.name, c.model, price.Input, ok, c.want)
		}
	}
	p.Set("*", of(6))
	if price, ok := p.Find(&Names{}, "claude", "claude"); price.Input != 6 || !ok {
		t.Errorf("with the price of all others: %v, %v", price, ok)
	}
}

func TestPricesMost(t *testing.T) {
	price := map[string]money.Price{"m": {Input: money.Dollar, Output: 2 * money.Dollar}}
	for _, c := range []struct {
		name   string
		free   bool
		count  tokens.Count
		billed int
		money  money.Amount
		priced bool
	}{
		{"m", false, tokens.Count{Input: 1_000_000, Output: 500_000}, 0, 2 * money.Dollar, true},
		{"m", false, tokens.Count{Input: 1_000_000, Output: 500_000}, 1_000_000, 3 * money.Dollar, true},
		{"other", false, tokens.Count{Input: 1}, 0, 0, false},
		{"other", true, tokens.Count{Input: 1}, 0, 0, true},
	} {
		most, priced := NewPrices(price, c.free).Most(&Names{}, c.name, c.name, c.count, c.billed)
		if most != c.money || priced != c.priced {
			t.Errorf("Most of %q with %+v, %d billed: %v, %v, want %v, %v", c.name, c.count, c.billed, most, priced, c.money, c.priced)
		}
	}
}

func TestNothingToCount(t *testing.T) {
	if NewPrices(nil, false) != nil {
		t.Error("there are prices")
	}
	if NewPrices(nil, true) == nil {
		t.Error("calls without a price are free, and have none")
	}
}
