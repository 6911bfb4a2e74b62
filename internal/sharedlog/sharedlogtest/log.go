package sharedlogtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Log is a Fake as one process has it open. It implements sharedlog.Log.
type Log struct {
	f        *Fake
	process  int64
	ttl      time.Duration
	identity int  // guarded by f.mu, as the others
	closed   bool //
}

// usable returns why the log cannot be used; f.mu must be held.
func (l *Log) usable() error {
	switch {
	case l.closed:
		return ErrClosed
	case l.f.down != nil:
		return l.f.down
	}
	return nil
}

// Begin implements sharedlog.Log.
func (l *Log) Begin(ctx context.Context, seen int64) (sharedlog.Step, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", sharedlog.ErrNoTime, err)
	}
	f := l.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	s := &step{l: l, base: f.last}
	if seen == sharedlog.Everything {
		l.identity = f.identity
		s.news = sharedlog.News{Image: f.image(l.process), Span: f.span, Folded: f.folded}
		return s, nil
	}
	if l.identity != f.identity {
		return nil, ErrReplaced
	}
	var err error
	if s.news, err = f.since(seen); err != nil {
		s.news = sharedlog.News{Image: f.image(l.process), Span: f.span, Folded: f.folded}
	}
	return s, nil
}

// since returns the events behind a place; f.mu must be held.
func (f *Fake) since(seen int64) (sharedlog.News, error) {
	news := sharedlog.News{Span: f.span, Folded: f.folded}
	for _, e := range f.events {
		if e.Seq > seen {
			news.Events = append(news.Events, clone(e))
		}
	}
	if f.last-seen != int64(len(news.Events)) {
		return sharedlog.News{}, sharedlog.ErrIncomplete
	}
	return news, nil
}

func clone(e *sharedlog.Event) *sharedlog.Event {
	c := *e
	c.At = 0
	return &c
}

// image returns all that there is; f.mu must be held.
func (f *Fake) image(process int64) *sharedlog.Image {
	img := &sharedlog.Image{
		Identity: fmt.Sprint("log ", f.identity), Said: maps.Clone(f.said), Cooldowns: maps.Clone(f.cooldowns),
		Days: maps.Clone(f.days), Answers: maps.Clone(f.answers), Found: maps.Clone(f.found), UsedWall: f.usedWall,
		Pools: maps.Clone(f.pools), Spend: maps.Clone(f.spend), Classes: maps.Clone(f.classes),
	}
	img.Quotas = make(map[string]state.Quota)
	for model, said := range f.said {
		if !said.IsEmpty() {
			img.Quotas[model] = provenance.Of(said)
		}
	}
	for _, e := range f.events {
		img.Events = append(img.Events, clone(e))
		if e.Seq > f.folded {
			fold(img.Days, e)
		}
	}
	for other := range f.leases {
		if other != process {
			img.Processes = append(img.Processes, other)
		}
	}
	slices.Sort(img.Processes)
	return img
}

// Stale implements sharedlog.Log.
func (l *Log) Stale(seen int64) bool {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return l.usable() != nil || l.identity != l.f.identity || seen != l.f.last
}

// Read implements sharedlog.Log.
func (l *Log) Read(_ context.Context, seen int64) (sharedlog.News, error) {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if err := l.usable(); err != nil {
		return sharedlog.News{}, err
	}
	if l.identity != l.f.identity {
		return sharedlog.News{}, ErrReplaced
	}
	return l.f.since(seen)
}

// Clock implements sharedlog.Log: events are dated by the wall clock.
func (l *Log) Clock() clock.Machine { return clock.Machine{} }

// Owner implements sharedlog.Log.
func (l *Log) Owner(process int64) sharedlog.Liveness {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	is, leased := l.f.leases[process]
	switch {
	case !l.f.lives[process]:
		return sharedlog.Dead
	case leased && time.Since(is.at) > is.ttl:
		return sharedlog.Silent
	}
	return sharedlog.Alive
}

// Changed implements sharedlog.Log: the log has to be asked.
func (l *Log) Changed() <-chan struct{} { return nil }

// Close implements sharedlog.Log.
func (l *Log) Close() error {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.closed = true
	delete(l.f.lives, l.process)
	return nil
}
