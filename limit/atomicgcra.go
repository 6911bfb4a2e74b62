package limit

import (
	"math"
	"sync/atomic"
	"time"
)

// AtomicGCRA is a GCRA whose state is one word that is compared and swapped. It decides
// like GCRA, and is faster if many goroutines ask, or if Allow is the only method in use.
// While units are on Hold it decides behind a mutex, as GCRA does. Make it with
// NewAtomicGCRA: the zero AtomicGCRA panics. It is safe for concurrent use.
type AtomicGCRA struct {
	guarded       // the account, and replacing the cell
	spare   int64 // the most that a bucket with room for one more unit may hold, in ns
	cell    atomic.Pointer[cell]
	account account // the state while units are on hold
}

// cell is the word of an AtomicGCRA and the origin of its time line. The cell of a limiter
// is replaced when its line begins anew and when its last hold ends; the word of the old
// cell is then elsewhere.
type cell struct {
	origin time.Time
	tat    atomic.Int64
}

// elsewhere is the word of a cell that is not the state of the limiter: the account is
// while units are on hold, and otherwise a newer cell. It is before all instants of a line.
const elsewhere = math.MinInt64

// NewAtomicGCRA returns an AtomicGCRA with its whole burst. It returns an error that
// matches ErrInvalid for the parameters that NewGCRA refuses.
func NewAtomicGCRA(rate Rate, burst int) (*AtomicGCRA, error) {
	b, err := newIntervals("new atomic GCRA", "burst", rate, burst)
	if err != nil {
		return nil, err
	}
	g := &AtomicGCRA{account: newAccount(b), spare: b.cost(burst - 1).ns}
	g.begin(g)
	g.limiter = g // whose TakeAt mostly needs no mutex
	return g, nil
}

// Allow reports whether one unit may pass now, and charges it if so. It is faster than
// Take(1): it reads the monotonic clock alone, and makes no Decision.
func (g *AtomicGCRA) Allow() bool {
	for {
		c := g.cell.Load()
		if c == nil {
			break
		}
		now := int64(time.Since(c.origin))
		tat := c.tat.Load()
		if now >= far || tat == elsewhere {
			break
		}
		now = max(now, -far)
		filled := max(tat, now)
		if filled-now > g.spare {
			return false
		}
		if c.tat.CompareAndSwap(tat, filled+g.account.num) {
			return true
		}
	}
	return g.TakeAt(time.Now(), 1).OK
}

// TakeAt charges n units at now if all of them may pass.
func (g *AtomicGCRA) TakeAt(now time.Time, n int) Decision {
	for {
		c := g.cell.Load()
		if c == nil {
			return g.guarded.TakeAt(now, n)
		}
		line := timeline{c.origin, true}
		instant, early := line.at(now)
		tat := c.tat.Load()
		if line.ends(instant) || tat == elsewhere {
			return g.guarded.TakeAt(now, n)
		}
		d, next := g.account.decide(instant, mark{ns: tat}, 0, n)
		if !d.OK || n == 0 || c.tat.CompareAndSwap(tat, next.ns) {
			return d.asOf(early)
		}
	}
}

// decideLocked decides while units are on hold, and at an instant at which a line begins.
func (g *AtomicGCRA) decideLocked(now time.Time, n int, is purpose) (id uint64, d Decision) {
	for len(g.account.holds.open) == 0 {
		c, tat := g.cell.Load(), int64(0)
		if c != nil {
			tat = c.tat.Load()
			g.account.line, g.account.tat = timeline{c.origin, true}, mark{ns: tat}
		}
		if _, d = g.account.decideLocked(now, n, peek); is == peek || !d.OK || n == 0 {
			return 0, d
		}
		// A goroutine that still has this cell must find nothing to swap there.
		if c == nil || c.tat.CompareAndSwap(tat, elsewhere) {
			break
		}
	}
	id, d = g.account.decideLocked(now, n, is)
	g.releaseLocked()
	return id, d
}

func (g *AtomicGCRA) endLocked(id uint64, commit bool) bool {
	ended := g.account.endLocked(id, commit)
	if ended {
		g.releaseLocked()
	}
	return ended
}

// releaseLocked makes a new cell the state, unless units are on hold.
func (g *AtomicGCRA) releaseLocked() {
	if len(g.account.holds.open) == 0 {
		c := &cell{origin: g.account.line.origin}
		c.tat.Store(g.account.tat.ns)
		g.cell.Store(c)
	}
}
