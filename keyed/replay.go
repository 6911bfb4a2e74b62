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

// replay is a Replay, and the entries of its deltas.
type replay struct {
	content Replay
	entries []*entry
	took    time.Duration // of the attempt that succeeded
}

// enqueue has the units of an entry replayed.
func (r *remote) enqueue(e *entry) {
	if !e.ledger.queued.CompareAndSwap(false, true) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, e)
	if !r.closed {
		r.startLocked()
	}
}

// startLocked has a goroutine replay what there is, if there is none. It ends when all is
// acknowledged.
func (r *remote) startLocked() {
	if r.replaying {
		return
	}
	r.replaying = true
	r.idle = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.replayAll(ctx, r.idle)
}

// drain waits until all is acknowledged, or for the end of ctx, after which nothing is replayed any
// more until drain is called again.
func (r *remote) drain(ctx context.Context) error {
	for {
		idle, cancel := r.lastReplays()
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

// lastReplays has what is left replayed without a pause. It returns nil if nothing is left.
func (r *remote) lastReplays() (idle <-chan struct{}, cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		close(r.urgent)
	}
	if len(r.queue) > 0 || r.unsent != nil {
		r.startLocked()
	}
	if !r.replaying {
		return nil, nil
	}
	return r.idle, r.cancel
}

// replayAll replays until nothing is left, one replay at a time: what is charged while one is in
// flight adds up in the next.
func (r *remote) replayAll(ctx context.Context, idle chan struct{}) {
	defer close(idle)
	for {
		p := r.next(ctx)
		if p == nil {
			return
		}
		counts, err := r.deliver(ctx, p)
		if err != nil {
			r.mu.Lock()
			r.unsent = p
			r.replaying = false
			r.mu.Unlock()
			return
		}
		r.acknowledge(p, counts)
		r.endAttempt()
	}
}

// beginAttempt and endAttempt frame the time in which an attempt is under way, until its replay is
// acknowledged or it has failed.
func (r *remote) beginAttempt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempted = make(chan struct{})
}

func (r *remote) endAttempt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.attempted)
	r.attempted = nil
}

// next returns the next replay. If there is nothing to replay, it returns nil, and replaying has
// ended.
func (r *remote) next(ctx context.Context) *replay {
	for {
		r.mu.Lock()
		if p := r.unsent; p != nil {
			r.unsent = nil
			r.mu.Unlock()
			return p
		}
		if len(r.queue) == 0 || ctx.Err() != nil {
			r.replaying = false
			r.mu.Unlock()
			return nil
		}
		n := min(len(r.queue), maxDeltas)
		entries := r.queue[:n:n]
		r.queue = r.queue[n:]
		number := r.replays + 1
		r.mu.Unlock()
		if p := r.collect(entries, number); p != nil {
			r.mu.Lock()
			r.replays = number
			r.mu.Unlock()
			return p
		}
	}
}

// delta is a Delta with its entry.
type delta struct {
	Delta
	entry *entry
}

// collect returns a replay of the units of some entries that wait for that, or nil if there are
// none. Entries that do not fit are queued again.
func (r *remote) collect(entries []*entry, number int64) *replay {
	var deltas []delta
	for _, e := range entries {
		if len(deltas) >= maxDeltas {
			r.mu.Lock()
			r.queue = append(r.queue, e) // it is still marked
			r.mu.Unlock()
			continue
		}
		e.ledger.queued.Store(false) // before its units are read: later ones mark it again
		e.lock()
		deltas = e.ledger.collectLocked(e, deltas)
		r.settledLocked(e)
		e.unlock()
	}
	if len(deltas) == 0 {
		return nil
	}
	slices.SortFunc(deltas, func(x, y delta) int { return compareCells(x.Cell, y.Cell) })
	p := &replay{content: Replay{Process: r.process, Number: number}}
	for _, d := range deltas {
		p.content.Deltas = append(p.content.Deltas, d.Delta)
		p.entries = append(p.entries, d.entry)
	}
	return p
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
func (r *remote) deliver(ctx context.Context, p *replay) ([]int64, error) {
	urgent := r.urgent
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		if err := pause(ctx, r.rest(), r.urgent); err != nil {
			return nil, err
		}
		r.beginAttempt()
		counts, err := r.attempt(ctx, p)
		if err == nil {
			return counts, nil
		}
		r.endAttempt()
		r.errors.send("replay to origin", err)
		if err := pause(ctx, wait, urgent); err != nil {
			return nil, err
		}
		select {
		case <-urgent:
			urgent = nil // the first attempt after Close is made at once, the others are not
		default:
		}
	}
}

func (r *remote) attempt(ctx context.Context, p *replay) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, addTimeout)
	defer cancel()
	content, begin := p.content, time.Now()
	content.Deltas = slices.Clone(content.Deltas) // whatever an Origin does with it
	counts, err := guarded(func() ([]int64, error) { return r.origin.Add(ctx, content) })
	if err != nil {
		return nil, err
	}
	p.took = time.Since(begin)
	if wrong := checkCounts(counts, len(content.Deltas)); wrong != nil { // acknowledged, but it tells nothing
		r.errors.send("replay to origin", wrong)
		return nil, nil
	}
	return counts, nil
}

// pause waits for d, or until urgent is closed; nil is never.
func pause(ctx context.Context, d time.Duration, urgent <-chan struct{}) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-urgent:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// acknowledge merges the counts after a replay. Without counts they are taken to have grown by it.
func (r *remote) acknowledge(p *replay, counts []int64) {
	for i, d := range p.content.Deltas {
		e := p.entries[i]
		e.lock()
		if a := e.ledger.findLocked(d.Sequence); a != nil {
			count := addUnits(a.after, a.inFlight)
			if counts != nil {
				count = counts[i]
			}
			a.ackLocked(count)
			if counts != nil && d.Sequence == e.sequenceLocked() {
				e.ledger.repliedLocked(e.ledger.sentAt, p.took)
			}
			r.importLocked(e)
		}
		r.settledLocked(e)
		e.unlock()
		r.markGrown(e)
	}
}
