package redisstore

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// settings are those of a client on which a Store depends.
type settings struct {
	address       string        // of the server, for errors
	heeds         bool          // the client heeds the deadlines of contexts
	readsReplicas bool          // the client sends commands that only read to replicas
	longestBlock  time.Duration // of a read that waits, within the client's timeout

	// dial connects to the server, and closes that. It finds out why calls have no answer. With TLS
	// it does not heed its context.
	dial func(context.Context) error
}

// idleBlock is how long a read waits at the server.
const idleBlock = time.Second

func settingsOf(client redis.UniversalClient) settings {
	s := settings{address: "its server", longestBlock: idleBlock, dial: dialing(nil, "")}
	timeout := time.Duration(0)
	switch client := client.(type) {
	case *redis.Client:
		o := client.Options()
		s.address, s.heeds, timeout = o.Addr, o.ContextTimeoutEnabled, o.ReadTimeout
		s.dial = dialing(o.Dialer, o.Network, o.Addr)
		if s.address == "FailoverClient" { // as go-redis calls it
			s.address = "the master of Sentinel"
		}
	case *redis.ClusterClient:
		o := client.Options()
		s.address, s.heeds, timeout = strings.Join(o.Addrs, ","), o.ContextTimeoutEnabled, o.ReadTimeout
		s.dial = dialing(o.Dialer, "tcp", o.Addrs...)
		s.readsReplicas = o.ReadOnly || o.RouteByLatency || o.RouteRandomly
	}
	if timeout > 0 {
		s.longestBlock = max(min(idleBlock, timeout/2), time.Millisecond)
	}
	return s
}

// dialing returns a function that connects to any of the addresses.
func dialing(dial func(ctx context.Context, network, address string) (net.Conn, error), network string, addresses ...string) func(context.Context) error {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context) (err error) {
		for _, address := range addresses {
			var c net.Conn
			if c, err = dial(ctx, network, address); err == nil {
				return c.Close()
			}
		}
		return err
	}
}

// examine asks the server what it is.
func (s *Store) examine(ctx context.Context) error {
	warn := func(format string, args ...any) {
		s.warnings = append(s.warnings, fmt.Errorf("redis: "+format, args...))
	}
	if !s.settings.heeds {
		warn("the client does not heed the deadlines of contexts, so calls that have ended hold connections: " +
			"set ContextTimeoutEnabled in its options")
	}
	if s.settings.readsReplicas {
		warn("the client reads from replicas, which may not have what was written: " +
			"unset ReadOnly, RouteByLatency and RouteRandomly in its options")
	}
	l := newLog(s, store.Options{})
	defer l.Close()
	_, err := patiently(ctx, l, func(ctx context.Context) (string, error) { return s.client.Ping(ctx).Result() })
	if err != nil {
		return err
	}
	info, err := within(ctx, l, s.options.OpenTimeout, func(ctx context.Context) (string, error) {
		return s.client.Info(ctx).Result()
	})
	if err != nil {
		warn("the server's version is not known, and has to be at least 6.2: %w", err)
		warn("whether the server evicts keys is not known; maxmemory-policy should be noeviction: %w", err)
	}
	s.run = infoField(info, "run_id")
	if version := infoField(info, "redis_version"); !isAtLeast(version, 6, 2) {
		return fmt.Errorf("the server is of version %q, want at least 6.2", version)
	}
	if policy := infoField(info, "maxmemory_policy"); policy != "" && policy != "noeviction" {
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
	var is, sub int
	read, _ := fmt.Sscanf(version, "%d.%d", &is, &sub)
	return read == 0 || is > major || is == major && (read == 1 || sub >= minor)
}
