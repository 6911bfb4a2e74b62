package limit

import (
	"fmt"
	"math/bits"
	"time"
)

// mark is an instant of a timeline, to a fraction of a nanosecond: ns + parts/den, with the
// den of the bucket and 0 <= parts < den.
type mark struct {
	ns    int64
	parts int64
}

func (m mark) before(o mark) bool {
	return m.ns < o.ns || m.ns == o.ns && m.parts < o.parts
}

func later(a, b mark) mark {
	if a.before(b) {
		return b
	}
	return a
}

// bucket is the exact arithmetic of a leaky bucket: a unit takes num/den nanoseconds to
// drain. The level of the bucket is kept as the mark at which it will be empty, the
// theoretical arrival time (TAT) of GCRA. So draining costs nothing, and admission compares
// two instants.
type bucket struct {
	num, den int64 // without a common divisor
	capacity int   // units
	unit     mark  // the time that a unit takes to drain
	brim     mark  // the time that a full bucket takes to drain
}

// newBucket returns the arithmetic of a bucket that drains count units in per.
func newBucket(operation, name string, count int, per time.Duration, capacity int) (bucket, error) {
	if capacity <= 0 {
		return bucket{}, fmt.Errorf("%s: %w: %s is %d, want 1 or more", operation, ErrInvalid, name, capacity)
	}
	divisor := gcd(int64(per), int64(count))
	b := bucket{num: int64(per) / divisor, den: int64(count) / divisor, capacity: capacity}
	if high, low := bits.Mul64(uint64(capacity), uint64(b.num)); high < uint64(b.den) {
		if ns, _ := bits.Div64(high, low, uint64(b.den)); ns <= uint64(maxSpan) {
			b.unit, b.brim = b.cost(1), b.cost(capacity)
			return b, nil
		}
	}
	return bucket{}, fmt.Errorf("%s: %w: %s is %d, which takes longer than %v at %v",
		operation, ErrInvalid, name, capacity, maxSpan, Rate{count, per})
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// cost returns how long n units take to drain. n is at most the capacity.
func (b *bucket) cost(n int) mark {
	if b.den == 1 {
		return mark{ns: int64(n) * b.num}
	}
	high, low := bits.Mul64(uint64(n), uint64(b.num))
	ns, parts := bits.Div64(high, low, uint64(b.den))
	return mark{int64(ns), int64(parts)}
}

func (b *bucket) plus(a, c mark) mark {
	a.ns += c.ns
	if rest := b.den - c.parts; a.parts >= rest { // the sum of the parts may overflow
		a.parts -= rest
		a.ns++
	} else {
		a.parts += c.parts
	}
	return a
}

func (b *bucket) minus(a, c mark) mark {
	a.ns -= c.ns
	if a.parts -= c.parts; a.parts < 0 {
		a.parts += b.den
		a.ns--
	}
	return a
}

// units returns how many whole units drain in the time m, which is not negative and at most
// that of a full bucket.
func (b *bucket) units(m mark) int {
	if b.den == 1 {
		return int(m.ns / b.num)
	}
	high, low := bits.Mul64(uint64(m.ns), uint64(b.den))
	low, carry := bits.Add64(low, uint64(m.parts), 0)
	n, _ := bits.Div64(high+carry, low, uint64(b.num))
	return int(n)
}

// decide decides on n units at now, for a bucket that is empty at tat and has held units on
// hold. It returns the decision, and the TAT if that is charged.
func (b *bucket) decide(now int64, tat mark, held, n int) (d Decision, next mark) {
	filled := later(tat, mark{ns: now})                           // without the units on hold
	limit := b.minus(b.plus(mark{ns: now}, b.brim), b.cost(held)) // the latest TAT
	next = filled
	switch {
	case n < 0 || n > b.capacity:
		d.Never = true
	case n == 0:
		d.OK = true // even if, seen from an earlier instant, the bucket is more than full
	case n > b.capacity-held: // only the end of a hold helps
	default:
		next = b.plus(filled, b.cost(n))
		if d.OK = !limit.before(next); !d.OK {
			d.RetryAfter = b.minus(next, limit).up()
			next = filled
		}
	}
	if !limit.before(next) {
		d.Remaining = b.units(b.minus(limit, next))
	}
	d.ResetAfter = b.minus(next, mark{ns: now}).up()
	return d, next
}

// up returns the mark as a time in whole nanoseconds, rounded up.
func (m mark) up() time.Duration {
	if m.parts > 0 {
		m.ns++
	}
	return time.Duration(m.ns)
}
