package redislimit

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/limit"
)

// TokenBucket is a bucket of burst tokens for each key that begins full and is refilled at a rate;
// in other words GCRA, the generic cell rate algorithm. It admits at most burst + t × rate units in
// any time t, and keeps fractions of a microsecond, so that no rate is rounded. Its state is one
// level. Make it with NewTokenBucket: the zero TokenBucket must not be used. It is safe for
// concurrent use.
type TokenBucket struct{ *limiter }

// NewTokenBucket returns a TokenBucket. burst is 1 to 2^50 units, and must not take longer than 35
// years at the rate. The rate, as units a microsecond in lowest terms, must have a numerator of at
// most 2^50. The client stays the caller's. It returns an error that matches limit.ErrInvalid and
// names what is out of range. It does not ask the server.
func NewTokenBucket(client redis.UniversalClient, rate limit.Rate, burst int, o Options) (*TokenBucket, error) {
	const operation = "new token bucket"
	if err := o.check(operation, client); err != nil {
		return nil, err
	}
	b, err := newBucket(operation, rate, burst)
	if err != nil {
		return nil, err
	}
	identity := fmt.Sprintf("%d/%d", b.den, b.num)
	return &TokenBucket{newLimiter(client, b, tokenBucketKind, identity, burst, [2]int64{b.num, b.den}, o,
		b.den, b.brim.us, b.brim.parts)}, nil
}

// span is a time: us + parts/den microseconds, with the den of a bucket.
type span struct{ us, parts int64 }

func (s span) less(o span) bool { return s.us < o.us || s.us == o.us && s.parts < o.parts }

// up returns the span rounded up.
func (s span) up() time.Duration {
	if s.parts > 0 {
		s.us++
	}
	return microseconds(s.us)
}

// bucket is a bucket of which a unit takes num/den microseconds to drain.
type bucket struct {
	rate     limit.Rate
	num, den int64
	burst    int
	brim     span // the time that a full bucket takes to drain
}

func newBucket(operation string, rate limit.Rate, burst int) (b bucket, err error) {
	switch {
	case rate.Count <= 0 || int64(rate.Count) > maxParts:
		return b, invalid(operation, "rate.Count is %d, want 1 to 2^50", rate.Count)
	case rate.Per <= 0 || rate.Per > maxWindow:
		return b, invalid(operation, "rate.Per is %v, want 1ns to %v", rate.Per, maxWindow)
	case burst <= 0 || burst > maxUnits:
		return b, invalid(operation, "burst is %d, want 1 to 2^50", burst)
	}
	// A unit takes Per / (1000 × Count) microseconds.
	b = bucket{rate: rate, num: int64(rate.Per), den: int64(rate.Count) * 1000, burst: burst}
	divisor := gcd(b.num, b.den)
	b.num, b.den = b.num/divisor, b.den/divisor
	if b.den > maxParts {
		return b, invalid(operation, "rate is %v, of %d units in %d µs, want at most 2^50 units", rate, b.den, b.num)
	}
	if b.brim = b.time(burst); b.brim.us > maxWindow.Microseconds() {
		return b, invalid(operation, "burst is %d, which takes longer than %v at %v", burst, maxWindow, rate)
	}
	return b, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// time returns how long n units take to drain. n is at most the burst, or else the time is bounded.
func (b bucket) time(n int) span {
	high, low := bits.Mul64(uint64(n), uint64(b.num))
	if high >= uint64(b.den) {
		return span{us: maxTime}
	}
	us, parts := bits.Div64(high, low, uint64(b.den))
	return span{int64(min(us, maxTime)), int64(parts)}
}

// span returns a sum or a difference of two spans.
func (b bucket) span(us, parts int64) span {
	switch {
	case parts < 0:
		return span{us - 1, parts + b.den}
	case parts >= b.den:
		return span{us + 1, parts - b.den}
	}
	return span{us, parts}
}

func (b bucket) plus(s, o span) span  { return b.span(s.us+o.us, s.parts+o.parts) }
func (b bucket) minus(s, o span) span { return b.span(s.us-o.us, s.parts-o.parts) }

// units returns how many whole units drain in a span of at most that of a full bucket.
func (b bucket) units(s span) int {
	high, low := bits.Mul64(uint64(s.us), uint64(b.den))
	low, carry := bits.Add64(low, uint64(s.parts), 0)
	n, _ := bits.Div64(high+carry, low, uint64(b.num))
	return int(n)
}

func (b bucket) cost(to []any, n int) []any {
	cost := b.time(n)
	return append(to, cost.us, cost.parts)
}

func (b bucket) decide(state string, now int64, n int, charged bool) (d limit.Decision, err error) {
	var at int64
	var level span
	if err := numbers(state, &at, &level.us, &level.parts); err != nil {
		return d, err
	}
	if level.parts >= b.den {
		return d, errReply
	}
	if level.us -= max(now-at, 0); level.us < 0 {
		level = span{}
	}
	full := b.plus(level, b.time(n))
	switch {
	case n == 0:
		d.OK = true
	case b.brim.less(full):
		d.RetryAfter = b.minus(full, b.brim).up()
	default:
		d.OK = true
		if charged {
			level = full
		}
	}
	if !b.brim.less(level) {
		d.Remaining = b.units(b.minus(b.brim, level))
	}
	d.ResetAfter = level.up()
	return d, nil
}

func (b bucket) local(share Failure) (limit.Limiter, error) {
	// A share of the rate is as many units in a longer time.
	per := math.Ceil(float64(b.rate.Per) * wholeShare / float64(share))
	rate := limit.Rate{Count: b.rate.Count, Per: time.Duration(min(per, float64(maxWindow)))}
	capacity := share.of(b.burst)
	meter, err := limit.NewMeter(rate, capacity)
	for err != nil && capacity > 1 { // it takes too long to drain
		capacity /= 2
		meter, err = limit.NewMeter(rate, capacity)
	}
	return meter, err
}
