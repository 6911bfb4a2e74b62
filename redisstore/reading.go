package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

const (
	// everythingFor is how long a limiter that starts waits until everything is read.
	everythingFor = 10 * time.Second
	// readingFor is how long everything may take to read where nobody waits for it.
	readingFor = time.Minute
)

// reading reads all that a log has. It goes on when the step that began it has no more time: a
// later step takes what was read. So a limiter comes back to a large log, over a slow network, too,
// and no call waits for that.
type reading struct {
	begun   time.Time
	done    chan struct{} // closed at the end; content and err are set then
	content *content
	err     error
}

// begunReading returns the reading that goes on or has succeeded, or else a new one. It is called
// between Begin and the end of its step.
func (l *Log) begunReading() *reading {
	if r := l.reading; r != nil && !r.failed() {
		return r
	}
	r := &reading{begun: time.Now(), done: make(chan struct{}), content: &content{log: l}}
	l.reading = r
	l.goroutines.Go(func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(l.closing, readingFor)
		defer cancel()
		for range 5 { // once, unless what was read is gone before the rest is
			r.err = r.content.read(ctx)
			if !errors.Is(r.err, sharedlog.ErrIncomplete) && !errors.Is(r.err, errReplaced) {
				return
			}
		}
	})
	return r
}

func (r *reading) failed() bool {
	select {
	case <-r.done:
		return r.err != nil
	default:
		return false
	}
}

// readAll returns all that the log had some moments ago. What came since is news like any other.
func (l *Log) readAll(ctx context.Context) (*content, error) {
	if _, limited := ctx.Deadline(); !limited {
		most := l.store.options.Timeout
		if !l.follows.Load() {
			most = everythingFor
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	r := l.begunReading()
	select {
	case <-r.done:
		l.reading = nil
		return r.content, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("redis: not everything is read yet: %w", l.store.health.explain(ctx.Err(), r.begun))
	}
}
