package ratelimit

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/settings"
	"dappco.re/go/core/go-ratelimit/money"
)

// UnpricedPolicy says what happens to a call of a model without a price (Config.Prices, SetPrice)
// where its quota, or that of one of its pools, limits spend. Zero is UnpricedDeny.
type UnpricedPolicy int

// The policies.
const (
	UnpricedDeny UnpricedPolicy = iota // the call is denied, with DecisionUnpriced
	UnpricedFree                       // the call costs nothing
)

var unpricedPolicies = settings.PolicyWords{Type: "UnpricedPolicy", What: "unpriced policy", Words: []string{"deny", "free"}}

// String returns "deny" or "free".
func (p UnpricedPolicy) String() string { return unpricedPolicies.String(int(p)) }

// MarshalText returns what String does. It fails for a value that is neither policy.
func (p UnpricedPolicy) MarshalText() ([]byte, error) { return unpricedPolicies.Marshal(int(p)) }

// UnmarshalText reads "deny" or "free". It fails for any other text, and changes nothing then.
func (p *UnpricedPolicy) UnmarshalText(text []byte) error {
	return unpricedPolicies.Unmarshal((*int)(p), text)
}

// SetPrice sets the price of a model, as an entry of Config.Prices does: see there for names and
// patterns. The zero price is that of a free model. Calls that are open keep the amount that they
// have reserved, and are settled at the new price. Prices are neither saved nor shared: the cost of
// each call is. Calls of this limiter that wait ask at the new price, and are served or refused at
// once. A negative price is an error that wraps money.ErrInvalidPrice, and changes nothing.
func (rl *RateLimiter) SetPrice(model string, price money.Price) error {
	if err := catalog.ValidatePrice(model, price); err != nil {
		return fmt.Errorf("set price: %w", err)
	}
	rl.change(func(now account.Now) (saves bool) {
		if rl.pricing == nil {
			rl.pricing = new(catalog.Prices)
		}
		rl.pricing.Set(model, price)
		if rl.shared != nil {
			rl.shared.repriceLocked()
			return false
		}
		changed := false
		for w, option := range rl.engine.Queue {
			changed = w.Local.(*waiter).priceLocked(option.Requests) || changed
		}
		if changed {
			rl.engine.Serve(now)
		}
		return false
	})
	return nil
}

// PriceOf returns the price by which calls of a model are counted: see Config.Prices.
func (rl *RateLimiter) PriceOf(model string) (price money.Price, ok bool) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.readyLocked()
	counted := rl.nameRLocked(model)
	is := rl.pricing.Find(&rl.naming, counted, model)
	if is == nil && !rl.noPrices {
		is = rl.builtinPriceRLocked(counted, model)
	}
	if is == nil {
		return price, false
	}
	return *is, true
}

// priceLocked has the built-in prices count, because there is a budget.
func (rl *RateLimiter) priceLocked() {
	if rl.noPrices {
		return
	}
	if rl.pricing == nil {
		rl.pricing = new(catalog.Prices)
	}
	rl.pricing.Others = rl.builtinPriceRLocked
}

// builtinPriceRLocked returns the built-in price of a model; nil for none.
func (rl *RateLimiter) builtinPriceRLocked(counted, model string) *money.Price {
	row, first := rl.loaded.PriceOf(counted, model, rl.engine.Catalog)
	if row == nil {
		return nil
	}
	if first && rl.reporter != nil && row.IsOld(rl.clock.At(rl.clock.Now())) {
		if _, told := toldStale.LoadOrStore("price "+row.Provider, true); !told {
			rl.reporter.ReportAs("price "+row.Provider, &StalePriceError{Provider(row.Provider), counted, row.ReadOn.Time(), row.Source})
		}
	}
	return &row.Price
}

// StalePriceError tells Config.OnError that the cost of a model is counted by a built-in price that
// is older than 90 days: the provider may charge another one by now. It comes once a process for
// each provider. Set the price that you pay to be rid of it: see Config.Prices.
type StalePriceError struct {
	Provider Provider
	Model    string    // the model, as it is counted
	ReadOn   time.Time // midnight UTC of the day the price was read
	URL      string    // where, or from which data
}

// Error names the model and the day its price was read.
func (e *StalePriceError) Error() string {
	return fmt.Sprintf("the price of %q is that of the provider %q as it was read on %s: look up what you pay, and set it by Config.Prices",
		e.Model, e.Provider, e.ReadOn.Format(time.DateOnly))
}
