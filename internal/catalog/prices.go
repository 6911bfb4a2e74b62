package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// Prices are those of models; no Catalog knows them, as they are each process's own. The zero value
// has none. Find, Most and Cost are safe for concurrent use while nothing is set.
type Prices struct {
	prices map[string]*money.Price // by names as callers use them, counted names, and patterns
	index  *PatternIndex           // the patterns
	free   bool                    // a model without a price costs nothing

	// Others returns the price of a model, counted under a name, that has none here; nil for none.
	// It is nil where only these prices count.
	Others func(name, model string) *money.Price
}

// ValidatePrices returns an error that names the model, the field and the value of the first price
// that is out of range.
func ValidatePrices(prices map[string]money.Price) error {
	for _, model := range slices.Sorted(maps.Keys(prices)) {
		if err := ValidatePrice(model, prices[model]); err != nil {
			return err
		}
	}
	return nil
}

// ValidatePrice is ValidatePrices for one.
func ValidatePrice(model string, price money.Price) error {
	if err := price.Validate(); err != nil {
		return fmt.Errorf("model %q: %w", errtext.Clip(model), err)
	}
	return nil
}

// NewPrices returns prices by names as callers use them, names under which models are counted, and
// patterns; nil where there is nothing to count. Where free is set, a model without a price costs
// nothing.
func NewPrices(prices map[string]money.Price, free bool) *Prices {
	if len(prices) == 0 && !free {
		return nil
	}
	p := &Prices{prices: make(map[string]*money.Price, len(prices)), free: free}
	for model, price := range prices {
		p.prices[model] = &price
	}
	p.index = NewPatternIndex(maps.Keys(p.prices))
	return p
}

// Set sets the price of a model or a pattern.
func (p *Prices) Set(model string, price money.Price) {
	if p.prices == nil {
		p.prices = make(map[string]*money.Price)
	}
	p.prices[strings.Clone(model)] = &price
	p.index = NewPatternIndex(maps.Keys(p.prices))
}

// Find returns the price of a model, which is counted under a name; nil for none.
func (p *Prices) Find(naming *Names, name, model string) *money.Price {
	if p == nil {
		return nil
	}
	if price := p.prices[name]; price != nil {
		return price
	}
	if price := p.prices[model]; price != nil {
		return price
	}
	if naming.MatchVersions {
		version, _ := naming.Match(model, func(name string) bool { return p.prices[name] != nil })
		if price := p.prices[version]; price != nil {
			return price
		}
	}
	if p.index != nil {
		if pattern, ok := p.index.Longest(name); ok {
			return p.prices[pattern]
		}
	}
	if price := p.prices[Every]; price != nil || p.Others == nil {
		return price
	}
	return p.Others(name, model)
}

// Most returns the most that a call of a model can cost that is admitted at a time, by whichever
// service tier, and whether that is known. The time is 0 where it is not known. The call may be
// billed for more output than its estimate has.
func (p *Prices) Most(naming *Names, name, model string, c state.Count, billedOutput int, wall int64) (most money.Amount, priced bool) {
	price := p.Find(naming, name, model)
	if price == nil {
		return 0, p != nil && p.free
	}
	return price.MaxCostAt(c.Input, max(c.Output, billedOutput), termsAt(price, wall)), true
}

// termsAt returns the terms of a call that is admitted at a time; 0 for one that is not known.
func termsAt(price *money.Price, wall int64) (terms money.Terms) {
	if wall != 0 && !price.Rates.IsZero() {
		terms.At = time.Unix(0, wall)
	}
	return terms
}

// Cost returns what a call of a model has cost that was admitted at a time: of what its caller says
// that is billed or, where that is nil, of the usage as it is. Its service tier is the standard one
// where nobody says another. Without prices it is 0.
func (p *Prices) Cost(naming *Names, name, model string, used state.Count, billed *money.Usage, wall int64) money.Amount {
	price := p.Find(naming, name, model)
	if price == nil {
		return 0
	}
	if billed == nil {
		billed = &money.Usage{Input: used.Input, Output: used.Output}
	}
	terms := termsAt(price, wall)
	terms.ServiceTier = money.Standard
	return price.CostAt(*billed, terms)
}
