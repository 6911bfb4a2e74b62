package adaptive

import (
	"math"
	"math/bits"
)

// scaled returns n·num/den, rounded down. All are at least 0, and the result is at most the
// largest int64.
func scaled(n, num, den int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(num))
	q, _ := bits.Div64(hi, lo, uint64(den))
	return int64(q)
}

// scaledUp is scaled, rounded up.
func scaledUp(n, num, den int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(num))
	lo, carry := bits.Add64(lo, uint64(den-1), 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(den))
	return int64(q)
}

// root returns the square root of n, rounded down. n is from 0 to 10^6, and no float is in it, so
// that all machines find the same.
func root(n int64) (r int64) {
	for bit := int64(512); bit > 0; bit /= 2 {
		if (r+bit)*(r+bit) <= n {
			r += bit
		}
	}
	return r
}

// chance is a source of random numbers, splitmix64: one word of state, and no callback.
type chance uint64

func (c *chance) next() uint64 {
	*c += 0x9e3779b97f4a7c15
	z := uint64(*c)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1, and 0 for an n below 1.
func (c *chance) below(n int64) int64 {
	if n < 1 {
		return 0
	}
	hi, _ := bits.Mul64(c.next(), uint64(n))
	return int64(hi)
}

// sub returns a - b, and the nearest that there is if that does not fit.
func sub(a, b int64) int64 {
	if d := a - b; (d < a) == (b > 0) {
		return d
	}
	if b > 0 {
		return math.MinInt64
	}
	return math.MaxInt64
}
