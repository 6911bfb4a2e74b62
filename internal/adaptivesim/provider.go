package adaptivesim

import (
	"math"
	"math/rand/v2"
	"time"
)

// Provider is a simulated provider: what it allows, and how long it takes.
type Provider struct {
	// Capacity is how many calls it allows in a second, by the time since the start of the
	// run. 0 is an outage, in which every call fails.
	Capacity func(time.Duration) float64
	// Depth is the time in which its token bucket fills. The bucket holds at least 2 calls.
	Depth time.Duration
	// Slots is how many calls may be in flight, if not nil. A call above that is Overloaded.
	Slots func(time.Duration) int
	// Answer is how long an answer takes. Nil is 0.3 to 120 s, each duration as likely as
	// its half.
	Answer func(*rand.Rand) time.Duration
	// Trip is how long a call and its refusal are on their way, together. It varies by up to
	// a half. The default is 300 ms.
	Trip time.Duration
	// RetryAfter makes it say when there will be room, in whole seconds, rounded up.
	RetryAfter bool
}

// provider is a Provider in a run.
type provider struct {
	Provider
	rng      *rand.Rand
	tokens   float64
	at       time.Duration // of tokens
	inFlight int
}

func newProvider(p Provider, rng *rand.Rand) *provider {
	if p.Trip == 0 {
		p.Trip = 300 * time.Millisecond
	}
	if p.Answer == nil {
		p.Answer = func(rng *rand.Rand) time.Duration {
			return time.Duration(0.3e9 * math.Pow(400, rng.Float64()))
		}
	}
	running := &provider{Provider: p, rng: rng}
	running.tokens = running.depth(p.Capacity(0))
	return running
}

func (p *provider) depth(capacity float64) float64 { return max(capacity*p.Depth.Seconds(), 2) }

// trip returns how long a call, or what comes back, is on its way.
func (p *provider) trip() time.Duration {
	return time.Duration(float64(p.Trip) / 2 * (0.75 + p.rng.Float64()/2))
}

// arrive decides on a call that arrives. It returns how long the decision, or the answer,
// takes to come back.
func (p *provider) arrive(now time.Duration) (o Outcome, takes, retryAfter time.Duration) {
	capacity := p.Capacity(now)
	p.tokens = min(p.tokens+capacity*(now-p.at).Seconds(), p.depth(capacity))
	p.at = now
	if capacity == 0 {
		return Down, p.trip(), 0
	}
	if p.Slots != nil && p.inFlight >= p.Slots(now) {
		return Overloaded, p.trip(), 0
	}
	if p.tokens < 1 {
		if p.RetryAfter {
			retryAfter = time.Duration(math.Ceil((1-p.tokens)/capacity)) * time.Second
		}
		return Refused, p.trip(), retryAfter
	}
	p.tokens--
	p.inFlight++
	return Answered, p.Answer(p.rng) + p.trip(), 0
}

// Constant is a capacity that does not change.
func Constant(perSecond float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return perSecond }
}

// Step is a capacity that changes once.
func Step(before float64, at time.Duration, after float64) func(time.Duration) float64 {
	return func(t time.Duration) float64 {
		if t < at {
			return before
		}
		return after
	}
}

// Wave is a capacity that swings around a mean, by a share of it.
func Wave(mean, share float64, period time.Duration) func(time.Duration) float64 {
	return func(t time.Duration) float64 {
		return mean * (1 + share*math.Sin(2*math.Pi*t.Seconds()/period.Seconds()))
	}
}

// Outage is a capacity that is 0 for a time.
func Outage(perSecond float64, from, to time.Duration) func(time.Duration) float64 {
	return func(t time.Duration) float64 {
		if t >= from && t < to {
			return 0
		}
		return perSecond
	}
}
