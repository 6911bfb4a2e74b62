package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

// Prices are those of models; no Catalog knows them, as they are each process's own. The zero value
// has none. Find, Most and Cost are safe for concurrent use while nothing is set.
type Prices struct {
	prices map[string]money.Price // by names as callers use them, counted names, and patterns
	index  *PatternIndex          // the patterns
	free   bool                   // a model without a price costs nothing
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
	p := &Prices{prices: maps.Clone(prices), free: free}
	p.index = NewPatternIndex(maps.Keys(p.prices))
	return p
}

// Set sets the price of a model or a pattern.
func (p *Prices) Set(model string, price money.Price) {
	if p.prices == nil {
		p.prices = make(map[string]money.Price)
	}
	p.prices[strings.Clone(model)] = price
	p.index = NewPatternIndex(maps.Keys(p.prices))
}

// Find returns the price of a model, which is counted under a name.
func (p *Prices) Find(naming *Names, name, model string) (price money.Price, ok bool) {
	if price, ok = p.prices[name]; ok {
		return price, true
	}
	if price, ok = p.prices[model]; ok {
		return price, true
	}
	if naming.MatchVersions {
		version, _ := naming.Match(model, func(name string) bool { _, ok := p.prices[name]; return ok })
		if price, ok = p.prices[version]; ok {
			return price, true
		}
	}
	if p.index != nil {
		if pattern, ok := p.index.Longest(name); ok {
			return p.prices[pattern], true
		}
	}
	price, ok = p.prices[Every]
	return price, ok
}

// Most returns the most that a call of a model can cost, which may be billed for more output than
// its estimate has, and whether that is known.
func (p *Prices) Most(naming *Names, name, model string, c tokens.Count, billedOutput int) (most money.Amount, priced bool) {
	price, ok := p.Find(naming, name, model)
	return price.MaxCost(c.Input, max(c.Output, billedOutput)), ok || p.free
}

// Cost returns what a call of a model has cost: of what its caller says that is billed or, where
// that is nil, of the usage as it is. Without prices it is 0.
func (p *Prices) Cost(naming *Names, name, model string, used tokens.Count, billed *money.Usage) money.Amount {
	if p == nil {
		return 0
	}
	price, _ := p.Find(naming, name, model)
	if billed == nil {
		billed = &money.Usage{Input: used.Input, Output: used.Output}
	}
	return price.Cost(*billed)
}
