package limit

import (
	"sync"
	"time"
)

// GCRA is the generic cell rate algorithm (ITU-T I.371) behind a mutex: a bucket that
// admits up to burst units at once, and one more every T = Per/Count, rounded up to a
// nanosecond. All that it remembers is one instant. It admits at most burst + t/T units
// in any time t. Make it with NewGCRA. It is safe for concurrent use.
type GCRA struct {
	caller
	mu      sync.Mutex
	account account
}

// NewGCRA returns a GCRA that is full. It returns an error that matches ErrInvalid for a
// rate that is not positive or above one in a nanosecond, for a burst below 1, and for
// one that takes longer than 36 years at this rate.
func NewGCRA(rate Rate, burst int) (*GCRA, error) {
	b, err := newIntervals("new GCRA", rate, burst)
	if err != nil {
		return nil, err
	}
	g := &GCRA{account: account{bucket: b}}
	g.init(g)
	return g, nil
}

// newIntervals returns a bucket whose units take whole nanoseconds to drain, rounded up.
func newIntervals(operation string, rate Rate, burst int) (bucket, error) {
	if err := rate.validate(operation); err != nil {
		return bucket{}, err
	}
	if int64(rate.Count) > int64(rate.Per) {
		return bucket{}, rate.tooFast(operation)
	}
	interval := rate.Per / time.Duration(rate.Count)
	if rate.Per%time.Duration(rate.Count) > 0 {
		interval++
	}
	return newBucket(operation, "burst", 1, interval, burst)
}

// TakeAt charges n units at now if all of them may pass.
func (g *GCRA) TakeAt(now time.Time, n int) Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.account.takeLocked(now, n)
}

func (g *GCRA) peekAt(now time.Time, n int) Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.account.peekLocked(now, n)
}

// HoldAt sets n units aside if all of them may pass.
func (g *GCRA) HoldAt(now time.Time, n int) (Hold, Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, d := g.account.holdLocked(now, n)
	return g.held(id), d
}

// held is the hold of a number; 0 is none.
func (g *GCRA) held(id uint64) Hold {
	if id == 0 {
		return Hold{}
	}
	return Hold{g, id}
}

func (g *GCRA) end(id uint64, commit bool) {
	g.mu.Lock()
	ended := g.account.endLocked(id, commit)
	g.mu.Unlock()
	if ended {
		g.changed()
	}
}
