package money

import (
	"errors"
	"fmt"
	"math/bits"
)

// Price is what the tokens of a model cost, each field for a million tokens. The zero value is no
// price: see IsZero.
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
	// Output is the price of output tokens, those of reasoning included. Zero is free, as for
	// embeddings.
	Output Amount `yaml:"output,omitempty" json:"output,omitempty"`
}

// ErrInvalidPrice is what errors of Price.Validate wrap.
var ErrInvalidPrice = errors.New("invalid price")

// IsZero reports whether nothing has a price. Such a Price does not tell a model that is free from
// one whose price is not known.
func (p Price) IsZero() bool { return p == Price{} }

// Validate returns an error that wraps ErrInvalidPrice and names the field if one is negative.
func (p Price) Validate() error {
	for _, field := range [...]struct {
		name  string
		value Amount
	}{
		{"Input (input)", p.Input}, {"CachedInput (cached_input)", p.CachedInput},
		{"CacheWrite (cache_write)", p.CacheWrite}, {"Output (output)", p.Output},
	} {
		if field.value < 0 {
			return fmt.Errorf("%w: %s is negative: %v", ErrInvalidPrice, field.name, field.value)
		}
	}
	return nil
}

// Cost returns what a call costs: the exact cost of all its tokens, rounded up to a micro-dollar
// once, at most Max. Negative prices and counts count as zero, so it is never negative. It does not
// allocate.
func (p Price) Cost(u Usage) Amount {
	cached, written := p.CachedInput, p.CacheWrite
	if cached == 0 {
		cached = p.Input
	}
	if written == 0 {
		written = p.Input
	}
	var c cost
	c.add(p.Input, u.Input)
	c.add(cached, u.CachedInput)
	c.add(written, u.CacheWrite)
	c.add(p.Output, u.Output)
	return c.roundedUp()
}

// MaxCost returns the most that a call with so many tokens can cost, whichever of its input is
// cached: all input at the highest of the three prices, because writing to a cache may cost more
// than plain input. A budget that reserves it never has to charge more for a Usage within these
// counts.
func (p Price) MaxCost(input, output int) Amount {
	var c cost
	c.add(max(p.Input, p.CachedInput, p.CacheWrite), input)
	c.add(p.Output, output)
	return c.roundedUp()
}

// cost is a sum of prices times tokens, in millionths of a micro-dollar. 128 bits hold four
// products of an int64 and an int, and what roundedUp adds.
type cost struct{ high, low uint64 }

func (c *cost) add(price Amount, tokens int) {
	high, low := bits.Mul64(uint64(max(price, 0)), uint64(max(tokens, 0)))
	c.plus(high, low)
}

func (c *cost) plus(high, low uint64) {
	var carry uint64
	c.low, carry = bits.Add64(c.low, low, 0)
	c.high, _ = bits.Add64(c.high, high, carry)
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
