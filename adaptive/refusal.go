package adaptive

import "time"

// Refusal is what a provider said when it refused a call because of its quota. The zero
// Refusal is one without details.
type Refusal struct {
	// Sent is when the call was made. A call that was made before the limit was last lowered
	// says nothing about the present one, however late its refusal comes. The zero time is
	// one that is not known.
	Sent time.Time
	// RetryAfter is how long nothing may be sent, as the provider says. Nothing passes
	// before it is over. A duration that is not positive says nothing.
	RetryAfter time.Duration
	// Reset is how long the provider says its quota takes to be there again. It counts if
	// RetryAfter says nothing.
	Reset time.Duration
}

// wait returns how long nothing may be sent, at most the longest that fits.
func (f Refusal) wait() int64 {
	if f.RetryAfter > 0 {
		return min(int64(f.RetryAfter), far/2)
	}
	return min(max(int64(f.Reset), 0), far/2)
}

// maxSpread bounds the chance in when calls pass again.
const maxSpread = int64(time.Second)

// Refused is RefusedAt at time.Now.
func (r *Rate) Refused(f Refusal) (lowered bool) { return r.RefusedAt(time.Now(), f) }

// RefusedAt tells of a call that was refused because of the provider's quota. It reports
// whether the rate was lowered. A refusal within the cool-down lowers nothing, but the window is
// not clean; one of a call made before the rate was last lowered says nothing about the present
// rate. In any case nothing passes until the wait that the provider names is over, and up to an
// eighth of it and a second longer.
func (r *Rate) RefusedAt(now time.Time, f Refusal) (lowered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.beginLocked(now, r.time.at(now))
	if wait := f.wait(); wait > 0 {
		r.gate = max(r.gate, at+wait+r.search.chance.below(min(wait/8, maxSpread)))
	}
	took := int64(0)
	if !f.Sent.IsZero() {
		took = int64(now.Sub(f.Sent))
	}
	gap := r.search.gap
	lowered = r.search.RefusedUntil(at, took, max(at, r.gate))
	r.respaceLocked(at, gap)
	return lowered
}

// Failed is FailedAt time.Now.
func (r *Rate) Failed() { r.FailedAt(time.Now()) }

// FailedAt tells of a call that failed by the provider's fault, but not because of its quota:
// overload, an outage, a timeout. The rate stays, and the window is not clean, so that it does
// not grow while nothing is answered.
func (r *Rate) FailedAt(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.beginLocked(now, r.time.at(now))
	r.search.Failed(max(at, r.gate))
}
