package redisstore

import (
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
	keys    []string // of the log, of what it is, of its end, and of the layout before

	closing  context.Context
	stop     context.CancelFunc
	crew     *crew
	keepAt   atomic.Int64 // when the keys are to be kept anew, in UnixNano
	reportAt atomic.Int64 // when missing replicas may be reported again

	learned map[string]state.Answers // see Learned
}

var _ store.Log = (*Log)(nil)

// layout is the version of the keys and of what they hold.
const layout = "3"

// The keys of a log, in the order in which the scripts know them. Those of the layout before come
// behind them.
const (
	keyLog = iota
	keyMeta
	keyEnd
	ownKeys
)

// keysOf returns the keys of a prefix.
func keysOf(prefix string) []string {
	var keys []string
	for _, name := range []string{"log", "meta", "end"} {
		keys = append(keys, keyOf(prefix, layout, name))
	}
	for _, name := range formerNames {
		keys = append(keys, keyOf(prefix, formerLayout, name))
	}
	return keys
}

func keyOf(prefix, layout, name string) string {
	return "{" + prefix + "}:ratelimit:" + layout + ":" + name
}

// errClosed is returned by a log that was closed.
var errClosed = errors.New("the log is closed")

func newLog(s *Store, o store.Options) *Log {
	l := &Log{store: s, options: o, keys: keysOf(s.options.Prefix)}
	l.closing, l.stop = context.WithCancel(context.Background())
	l.crew = newCrew(l.closing.Done())
	return l
}

// Traits tells what kind of store it is. The server's clock shows microseconds.
func (l *Log) Traits() store.Traits {
	o := &l.store.options
	return store.Traits{System: "redis", Timeout: o.Timeout, MaxStale: o.MaxStale, Tick: time.Microsecond}
}

// Close implements store.Log. It leaves the client open.
func (l *Log) Close() error {
	l.stop()
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

// keepFor returns for how many milliseconds the keys are to be kept; 0 is for ever.
func (l *Log) keepFor() int64 {
	if l.options.Keep <= 0 {
		return 0
	}
	return max(l.options.Keep.Milliseconds(), 1)
}

// isKeepDue reports whether the keys are to be kept anew.
func (l *Log) isKeepDue() bool {
	if l.options.Keep <= 0 {
		return false
	}
	now, at := time.Now().UnixNano(), l.keepAt.Load()
	return now >= at && l.keepAt.CompareAndSwap(at, now+int64(min(keepEvery, l.options.Keep/4)))
}

// run runs a script. An answer that is an error, or none because nothing was sent, says that
// nothing was written. Whoever writes is told at once, and may send it again.
func (l *Log) run(ctx context.Context, sc *script, keys []string, args []any, writes bool) (reply any, err error) {
	if l.closing.Err() != nil {
		return nil, notWritten(errClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, notWritten(err)
	}
	send := l.store.client.Process
	if writes && l.store.options.WaitReplicas > 0 {
		send = l.sendAndWait
	}
	call := func(ctx context.Context) (any, error) { return eval(ctx, send, sc, keys, args) }
	if writes { // to hand the call to another goroutine takes as long as the server takes for it
		reply, _, err = try(ctx, l, l.store.options.Timeout, l.store.settings.heeds, call)
	} else {
		reply, err = ask(ctx, l, call)
	}
	if answered, _ := isAnswer(err); answered {
		return nil, notWritten(err)
	}
	return reply, err
}

// notWritten makes an error one that says that nothing was written.
func notWritten(err error) error { return fmt.Errorf("%w (%w)", err, store.ErrNotWritten) }
