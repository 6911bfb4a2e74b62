package sharedlogtest

import (
	"context"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// RemoteLog is a Fake as one process has it open that is on another machine. It implements
// sharedlog.Remote: its steps know nothing but what was read before, and what their Commit tells
// them.
type RemoteLog struct {
	*Log
	ahead time.Duration
}

// OpenRemote opens the store as if it were on another machine, whose clock is ahead.
func (f *Fake) OpenRemote(process, span int64, ttl, ahead time.Duration) *RemoteLog {
	return &RemoteLog{f.Open(process, span, ttl), ahead}
}

// OpenLog implements the Store of the limiter's configuration.
func (f *Fake) OpenLog(_ context.Context, o sharedlog.Options) (sharedlog.Remote, error) {
	return f.OpenRemote(o.Process, o.Span, o.LeaseTTL, 0), nil
}

// Skew implements sharedlog.Remote.
func (l *RemoteLog) Skew() time.Duration { return l.ahead }

// Sharers implements sharedlog.Remote.
func (l *RemoteLog) Sharers() int {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return max(len(l.f.lives), 1)
}

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

// stamp dates an event of a batch by the store's clock.
func stamp(e *sharedlog.Event, batch int64) {
	if e.Kind != sharedlog.Cooldown {
		e.Wall += time.Now().UnixNano() - batch
	}
}

// day returns the day of a model after the last event; f.mu must be held.
func (f *Fake) day(model string) state.DayUsage {
	days := map[string]state.DayUsage{model: f.days[model]}
	for _, e := range f.events {
		if e.Seq > f.folded {
			fold(days, e)
		}
	}
	return days[model]
}
