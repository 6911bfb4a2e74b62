// Package fakestore is a store in memory that several limiters share, and that a test can have
// fail. It works in a bubble of testing/synctest.
package fakestore

import (
	"context"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/memlog"
)

// Fake is a memlog.Store whose calls can be made to fail. It is safe for concurrent use.
type Fake struct {
	*memlog.Store

	// Before and After, where they are set, are called by an Append before it writes, and after it
	// has, without a lock: they may wait, or fail the Append. AfterRead may fail a Read that has
	// its news. They are set before the fake is used.
	Before, After, AfterRead func(process int64) error
	// These are traits: see store.Traits. They are set before the fake is used.
	Timeout, Contact time.Duration
	Steady           bool

	mu   sync.Mutex
	down error
}

// New returns an empty store without faults of its own.
func New() *Fake { return &Fake{Store: memlog.New(memlog.Faults{Direct: true})} }

// Fail has all calls fail with an error, and with nil no more.
func (f *Fake) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

func (f *Fake) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

// Open implements store.Store.
func (f *Fake) Open(ctx context.Context, options store.Options) (store.Log, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	l, err := f.Store.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	return &log{l, f, options.Process}, nil
}

type log struct {
	store.Log
	f       *Fake
	process int64
}

// Traits are those of a store that is not known.
func (l *log) Traits() store.Traits {
	return store.Traits{Timeout: l.f.Timeout, Contact: l.f.Contact, Steady: l.f.Steady, MaxStale: 1}
}

// Append implements store.Log.
func (l *log) Append(ctx context.Context, after store.Position, batch []store.Entry) (news store.News, err error) {
	if err = l.f.failure(); err == nil && l.f.Before != nil {
		err = l.f.Before(l.process)
	}
	if err != nil {
		return news, err
	}
	news, err = l.Log.Append(ctx, after, batch)
	if err == nil && l.f.After != nil {
		if err := l.f.After(l.process); err != nil {
			return store.News{}, err
		}
	}
	return news, err
}

// Read implements store.Log.
func (l *log) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	if err := l.f.failure(); err != nil {
		return store.News{}, err
	}
	news, err := l.Log.Read(ctx, after, wait, gather)
	if err == nil && l.f.AfterRead != nil {
		if err := l.f.AfterRead(l.process); err != nil {
			return store.News{}, err
		}
	}
	return news, err
}

// Load implements store.Log.
func (l *log) Load(ctx context.Context) (store.Image, error) {
	if err := l.f.failure(); err != nil {
		return store.Image{}, err
	}
	return l.Log.Load(ctx)
}

// Save implements store.Log.
func (l *log) Save(ctx context.Context, image store.Image) error {
	if err := l.f.failure(); err != nil {
		return err
	}
	return l.Log.Save(ctx, image)
}

// Begin implements store.Log.
func (l *log) Begin(ctx context.Context, old uint64, image store.Image) error {
	if err := l.f.failure(); err != nil {
		return err
	}
	return l.Log.Begin(ctx, old, image)
}
