package account

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/wire"
)

const (
	// farthestCharge bounds the instants of an image, so that no sum of them and of depths
	// overflows: 146 years on either side of the origin.
	farthestCharge = time.Duration(1 << 62)
	// longestBurst bounds paceQuota.Burst in an image.
	longestBurst = time.Duration(1 << 60)
)

// AppendImage appends the buckets as bytes from which readBuckets makes buckets that behave in the
// same way from then on. The same buckets have the same bytes.
func (b *buckets) AppendImage(to []byte) []byte {
	if b == nil {
		return wire.AppendBool(to, false)
	}
	to = wire.AppendBool(to, true)
	for _, n := range b.quota.PerMinute {
		to = wire.AppendInt(to, int64(n))
	}
	to = wire.AppendUint(to, uint64(b.quota.Burst))
	to = wire.AppendUint(to, uint64(b.quota.Sharers))
	to = wire.AppendUint(to, uint64(b.pricedRequests))
	to = wire.AppendUint(to, uint64(b.pricedTokens))
	for u := range b.buckets {
		to = wire.AppendInt(to, int64(b.buckets[u].final()))
		to = wire.AppendUint(to, b.buckets[u].carry)
	}
	to = b.appendCharges(to, b.limited(unitRequests, unitTokens))
	return b.appendCharges(to, b.limited(unitTokens, unitCount))
}

// readBuckets reads an image. It returns nil for that of nil buckets and after an error.
func readBuckets(r *wire.Reader) *buckets {
	if !r.Bool() {
		return nil
	}
	b := new(buckets)
	for u := range b.quota.PerMinute {
		b.quota.PerMinute[u] = r.Small(math.MinInt, math.MaxInt)
	}
	b.quota.Burst = time.Duration(r.UpTo(uint64(longestBurst)))
	b.quota.Sharers = int(r.UpTo(math.MaxInt))
	b.pricedRequests = int(r.UpTo(math.MaxInt))
	b.pricedTokens = int(r.UpTo(math.MaxInt))
	for u := range b.buckets {
		b.buckets[u].Reset(time.Duration(r.Within(int64(beginning), int64(farthestCharge))))
		b.buckets[u].carry = r.UpTo(uint64(max(b.quota.PerMinute[u]-1, 0)))
	}
	b.readCharges(r, b.limited(unitRequests, unitTokens))
	b.readCharges(r, b.limited(unitTokens, unitCount))
	if r.Err() != nil {
		return nil
	}
	return b
}

// Fits reports whether the buckets can be those of a window of so many requests and tokens. Places
// in such a window exist in the buckets; others panic.
func (b *buckets) Fits(requests, tokens int) bool {
	if b == nil {
		return true
	}
	fits := func(priced, charges int, limited []unit) bool {
		if len(limited) == 0 {
			return priced <= charges
		}
		return charges-priced == b.buckets[limited[0]].Len()
	}
	return fits(b.pricedRequests, requests, b.limited(unitRequests, unitTokens)) &&
		fits(b.pricedTokens, tokens, b.limited(unitTokens, unitCount))
}

// limited returns which of the units from one on, up to another, are limited. They have the same
// charges, if at different costs.
func (b *buckets) limited(from, to unit) (units []unit) {
	for u := from; u < to; u++ {
		if b.quota.PerMinute[u] > 0 {
			units = append(units, u)
		}
	}
	return units
}

// appendCharges appends the charges of units that have the same: the instant of each, from the
// second on as the time since the one before, and its costs.
func (b *buckets) appendCharges(to []byte, units []unit) []byte {
	if len(units) == 0 {
		return to
	}
	n := b.buckets[units[0]].Len()
	to = wire.AppendUint(to, uint64(n))
	for i, last := 0, time.Duration(0); i < n; i++ {
		at := b.buckets[units[0]].charged(i).at()
		if i == 0 {
			to = wire.AppendInt(to, int64(at))
		} else {
			to = wire.AppendUint(to, uint64(at-last))
		}
		last = at
		for _, u := range units {
			to = wire.AppendUint(to, b.buckets[u].charged(i).image())
		}
	}
	return to
}

func (b *buckets) readCharges(r *wire.Reader, units []unit) {
	if len(units) == 0 {
		return
	}
	n := r.Count(math.MaxInt, 1+len(units))
	for i, at := 0, time.Duration(0); i < n; i++ {
		if i == 0 {
			at = time.Duration(r.Within(int64(-farthestCharge), int64(farthestCharge)))
		} else {
			at += time.Duration(r.UpTo(uint64(farthestCharge - at)))
		}
		first := uint64(0)
		for k, u := range units {
			image := r.UpTo(uint64(Minute) + 1)
			if k == 0 {
				first = image
			} else if (image == 0) != (first == 0) {
				r.Fail("charge that is prepaid in part")
			}
			if r.Err() != nil {
				return
			}
			b.buckets[u].pushImage(at, image)
		}
	}
}

// final returns when the bucket would have drained without the charges that can be changed.
func (b *backlog) final() time.Duration {
	if !b.begun {
		return beginning
	}
	return b.before
}

// charged returns the i-th charge.
func (b *backlog) charged(i int) drain { return b.levels[0][b.head+i] }

func (d drain) at() time.Duration { return d.low - d.add }

// image is one more than the cost of a charge in a bucket of a minute; 0 for a prepaid one, which
// costs nothing and is in a bottomless bucket.
func (d drain) image() uint64 {
	if d.high-d.at() == bottomless {
		return 0
	}
	return uint64(d.add) + 1
}

func (b *backlog) pushImage(at time.Duration, image uint64) {
	if image == 0 {
		b.Push(at, 0, bottomless)
		return
	}
	b.Push(at, time.Duration(image-1), time.Duration(Minute))
}
