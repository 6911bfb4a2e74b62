package catalog

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
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
		var got money.Amount
		if price := p.Find(c.naming, c.name, c.model); price != nil {
			got = price.Input
		}
		if got != c.want {
			t.Errorf("%s: Find(%q, %q) = %v, want %v", c.why, c.name, c.model, got, c.want)
		}
	}
	p.Set("*", of(6))
	if price := p.Find(&Names{}, "claude", "claude"); price == nil || price.Input != 6 {
		t.Errorf("with the price of all others: %v", price)
	}
}

func TestPricesMost(t *testing.T) {
	price := map[string]money.Price{"m": {Input: money.Dollar, Output: 2 * money.Dollar}}
	for _, c := range []struct {
		name   string
		free   bool
		count  state.Count
		billed int
		money  money.Amount
		priced bool
	}{
		{"m", false, state.Count{Input: 1_000_000, Output: 500_000}, 0, 2 * money.Dollar, true},
		{"m", false, state.Count{Input: 1_000_000, Output: 500_000}, 1_000_000, 3 * money.Dollar, true},
		{"other", false, state.Count{Input: 1}, 0, 0, false},
		{"other", true, state.Count{Input: 1}, 0, 0, true},
	} {
		most, priced := NewPrices(price, c.free).Most(&Names{}, c.name, c.name, c.count, c.billed, 0)
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

// A call costs what its hour and its service tier say; what is not known costs most at first.
func TestPricesByTerms(t *testing.T) {
	p := NewPrices(map[string]money.Price{"m": {Input: 2, Rates: money.Rates{
		{ServiceTier: money.Priority, Input: 8}, {ServiceTier: money.Flex, Input: 1},
		{From: 60, Until: 120, Input: 4}, {From: 60, Until: 120, ServiceTier: money.Priority, Input: 16},
	}}}, false)
	night := time.Date(2026, 11, 26, 1, 30, 0, 0, time.UTC).UnixNano()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC).UnixNano()
	million := state.Count{Input: 1_000_000}
	for wall, want := range map[int64]money.Amount{0: 16, noon: 8, night: 16} {
		if most, priced := p.Most(&Names{}, "m", "m", million, 0, wall); most != want || !priced {
			t.Errorf("at %d: at most %v, %v, want %v", wall, most, priced, want)
		}
	}
	for _, c := range []struct {
		wall   int64
		billed *money.Usage
		want   money.Amount
	}{
		{noon, nil, 2}, {night, nil, 4},
		{noon, &money.Usage{Input: 1_000_000}, 2},
		{noon, &money.Usage{Input: 1_000_000, ServiceTier: money.Flex}, 1},
		{night, &money.Usage{Input: 1_000_000, ServiceTier: money.Priority}, 16},
	} {
		if got := p.Cost(&Names{}, "m", "m", million, c.billed, c.wall); got != c.want {
			t.Errorf("%+v at %d costs %v, want %v", c.billed, c.wall, got, c.want)
		}
	}
}
