package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// MasterName is the name under which the sentinels know the master.
const MasterName = "redistest"

// Watched is a master with two replicas and three sentinels, which name another master once it is
// down for half a second.
type Watched struct {
	t testing.TB
	// Servers are the master, as it began, and its replicas.
	Servers   []*Server
	Sentinels []*Server
}

// Sentinel starts a master, its replicas and its sentinels. options are those of the three servers.
// It skips the test where redis-server is not in PATH.
func Sentinel(t testing.TB, options ...Option) *Watched {
	t.Helper()
	w := &Watched{t: t}
	for range 3 {
		s := Start(t, options...)
		if w.Servers = append(w.Servers, s); len(w.Servers) > 1 {
			s.lines = append(s.lines, "replicaof 127.0.0.1 "+strconv.Itoa(w.Servers[0].port))
			s.Do("REPLICAOF", "127.0.0.1", w.Servers[0].port)
		}
	}
	w.AwaitReplicas(2)
	for range 3 {
		w.Sentinels = append(w.Sentinels, Start(t, func(s *Server) {
			s.sentinel = true
			s.lines = []string{
				fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", MasterName, w.Servers[0].port),
				"sentinel down-after-milliseconds " + MasterName + " 500",
				"sentinel failover-timeout " + MasterName + " 3000",
			}
		}))
	}
	for _, s := range w.Sentinels {
		Eventually(t, "the sentinels know all", func() bool { return w.knows(s) })
	}
	return w
}

// knows reports whether a sentinel has heard of the two others and of the replicas.
func (w *Watched) knows(sentinel *Server) bool {
	info := sentinel.text("INFO", "sentinel")
	return strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=2,sentinels=3")
}

// SentinelAddrs returns the hosts and ports of the sentinels.
func (w *Watched) SentinelAddrs() []string {
	var addrs []string
	for _, s := range w.Sentinels {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Master returns the server that the sentinels call the master.
func (w *Watched) Master() *Server {
	w.t.Helper()
	addr := w.Sentinels[0].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).([]any)
	for _, s := range w.Servers {
		if strconv.Itoa(s.port) == addr[1] {
			return s
		}
	}
	w.t.Fatalf("the master is at %v, which is none of the servers", addr)
	return nil
}

// AwaitReplicas waits until so many replicas follow the master.
func (w *Watched) AwaitReplicas(n int) {
	w.t.Helper()
	Eventually(w.t, "replicas follow", func() bool {
		master := w.Servers[0]
		if len(w.Sentinels) > 0 {
			master = w.Master()
		}
		return strings.Count(master.text("INFO", "replication"), "state=online") == n
	})
}

// Failover kills the master and returns it, when the sentinels agree on another that is one.
func (w *Watched) Failover() (killed *Server) {
	w.t.Helper()
	killed = w.Master()
	killed.Kill()
	w.AwaitMaster(killed)
	return killed
}

// AwaitMaster waits until the sentinels agree on a master other than one, and it is one.
func (w *Watched) AwaitMaster(other *Server) {
	w.t.Helper()
	Eventually(w.t, "failover", func() bool {
		var addr string
		for _, s := range w.Sentinels {
			said := fmt.Sprint(s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName))
			if addr != "" && said != addr {
				return false
			}
			addr = said
		}
		master := w.Master()
		return master != other && master.Do("ROLE").([]any)[0] == "master"
	})
}
