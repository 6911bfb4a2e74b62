package account

import (
	"math/bits"
	"time"
)

// bottomless is a depth that no bucket is filled to.
const bottomless = time.Duration(1 << 60)

// price is how long n of a unit take to drain, at most a minute, and the carry after that. Where
// the quota is divided, each of n is as many as there are sharers.
func (b *buckets) price(u unit, n int, carry uint64) (price time.Duration, rest uint64) {
	most := b.quota.PerMinute[u]
	over, shared := bits.Mul64(uint64(max(n, 0)), uint64(max(b.quota.Sharers, 1)))
	if over > 0 || shared >= uint64(most) {
		return time.Duration(Minute), carry
	}
	high, low := bits.Mul64(shared, uint64(Minute))
	low, over = bits.Add64(low, carry, 0)
	ns, rest := bits.Div64(high+over, low, uint64(most))
	return time.Duration(ns), rest
}

// roundUp is the carry that makes a price one that is rounded up.
func (b *buckets) roundUp(u unit) uint64 { return uint64(b.quota.PerMinute[u]) - 1 }

// carryAt is the carry for the next charge.
func (b *buckets) carryAt(u unit, instant int64) uint64 {
	if int64(b.buckets[u].Empty()) <= instant {
		return b.roundUp(u)
	}
	return b.buckets[u].carry
}

// rescale is how long it takes at one limit to drain what takes ns at another; at most a
// minute.
func rescale(ns int64, was, is int) int64 {
	high, low := bits.Mul64(uint64(ns), uint64(was))
	if high >= uint64(is) {
		return Minute
	}
	at, _ := bits.Div64(high, low, uint64(is))
	return int64(min(at, uint64(Minute)))
}
