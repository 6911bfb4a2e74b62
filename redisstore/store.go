package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
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
	// WaitReplicas is how many replicas are to have a change before it counts as written (WAIT).
	// Fewer are reported to Config.OnError, and are no failure. Zero waits for none.
	WaitReplicas int
}

const (
	defaultMaxStale = 100 * time.Millisecond
	defaultTimeout  = 250 * time.Millisecond
)

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
	case o.WaitReplicas < 0:
		return fmt.Errorf("field WaitReplicas is %d, want 0 or more", o.WaitReplicas)
	}
	if o.MaxStale == 0 {
		o.MaxStale = defaultMaxStale
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return nil
}

// Store is a place on a server of Redis or Valkey where limiters share a quota. It implements
// ratelimit.Store. Get one from New. It may serve several limiters, and is safe for concurrent use.
// It holds nothing that has to be closed.
type Store struct {
	client        redis.UniversalClient
	options       Options
	keys          []string
	readsReplicas bool          // the client sends commands that only read to replicas
	heeds         bool          // the client heeds the deadlines of contexts
	longestBlock  time.Duration // of a read that waits for entries, within the client's timeout
	warnings      []error
	health        health
	followed      atomic.Bool // a limiter of this store has followed a log
	lineage       lineage     // without a server where that is not known
}

var _ ratelimit.Store = (*Store)(nil)

// New returns a Store on a server, which it asks for its version. The client stays the caller's:
// the Store neither changes nor closes it, and needs it as long as limiters use the Store. Each
// limiter takes one more connection of its pool. The server must be at least of version 6.2.
//
// What is not as it should be with the server or the client, but does not keep the Store from
// working, is reported to Config.OnError when a limiter opens the Store.
func New(ctx context.Context, client redis.UniversalClient, options Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("new redis store: the client is nil")
	}
	if err := options.check(); err != nil {
		return nil, fmt.Errorf("new redis store: %w", err)
	}
	s := &Store{client: client, options: options, keys: keysOf(options.Prefix), health: newHealth(), lineage: lineage{prefix: options.Prefix}}
	s.learnClient()
	if err := s.examine(ctx); err != nil {
		return nil, fmt.Errorf("new redis store: %w", err)
	}
	return s, nil
}

// learnClient reads the settings of the client on which the Store depends.
func (s *Store) learnClient() {
	timeout := time.Duration(0)
	switch client := s.client.(type) {
	case *redis.Client:
		o := client.Options()
		s.heeds, timeout = o.ContextTimeoutEnabled, o.ReadTimeout
	case *redis.ClusterClient:
		o := client.Options()
		s.heeds, timeout = o.ContextTimeoutEnabled, o.ReadTimeout
		s.readsReplicas = o.ReadOnly || o.RouteByLatency || o.RouteRandomly
	}
	s.longestBlock = idleBlock
	if timeout > 0 {
		s.longestBlock = max(min(idleBlock, timeout/2), time.Millisecond)
	}
}

// examine asks the server what it is.
func (s *Store) examine(ctx context.Context) error {
	if err := s.client.Ping(ctx).Err(); err != nil {
		return err
	}
	warn := func(format string, args ...any) {
		s.warnings = append(s.warnings, fmt.Errorf("redis: "+format, args...))
	}
	if !s.heeds {
		warn("the client does not heed the deadlines of contexts, which costs a goroutine for each call: " +
			"set ContextTimeoutEnabled in its options")
	}
	if s.readsReplicas {
		warn("the client reads from replicas, which may not have what was written: " +
			"unset ReadOnly, RouteByLatency and RouteRandomly in its options")
	}
	info, err := s.client.Info(ctx, "server").Result()
	s.lineage.server = infoField(info, "run_id")
	if err != nil {
		warn("the server's version is not known, and has to be at least 6.2: %w", err)
	} else if version := infoField(info, "redis_version"); !isAtLeast(version, 6, 2) {
		return fmt.Errorf("the server is of version %q, want at least 6.2", version)
	}
	info, err = s.client.Info(ctx, "memory").Result()
	if err != nil {
		warn("whether the server evicts keys is not known; maxmemory-policy should be noeviction: %w", err)
	} else if policy := infoField(info, "maxmemory_policy"); policy != "" && policy != "noeviction" {
		warn("the server may evict the quota, because maxmemory-policy is %s: set it to noeviction", policy)
	}
	return nil
}

// infoField returns a field of what INFO answers; "" where it is not there.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// isAtLeast reports whether a version is of a number or later. One that cannot be read passes: the
// name of the field is Redis's, and others may leave it out.
func isAtLeast(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	is, err := strconv.Atoi(first)
	if err != nil {
		return true
	}
	if is != major {
		return is > major
	}
	sub, err := strconv.Atoi(second)
	return err != nil || sub >= minor
}

// OpenLog implements ratelimit.Store. It asks the server nothing.
func (s *Store) OpenLog(_ context.Context, options sharedlog.Options) (sharedlog.Remote, error) {
	if options.Report != nil {
		for _, warning := range s.warnings {
			options.Report(warning)
		}
	}
	return newLog(s, options), nil
}
