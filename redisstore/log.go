package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// Log is the log of one limiter. It implements sharedlog.Remote.
//
// A goroutine reads what others write, and another one keeps the lease and deletes what counts no
// more. Both begin with the first step, and end with Close.
type Log struct {
	store   *Store
	options sharedlog.Options
	process string // options.Process as text,
	field   string // and the field of meta that tells of it
	keys    []string
	started time.Time

	clock  logClock
	heard  buffer
	lives  lives
	chores chores

	follows  atomic.Bool           // a step has read everything
	replaced atomic.Bool           // the store has another log now
	lacks    atomic.Bool           // events were deleted before they were read: the next step reads everything
	offline  atomic.Bool           // the reader has no connection
	facts    atomic.Pointer[facts] // of the last reply; nil before the first
	span     atomic.Int64
	sharers  atomic.Int64

	// In nanoseconds since started.
	knownAt  atomic.Int64 // all that was written before is known
	askedAt  atomic.Int64 // a script was asked last,
	wholeAt  atomic.Int64 // and one that looks at all keys
	readAt   atomic.Int64 // the limiter read last
	reportAt atomic.Int64 // replicas may be reported again

	changed chan struct{}
	urgent  chan struct{} // ends a pause of the reader
	inLine  atomic.Bool   // the limiter waits in line

	// Of the goroutine between Begin and the end of its step.
	number  int64 // of the last batch
	encoder encoder
	crowded int      // how many steps are still to get in line before they are decided
	reading *reading // of everything; nil if none goes on

	begin      sync.Once // of the goroutines
	closed     sync.Once
	closing    context.Context
	stop       context.CancelFunc
	goroutines sync.WaitGroup
}

var _ sharedlog.Remote = (*Log)(nil)

// errClosed is returned by a log that was closed.
var errClosed = errors.New("redis: the log is closed")

func newLog(s *Store, o sharedlog.Options) *Log {
	l := &Log{
		store: s, options: o, process: strconv.FormatInt(o.Process, 10), keys: s.keys, started: time.Now(),
		changed: make(chan struct{}, 1), urgent: make(chan struct{}),
	}
	l.field = "d:" + l.process
	l.span.Store(o.Span)
	l.sharers.Store(1)
	l.closing, l.stop = context.WithCancel(context.Background())
	return l
}

// since returns a time in nanoseconds since the log was opened.
func (l *Log) since(t time.Time) int64 { return int64(t.Sub(l.started)) }

// usable returns why the log cannot be used without a step that reads everything.
func (l *Log) usable() error {
	switch {
	case l.closing.Err() != nil:
		return errClosed
	case l.replaced.Load():
		return errReplaced
	case !l.follows.Load():
		return errors.New("redis: the log was not read yet")
	}
	return nil
}

// known notes that all events are known that were written before a time.
func (l *Log) known(t time.Time) {
	at := l.since(t)
	for was := l.knownAt.Load(); was < at && !l.knownAt.CompareAndSwap(was, at); was = l.knownAt.Load() {
	}
}

// isFresh reports whether what was heard is no older than Options.MaxStale.
func (l *Log) isFresh(now int64) bool {
	return !l.offline.Load() && now-l.knownAt.Load() <= int64(l.store.options.MaxStale)
}

// wasRead notes that the limiter reads, so that the reader stays close behind the store.
func (l *Log) wasRead(now int64) {
	if now-l.readAt.Load() > int64(readEvery) {
		l.readAt.Store(now)
	}
}

// readEvery is how exactly the time of the last read is kept.
const readEvery = 50 * time.Millisecond

// Stale implements sharedlog.Log. It takes no lock.
func (l *Log) Stale(seen int64) bool {
	now := int64(time.Since(l.started)) // which reads one clock, and not two
	l.wasRead(now)
	return seen != l.heard.end.Load() || !l.isFresh(now) || l.replaced.Load() || l.closing.Err() != nil
}

// Read implements sharedlog.Log. It asks the store only where memory is older than
// Options.MaxStale, or lacks some of the events.
func (l *Log) Read(ctx context.Context, seen int64) (news sharedlog.News, err error) {
	if err := l.usable(); err != nil {
		return news, err
	}
	now := l.since(time.Now())
	l.wasRead(now)
	entries, ok := l.heard.behind(seen)
	if !ok || !l.isFresh(now) {
		if entries, err = l.look(ctx, seen, false); err != nil {
			return news, err
		}
	}
	return l.news(entries, seen)
}

// news returns the events of entries that are behind a place as News.
func (l *Log) news(entries []entry, seen int64) (sharedlog.News, error) {
	events, err := eventsOf(entries, seen)
	return l.newsOf(events), err
}

func (l *Log) newsOf(events []*sharedlog.Event) sharedlog.News {
	return sharedlog.News{Events: events, Span: l.span.Load(), Folded: l.folded()}
}

// look asks the store for the entries behind a place. With lease it renews the lease.
func (l *Log) look(ctx context.Context, seen int64, lease bool) ([]entry, error) {
	at, ok := l.heard.at(seen)
	if !ok {
		return nil, fmt.Errorf("redis: %w: nothing is known of event %d", sharedlog.ErrIncomplete, seen)
	}
	r, err := l.run(ctx, lookScript, l.args(at, lease, 0))
	if err != nil {
		return nil, err
	}
	if told := r.words(); len(told) == 2 {
		if span, err := parseInt(told[0]); err == nil {
			l.span.Store(max(span, l.options.Span))
		}
		if sharers, err := parseInt(told[1]); err == nil {
			l.sharers.Store(max(sharers, 1))
		}
	}
	entries, err := l.upTo(ctx, seen, r.place, r)
	if err != nil {
		if errors.Is(err, sharedlog.ErrIncomplete) {
			l.lacks.Store(true)
		}
		return nil, err
	}
	if l.heard.add(at.epoch, entries) {
		l.notify()
	}
	l.known(r.sent)
	return entries, nil
}

// upTo completes the entries behind a place that a reply has, up to another one. The error wraps
// sharedlog.ErrIncomplete where events were deleted there.
func (l *Log) upTo(ctx context.Context, seen, last int64, r timed) ([]entry, error) {
	if seen < min(last, r.folded) {
		return nil, fmt.Errorf("redis: %w", sharedlog.ErrIncomplete)
	}
	for entries := r.entries; ; {
		at := seen
		for _, n := range entries {
			if n.seq > at+1 {
				return nil, fmt.Errorf("redis: %w", sharedlog.ErrIncomplete)
			}
			at = n.last()
		}
		if at >= last {
			return entries, nil
		}
		page, err := l.page(ctx, at+1, readPage)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return nil, fmt.Errorf("redis: %w", sharedlog.ErrIncomplete)
		}
		entries = append(entries, page...)
	}
}

// notify tells the limiter that there may be events of others.
func (l *Log) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Clock implements sharedlog.Log: the store's clock dates the events.
func (l *Log) Clock() clock.Machine { return clock.Machine{} }

// Changed implements sharedlog.Log.
func (l *Log) Changed() <-chan struct{} { return l.changed }

// Skew implements sharedlog.Remote.
func (l *Log) Skew() time.Duration { return l.clock.skew() }

// Sharers implements sharedlog.Remote.
func (l *Log) Sharers() int { return int(max(l.sharers.Load(), 1)) }

// MostWait implements sharedlog.Remote.
func (l *Log) MostWait() time.Duration { return l.store.options.Timeout }

// System returns what events and metrics call the store: the db.system.name of OpenTelemetry, also
// for Valkey, which speaks the same protocol.
func (l *Log) System() string { return "redis" }

// closeWithin is how long Close waits for the goroutines. A read that the server keeps waiting may
// end later, without a trace.
const closeWithin = 50 * time.Millisecond

// Close implements sharedlog.Log. It leaves the client open.
func (l *Log) Close() error {
	if l.stop(); l.follows.Load() {
		l.closed.Do(func() { followed.end(l.store.lineage) })
	}
	ended := make(chan struct{})
	go func() {
		l.goroutines.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeWithin):
	}
	return nil
}
