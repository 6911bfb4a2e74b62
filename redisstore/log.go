package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Log is the log of a process in which the server orders commands. It implements store.Log.
//
// The log is a stream with a row for each batch. A hash has which log it is, where it begins and
// where the newest image is, a list has the pieces of that, and a string names the end of the log,
// so that an append that knows it reads no row.
type Log struct {
	store   *Store
	options store.Options
	keys    []string // of the log, of what it is, and of its end
	former  []string // the keys of the layout before

	closing  context.Context
	stop     context.CancelCauseFunc
	crew     crew
	keepAt   atomic.Int64 // when the keys are to be kept anew: see isDue
	reportAt atomic.Int64 // when missing replicas may be reported again

	learned map[string]state.Answers // see Learned
	warning error                    // of taking over, which Open reports
}

var _ store.Log = (*Log)(nil)

// layout is the version of the keys and of what they hold.
const layout = "3"

// The keys of a log, in the order in which the scripts know them.
const (
	keyLog = iota
	keyMeta
	keyEnd
)

// keysOf returns the keys of a prefix: of its log, or of the layout before.
func keysOf(prefix, layout string, names ...string) (keys []string) {
	for _, name := range names {
		keys = append(keys, "{"+prefix+"}:ratelimit:"+layout+":"+name)
	}
	return keys
}

// errClosed is returned by a log that was closed.
var errClosed = errors.New("the log is closed")

func newLog(s *Store, o store.Options) *Log {
	prefix := s.options.Prefix
	l := &Log{
		store: s, options: o, crew: make(crew, mostIdle),
		keys: keysOf(prefix, layout, "log", "meta", "end"), former: keysOf(prefix, formerLayout, formerNames...),
	}
	l.closing, l.stop = context.WithCancelCause(context.Background())
	return l
}

// shortestOpening is the time that an opening has at least once the server has answered: processes
// that have died of late are asked for the time in vain.
const shortestOpening = 5 * time.Second

// Traits tells what kind of store it is. The server's clock shows microseconds.
func (l *Log) Traits() store.Traits {
	o := &l.store.options
	return store.Traits{
		System: "redis", Timeout: o.Timeout, OpenTimeout: max(o.OpenTimeout, shortestOpening), MaxStale: o.MaxStale, Tick: time.Microsecond,
	}
}

// Close implements store.Log. It leaves the client open.
func (l *Log) Close() error {
	l.stop(errClosed)
	return nil
}

// failed returns the error of an operation; nil for none.
func (l *Log) failed(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redis: %s: %w", operation, l.store.place(err))
}

// report reports a warning.
func (l *Log) report(warning error) {
	if l.options.Report != nil {
		l.options.Report(warning)
	}
}

func (l *Log) sleep(ctx context.Context, span time.Duration) error {
	select {
	case <-time.After(span):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closing.Done():
		return errClosed
	}
}

// keepEvery is how often the keys are kept anew, unless they are to be kept for less.
const keepEvery = time.Minute

// keepFor returns for how many milliseconds, rounded up, the keys are to be kept; 0 is for ever.
func (l *Log) keepFor() int64 {
	return int64((l.options.Keep + time.Millisecond - 1) / time.Millisecond)
}

// isDue reports whether a moment, in UnixNano, has come. Then it is the moment a span later.
func isDue(moment *atomic.Int64, span time.Duration) bool {
	now, at := time.Now().UnixNano(), moment.Load()
	return now >= at && moment.CompareAndSwap(at, now+int64(span))
}

// run runs a script. An answer that is an error, or none because nothing was sent, says that
// nothing was written. Whoever writes is told at once, and may send it again.
func (l *Log) run(ctx context.Context, sc *script, keys []string, args []any, writes bool) (reply any, err error) {
	if err := cmp.Or(context.Cause(l.closing), ctx.Err()); err != nil {
		return nil, notWritten(err)
	}
	send := l.store.client.Process
	if writes && l.store.options.WaitReplicas > 0 {
		send = l.sendAndWait
	}
	call := func(ctx context.Context) (any, error) { return eval(ctx, send, sc, keys, args) }
	switch timeout := l.store.options.Timeout; {
	case !writes:
		reply, err = ask(ctx, l, call)
	case l.store.settings.heeds: // to hand the call to another goroutine takes as long as the server takes for it
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > timeout { // else a timer would be one too many
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		reply, err = call(ctx)
		err = l.told(ctx, err)
	default:
		reply, err = within(ctx, l, timeout, call)
		err = l.told(ctx, err)
	}
	if isAnswer(err) {
		return nil, notWritten(err)
	}
	return reply, err
}

// notWritten makes an error one that says that nothing was written.
func notWritten(err error) error { return fmt.Errorf("%w (%w)", err, store.ErrNotWritten) }
