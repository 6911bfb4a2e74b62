// Package breaker tells callers of a service that fails to go on without it. It counts by ratio:
// neither one lost reply opens it, nor do a few among many that came.
package breaker

import (
	"sync"
	"time"
)

// Settings are the figures of a Ratio. Those that are zero have the defaults.
type Settings struct {
	Window  time.Duration // over which calls are counted; 0 is 5 s
	Calls   int           // the fewest within Window of which a share is taken; 0 is 20
	Percent int           // of them that fail, from which on the breaker opens; 0 is 50
	Open    time.Duration // how long it refuses before it lets one call probe; 0 is 5 s
}

const (
	defaultWindow  = 5 * time.Second
	defaultCalls   = 20
	defaultPercent = 50
	defaultOpen    = 5 * time.Second
)

func (s *Settings) fill() {
	if s.Window <= 0 {
		s.Window = defaultWindow
	}
	if s.Calls <= 0 {
		s.Calls = defaultCalls
	}
	if s.Percent <= 0 {
		s.Percent = defaultPercent
	}
	if s.Open <= 0 {
		s.Open = defaultOpen
	}
}

// Outcome is what became of a call.
type Outcome int

// The outcomes of a call.
const (
	// Unknown is that of a call that its caller gave up: it counts neither way.
	Unknown Outcome = iota
	// Success is that of a call that was answered.
	Success
	// Failure is that of a call that was not answered, or too late.
	Failure
)

// Ratio is a breaker. It is closed at first, and lets all calls pass. It opens when at least
// Calls ended within Window and at least Percent of them failed. Open, it refuses all calls. After
// Settings.Open it lets one call pass: if that succeeds, it closes and counts anew, and if that
// fails, it stays open as long again. A probe that does not end within Settings.Open is replaced
// by another.
//
// It counts in fiftieths of Window: nothing older than Window counts, and all from the youngest
// 98 % of it does. Its memory is constant. A Ratio is safe for concurrent use. Get one from New.
type Ratio struct {
	settings Settings

	mu      sync.Mutex
	origin  time.Time     // instants are counted from here; that of the first call
	latest  time.Duration // the latest instant
	counts  window        // while closed
	epoch   uint64        // from 1, grows when the breaker opens, closes or probes
	open    bool
	probing bool          // a probe is under way; while open
	until   time.Duration // the next probe may start from here; while open
}

// New returns a closed Ratio.
func New(settings Settings) *Ratio {
	settings.fill()
	return &Ratio{settings: settings, counts: newWindow(settings.Window), epoch: 1}
}

// Pass is the leave for one call. The zero value is that of a call that was refused.
type Pass struct{ epoch uint64 }

// Enter asks whether a call may be made at an instant. If so, its outcome is to be told with
// Leave.
func (r *Ratio) Enter(now time.Time) (p Pass, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	instant := r.instantLocked(now)
	if r.open {
		if instant < r.until {
			return p, false
		}
		r.probing = true
		r.until = instant + r.settings.Open
		r.epoch++
	}
	return Pass{r.epoch}, true
}

// Leave tells the outcome of a call that ended at an instant. That of a call which was let pass
// before the breaker opened or closed the last time is not counted, nor that of a probe that was
// replaced.
func (r *Ratio) Leave(p Pass, now time.Time, outcome Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	instant := r.instantLocked(now)
	if p.epoch != r.epoch || r.open && !r.probing {
		return
	}
	switch {
	case r.open && outcome == Success:
		r.open, r.probing = false, false
		r.epoch++
		r.counts.clear()
	case r.open && outcome == Failure:
		r.openLocked(instant)
	case r.open: // the next call probes
		r.probing, r.until = false, instant
	case outcome != Unknown:
		r.counts.add(instant, outcome == Failure)
		if calls, failures := r.counts.calls, r.counts.failures; calls >= int64(r.settings.Calls) &&
			failures*100 >= calls*int64(r.settings.Percent) {
			r.openLocked(instant)
		}
	}
}

// IsOpen reports whether Enter would refuse a call at an instant.
func (r *Ratio) IsOpen(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open && r.instantLocked(now) < r.until
}

func (r *Ratio) openLocked(instant time.Duration) {
	r.open, r.probing = true, false
	r.until = instant + r.settings.Open
	r.epoch++
}

// instantLocked returns an instant, which is never before an earlier one: goroutines come out of
// order, and clocks step back. After a step of more than Window, time goes on from where it was.
func (r *Ratio) instantLocked(now time.Time) time.Duration {
	if r.origin.IsZero() {
		r.origin = now
	}
	instant := now.Sub(r.origin)
	if r.latest-instant > r.settings.Window {
		r.origin = now.Add(-r.latest)
	}
	r.latest = max(r.latest, instant)
	return r.latest
}
