package debugpage

import (
	"context"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

const (
	// interval is the time between two snapshots, and maxInterval if they are expensive.
	interval    = time.Second
	maxInterval = 15 * time.Second
	// perCost times the work on a snapshot is how long it takes to the next one at least.
	perCost = 100
)

// snapshot is the limiter at one moment.
type snapshot struct {
	*content
	at   time.Time
	cost *atomic.Int64 // nanoseconds of work on it
}

// due returns when the next snapshot may be taken.
func (s *snapshot) due() time.Time {
	return s.at.Add(min(max(interval, perCost*time.Duration(s.cost.Load())), maxInterval))
}

// spent adds the time since start to the work on the snapshot.
func (s *snapshot) spent(start time.Time) { s.cost.Add(int64(time.Since(start))) }

// board has the last snapshot of a limiter, which all viewers share. It runs nothing by itself: the
// first request that finds the snapshot too old takes the next one.
type board struct {
	rl   *ratelimit.RateLimiter
	last atomic.Pointer[snapshot]
	turn chan struct{} // of who takes a snapshot; unlike a mutex, it lets go whose request has ended
	ids  uint64        // rows made; only in turn
}

func newBoard(rl *ratelimit.RateLimiter) *board {
	return &board{rl: rl, turn: make(chan struct{}, 1)}
}

// look returns the last snapshot, or a new one if that is due. Its error is that of ctx.
func (b *board) look(ctx context.Context) (*snapshot, error) {
	if s := b.last.Load(); s != nil && time.Now().Before(s.due()) {
		return s, nil
	}
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	last := b.last.Load()
	if last != nil && time.Now().Before(last.due()) {
		return last, nil
	}
	s, err := b.take(ctx, last)
	if err == nil {
		b.last.Store(s)
	}
	return s, err
}

// take takes a snapshot, one model at a time. What has not changed is that of the one before.
func (b *board) take(ctx context.Context, last *snapshot) (*snapshot, error) {
	s := &snapshot{content: &content{version: 1}, at: time.Now(), cost: new(atomic.Int64)}
	before := &content{}
	if last != nil {
		before = last.content
		s.version, s.previous = before.version+1, before.version
	}
	old := before.rows
	s.rows = make([]*row, 0, len(old))
	for model := range b.rl.Models() {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for len(old) > 0 && old[0].explained.Model < model {
			old = old[1:]
		}
		e := b.rl.Explain(model)
		if len(old) > 0 && old[0].explained.Model == model {
			s.rows = append(s.rows, old[0].next(&e, s.version))
		} else {
			b.ids++
			s.rows = append(s.rows, newRow(b.ids, &e, s.version))
		}
	}
	s.pools = takePools(b.rl, s.at)
	s.arrange()
	s.above = renderAbove(s.content, noticeOf(b.rl))
	if !s.since(before) {
		s.content = before
	}
	s.spent(s.at)
	return s, nil
}
