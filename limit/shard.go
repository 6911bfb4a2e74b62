package limit

import (
	"sync"
	"sync/atomic"
	"time"
)

// shard is a bucket of its own. The padding keeps the next shard out of the cache lines
// that a processor fetches together with those of this one.
type shard struct {
	mu      sync.Mutex
	of      *Sharded
	index   int
	account account
	seen    atomic.Int64 // the latest charge or hold
	_       [128]byte
}

// TakeAt charges n units at now if all of them may pass.
func (s *shard) TakeAt(now time.Time, n int) Decision {
	_, d := s.of.tryAt(now, n, charge, s.index, 1)
	return d
}

func (s *shard) peekAt(now time.Time, n int) Decision {
	_, d := s.of.tryAt(now, n, peek, s.index, 1)
	return d
}

// HoldAt sets n units aside if all of them may pass.
func (s *shard) HoldAt(now time.Time, n int) (Hold, Decision) {
	return s.of.tryAt(now, n, hold, s.index, 1)
}

func (s *shard) allowNow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	instant, ok, _ := s.account.allowLocked(nil)
	if ok {
		raise(&s.seen, instant+int64(s.account.line.origin.Sub(s.of.origin)))
	}
	return ok
}

// try is a request to this shard alone. It records now as the latest instant if there was a charge
// or a hold at it.
func (s *shard) try(now time.Time, n int, is purpose) (Hold, Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, d := s.account.decideLocked(now, n, is)
	if is != peek && d.OK && n > 0 {
		raise(&s.seen, int64(now.Sub(s.of.origin)))
	}
	return heldBy(s, id), d
}

func (s *shard) end(id uint64, commit bool) {
	s.mu.Lock()
	ended := s.account.endLocked(id, commit)
	s.mu.Unlock()
	if ended {
		s.of.changed()
	}
}

func (s *shard) watch(kick chan struct{}) bool { return s.of.watch(kick) }
func (s *shard) unwatch(kick chan struct{})    { s.of.unwatch(kick) }
