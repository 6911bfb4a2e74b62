package money

import (
	"math"
	"math/bits"
	"strconv"
)

// Amount is an amount of money in micro-dollars ($0.000001). The zero value is no money. Amounts
// compare and order as integers do; their own operators wrap around, Add, Sub and Mul do not.
//
// An Amount is text as $12.50, with two to six decimals: in fmt, JSON, YAML, flag.TextVar, and
// wherever else encoding.TextMarshaler and TextUnmarshaler count. JSON numbers are read as dollars.
// A conversion makes micro-dollars of it and back: int64(a), Amount(n).
type Amount int64

// Units of amounts: 12*Dollar + 50*Cent is $12.50, without a float.
const (
	Micro  Amount = 1
	Cent          = 10_000 * Micro
	Dollar        = 100 * Cent
)

// Max and Min are the largest and the least amount, about 9.2 trillion dollars. A result beyond
// them is one of them.
const (
	Max Amount = math.MaxInt64
	Min Amount = math.MinInt64
)

// USD returns an amount of dollars, rounded to the nearest micro-dollar; halfway between two, to
// the even one. USD(12.50) is $12.50. What is beyond Max or Min, infinities included, is Max or
// Min. NaN is Min, because a negative amount is refused as a limit and as a price, where zero would
// stand for "no limit".
func USD(dollars float64) Amount {
	const beyond = 1e13 // dollars, more than Max: with fewer digits than buf has room for
	switch {
	case dollars > beyond:
		return Max
	case !(dollars > -beyond):
		return Min
	}
	// dollars*1e6 would round twice. FormatFloat rounds the exact value, once.
	var buf [32]byte
	digits := strconv.AppendFloat(buf[:0], dollars, 'f', decimals, 64)
	if a, err := parse(string(digits)); err == nil {
		return a
	}
	if dollars < 0 {
		return Min
	}
	return Max
}

// Dollars returns the amount in dollars, for metrics and charts. The result is the nearest float64
// for amounts below nine billion dollars, and close to it above. Compute with amounts instead.
func (a Amount) Dollars() float64 { return float64(a) / float64(Dollar) }

// Add returns a + b, or Max or Min if the sum is beyond them.
func (a Amount) Add(b Amount) Amount {
	switch {
	case b > 0 && a > Max-b:
		return Max
	case b < 0 && a < Min-b:
		return Min
	}
	return a + b
}

// Sub returns a - b, or Max or Min if the difference is beyond them.
func (a Amount) Sub(b Amount) Amount {
	switch {
	case b < 0 && a > Max+b:
		return Max
	case b > 0 && a < Min+b:
		return Min
	}
	return a - b
}

// Mul returns n times a, or Max or Min if the product is beyond them.
func (a Amount) Mul(n int) Amount {
	high, low := bits.Mul64(magnitude(int64(a)), magnitude(int64(n)))
	if (a < 0) != (n < 0) {
		if high > 0 || low > magnitude(int64(Min)) {
			return Min
		}
		return -Amount(low) // of -Min, too: it is its own negative
	}
	if high > 0 || low > uint64(Max) {
		return Max
	}
	return Amount(low)
}

// magnitude returns the absolute value of n, which an int64 cannot hold for the least one.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
