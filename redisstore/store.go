package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Options are the settings of a Store. The zero value lacks a Prefix.
type Options struct {
	// Prefix names the quota: limiters of the same prefix on the same server share it. All keys
	// begin with "{" + Prefix + "}:ratelimit:". It must not be empty, nor contain braces.
	Prefix string
	// MaxStale is how old what a limiter knows may be when it answers without a question to the
	// server. It concerns calls that only read, such as Decide: what charges is always exact. Zero
	// is 100 ms.
	MaxStale time.Duration
	// Timeout is how long a call waits for the server before the limiter goes on without it. Zero
	// is 250 ms.
	Timeout time.Duration
	// OpenTimeout is how long New and the opening of a limiter try to reach the server. What
	// another try does not mend, such as a wrong password, ends it at once. Once the server has
	// answered, a limiter waits as long again, and 5 s at least, to be heard. Zero is 10 s.
	OpenTimeout time.Duration
	// WaitReplicas is how many replicas are to have a change before it counts as written (WAIT).
	// Fewer are reported to Config.OnError, and are no failure. Zero waits for none.
	WaitReplicas int
}

// check returns an error that names the field and its value, and sets what is zero.
func (o *Options) check() error {
	switch {
	case o.Prefix == "":
		return errors.New(`field Prefix is "", want a name`)
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("field Prefix is %q, want a name without braces", o.Prefix)
	case o.MaxStale < 0:
		return fmt.Errorf("field MaxStale is %v, want 0 or more", o.MaxStale)
	case o.Timeout < 0:
		return fmt.Errorf("field Timeout is %v, want 0 or more", o.Timeout)
	case o.OpenTimeout < 0:
		return fmt.Errorf("field OpenTimeout is %v, want 0 or more", o.OpenTimeout)
	case o.WaitReplicas < 0:
		return fmt.Errorf("field WaitReplicas is %d, want 0 or more", o.WaitReplicas)
	}
	o.MaxStale = cmp.Or(o.MaxStale, 100*time.Millisecond)
	o.Timeout = cmp.Or(o.Timeout, 250*time.Millisecond)
	o.OpenTimeout = cmp.Or(o.OpenTimeout, 10*time.Second)
	return nil
}

// Store is a place on a server of Redis or Valkey where limiters share a quota. It implements
// ratelimit.Store. Get one from New. It may serve several limiters, and is safe for concurrent use.
// It holds nothing that has to be closed.
type Store struct {
	client   redis.UniversalClient
	options  Options
	settings settings // of the client
	run      string   // the run of the server; "" if unknown
	warnings []error
	used     atomic.Bool // a limiter of this Store has used the log
}

// New returns a Store on a server, which it asks for its version. The client stays the caller's:
// the Store neither changes nor closes it, and needs it as long as limiters use the Store. Each
// limiter takes one more connection of its pool. The server must be at least of version 6.2.
//
// What is not as it should be with the server or the client, but does not keep the Store from
// working, is reported to Config.OnError when a limiter opens the Store: all of it as one error,
// with a line for each warning.
func New(ctx context.Context, client redis.UniversalClient, options Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("new redis store: the client is nil")
	}
	if err := options.check(); err != nil {
		return nil, fmt.Errorf("new redis store: %w", err)
	}
	s := &Store{client: client, options: options, settings: settingsOf(client)}
	if err := s.examine(ctx); err != nil {
		return nil, fmt.Errorf("new redis store: %w", s.place(err))
	}
	return s, nil
}

// place adds to an error where it was.
func (s *Store) place(err error) error {
	return fmt.Errorf("prefix %q at %s: %w", s.options.Prefix, s.settings.address, err)
}

// Open opens the log of the prefix for a limiter, and reports the warnings of New and its own. They
// are one report: of several of the same type, which come at once, the last alone would be told.
func (s *Store) Open(ctx context.Context, options store.Options) (store.Log, error) {
	l := newLog(s, options)
	err := l.enter(ctx)
	if warnings := errors.Join(append(s.warnings[:len(s.warnings):len(s.warnings)], l.warning)...); warnings != nil {
		l.report(warnings)
	}
	if err != nil {
		l.Close()
		return nil, l.failed("open log", err)
	}
	return l, nil
}
