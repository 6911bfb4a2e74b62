package keyed

import (
	"fmt"
	"sync/atomic"
)

// Stats are totals of a Limiter since New, of what it lacked room for. Above 0 they say that
// MaxKeys is too low, or that somebody invents keys.
type Stats struct {
	// Evicted is the number of counters that had weight when others took their places.
	Evicted int64
	// Refused is the number of requests that were refused because their key may have been evicted,
	// or because all counters were on hold.
	Refused int64
}

// Stats returns the totals.
func (l *Limiter) Stats() Stats {
	return Stats{Evicted: l.room.evicted.Load(), Refused: l.room.refused.Load()}
}

// room counts what a Limiter has no room for.
type room struct {
	evicted, refused atomic.Int64
	told             Stats // the totals that OnError was told. The goroutine that tells has it.
}

// lacked counts what there was no room for, and tells OnError what was counted since it was told
// last, from a goroutine that ends then. It may be called under locks.
func (l *Limiter) lacked(count *atomic.Int64) {
	count.Add(1)
	const kind = "make room"
	if l.errors.report == nil || !l.errors.begin(kind) {
		return
	}
	go func() {
		defer l.errors.end()
		now, before := l.Stats(), l.room.told
		l.room.told = now
		l.errors.report(fmt.Errorf("%s: %w: %d that had weight evicted, %d requests refused", kind, ErrFull,
			now.Evicted-before.Evicted, now.Refused-before.Refused))
	}()
}
