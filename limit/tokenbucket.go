package limit

import (
	"math"
	"sync"
	"time"
)

// Limit is a rate in events a second, as in golang.org/x/time/rate. The zero Limit refills
// nothing: it admits the first burst and nothing after it. A negative Limit and NaN are
// like zero. Rate.Limit converts a Rate.
type Limit float64

// Inf is the infinite Limit: everything passes, even with a burst of 0. A Limit of
// math.Inf(1) counts as Inf.
const Inf = Limit(math.MaxFloat64)

// InfDuration is the Delay of a Reservation that is not OK.
const InfDuration = time.Duration(math.MaxInt64)

// TokenBucket is a bucket of burst tokens that begins full and is refilled with limit
// tokens a second. It has the methods, the floating-point arithmetic and the decisions of
// rate.Limiter of golang.org/x/time, and can replace it: rate.Every(d) becomes Every(d).Limit().
// Beside that it is a Holder.
//
// Allow reports at once whether the tokens are there, Wait waits for them, and Reserve
// takes them in advance and returns how long to wait. Take and TakeAt are like Allow, but
// return a Decision.
//
// In AllowN, ReserveN, SetLimitAt and SetBurstAt an instant before the last one sets the
// bucket back, as in x/time: the time in between refills it a second time. TakeAt and
// HoldAt count such an instant as the last one.
//
// The zero value admits nothing. Constructor and setters accept any value: a negative limit
// is like zero, and a negative burst admits nothing, except at Inf. It is safe for
// concurrent use.
type TokenBucket struct {
	mu     sync.Mutex
	limit  Limit
	burst  int
	tokens float64   // at last, including those on hold; below 0 if reserved in advance
	last   time.Time // the instant of tokens
	event  time.Time // when the tokens of the last reservation are there
	holds  holds[struct{}]

	watchers
}

// NewTokenBucket returns a full bucket of burst tokens that is refilled with r tokens a
// second.
func NewTokenBucket(r Limit, burst int) *TokenBucket {
	return &TokenBucket{limit: r.number(), burst: burst, tokens: float64(burst)}
}

// Allow is AllowN for one token at time.Now.
func (b *TokenBucket) Allow() bool { return b.AllowN(time.Now(), 1) }

// AllowN reports whether there are n tokens at t, and takes them if so. A negative n is
// added to the bucket.
func (b *TokenBucket) AllowN(t time.Time, n int) bool {
	b.mu.Lock()
	if b.limit == Inf {
		b.mu.Unlock()
		return true
	}
	left := b.tokensLocked(t) - float64(n)
	ok := n <= b.burst && b.limit.wait(b.heldLocked()-left) <= 0
	if ok {
		b.tokens, b.last, b.event = left, t, t
	}
	b.mu.Unlock()
	return ok
}

// Limit returns the rate at which the bucket is refilled.
func (b *TokenBucket) Limit() Limit {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit
}

// Burst returns the size of the bucket: the most tokens that can be taken at once.
func (b *TokenBucket) Burst() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.burst
}

// Tokens is TokensAt time.Now.
func (b *TokenBucket) Tokens() float64 { return b.TokensAt(time.Now()) }

// TokensAt returns the number of tokens at t, including those on Hold. It is negative if
// tokens are reserved in advance.
func (b *TokenBucket) TokensAt(t time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tokensLocked(t)
}

// SetLimit is SetLimitAt time.Now.
func (b *TokenBucket) SetLimit(r Limit) { b.SetLimitAt(time.Now(), r) }

// SetLimitAt makes r the rate from t on. Reservations made before keep their time.
func (b *TokenBucket) SetLimitAt(t time.Time, r Limit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens, b.last = b.tokensLocked(t), t
	b.limit = r.number()
}

// SetBurst is SetBurstAt time.Now.
func (b *TokenBucket) SetBurst(burst int) { b.SetBurstAt(time.Now(), burst) }

// SetBurstAt makes burst the size of the bucket from t on. A bucket that grows is not
// filled up at once, and one that shrinks loses the tokens that do not fit.
func (b *TokenBucket) SetBurstAt(t time.Time, burst int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens, b.last = b.tokensLocked(t), t
	b.burst = burst
}

// tokensLocked returns the number of tokens at t.
func (b *TokenBucket) tokensLocked(t time.Time) float64 {
	return b.filledLocked(max(t.Sub(b.last), 0))
}

// filledLocked returns the number of tokens when elapsed has passed since last. It never
// falls as time goes on.
func (b *TokenBucket) filledLocked(elapsed time.Duration) float64 {
	tokens := b.tokens + b.limit.tokens(elapsed)
	if burst := float64(b.burst); tokens > burst {
		return burst
	}
	return tokens
}

func (b *TokenBucket) heldLocked() float64 { return float64(b.holds.units) }

// number returns the limit in a form with which the arithmetic never yields NaN, which
// would let everything pass from then on.
func (r Limit) number() Limit {
	switch {
	case r != r:
		return 0
	case r > Inf:
		return Inf
	}
	return r
}

// tokens returns how many tokens come in d.
func (r Limit) tokens(d time.Duration) float64 {
	if r <= 0 {
		return 0
	}
	return d.Seconds() * float64(r)
}

// wait returns how long it takes until tokens have come, in whole nanoseconds, rounded down
// as in x/time, and 0 if tokens is not positive.
func (r Limit) wait(tokens float64) time.Duration {
	if tokens <= 0 {
		return 0
	}
	return r.duration(tokens)
}

// duration returns the time in which tokens come, with their sign.
func (r Limit) duration(tokens float64) time.Duration { return whole(r.nanoseconds(tokens)) }

func (r Limit) nanoseconds(tokens float64) float64 {
	if r <= 0 {
		return math.Inf(1)
	}
	return tokens / float64(r) * float64(time.Second)
}

// whole returns the whole nanoseconds of a time that is at most InfDuration. x/time leaves the
// conversion of 2^63 ns and more to the processor, and gets a negative wait on amd64.
func whole(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return InfDuration
	}
	return time.Duration(ns)
}
