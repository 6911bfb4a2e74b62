package redisstore

import (
	"context"
	"time"
)

// crew runs calls of the client on goroutines that stay for the next ones: a new one would have to
// grow its stack for the client, which takes as long as the call of a near server. It is the
// channel of those that are idle.
type crew chan chan func()

// mostIdle is how many goroutines of a crew stay.
const mostIdle = 4

// run runs f. A goroutine stays until the log is closed.
func (c crew) run(f func(), closed <-chan struct{}) {
	select {
	case worker := <-c:
		worker <- f
	default:
		go c.work(f, closed)
	}
}

func (c crew) work(f func(), closed <-chan struct{}) {
	worker := make(chan func(), 1)
	for {
		f()
		select {
		case c <- worker:
		default:
			return
		}
		select {
		case f = <-worker:
		case <-closed:
			return
		}
	}
}

// within calls f, and returns when most has gone by, ctx has ended or the log was closed, at the
// latest. f may go on then: go-redis heeds the deadline of a context at best, and never its end.
func within[T any](ctx context.Context, l *Log, most time.Duration, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	closed := l.closing.Done()
	l.crew.run(func() {
		value, err := f(ctx)
		done <- result{value, err}
	}, closed)
	var none T
	select {
	case r := <-done:
		return r.value, r.err
	case <-closed:
		return none, errClosed
	case <-ctx.Done():
	}
	select { // what f says tells more
	case r := <-done:
		return r.value, r.err
	case <-time.After(lastWords):
		return none, ctx.Err()
	}
}

// lastWords is how long a call that has no more time waits for the error of the client.
const lastWords = 5 * time.Millisecond
