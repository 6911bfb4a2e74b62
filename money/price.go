package money

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Price is what the tokens of a model cost, each field for a million tokens. Prices compare with
// ==. The zero value is no price: see IsZero.
type Price struct {
	// Input is the price of input tokens. Zero is free.
	Input Amount `yaml:"input,omitempty" json:"input,omitempty"`
	// CachedInput is the price of input tokens that are read from a cache. Zero means that of
	// Input. Where cached input is free, Micro is as good as that: $1 for a million million
	// tokens.
	CachedInput Amount `yaml:"cached_input,omitempty" json:"cached_input,omitempty"`
	// CacheWrite is the price of input tokens that are written to a cache, instead of and not on
	// top of Input. Zero means that of Input.
	CacheWrite Amount `yaml:"cache_write,omitempty" json:"cache_write,omitempty"`
	// CacheWriteHour is CacheWrite for an hour, where CacheWrite is for five minutes, as at
	// Anthropic. Zero means that of CacheWrite.
	CacheWriteHour Amount `yaml:"cache_write_hour,omitempty" json:"cache_write_hour,omitempty"`
	// Output is the price of output tokens, those of reasoning included. Zero is free, as for
	// embeddings.
	Output Amount `yaml:"output,omitempty" json:"output,omitempty"`
	// Rates are what some calls cost in place of that: see Rate. Of those that hold for a call the
	// last one counts; where none does, the fields above.
	Rates Rates `yaml:"rates,omitempty" json:"rates,omitzero"`
}

// ErrInvalidPrice is what errors of Price.Validate wrap.
var ErrInvalidPrice = errors.New("invalid price")

// IsZero reports whether nothing has a price. Such a Price does not tell a model that is free from
// one whose price is not known.
func (p Price) IsZero() bool { return p == Price{} }

// Validate returns an error that wraps ErrInvalidPrice and names the field if one is out of range.
func (p Price) Validate() error {
	plain := p.plain()
	err := plain.validate()
	if err == nil {
		err = p.Rates.validate()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidPrice, err)
	}
	return nil
}

// plain returns the prices that count where no rate holds.
func (p *Price) plain() Rate {
	return Rate{Input: p.Input, CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, CacheWriteHour: p.CacheWriteHour, Output: p.Output}
}

// Terms are what the price of a call depends on beside its tokens. The zero value is a call of
// which nothing is known: the dearest counts.
type Terms struct {
	At          time.Time   // of the admission; the zero time is any
	ServiceTier ServiceTier // that served the call; zero is any
}

// CostAt returns what a call costs: the exact cost of all its tokens, rounded up to a micro-dollar
// once, at most Max. The service tier that the usage names counts before that of the terms. Of what
// is not known the dearest counts. Negative prices and counts count as zero, so it is never
// negative. It does not allocate.
func (p Price) CostAt(u Usage, terms Terms) Amount { return p.costAt(&u, terms) }

func (p *Price) costAt(u *Usage, terms Terms) (dearest Amount) {
	plain := p.plain()
	rates := p.Rates.used()
	if len(rates) == 0 {
		return plain.cost(u)
	}
	if u.ServiceTier != 0 {
		terms.ServiceTier = u.ServiceTier
	}
	size := u.inputs()
	for is := range choices(rates, terms) {
		dearest = max(dearest, pick(&plain, rates, size, is).cost(u))
	}
	return dearest
}

// MaxCostAt returns the most that a call with so many tokens can cost by the terms, whichever of
// its input is cached. A budget that reserves it never has to charge more for a Usage within these
// counts. It does not allocate.
func (p Price) MaxCostAt(input, output int, terms Terms) (most Amount) {
	return p.maxCostAt(input, output, terms)
}

func (p *Price) maxCostAt(input, output int, terms Terms) (most Amount) {
	plain := p.plain()
	rates := p.Rates.used()
	if len(rates) == 0 {
		return plain.most(input, output)
	}
	for is := range choices(rates, terms) {
		most = max(most, pick(&plain, rates, input, is).most(input, output))
		for i := range rates { // a smaller call may cost more: it is the largest below a bound
			if size := rates[i].Above; size > 0 && size < input {
				most = max(most, pick(&plain, rates, size, is).most(size, output))
			}
		}
	}
	return most
}

// choice is a service tier and a time of the day.
type choice struct {
	tier ServiceTier
	at   DayTime
}

// choices visits the tiers and the times of the day that terms leave open, as far as rates tell
// them apart.
func choices(rates []Rate, terms Terms) func(yield func(choice) bool) {
	return func(yield func(choice) bool) {
		first, last := Standard, Priority
		if terms.ServiceTier != 0 {
			first, last = terms.ServiceTier, terms.ServiceTier
		}
		for tier := first; tier <= last; tier++ {
			if !terms.At.IsZero() {
				if !yield(choice{tier, dayTimeOf(terms.At)}) {
					return
				}
				continue
			}
			if !yield(choice{tier: tier}) {
				return
			}
			for i := range rates { // a rate begins or ends to hold at these
				if !yield(choice{tier, rates[i].From}) || !yield(choice{tier, rates[i].Until % dayMinutes}) {
					return
				}
			}
		}
	}
}

// pick returns the last of the rates that holds, plain where none does.
func pick(plain *Rate, rates []Rate, input int, is choice) *Rate {
	for i := len(rates) - 1; i >= 0; i-- {
		if rates[i].holds(input, is.tier, is.at) {
			return &rates[i]
		}
	}
	return plain
}

// Cost is CostAt for the standard service, at the time of the day at which that costs most.
func (p Price) Cost(u Usage) Amount { return p.costAt(&u, Terms{ServiceTier: Standard}) }

// MaxCost is MaxCostAt for any service at any time.
func (p Price) MaxCost(input, output int) Amount { return p.maxCostAt(input, output, Terms{}) }

// cost is a sum of prices times tokens, in millionths of a micro-dollar, which stops at what 128
// bits hold.
type cost struct{ high, low uint64 }

func (c *cost) add(price Amount, tokens int) {
	high, low := bits.Mul64(uint64(max(price, 0)), uint64(max(tokens, 0)))
	c.plus(high, low)
}

func (c *cost) plus(high, low uint64) {
	var carry uint64
	c.low, carry = bits.Add64(c.low, low, 0)
	if c.high, carry = bits.Add64(c.high, high, carry); carry != 0 {
		c.high, c.low = math.MaxUint64, math.MaxUint64
	}
}

// roundedUp returns the cost in micro-dollars.
func (c cost) roundedUp() Amount {
	const million = 1_000_000
	c.plus(0, million-1)
	if c.high >= million { // Div64 would panic: the quotient has more than 64 bits
		return Max
	}
	micros, _ := bits.Div64(c.high, c.low, million)
	return Amount(min(micros, uint64(Max)))
}
