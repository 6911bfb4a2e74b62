package redistest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	servers "dappco.re/go/core/go-ratelimit/internal/test/redistest"
)

// Nodes is a Cluster of three masters with a replica each, with a client.
type Nodes struct {
	*servers.Nodes
	// Servers are the three masters, as they began, and then their replicas in the same order.
	Servers []*Server
	client  *redis.ClusterClient
}

// Cluster starts a Cluster. A node counts as down after a second without an answer. It skips the
// test where redis-server is not in PATH.
func Cluster(t testing.TB) *Nodes {
	t.Helper()
	c := &Nodes{Nodes: servers.Cluster(t)}
	for _, s := range c.Nodes.Servers {
		c.Servers = append(c.Servers, withClient(t, s))
	}
	options := c.Options()
	options.ClusterStateReloadInterval = 500 * time.Millisecond // a dead master is no reason to go-redis
	c.client = redis.NewClusterClient(options)
	t.Cleanup(func() { c.client.Close() })
	return c
}

// Options returns the options of a client of the Cluster, which the caller may change.
func (c *Nodes) Options() *redis.ClusterOptions {
	return &redis.ClusterOptions{Addrs: c.Addrs(), ContextTimeoutEnabled: true}
}

// Client returns the test's own client of the Cluster, which the package closes.
func (c *Nodes) Client() *redis.ClusterClient { return c.client }

// Of returns the master and the replica that hold a key, as the nodes that run see it.
func (c *Nodes) Of(key string) (master, replica *Server) {
	m, r := c.Nodes.Of(key)
	return find(c.Servers, m), find(c.Servers, r)
}

// FailoverByKill kills the master of a key's slot and returns it, when its replica has taken its
// place.
func (c *Nodes) FailoverByKill(key string) (killed *Server) {
	return find(c.Servers, c.Nodes.FailoverByKill(key))
}

// Watched is a master with two replicas and three sentinels, with a client of the master of the
// moment.
type Watched struct {
	*servers.Watched
	// Servers are the master, as it began, and its replicas.
	Servers   []*Server
	Sentinels []*Server
	client    *redis.Client
}

// Sentinel starts a master, its replicas and its sentinels. options are those of the three servers.
// It skips the test where redis-server is not in PATH.
func Sentinel(t testing.TB, options ...Option) *Watched {
	t.Helper()
	w := &Watched{Watched: servers.Sentinel(t, options...)}
	for _, s := range w.Watched.Servers {
		w.Servers = append(w.Servers, withClient(t, s))
	}
	for _, s := range w.Watched.Sentinels {
		w.Sentinels = append(w.Sentinels, withClient(t, s))
	}
	w.client = redis.NewFailoverClient(w.Options())
	t.Cleanup(func() { w.client.Close() })
	return w
}

// Options returns the options of a client that asks the sentinels, which the caller may change.
func (w *Watched) Options() *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: MasterName, SentinelAddrs: w.SentinelAddrs(), ContextTimeoutEnabled: true,
	}
}

// Client returns the test's own client of the master of the moment, which the package closes.
func (w *Watched) Client() *redis.Client { return w.client }

// Master returns the server that the sentinels call the master.
func (w *Watched) Master() *Server { return find(w.Servers, w.Watched.Master()) }

// Failover kills the master and returns it, when the sentinels agree on another that is one.
func (w *Watched) Failover() (killed *Server) { return find(w.Servers, w.Watched.Failover()) }

// AwaitMaster waits until the sentinels agree on a master other than one, and it is one.
func (w *Watched) AwaitMaster(other *Server) { w.Watched.AwaitMaster(other.Server) }

// find returns the server with its client, or nil for nil.
func find(all []*Server, server *servers.Server) *Server {
	for _, s := range all {
		if s.Server == server {
			return s
		}
	}
	return nil
}
