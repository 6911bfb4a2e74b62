package adaptive

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// ThrottleConfig is what a Throttle is made of. The zero value of each field stands for its
// default.
type ThrottleConfig struct {
	// K is how many calls are sent for each one that the provider accepts, in thousandths,
	// from 1,000 to 1,000,000. The default is 2,000: nothing is rejected while the provider
	// accepts half.
	K int
	// MaxRejection is the largest probability of a rejection, in thousandths, at most 1,000,
	// which is the default. The calls that pass notice that the provider is back, so a lower
	// one shortens the return, and sends more to a provider that is down.
	MaxRejection int
	// RejectionWeight is how much of a request a call is that was rejected here, in thousandths,
	// at most 1,000, which is what Google's SRE book has. The default is 100. The calls that were
	// rejected in an outage delay the return, so a lower one shortens it. A provider that accepts
	// fewer than this part of 1/K is taken for dead: with the defaults, fewer than 5 %.
	RejectionWeight int
	// Window is how long an outcome counts. The default is 2 minutes, the least 24 ns.
	Window time.Duration
	// Probe is the longest time without a call that passes, if calls come. The default is 5
	// seconds. A probe comes up to a quarter of it sooner, so that clients do not move in
	// step.
	Probe time.Duration
	// Seed makes the chance that of every other Throttle with this Seed. The default, 0, is
	// a random one.
	Seed uint64
}

// The defaults of ThrottleConfig.
const (
	defaultK              = 2000
	defaultMaxRejection   = 1000
	defaultWeight         = 100
	defaultThrottleWindow = 2 * time.Minute
	defaultProbe          = 5 * time.Second
)

// Throttle rejects calls to a provider that is down, before they are sent. With the requests
// and accepts of the last two minutes it rejects a call with the probability
//
//	max(0, (requests − K·accepts) / (requests + 1))
//
// and at most MaxRejection, as the client-side throttle of Google's SRE book does. A call
// counts as a request when its outcome is known, not when it is sent: a call to a language model
// takes up to minutes, and while it is under way it is not a failure. One that is rejected here
// counts as a tenth of a request, RejectionWeight.
//
// Allow asks for a call, and Accepted or Failed tells how it ended. A call of which neither is
// told, such as one that was canceled, does not count. A call passes every few seconds
// whatever the probability is, so the return of the provider is noticed. Then each accept makes
// room for more, about e times as much in 6 seconds: after a long outage all calls pass again in
// about a minute, however many come.
//
// A rejection comes by chance, so there is no wait after which the next call would pass, and a
// Throttle is no limit.Limiter. Make it with NewThrottle: the zero Throttle panics. It is safe
// for concurrent use.
type Throttle struct {
	k      int64
	most   int64
	weight int64 // of a call that is rejected here, in thousandths of a request
	width  int64 // of a cell
	probe  int64

	mu     sync.Mutex
	time   timeline
	cells  [throttleCells]outcomes // a ring
	sum    outcomes                // of all cells
	latest int64                   // the number of the latest cell since the origin
	next   int64                   // when the next call passes in any case
	chance chance
}

// throttleCells is how many parts a window has. An outcome counts for a window, or up to a
// cell less.
const throttleCells = 24

// outcomes counts requests in thousandths.
type outcomes struct{ requests, accepts int64 }

// NewThrottle returns a Throttle that knows nothing and lets all pass. It returns an error
// that matches limit.ErrInvalid and names the field that is out of range.
func NewThrottle(c ThrottleConfig) (*Throttle, error) {
	fail := func(format string, args ...any) (*Throttle, error) {
		return nil, fmt.Errorf("new adaptive throttle: %w: "+format, append([]any{limit.ErrInvalid}, args...)...)
	}
	c.K, c.MaxRejection = or(c.K, defaultK), or(c.MaxRejection, defaultMaxRejection)
	c.RejectionWeight = or(c.RejectionWeight, defaultWeight)
	c.Window, c.Probe = or(c.Window, defaultThrottleWindow), or(c.Probe, defaultProbe)
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	switch {
	case c.K < 1000 || c.K > 1_000_000:
		return fail("K is %d, want 1000 to 1000000", c.K)
	case c.MaxRejection < 1 || c.MaxRejection > 1000:
		return fail("MaxRejection is %d, want 1 to 1000", c.MaxRejection)
	case c.RejectionWeight < 1 || c.RejectionWeight > 1000:
		return fail("RejectionWeight is %d, want 1 to 1000", c.RejectionWeight)
	case c.Window < throttleCells || c.Window > longest:
		return fail("Window is %v, want %v to %v", c.Window, time.Duration(throttleCells), longest)
	case c.Probe < 1 || c.Probe > longest:
		return fail("Probe is %v, want more than 0 and at most %v", c.Probe, longest)
	}
	return &Throttle{
		k: int64(c.K), most: int64(c.MaxRejection), weight: int64(c.RejectionWeight), width: int64(c.Window) / throttleCells, probe: int64(c.Probe),
		next: -far, chance: chance(c.Seed),
	}, nil
}

// Allow is AllowAt time.Now.
func (t *Throttle) Allow() bool { return t.AllowAt(time.Now()) }

// AllowAt reports whether a call may be sent at now.
func (t *Throttle) AllowAt(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.beginLocked(now)
	if excess := t.excessLocked(); excess > 0 && at < t.next {
		// chance/2⁶⁴ < excess / (requests + 1), both in thousandths
		if draw, _ := bits.Mul64(t.chance.next(), uint64(t.sum.requests+1000)); int64(draw) < excess {
			t.countLocked(at, outcomes{requests: t.weight})
			return false
		}
	}
	t.next = at + t.probe - t.chance.below(t.probe/4)
	return true
}

// Accepted is AcceptedAt time.Now.
func (t *Throttle) Accepted() { t.AcceptedAt(time.Now()) }

// AcceptedAt tells of a call that the provider took care of. That includes one that it refused
// for a reason of its own, such as 400, 401 or 429: it is there.
func (t *Throttle) AcceptedAt(now time.Time) { t.tell(now, outcomes{1000, 1}) }

// Failed is FailedAt time.Now.
func (t *Throttle) Failed() { t.FailedAt(time.Now()) }

// FailedAt tells of a call that the provider did not take care of: no connection, no answer in
// time, 500, 502, 503, 504, 529.
func (t *Throttle) FailedAt(now time.Time) { t.tell(now, outcomes{requests: 1000}) }

// Rejection is RejectionAt time.Now.
func (t *Throttle) Rejection() int { return t.RejectionAt(time.Now()) }

// RejectionAt returns the probability that a call is rejected, in thousandths, rounded down.
func (t *Throttle) RejectionAt(now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beginLocked(now)
	excess := max(t.sum.requests-t.k*t.sum.accepts, 0)
	return int(min(1000*excess/(t.sum.requests+1000), t.most))
}

func (t *Throttle) tell(now time.Time, o outcomes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.countLocked(t.beginLocked(now), o)
}

// mostRequests bounds the thousandths that are counted, so that no product of them passes an
// int64.
const mostRequests = int64(1) << 50

// countLocked counts outcomes at an instant. One before the latest cell counts there.
func (t *Throttle) countLocked(at int64, o outcomes) {
	if t.sum.requests >= mostRequests {
		return
	}
	cell := &t.cells[t.latest%throttleCells]
	cell.requests += o.requests
	cell.accepts += o.accepts
	t.sum.requests += o.requests
	t.sum.accepts += o.accepts
}

// excessLocked returns requests − K·accepts in thousandths, or what makes the largest
// probability.
func (t *Throttle) excessLocked() int64 {
	return min(t.sum.requests-t.k*t.sum.accepts, t.most*(t.sum.requests+1000)/1000)
}

// beginLocked returns where an instant lies, and empties the cells that have passed.
func (t *Throttle) beginLocked(now time.Time) int64 {
	at := t.time.at(now)
	if !t.time.begun || at >= far {
		t.time.move(now, at, &t.next)
		t.cells, t.sum, t.latest = [throttleCells]outcomes{}, outcomes{}, 0
		return 0
	}
	number := max(at, 0) / t.width
	for passed := 0; t.latest < number; passed++ {
		if passed == throttleCells {
			t.latest = number
			break
		}
		t.latest++
		cell := &t.cells[t.latest%throttleCells]
		t.sum.requests -= cell.requests
		t.sum.accepts -= cell.accepts
		*cell = outcomes{}
	}
	return at
}
