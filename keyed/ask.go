package keyed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// flight is a read of the Origin that goes on: the current and the previous cell of one counter, or
// of several of one batch. Many callers may wait for it; the end of one's context does not end it.
type flight struct {
	at      int64 // Unix nanoseconds of the request that began it
	entries []*entry
	cells   []Cell // two of each entry: the current and the previous one
	once    sync.Once
	done    chan struct{} // closed when it has ended
	err     error         // valid once done is closed
}

// question is one caller's wish to know the counts of an entry.
type question struct {
	entry *entry
	after uint64 // if strict, only a read with a higher number answers it: it began after the caller came
	asked bool   // after is set
}

// ask reads the counts of the entries that are due at an instant, in Unix nanoseconds, and merges
// them. It returns false if that took longer than readTimeout, failed or is not to be tried yet.
func (r *remote) ask(ctx context.Context, at int64, entries ...*entry) (ok bool) {
	if r.origin == nil {
		return true
	}
	questions := make([]question, len(entries))
	for i, e := range entries {
		questions[i].entry = e
	}
	ok = true
	var timeout <-chan time.Time
	for {
		flights, open, answerable := r.flights(at, questions)
		questions, ok = open, ok && answerable
		if len(flights) == 0 {
			return ok
		}
		if timeout == nil {
			timer := time.NewTimer(readTimeout + time.Millisecond) // a flight ends first
			defer timer.Stop()
			timeout = timer.C
		}
		for _, f := range flights {
			select {
			case <-f.done:
				if f.err != nil {
					return false
				}
			case <-timeout:
				return false
			case <-ctx.Done():
				return false
			}
		}
	}
}

// flights returns the reads that questions have to wait for. It begins one for all that are due and
// have none. Of the questions it returns those that are open; ok is false if one is not to be asked
// now.
func (r *remote) flights(at int64, questions []question) (flights []*flight, open []question, ok bool) {
	ok = true
	var begun *flight
	for _, q := range questions {
		e, g := q.entry, q.entry.ledger
		e.lock()
		e.advanceLocked(at)
		if !q.asked && g.strict(at) {
			q.after = g.begun + 1
		}
		q.asked = true
		switch {
		case q.after > 0 && g.answered >= q.after, q.after == 0 && !g.stale(at):
			e.unlock()
			continue
		case g.flight != nil:
		case g.waitsLocked(at), begun == nil && !r.mayRead(at):
			ok = false
			e.unlock()
			continue
		default:
			if begun == nil {
				begun = &flight{at: at, done: make(chan struct{})}
			}
			begun.addLocked(e)
		}
		if f := g.flight; len(flights) == 0 || flights[len(flights)-1] != f {
			flights = append(flights, f)
		}
		open = append(open, q)
		e.unlock()
	}
	if begun != nil {
		r.begin(begun)
	}
	return flights, open, ok
}

func (r *remote) mayRead(at int64) bool {
	return r.abandoned.Load() < maxAbandoned && r.breaker.allow(at)
}

// addLocked has the flight read the cells of an entry.
func (f *flight) addLocked(e *entry) {
	g, sequence := e.ledger, e.sequenceLocked()
	g.flight = f
	g.begun++
	f.entries = append(f.entries, e)
	f.cells = append(f.cells, g.counter.cell(sequence), g.counter.cell(sequence-1))
}

var errReadTimeout = errors.New("no answer after " + readTimeout.String())

// begin has the Origin read, in a goroutine that outlives the callers. A read that ignores the end
// of its context is abandoned.
func (r *remote) begin(f *flight) {
	timer := time.AfterFunc(readTimeout, func() {
		r.abandoned.Add(1)
		if !r.end(f, nil, errReadTimeout, readTimeout) {
			r.abandoned.Add(-1)
		}
	})
	go func() {
		defer timer.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		ended := false
		defer func() {
			if !ended && !r.end(f, nil, errors.New("the goroutine was ended"), 0) {
				r.abandoned.Add(-1)
			}
		}()
		counts, err := guarded(func() ([]int64, error) { return r.origin.Read(ctx, f.cells) })
		if err == nil {
			err = checkCounts(counts, len(f.cells))
		}
		ended = true
		took := time.Duration(0)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			took = readTimeout
		}
		if !r.end(f, counts, err, took) {
			r.abandoned.Add(-1)
		}
	}()
}

// checkCounts returns an error if an Origin cannot have meant its answer for n cells.
func checkCounts(counts []int64, n int) error {
	if len(counts) != n {
		return fmt.Errorf("%d counts for %d cells", len(counts), n)
	}
	for _, count := range counts {
		if count < 0 {
			return fmt.Errorf("a count is %d, want 0 or more", count)
		}
	}
	return nil
}

// end ends a flight, and reports whether it had not ended before. took is how long the read took in
// request time.
func (r *remote) end(f *flight, counts []int64, err error, took time.Duration) (first bool) {
	f.once.Do(func() {
		first = true
		f.err = err
		r.breaker.record(f.at+int64(took), time.Now(), err != nil)
		for i, e := range f.entries {
			e.lock()
			if err != nil {
				e.ledger.failLocked(f.at + int64(took+retryAfter))
			} else {
				r.answerLocked(e, f.at, f.cells[2*i], counts[2*i:2*i+2])
			}
			e.unlock()
		}
		close(f.done)
		if err != nil {
			r.errors.send("read origin", err)
		}
	})
	return first
}

func (g *ledger) failLocked(retryAt int64) {
	g.flight, g.failed, g.retryAt = nil, true, retryAt
}

// answerLocked merges what a flight that began at an instant has read of an entry: the counts of a
// cell, the current one of that instant, and of the one before that.
func (r *remote) answerLocked(e *entry, at int64, cell Cell, counts []int64) {
	g := e.ledger
	g.flight, g.failed, g.answered = nil, false, g.begun // one flight at a time: the latest
	for i, count := range counts {
		if a := cell.Sequence - int64(i); a >= e.sequenceLocked()-1 {
			g.accountLocked(a).readLocked(count)
		}
	}
	r.importLocked(e)
	if e.sequenceLocked() == cell.Sequence {
		g.freshUntil.Store(freshUntil(at, cell))
	}
	g.unread.Store(false)
	r.markGrown(e)
}

// freshUntil returns until when a read at an instant answers for a cell: for 5 s, and not after its
// end.
func freshUntil(at int64, cell Cell) int64 {
	until := int64(freshFor)
	if p := placeOf(at, cell.Window); p.sequence == cell.Sequence {
		until = min(until, int64(cell.Window-p.elapsed))
	}
	return at + until
}
