package sharedlogtest

import (
	"context"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// RemoteLog is a Fake as one process has it open that is on another machine. It implements
// sharedlog.Remote: its steps know nothing but what was read before, and what their Commit tells
// them.
type RemoteLog struct{ *Log }

// OpenLog implements the Store of the limiter's configuration: it opens the store as if it were on
// another machine.
func (f *Fake) OpenLog(_ context.Context, o sharedlog.Options) (sharedlog.Remote, error) {
	return &RemoteLog{f.Open(o.Process, o.Span, o.LeaseTTL)}, nil
}

// Skew implements sharedlog.Remote.
func (l *RemoteLog) Skew() time.Duration { return l.f.Ahead }

// Sharers implements sharedlog.Remote.
func (l *RemoteLog) Sharers() int {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if l.f.Lonely {
		return 1
	}
	return max(len(l.f.lives), 1)
}

// MostWait implements sharedlog.Remote.
func (l *RemoteLog) MostWait() time.Duration { return l.f.MostWait }

// Begin implements sharedlog.Log. It asks the store only for everything.
func (l *RemoteLog) Begin(ctx context.Context, seen int64) (sharedlog.Step, error) {
	if seen != sharedlog.Everything {
		return &step{l: l.Log, base: seen, remote: true}, nil
	}
	s, err := l.Log.Begin(ctx, seen)
	if err != nil {
		return nil, err
	}
	s.(*step).remote = true
	return s, nil
}

// stamp makes event i of a batch what the store says of it. Its process knew the events up to a
// place. f.mu must be held.
func (f *Fake) stamp(e *sharedlog.Event, b *sharedlog.Batch, i int, seen int64) {
	if e.Kind != sharedlog.Cooldown {
		e.Wall += time.Now().Add(f.Ahead).UnixNano() - b.Wall
	}
	if !b.Appends || !e.HasDay {
		return
	}
	for _, before := range slices.Backward(f.events) {
		if before.Seq > seen && before.HasDay && before.Model == e.Model {
			e.Day = b.Added[i].After(before.Day, e.Day)
			return
		}
	}
}

// changesDays reports whether an event changes days otherwise than by what it adds.
func changesDays(e *sharedlog.Event) bool {
	return e.Kind == sharedlog.Reset || e.Kind == sharedlog.Quota || e.Kind == sharedlog.Day
}
