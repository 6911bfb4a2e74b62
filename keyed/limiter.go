// Package keyed limits millions of keys in memory.
package keyed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// DefaultMaxKeys is the number of counters that a Limiter keeps if Options do not say.
const DefaultMaxKeys = 1_000_000

var (
	// ErrInvalid is limit.ErrInvalid: the error for a field out of range, whose message names
	// the field and its value.
	ErrInvalid = limit.ErrInvalid

	// ErrClosed is returned for requests after Close.
	ErrClosed = errors.New("limiter is closed")
)

// Options configure a Limiter. The zero Options are those of a process alone.
type Options struct {
	// Origin keeps the counts that several processes share. Nil: this process counts alone.
	Origin Origin
	// MaxKeys bounds the counters that are kept. 0 is DefaultMaxKeys.
	MaxKeys int
	// RefuseEvicted refuses, also with an Origin, a key that is not resident while a counter
	// that was evicted would still count. Without an Origin that is always so.
	RefuseEvicted bool
	// Exchange carries the counts of other regions. Nil: there are none.
	Exchange Exchange
	// Region names this region. It is required with Exchange.
	Region string
	// ExchangeEvery is the interval between exchanges. 0 is one second.
	ExchangeEvery time.Duration
	// OnError gets the failures of Origin and Exchange, at most one a second of a kind, one
	// call at a time. Nil discards them.
	OnError func(error)
}

type name struct {
	namespace, key string
	window         time.Duration
}

type entry struct {
	sequence int64
	counts
}

// Limiter decides requests on counters.
type Limiter struct {
	mu      sync.Mutex
	closed  bool
	entries map[name]*entry
}

// New returns a Limiter.
func New(options Options) (*Limiter, error) {
	if options.MaxKeys < 0 {
		return nil, fmt.Errorf("new keyed limiter: %w: MaxKeys is %d, want 0 or more", ErrInvalid, options.MaxKeys)
	}
	return &Limiter{entries: map[name]*entry{}}, nil
}

// Take is TakeAt at time.Now.
func (l *Limiter) Take(ctx context.Context, r Request) (limit.Decision, error) {
	return l.TakeAt(ctx, time.Now(), r)
}

// TakeAt charges the cost of r at now if it fits.
func (l *Limiter) TakeAt(ctx context.Context, now time.Time, r Request) (limit.Decision, error) {
	ds, err := l.TakeManyAt(ctx, now, r)
	if err != nil {
		return limit.Decision{}, err
	}
	return ds[0], nil
}

// TakeMany is TakeManyAt at time.Now.
func (l *Limiter) TakeMany(ctx context.Context, requests ...Request) ([]limit.Decision, error) {
	return l.TakeManyAt(ctx, time.Now(), requests...)
}

// TakeManyAt charges all requests at now if all fit, and none otherwise.
func (l *Limiter) TakeManyAt(_ context.Context, now time.Time, requests ...Request) ([]limit.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ds, ok, err := l.decideLocked("take", now, requests)
	if ok && err == nil {
		for _, r := range requests {
			e := l.entryLocked(r)
			l.rollLocked(e, now, r)
			e.current += r.Cost
		}
	}
	return ds, err
}

func (l *Limiter) entryLocked(r Request) *entry {
	n := name{r.Namespace, r.Key, r.Window}
	e := l.entries[n]
	if e == nil {
		e = &entry{}
		l.entries[n] = e
	}
	return e
}

func (l *Limiter) rollLocked(e *entry, now time.Time, r Request) {
	p := placeOf(now, r.Window)
	e.counts = e.at(p.sequence)
	e.sequence = max(p.sequence, e.sequence)
}

func (e *entry) at(sequence int64) counts {
	switch c := e.counts; {
	case sequence <= e.sequence:
		return c
	case sequence == e.sequence+1:
		return counts{previous: c.current, held: c.held}
	default:
		return counts{held: c.held}
	}
}

func (l *Limiter) decideLocked(operation string, now time.Time, requests []Request) (ds []limit.Decision, ok bool, err error) {
	if l.closed {
		return nil, false, fmt.Errorf("%s: %w", operation, ErrClosed)
	}
	for i := range requests {
		if err := requests[i].validate(operation); err != nil {
			return nil, false, err
		}
	}
	ok = true
	before := map[name]int64{}
	for _, r := range requests {
		n := name{r.Namespace, r.Key, r.Window}
		p := placeOf(now, r.Window)
		c, behind := counts{}, time.Duration(0)
		if e := l.entries[n]; e != nil {
			c, behind = e.at(p.sequence), p.behind(e.sequence, r.Window)
			if behind > 0 {
				p.elapsed = 0
			}
		}
		d := c.decide(r.Limit, addUnits(before[n], r.Cost), p.elapsed, r.Window, behind)
		before[n] = addUnits(before[n], r.Cost)
		ok = ok && d.OK
		ds = append(ds, d)
	}
	return ds, ok, nil
}

// Len returns the number of counters that are kept.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Close ends the Limiter: later requests return ErrClosed.
func (l *Limiter) Close(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}
