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
	// Depth is the time in which its token bucket fills. The bucket holds at least Least calls.
	Depth time.Duration
	// Least is the least that the bucket holds. The default is 2 calls.
	Least int
	// Window is how it counts calls. The zero value is a token bucket; the other kinds allow as
	// many calls in a minute as Capacity says, and Depth counts for nothing.
	Window Window
	// Phase is how much of the first calendar minute is over when the run begins.
	Phase time.Duration
	// Neighbour is how many calls a second another client makes, in uneven steps, if not nil.
	Neighbour func(time.Duration) float64
	// Slots is how many calls may be in flight, if not nil. A call above that is Overloaded.
	Slots func(time.Duration) int
	// Answer is how long an answer takes. Nil is 0.3 to 120 s, each duration as likely as
	// its half.
	Answer func(*rand.Rand) time.Duration
	// Trip is how long a call and its refusal are on their way, together. It varies by up to
	// a half, unless they are Even. The default is 300 ms.
	Trip time.Duration
	Even bool
	// RetryAfter makes it say when there will be room, in whole seconds, rounded up.
	RetryAfter bool
}

// provider is a Provider in a run.
type provider struct {
	Provider
	rng      *rand.Rand
	quota    quota
	next     time.Duration // when the neighbour calls
	at       time.Duration // of the latest call
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
	if p.Least == 0 {
		p.Least = 2
	}
	return &provider{Provider: p, rng: rng, quota: newQuota(&p)}
}

// trip returns how long a call, or what comes back, is on its way.
func (p *provider) trip() time.Duration {
	if p.Even {
		return p.Trip / 2
	}
	return time.Duration(float64(p.Trip) / 2 * (0.75 + p.rng.Float64()/2))
}

// arrive decides on a call that arrives.
func (p *provider) arrive(now time.Duration) (r Reply) {
	p.meetNeighbour(now)
	p.at = now
	capacity := p.Capacity(now)
	wait := p.quota.room(now, capacity)
	switch {
	case capacity == 0:
		r.Outcome = Down
	case p.Slots != nil && p.inFlight >= p.Slots(now):
		r.Outcome = Overloaded
	case wait > 0:
		r.Outcome, r.Reset = Refused, wait
		if p.RetryAfter {
			r.RetryAfter = (wait + time.Second - 1).Truncate(time.Second)
		}
	default:
		p.quota.take(now)
		p.inFlight++
		r.Takes = p.Answer(p.rng)
	}
	r.Takes += p.trip()
	return r
}

// meetNeighbour lets the neighbour make its calls until now.
func (p *provider) meetNeighbour(now time.Duration) {
	if p.Neighbour == nil {
		return
	}
	for p.next < now {
		rate := p.Neighbour(p.next)
		if rate == 0 {
			p.next += time.Second
			continue
		}
		if capacity := p.Capacity(p.next); capacity > 0 && p.quota.room(p.next, capacity) == 0 {
			p.quota.take(p.next)
		}
		p.next += time.Duration((0.5 + p.rng.Float64()) / rate * 1e9)
	}
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

// OnAndOff is a capacity, or what a neighbour takes, that is there every other period.
func OnAndOff(perSecond float64, period time.Duration) func(time.Duration) float64 {
	return func(t time.Duration) float64 {
		if t/period%2 == 0 {
			return 0
		}
		return perSecond
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
