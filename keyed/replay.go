package keyed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxDeltas bounds the cells of one replay.
	maxDeltas = 1000
	// firstPause and lastPause bound the pause after a failed attempt, which doubles each time.
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// replay is a Replay that is under way.
type replay struct {
	number int64
	deltas []delta
}

// delta is a Delta with its entry.
type delta struct {
	Delta
	entry *entry
}

// enqueue has the units of an entry replayed.
func (r *remote) enqueue(e *entry) {
	if !e.ledger.queued.CompareAndSwap(false, true) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, e)
	if r.life.Err() == nil {
		r.startLocked()
	}
}

// startLocked has a goroutine replay what there is, if there is none. It ends when all is
// acknowledged.
func (r *remote) startLocked() {
	if r.idle != nil {
		return
	}
	r.idle = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.replayAll(ctx, r.idle)
}

// drain waits until all is acknowledged, or for the end of ctx, after which nothing is replayed any
// more until drain is called again.
func (r *remote) drain(ctx context.Context) error {
	for {
		r.mu.Lock()
		if len(r.queue) > 0 || r.unsent != nil {
			r.startLocked()
		}
		idle, cancel := r.idle, r.cancel
		r.mu.Unlock()
		if idle == nil {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			cancel()
			return fmt.Errorf("close keyed limiter: %w", ctx.Err())
		}
	}
}

// replayAll replays until nothing is left, one replay at a time: what is charged while one is in
// flight adds up in the next.
func (r *remote) replayAll(ctx context.Context, idle chan struct{}) {
	defer close(idle)
	for p := r.next(ctx); p != nil; p = r.next(ctx) {
		r.deliver(ctx, p)
	}
}

// next returns the replay that is not acknowledged yet, or one of units that wait. If there is
// none, or ctx has ended, it returns nil, and replaying has ended.
func (r *remote) next(ctx context.Context) *replay {
	r.mu.Lock()
	defer r.mu.Unlock()
	var deltas []delta
	for r.unsent == nil && len(r.queue) > 0 && len(deltas) < maxDeltas {
		e := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock() // an entry is locked before a remote
		deltas = r.collect(e, deltas)
		r.mu.Lock()
	}
	if len(deltas) > 0 {
		slices.SortFunc(deltas, func(x, y delta) int { return compareCells(x.Cell, y.Cell) })
		r.replays++
		r.unsent = &replay{r.replays, deltas}
	}
	if r.unsent == nil || ctx.Err() != nil {
		r.idle = nil
		return nil
	}
	return r.unsent
}

// collect adds the units of an entry that wait.
func (r *remote) collect(e *entry, deltas []delta) []delta {
	e.ledger.queued.Store(false) // before its units are read: later ones mark it again
	e.lock()
	defer e.unlock()
	deltas = e.ledger.collectLocked(e, deltas)
	r.settledLocked(e)
	return deltas
}

// collectLocked puts the units that wait in flight.
func (g *ledger) collectLocked(e *entry, deltas []delta) []delta {
	for i := range g.cells {
		a := &g.cells[i]
		if units := g.ownLocked(e, a) - a.acked - a.inFlight; units > 0 {
			a.inFlight += units
			g.sentAt = g.latest.Load()
			deltas = append(deltas, delta{Delta{g.counter.cell(a.sequence), units}, e})
		}
	}
	return deltas
}

// compareCells orders cells by namespace, key, window and sequence.
func compareCells(x, y Cell) int {
	return cmp.Or(
		strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Key, y.Key),
		cmp.Compare(x.Window, y.Window), cmp.Compare(x.Sequence, y.Sequence),
	)
}

// deliver repeats a replay until it is acknowledged, or ctx has ended. It makes no attempt while
// the breaker is open, except after Close.
func (r *remote) deliver(ctx context.Context, p *replay) {
	urgent := r.life.Done()
	for wait := firstPause; pause(ctx, r.rest(), r.life.Done()); wait = min(2*wait, lastPause) {
		err := r.attempt(ctx, p)
		if err == nil {
			return
		}
		r.errors.send("replay to origin", err)
		if pause(ctx, wait, urgent); r.life.Err() != nil {
			urgent = nil // the first attempt after Close is made at once, the others are not
		}
	}
}

func (r *remote) attempt(ctx context.Context, p *replay) error {
	attempted := make(chan struct{})
	defer close(attempted)
	r.mu.Lock()
	r.attempted = attempted
	r.mu.Unlock()
	content := Replay{r.process, p.number, make([]Delta, len(p.deltas))} // whatever an Origin does with it
	for i, d := range p.deltas {
		content.Deltas[i] = d.Delta
	}
	var counts []int64
	begin := time.Now()
	err := call(ctx, addTimeout, func(ctx context.Context) (err error) {
		counts, err = r.origin.Add(ctx, content)
		return err
	})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if wrong := checkCounts(counts, len(p.deltas)); wrong != nil { // acknowledged, but it tells nothing
		r.errors.send("replay to origin", wrong)
		counts = nil
	}
	r.acknowledge(p, counts, took)
	return nil
}

// pause waits for d, or until urgent is closed; nil is never. It returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration, urgent <-chan struct{}) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-urgent:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// acknowledge merges the counts after a replay. Without counts they are taken to have grown by it.
func (r *remote) acknowledge(p *replay, counts []int64, took time.Duration) {
	for i, d := range p.deltas {
		e := d.entry
		e.lock()
		if a := e.ledger.findLocked(d.Sequence); a != nil {
			count := addUnits(a.after, a.inFlight)
			if counts != nil {
				count = counts[i]
			}
			a.ackLocked(count)
			if counts != nil && d.Sequence == e.sequenceLocked() {
				e.ledger.repliedLocked(e.ledger.sentAt, took)
			}
			r.importLocked(e)
		}
		r.settledLocked(e)
		e.unlock()
		r.markGrown(e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsent = nil
}
