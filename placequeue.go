package ratelimit

import (
	"cmp"
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/eviction"
)

// placeQueue holds the waiters at the head of their lines that lack a place for their model (see
// Config.MaxModels). When a place is made, only these are reviewed. One timer, set for the next
// place, serves all of them. The zero value is an empty queue.
type placeQueue struct {
	waiters eviction.Queue[*waiter]
	timer   *time.Timer
	firesAt int64 // the instant for which it is set; 0 where it is not

	bound eviction.Bound[*waiter] // those in any line that need places, and have a deadline
}

// Before orders waiters by the places that they need, the fewest first, and then by their arrival.
func (w *waiter) Before(other *waiter) bool {
	return cmp.Or(cmp.Compare(w.needs, other.needs), cmp.Compare(w.seq, other.seq)) < 0
}

// Position returns where the queue of those that wait for places keeps the waiter's position.
func (w *waiter) Position() *int { return &w.rank }

// put queues a waiter for the places that a batch lacks.
func (q *placeQueue) put(w *waiter, b *batch) {
	w.needs, w.placeAt = b.newcomers, b.placeAt
	q.waiters.Put(w)
}

// forget forgets a waiter that leaves its lines.
func (q *placeQueue) forget(w *waiter) {
	q.bound.Remove(w)
	q.remove(w)
}

// remove takes a waiter out, if it is there.
func (q *placeQueue) remove(w *waiter) {
	q.waiters.Remove(w)
	if q.waiters.Len() == 0 {
		q.setTimer(nil, never, 0)
	}
}

// setTimer makes the timer call servePlacesLocked at an instant; never stops it.
func (q *placeQueue) setTimer(l *waitLines, at, instant int64) {
	if at == never {
		if q.firesAt != 0 {
			q.timer.Stop()
		}
		q.firesAt = 0
		return
	}
	at = min(at, instant+l.rl.span()+1) // as in sleepLocked
	if q.firesAt == at {
		return
	}
	q.firesAt = at
	wait := time.Duration(at - instant)
	rl := l.rl // the timer must not read that before it has the lock
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, func() {
			rl.mu.Lock()
			defer rl.mu.Unlock()
			q.firesAt = 0
			l.servePlacesLocked()
		})
	} else {
		q.timer.Reset(wait)
	}
}

// servePlacesLocked serves the waiters for a place, as far as there are any.
func (l *waitLines) servePlacesLocked() {
	q := &l.forPlace
	l.reviewPlacesLocked()
	if q.waiters.Len() == 0 {
		return
	}
	instant := l.rl.clock.Sync()
	next := never
	var aside []*waiter
	for q.waiters.Len() > 0 {
		w := q.waiters.First()
		if free := l.rl.unlistedLocked().placesLocked(w.needs, nil, instant); free < w.needs {
			next = min(next, l.rl.unlistedLocked().placeAtLocked(w.needs-free, nil, instant))
			break
		}
		q.waiters.Remove(w)
		if l.serveLineLocked(w.places[0].slots); w.rank > 0 {
			// The places are those of models that it names itself, and which stay.
			q.waiters.Remove(w)
			aside = append(aside, w)
			next = min(next, w.placeAt)
		}
	}
	for _, w := range aside {
		q.waiters.Put(w)
	}
	q.setTimer(l, next, instant)
}

// reviewPlacesLocked reviews the waiters that need places by a deadline, if the places come later
// than before.
func (l *waitLines) reviewPlacesLocked() {
	bound := &l.forPlace.bound
	most := bound.Most()
	if most == 0 {
		return
	}
	instant, at := l.rl.clock.Sync(), int64(math.MinInt64)
	if free := l.rl.unlistedLocked().placesLocked(most, nil, instant); free < most {
		at = l.rl.unlistedLocked().placeAtLocked(most-free, nil, instant)
	}
	for w := range bound.Moved(at) {
		for _, p := range w.places {
			l.reviewAllLaterLocked(p.slots) // those that stay are bound again
		}
	}
}
