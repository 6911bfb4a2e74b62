package replica

import (
	"cmp"
	"context"
	"time"
)

// reads are the reads of the news that callers wait for: one is under way, and all that come
// meanwhile share the next.
type reads struct {
	running bool
	next    *reading
}

type reading struct {
	done chan struct{}
	err  error
}

// Fresh returns once the process has heard what was in the log when it was called, or less than
// maxAge before, and what was due by itself has happened. While the log is away it returns at once,
// and where the process goes on from an image it waits for that, for as long as a call may take.
func (r *Replica) Fresh(ctx context.Context, maxAge time.Duration) error {
	if err := r.fresh(ctx, maxAge); !r.catches() {
		return err
	}
	waits, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	r.await(waits, func() bool { return r.status != catching })
	return r.fresh(ctx, maxAge)
}

func (r *Replica) catches() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status == catching
}

func (r *Replica) fresh(ctx context.Context, maxAge time.Duration) error {
	r.mu.Lock()
	if r.status != here || r.ctx.Err() != nil {
		r.mu.Unlock()
		return nil
	}
	if a := r.needed(); a != nil {
		r.mu.Unlock()
		return r.await(ctx, func() bool { return !r.isOut(a) || r.status != here })
	}
	if age := time.Since(r.life.currentAt); 0 < age && age < maxAge {
		r.mu.Unlock()
		return nil
	}
	if r.reads.next == nil {
		r.reads.next = &reading{done: make(chan struct{})}
	}
	is := r.reads.next
	if !r.reads.running {
		r.reads.running = true
		r.done.Go(r.readAll)
	}
	r.mu.Unlock()
	select {
	case <-is.done:
		return is.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sync is Fresh that also does Told, for as long as a call may take.
func (r *Replica) Sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := r.Told(ctx); err != nil {
		return err
	}
	return r.Fresh(ctx, 0)
}

// Told waits for a log that is away, and until all that this process has told it so far is there.
func (r *Replica) Told(ctx context.Context) error {
	if err := r.await(ctx, func() bool { return r.status == here && !r.isAway }); err != nil {
		return cmp.Or(r.Err(), err)
	}
	r.mu.Lock()
	last := r.asks.last
	r.mu.Unlock()
	if err := r.await(ctx, func() bool { return r.isHeard(last) }); err != nil {
		return cmp.Or(r.Err(), err)
	}
	return nil
}

// isHeard reports whether the log has all commands up to a number.
func (r *Replica) isHeard(last int64) bool {
	for n := range r.asks.of {
		if n <= last && !r.asks.lined[n] {
			return false
		}
	}
	return true
}

// needed returns the command whose outcome a reader wants to see: what this process has told last,
// or one that is sent for that, of the dead, the days that last or what is due. It returns nil for
// none.
func (r *Replica) needed() *ask {
	if r.isOut(r.asks.told) {
		return r.asks.told
	}
	if r.isOut(r.life.buries) {
		return r.life.buries
	}
	if r.tellZones(); r.isOut(r.life.zones) {
		return r.life.zones
	}
	if r.state.Engine.Due() > r.clock.expected() {
		return nil
	}
	if !r.isOut(r.life.ticks) {
		r.sendTick(time.Now())
	}
	return r.life.ticks
}

// readAll reads the news for as long as anybody waits for them.
func (r *Replica) readAll() {
	for {
		r.mu.Lock()
		is := r.reads.next
		if r.reads.next = nil; is == nil {
			r.reads.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		is.err = r.readNews()
		close(is.done)
	}
}

// readNews reads to the end of the log.
func (r *Replica) readNews() error {
	for {
		r.mu.Lock()
		after, away := r.at, r.status != here
		r.mu.Unlock()
		if away {
			return nil
		}
		ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
		sent := time.Now()
		news, err := r.log.Read(ctx, after, 0, 0)
		cancel()
		r.hear(after, news, err, sent)
		if err != nil || !news.More {
			return err
		}
	}
}
