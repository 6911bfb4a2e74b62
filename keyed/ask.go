package keyed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/breaker"
)

// flight is a read of the Origin that goes on: the current and the previous cell of one counter, or
// of several of one batch. Many callers may wait for it; the end of one's context does not end it.
type flight struct {
	at      int64 // Unix nanoseconds of the request that began it
	pass    breaker.Pass
	entries []*entry
	cells   []Cell // two of each entry: the current and the previous one
	// included is how much of each count may be of this process, once the read has returned.
	included []int64
	done     chan struct{} // closed when it has ended
	err      error         // valid once done is closed
}

// question is one caller's wish to know the counts of an entry.
type question struct {
	entry *entry
	after uint64 // the number of the first read that answers it; 0: any fresh one does
}

// ask reads the counts of the entries that are due at an instant, in Unix nanoseconds, and merges
// them, unless that takes longer than readTimeout, fails or is not to be tried yet.
func (r *remote) ask(ctx context.Context, at int64, entries ...*entry) {
	begin := time.Now()
	questions := make([]question, len(entries))
	for i, e := range entries {
		e.lock()
		e.advanceLocked(at)
		questions[i] = question{e, e.ledger.answerLocked(at)}
		e.unlock()
	}
	var timeout <-chan time.Time // of the second read that a caller waits for: the first ends in time
	for {
		var flights []*flight
		if flights, questions = r.pending(at, questions); len(flights) == 0 {
			return
		}
		for _, f := range flights {
			select {
			case <-f.done:
				if f.err != nil {
					return
				}
			case <-timeout:
				return
			case <-ctx.Done():
				return
			}
		}
		if timeout == nil {
			timer := time.NewTimer(readTimeout - time.Since(begin))
			defer timer.Stop()
			timeout = timer.C
		}
	}
}

// answerLocked returns the number of the first read that answers what is asked at an instant, or 0
// if any fresh one does. A read that began before may have missed what others charged since then.
func (g *ledger) answerLocked(at int64) uint64 {
	switch {
	case g.strict(at), !g.stale(at) && !g.young(at) && g.flight == nil:
		return g.begun + 1
	case !g.stale(at) && !g.young(at):
		return g.begun
	}
	return 0
}

// pending returns the reads that questions have to wait for. It begins one for all that are due and
// have none. Of the questions it returns those that are open and may be asked now.
func (r *remote) pending(at int64, questions []question) (flights []*flight, open []question) {
	var begun *flight
	for _, q := range questions {
		e, g := q.entry, q.entry.ledger
		e.lock()
		answered := q.after > 0 && g.answered >= q.after || q.after == 0 && !g.stale(at)
		if !answered && g.flight == nil && !g.waitsLocked(at) {
			if begun == nil {
				begun = r.takeOff(at)
			}
			if begun != nil {
				begun.addLocked(e)
			}
		}
		if f := g.flight; !answered && f != nil {
			flights, open = append(flights, f), append(open, q)
		}
		e.unlock()
	}
	if begun != nil {
		r.begin(begun)
	}
	return flights, open
}

// takeOff returns a new flight, or nil if there is to be none.
func (r *remote) takeOff(at int64) *flight {
	if r.abandoned.Load() >= maxAbandoned {
		return nil
	}
	pass, ok := r.breaker.Enter(time.Unix(0, at))
	if !ok {
		return nil
	}
	return &flight{at: at, pass: pass, done: make(chan struct{})}
}

// land tells the breaker how a flight ended, and Adds when it opens. That Close ended it is neither
// a success nor a failure.
func (r *remote) land(f *flight, err error, took time.Duration) {
	outcome := breaker.Success
	switch {
	case err != nil && r.life.Err() != nil:
		outcome = breaker.Unknown
	case err != nil:
		outcome = breaker.Failure
	}
	end := time.Unix(0, f.at).Add(took)
	r.breaker.Leave(f.pass, end, outcome)
	open, now := r.breaker.IsOpen(end), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if open && now.After(r.rests) { // calls from before it opened end later
		r.rests = now.Add(breakerOpen)
	}
}

// rest returns how long the breaker is open by the clock of this process.
func (r *remote) rest() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.rests)
}

// addLocked has the flight read the cells of an entry.
func (f *flight) addLocked(e *entry) {
	g, sequence := e.ledger, e.sequenceLocked()
	g.flight = f
	g.begun++
	f.entries = append(f.entries, e)
	f.cells = append(f.cells, g.counter.cell(sequence), g.counter.cell(sequence-1))
}

var (
	errReadTimeout = errors.New("no answer after " + readTimeout.String())
	errNoAnswer    = errors.New("the read ended its goroutine")
)

// answer is how a read ended.
type answer struct {
	counts []int64
	err    error
	took   time.Duration // in request time
}

// begin has the Origin read, in goroutines that outlive the callers. A read that ignores the end of
// its context is abandoned.
func (r *remote) begin(f *flight) {
	r.mu.Lock()
	r.flights[f] = struct{}{}
	r.mu.Unlock()
	answers := make(chan answer, 1)
	go func() {
		a := answer{err: errNoAnswer}
		defer func() { answers <- a }()
		a = r.read(f)
	}()
	go func() {
		timer := time.NewTimer(readTimeout)
		defer timer.Stop()
		select {
		case a := <-answers:
			r.finish(f, a)
		case <-timer.C:
			r.abandoned.Add(1)
			defer r.abandoned.Add(-1)
			r.finish(f, answer{err: errReadTimeout, took: readTimeout})
			<-answers
		}
	}()
}

func (r *remote) read(f *flight) (a answer) {
	begin := time.Now()
	a.err = call(r.life, readTimeout, func(ctx context.Context) (err error) {
		a.counts, err = r.origin.Read(ctx, f.cells)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			a.took = readTimeout
		}
		return err
	})
	if a.err == nil {
		a.err = checkCounts(a.counts, len(f.cells))
	}
	if a.err == nil {
		a.took = time.Since(begin)
		r.settle(f, a.took)
	}
	return a
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

// finish ends a flight.
func (r *remote) finish(f *flight, a answer) {
	f.err = a.err
	r.land(f, a.err, a.took)
	for i, e := range f.entries {
		e.lock()
		g := e.ledger
		if g.flight, g.failed = nil, a.err != nil; g.failed {
			g.retryAt = f.at + int64(a.took+retryAfter)
		} else {
			r.mergeLocked(f, i, a.counts[2*i:2*i+2])
			g.repliedLocked(f.at, a.took)
		}
		e.unlock()
	}
	r.mu.Lock()
	delete(r.flights, f)
	r.mu.Unlock()
	close(f.done)
	r.failed("read origin", a.err)
}

// endFlights waits until all reads have ended, or for the end of ctx.
func (r *remote) endFlights(ctx context.Context) {
	r.mu.Lock()
	flights := slices.Collect(maps.Keys(r.flights))
	r.mu.Unlock()
	for _, f := range flights {
		select {
		case <-f.done:
		case <-ctx.Done():
			return
		}
	}
}

// settle waits a little for a replay that the counts may contain or not. took is how long the read
// took.
func (r *remote) settle(f *flight, took time.Duration) {
	f.included = make([]int64, len(f.cells))
	doubt := false
	for i, e := range f.entries {
		e.lock()
		for k := 2 * i; k < 2*i+2; k++ {
			if a := e.ledger.findLocked(f.cells[k].Sequence); a != nil {
				f.included[k] = a.acked + a.inFlight
				doubt = doubt || a.inFlight > 0
			}
		}
		e.unlock()
	}
	r.mu.Lock()
	attempted := r.attempted
	r.mu.Unlock()
	patience := min(max(2*took, leastPatience), readTimeout-took-leastPatience)
	if !doubt || attempted == nil || patience <= 0 {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-attempted:
	case <-timer.C:
	case <-r.life.Done():
	}
}

// mergeLocked merges what a flight has read of the entry at an index: the counts of the current
// cell of when it began, and of the one before that.
func (r *remote) mergeLocked(f *flight, index int, counts []int64) {
	e, cell := f.entries[index], f.cells[2*index]
	g := e.ledger
	g.answered = g.begun // one flight at a time: the latest
	for i, count := range counts {
		if sequence := cell.Sequence - int64(i); sequence >= e.sequenceLocked()-1 {
			g.accountLocked(sequence).readLocked(count, f.included[2*index+i])
		}
	}
	r.importLocked(e)
	if e.sequenceLocked() == cell.Sequence {
		g.freshUntil.Store(freshUntil(f.at, cell))
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
