// Package redistest adds clients of go-redis to the servers of internal/test/redistest, which has
// what needs the standard library alone. The tests of redisstore use it.
package redistest

import (
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	servers "dappco.re/go/core/go-ratelimit/internal/test/redistest"
)

// What needs no client is that of internal/test/redistest.
type (
	Option = servers.Option
	Proxy  = servers.Proxy
	Faults = servers.Faults
	Counts = servers.Counts
	Move   = servers.Move
)

// MasterName is the name under which the sentinels know the master.
const MasterName = servers.MasterName

// Config adds lines to the server's configuration, as they stand in redis.conf.
func Config(lines ...string) Option { return servers.Config(lines...) }

// Ahead starts the server with a clock that is ahead of the machine's.
func Ahead(d time.Duration) Option { return servers.Ahead(d) }

// NewProxy starts a proxy without faults before the server at target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy { t.Helper(); return servers.NewProxy(t, target) }

// Eventually calls is until it holds, and fails the test if it does not within 20 seconds.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	servers.Eventually(t, what, is)
}

// Stop stops a process as kill -STOP does. It needs Linux.
func Stop(t testing.TB, p *os.Process) { t.Helper(); servers.Stop(t, p) }

// Continue ends a Stop.
func Continue(t testing.TB, p *os.Process) { t.Helper(); servers.Continue(t, p) }

// Server is a redis-server process of its own, with a client.
type Server struct {
	*servers.Server
	client *redis.Client
}

// Start starts a server on a free port. It skips the test where redis-server is not in PATH.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	return withClient(t, servers.Start(t, options...))
}

func withClient(t testing.TB, server *servers.Server) *Server {
	s := &Server{Server: server}
	s.client = redis.NewClient(s.Options())
	t.Cleanup(func() { s.client.Close() })
	return s
}

// Options returns the options of a client of the server, which the caller may change.
func (s *Server) Options() *redis.Options {
	return &redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true}
}

// Client returns the test's own client of the server, which the package closes. Code under test
// gets a client of its own.
func (s *Server) Client() *redis.Client { return s.client }
