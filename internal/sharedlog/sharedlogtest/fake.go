// Package sharedlogtest has the suite that every sharedlog.Log passes, Exercise, and a log in
// memory, Fake, that can be told to fail. It is apart from sharedlog so that no program links
// package testing. The tests of the stores and of the limiter use it.
package sharedlogtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/cooldown"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Fake is a store in memory that several logs share. Its steps are optimistic: they exclude
// nobody, and a Commit conflicts where another came first. It works in a bubble of
// testing/synctest, and is safe for concurrent use.
type Fake struct {
	// Before and After, where they are set, are called by a Commit before it looks for a
	// conflict, and after it has written, with no lock held: they may make steps of other
	// processes, sleep, or fail the Commit by an error. The process is the one that commits.
	// They are set before the fake is used.
	Before, After func(process int64) error
	// Lonely has every RemoteLog believe that no other shares the store, so that it does not divide
	// the quotas while the store is down. It is set before the fake is used.
	Lonely bool
	// Ahead is how far the store's clock is ahead for every RemoteLog. It is set before the fake is
	// used.
	Ahead time.Duration
	// MostWait is how long calls may wait for the store, by every RemoteLog. It is set before the
	// fake is used.
	MostWait time.Duration

	mu        sync.Mutex
	down      error
	identity  int
	last      int64 // the place of the last event
	folded    int64
	span      int64
	events    []*sharedlog.Event
	answers   map[string]state.Answers
	found     map[string]state.Found
	pools     map[string][]string
	classes   map[string]string
	spend     map[string]state.Spend    // after the last event
	days      map[string]state.DayUsage // those after the event at folded
	said      map[string]state.Said
	cooldowns cooldown.Times
	leases    map[int64]lease
	lives     map[int64]bool // processes that have the log open
	usedWall  int64
}

// lease is what a process said last of itself.
type lease struct {
	at  time.Time
	ttl time.Duration
}

var (
	// ErrReplaced is returned by steps of a process that follows a log which Replace has ended.
	ErrReplaced = errors.New("the log was replaced")
	// ErrClosed is returned by a log that was closed.
	ErrClosed = errors.New("the log is closed")
)

// NewFake returns an empty store.
func NewFake() *Fake {
	f := &Fake{lives: make(map[int64]bool)}
	f.reset()
	return f
}

func (f *Fake) reset() {
	f.identity++
	f.last, f.folded, f.events, f.days = 0, 0, nil, make(map[string]state.DayUsage)
	f.said, f.answers, f.found = make(map[string]state.Said), make(map[string]state.Answers), make(map[string]state.Found)
	f.pools = make(map[string][]string)
	f.spend, f.classes = make(map[string]state.Spend), make(map[string]string)
	f.cooldowns, f.leases = make(cooldown.Times), make(map[int64]lease)
}

// Open opens the store for a process. span is how long a charge counts for it, in nanoseconds, and
// ttl how long its lease holds.
func (f *Fake) Open(process, span int64, ttl time.Duration) *Log {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.span = max(f.span, span)
	f.lives[process] = true
	return &Log{f: f, process: process, ttl: ttl}
}

// Fail makes all methods of all logs fail with err until Fail(nil).
func (f *Fake) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

// Replace puts an empty log in the place of the one that there is. With used, all minutes
// count as used from now on.
func (f *Fake) Replace(used bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reset()
	f.usedWall = 0
	if used {
		f.usedWall = time.Now().UnixNano()
	}
}

// Fork makes the log another one with the same content, as one is that has lost its end.
func (f *Fake) Fork() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.identity++
}

// Kill has a process die without a word.
func (f *Fake) Kill(process int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.lives, process)
}

// Events returns how many events the store holds.
func (f *Fake) Events() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.events)
}

// step is a change under way.
type step struct {
	l      *Log
	base   int64 // the last place when News was made
	remote bool  // of a RemoteLog
	news   sharedlog.News
	ended  bool
}

// News implements sharedlog.Step.
func (s *step) News() sharedlog.News { return s.news }

// Rollback implements sharedlog.Step.
func (s *step) Rollback() { s.ended = true }

// Commit implements sharedlog.Step.
func (s *step) Commit(b *sharedlog.Batch) (first int64, err error) {
	if s.ended {
		return 0, errors.New("the step has ended")
	}
	f := s.l.f
	if f.Before != nil {
		if err := f.Before(s.l.process); err != nil {
			s.ended = true
			return 0, err
		}
	}
	if first, err = s.write(b); errors.Is(err, sharedlog.ErrConflict) {
		return 0, err
	}
	s.ended = true
	if err == nil && f.After != nil {
		err = f.After(s.l.process)
	}
	return first, err
}

func (s *step) write(b *sharedlog.Batch) (first int64, err error) {
	f := s.l.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := s.l.usable(); err != nil {
		return 0, err
	}
	if s.l.identity != f.identity {
		return 0, ErrReplaced
	}
	seen := s.base
	if s.remote && b.Appends {
		if s.news, err = f.since(s.base); err != nil {
			return 0, err
		}
		if !slices.ContainsFunc(s.news.Events, changesDays) {
			s.base = f.last
		}
	}
	if f.last != s.base {
		if s.news, err = f.since(s.base); err != nil {
			s.news = sharedlog.News{Image: f.image(s.l.process), Span: f.span, Folded: f.folded}
		}
		s.base = f.last
		return 0, sharedlog.ErrConflict
	}
	if err := f.check(b); err != nil {
		return 0, err
	}
	first = f.last + 1
	s.put(b, seen)
	s.tidy(b)
	return first, nil
}

// put adds the events of a batch, whose process knew those up to a place; f.mu must be held.
func (s *step) put(b *sharedlog.Batch, seen int64) {
	f := s.l.f
	if s.remote && !b.Appends {
		s.news = sharedlog.News{Span: f.span, Folded: f.folded} // the step was told of the rest
	}
	for i, e := range b.Events {
		stored := clone(e)
		if s.remote {
			f.stamp(stored, b, i, seen)
		}
		f.last++
		f.put(stored, b.NameOf)
		if s.remote {
			s.news.Events = append(s.news.Events, clone(stored))
		}
	}
}

// tidy does the rest of a batch; f.mu must be held.
func (s *step) tidy(b *sharedlog.Batch) {
	f := s.l.f
	for _, e := range b.Passed {
		if e.Seq > f.folded {
			fold(f.days, e)
			f.folded = e.Seq
		}
	}
	for _, d := range b.Drops {
		f.events = slices.DeleteFunc(f.events, func(e *sharedlog.Event) bool { return d[0] <= e.Seq && e.Seq <= d[1] })
	}
	now := time.Now()
	if b.Renew {
		f.leases[s.l.process] = lease{now, s.l.ttl}
	}
	for _, process := range b.Vouch {
		if _, has := f.leases[process]; !has {
			f.leases[process] = lease{now, s.l.ttl}
		}
	}
	if b.Sweep {
		const most = int64(72 * time.Hour)
		maps.DeleteFunc(f.days, func(_ string, d state.DayUsage) bool { return d.Start < b.Wall-most })
		maps.DeleteFunc(f.cooldowns, func(_ string, c state.Cooldown) bool { return c.Until.UnixNano() < b.Wall-most })
		maps.DeleteFunc(f.spend, func(_ string, is state.Spend) bool { return is.IsOver(b.Wall - int64(24*time.Hour)) })
		maps.DeleteFunc(f.found, func(_ string, is state.Found) bool { return is.At < b.Wall-int64(state.FoundLasts) })
	}
}

// check refuses a batch that no limiter writes; f.mu must be held.
func (f *Fake) check(b *sharedlog.Batch) error {
	known := make(map[sharedlog.Key]bool)
	for _, e := range f.events {
		known[e.Key()] = true
	}
	for i, e := range b.Events {
		at := *e
		at.Seq = f.last + 1 + int64(i)
		if err := at.Check(); err != nil {
			return err
		}
		if e.Process != 0 && known[e.Key()] && e.Kind != sharedlog.Reserve { // which may be written again
			return fmt.Errorf("event %+v is there already", e.Key())
		}
		known[e.Key()] = true
	}
	for _, d := range b.Drops {
		if d[0] > d[1] || d[1] > f.last || len(b.Events) == 0 {
			return fmt.Errorf("drops %v of %d events, with %d new ones", d, f.last, len(b.Events))
		}
	}
	return nil
}

// put adds an event, which belongs to the fake then, at the last place; f.mu must be held.
func (f *Fake) put(e *sharedlog.Event, nameOf func(string) string) {
	e.Seq = f.last
	f.events = append(f.events, e)
	switch e.Kind {
	case sharedlog.Reset:
		maps.DeleteFunc(f.cooldowns, func(model string, _ state.Cooldown) bool {
			return e.Model == "" || model == e.Model || nameOf != nil && nameOf(model) == e.Model
		})
	case sharedlog.Cooldown:
		f.cooldowns.Raise(e.Model, e.Cooldown(), time.Time{})
	case sharedlog.Quota:
		saying, _ := sharedlog.ParseSaying(e.Text)
		f.said[e.Model] = saying.After(f.said[e.Model])
	case sharedlog.Answers:
		f.answers[e.Model], _ = state.ParseAnswers(e.Text)
	case sharedlog.Found:
		f.found[e.Model], _ = state.ParseFound(e.Text)
	case sharedlog.Pool:
		models, gone, _ := state.ParsePool(e.Text)
		if f.pools[e.Model] = models; gone {
			delete(f.pools, e.Model)
		}
	case sharedlog.Classes:
		if f.classes[e.Model] = e.Text; e.Text == "" {
			delete(f.classes, e.Model)
		}
	case sharedlog.Spend:
		is := f.spend[e.Model]
		change, _ := state.ParseSpendChange(e.Text)
		is.Add(change)
		f.spend[e.Model] = is
	case sharedlog.Gone:
		delete(f.leases, e.Ref)
	}
}
