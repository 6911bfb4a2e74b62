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
	at, ahead := s.of.latest(now)
	d := s.take(at, n)
	s.of.name(now, d.OK && n > 0)
	return d.asOf(ahead)
}

func (s *shard) peekAt(now time.Time, n int) Decision {
	at, ahead := s.of.latest(now)
	return s.peek(at, n).asOf(ahead)
}

// HoldAt sets n units aside if all of them may pass.
func (s *shard) HoldAt(now time.Time, n int) (Hold, Decision) {
	at, ahead := s.of.latest(now)
	h, d := s.hold(at, n)
	s.of.name(now, d.OK && n > 0)
	return h, d.asOf(ahead)
}

func (s *shard) allowNow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	instant, ok := s.account.allowNowLocked()
	if ok {
		s.raiseLocked(instant + int64(s.account.line.origin.Sub(s.of.origin)))
	}
	return ok
}

func (s *shard) take(now time.Time, n int) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.account.takeLocked(now, n)
	s.sawLocked(now, d.OK && n > 0)
	return d
}

func (s *shard) peek(now time.Time, n int) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.peekLocked(now, n)
}

func (s *shard) takeOnly(now time.Time, n int) (Hold, Decision) { return Hold{}, s.take(now, n) }
func (s *shard) peekOnly(now time.Time, n int) (Hold, Decision) { return Hold{}, s.peek(now, n) }

func (s *shard) hold(now time.Time, n int) (Hold, Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, d := s.account.holdLocked(now, n)
	s.sawLocked(now, id != 0)
	return heldBy(s, id), d
}

// sawLocked records an instant, if there was a charge or a hold at it.
func (s *shard) sawLocked(now time.Time, charged bool) {
	if charged {
		s.raiseLocked(int64(now.Sub(s.of.origin)))
	}
}

func (s *shard) raiseLocked(at int64) {
	if at > s.seen.Load() {
		s.seen.Store(at)
	}
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
