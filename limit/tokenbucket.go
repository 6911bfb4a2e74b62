package limit

import (
	"math"
	"sync"
	"time"
)

// Limit is a rate in events a second, as in golang.org/x/time/rate. The zero Limit
// refills nothing: it admits the first burst, and nothing after it, and so does a
// negative one and one that is not a number. Rate.Limit makes one of a Rate.
type Limit float64

// Inf is the Limit without limit: everything passes, whatever the burst. An infinite
// Limit is taken for Inf.
const Inf = Limit(math.MaxFloat64)

// InfDuration is the delay of a Reservation that is not OK.
const InfDuration = time.Duration(math.MaxInt64)

// TokenBucket is a bucket of burst tokens that is full at first and is refilled with
// limit tokens a second. It has the methods of rate.Limiter of golang.org/x/time, keeps
// its floating-point arithmetic, and decides as it does, so that one can stand in for
// the other; and it is a Limiter and a Holder beside that.
//
// Of the methods that take tokens, Allow says at once whether there are enough, Wait
// waits for them, and Reserve takes them in advance and says how long to wait for them.
// Take and TakeAt are like Allow, with an answer that says more.
//
// An instant before the last one sets the bucket back in AllowN, ReserveN, SetLimitAt
// and SetBurstAt, as there: the time in between refills it a second time. TakeAt and
// HoldAt count such an instant as the last one.
//
// The zero value admits nothing. Nothing panics and nothing is refused when it is made:
// a negative limit is as zero, and a negative burst admits nothing but at Inf. It is
// safe for concurrent use.
type TokenBucket struct {
	mu     sync.Mutex
	limit  Limit
	burst  int
	tokens float64   // at last, without what is on hold; less than 0 when reserved in advance
	last   time.Time // of which tokens is
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
// given to the bucket.
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

// TokensAt returns the number of tokens at t. It is negative when tokens are reserved in
// advance. What is on Hold is still among them.
func (b *TokenBucket) TokensAt(t time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tokensLocked(t)
}

// SetLimit is SetLimitAt time.Now.
func (b *TokenBucket) SetLimit(r Limit) { b.SetLimitAt(time.Now(), r) }

// SetLimitAt makes r the rate from t on. What was reserved before keeps its time.
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

// tokensLocked is how many tokens there are at t.
func (b *TokenBucket) tokensLocked(t time.Time) float64 {
	return b.filledLocked(max(t.Sub(b.last), 0))
}

// filledLocked is how many tokens there are when elapsed has passed since last. It never
// falls as time goes on.
func (b *TokenBucket) filledLocked(elapsed time.Duration) float64 {
	tokens := b.tokens + b.limit.tokens(elapsed)
	if burst := float64(b.burst); tokens > burst {
		return burst
	}
	return tokens
}

func (b *TokenBucket) heldLocked() float64 { return float64(b.holds.units) }

// number is the limit in a form with which the arithmetic never ends in a NaN, which
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

// tokens is how many tokens come in d.
func (r Limit) tokens(d time.Duration) float64 {
	if r <= 0 {
		return 0
	}
	return d.Seconds() * float64(r)
}

// wait is how long it takes until tokens have come, in whole nanoseconds, rounded down
// as x/time does; it is 0 where none is needed.
func (r Limit) wait(tokens float64) time.Duration {
	if tokens <= 0 {
		return 0
	}
	return r.duration(tokens)
}

// duration is the time in which tokens come, and has their sign.
func (r Limit) duration(tokens float64) time.Duration {
	if r <= 0 {
		return InfDuration
	}
	// Of 2^63 ns, x/time leaves it to the processor what they are, and amd64 makes a
	// negative wait of them.
	ns := tokens / float64(r) * float64(time.Second)
	if ns >= math.MaxInt64 {
		return InfDuration
	}
	return time.Duration(ns)
}
