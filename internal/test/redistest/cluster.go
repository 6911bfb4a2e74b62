package redistest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// slots is how many slots a Cluster has.
const slots = 16384

// Nodes is a Cluster of three masters with a replica each.
type Nodes struct {
	t testing.TB
	// Servers are the three masters, as they began, and then their replicas in the same order.
	Servers []*Server
	ids     map[*Server]string
}

// Cluster starts a Cluster. A node counts as down after a second without an answer. It skips the
// test where redis-server is not in PATH.
func Cluster(t testing.TB) *Nodes {
	t.Helper()
	c := &Nodes{t: t, ids: map[*Server]string{}}
	for i := range 6 {
		s := Start(t, Config("cluster-enabled yes", "cluster-node-timeout 1000",
			"cluster-replica-validity-factor 0",
			"repl-ping-replica-period 1")) // a replica is told to clients after its first
		c.Servers, c.ids[s] = append(c.Servers, s), s.Do("CLUSTER", "MYID").(string)
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		for _, other := range c.Servers[:i] { // by gossip alone they take seconds
			other.Do("CLUSTER", "MEET", "127.0.0.1", s.Port())
		}
	}
	for i, s := range c.Servers[:3] {
		args := []any{"CLUSTER", "ADDSLOTS"}
		for slot := slots * i / 3; slot < slots*(i+1)/3; slot++ {
			args = append(args, slot)
		}
		s.Do(args...)
	}
	c.eventually("all nodes know each other", func(s *Server) bool {
		nodes := s.text("CLUSTER", "NODES")
		return strings.Count(nodes, " connected") == 6 && !strings.Contains(nodes, "handshake")
	})
	for i, s := range c.Servers[3:] {
		s.Do("CLUSTER", "REPLICATE", c.ids[c.Servers[i]])
	}
	c.AwaitHealth()
	return c
}

// Addrs returns the hosts and ports of all nodes.
func (c *Nodes) Addrs() []string {
	var addrs []string
	for _, s := range c.Servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// AwaitHealth waits until all nodes run and serve all slots, and each master has a replica that
// follows it.
func (c *Nodes) AwaitHealth() {
	c.t.Helper()
	c.eventually("the cluster is healthy", func(s *Server) bool {
		nodes := s.text("CLUSTER", "NODES")
		if strings.Count(nodes, " connected") != 6 || strings.Count(nodes, "fail") > 0 {
			return false
		}
		ranges, err := s.slotRanges()
		if err != nil || slices.ContainsFunc(ranges, func(r slotRange) bool { return len(r.ids) != 2 }) {
			return false
		}
		replication := s.text("INFO", "replication")
		if replication == "" || strings.Contains(replication, "master_link_status:down") {
			return false
		}
		master := strings.Contains(replication, "role:master")
		follows := strings.Contains(replication, "connected_slaves:1") && strings.Contains(replication, "state=online")
		return c.info(s, "cluster_state:ok") && (!master || follows)
	})
}

// Of returns the master and the replica that hold a key, as the nodes that run see it.
func (c *Nodes) Of(key string) (master, replica *Server) {
	c.t.Helper()
	slot := c.Slot(key)
	Eventually(c.t, "a master of "+key, func() bool {
		master, replica = nil, nil
		for _, s := range c.Servers {
			if s.cmd == nil {
				continue
			}
			ranges, err := s.slotRanges()
			if err != nil {
				continue
			}
			for _, r := range ranges {
				if r.first <= slot && slot <= r.last {
					master, replica = c.withID(r.ids[0]), nil
					if len(r.ids) > 1 {
						replica = c.withID(r.ids[1])
					}
				}
			}
			return master != nil && master.cmd != nil
		}
		return false
	})
	return master, replica
}

// Slot returns the slot of a key.
func (c *Nodes) Slot(key string) int {
	c.t.Helper()
	return int(c.Servers[0].Do("CLUSTER", "KEYSLOT", key).(int64))
}

// Failover makes the replica of a key's slot its master without a loss, and returns when it is.
func (c *Nodes) Failover(key string) {
	c.t.Helper()
	_, replica := c.Of(key)
	var asked time.Time
	Eventually(c.t, "failover", func() bool {
		if time.Since(asked) > 6*time.Second { // one that is not over by then was given up
			asked = time.Now()
			_, _ = replica.Try("CLUSTER", "FAILOVER")
		}
		master, _ := c.Of(key)
		return master == replica
	})
}

// FailoverByKill kills the master of a key's slot and returns it, when its replica has taken its
// place.
func (c *Nodes) FailoverByKill(key string) (killed *Server) {
	c.t.Helper()
	killed, replica := c.Of(key)
	killed.Kill()
	Eventually(c.t, "failover", func() bool {
		master, _ := c.Of(key)
		return master == replica && c.info(replica, "cluster_state:ok")
	})
	return killed
}

// Move is a slot on its way from one master to another.
type Move struct {
	c        *Nodes
	slot     int
	from, to *Server
}

// BeginMove begins to move the slot of a key to another master. From now on the old one answers
// ASK for keys that it does not have, and TRYAGAIN where it has some of a command's keys.
func (c *Nodes) BeginMove(key string) *Move {
	c.t.Helper()
	m := &Move{c: c, slot: c.Slot(key)}
	m.from, _ = c.Of(key)
	for _, s := range c.Servers {
		if s != m.from && c.isMaster(s) {
			m.to = s
		}
	}
	m.to.Do("CLUSTER", "SETSLOT", m.slot, "IMPORTING", c.ids[m.from])
	m.from.Do("CLUSTER", "SETSLOT", m.slot, "MIGRATING", c.ids[m.to])
	return m
}

// Keys moves at most n keys of the slot, and returns how many it has moved.
func (m *Move) Keys(n int) int {
	m.c.t.Helper()
	keys := m.from.Do("CLUSTER", "GETKEYSINSLOT", m.slot, n).([]any)
	for _, key := range keys {
		m.from.Do("MIGRATE", "127.0.0.1", m.to.Port(), key, 0, 5000)
	}
	return len(keys)
}

// End moves what is left, and the slot. The old master then answers MOVED.
func (m *Move) End() {
	m.c.t.Helper()
	for m.Keys(100) > 0 {
	}
	for _, s := range []*Server{m.to, m.from} {
		s.Do("CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to])
	}
}

func (c *Nodes) isMaster(s *Server) bool {
	c.t.Helper()
	return s.cmd != nil && s.Do("ROLE").([]any)[0] == "master"
}

func (c *Nodes) withID(id string) *Server {
	for s, its := range c.ids {
		if its == id {
			return s
		}
	}
	return nil
}

// info reports whether CLUSTER INFO of a node has a line.
func (c *Nodes) info(s *Server, line string) bool {
	return strings.Contains(s.text("CLUSTER", "INFO"), line+"\r\n")
}

// slotRange is slots of one master. ids are the master's and its replicas'.
type slotRange struct {
	first, last int
	ids         []string
}

// slotRanges returns who serves which slots, as a node sees it.
func (s *Server) slotRanges() (ranges []slotRange, err error) {
	v, err := s.try(time.Second, "CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	for _, v := range v.([]any) {
		fields := v.([]any)
		r := slotRange{first: int(fields[0].(int64)), last: int(fields[1].(int64))}
		for _, node := range fields[2:] {
			r.ids = append(r.ids, node.([]any)[2].(string))
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// eventually waits until something holds on all nodes.
func (c *Nodes) eventually(what string, is func(*Server) bool) {
	c.t.Helper()
	for _, s := range c.Servers {
		Eventually(c.t, fmt.Sprintf("%s, as %s sees it", what, s.Addr()), func() bool { return is(s) })
	}
}
