package httplimit

import (
	"hash/maphash"
	"sync"
)

// slotShards is the number of locks that Slots are spread over.
const slotShards = 64

// Slots counts the requests of each key that are served, for Options.InFlight. Handlers with the
// same Slots count together. It keeps only keys that have some, so it never has more entries than
// the server has open requests. Make it with NewSlots. It is safe for concurrent use.
type Slots struct {
	seed   maphash.Seed
	shards [slotShards]slotShard
}

type slotShard struct {
	mu    sync.Mutex
	taken map[string]int
	_     [48]byte // a cache line of its own
}

// NewSlots returns Slots of which none are taken.
func NewSlots() *Slots {
	s := &Slots{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].taken = make(map[string]int)
	}
	return s
}

func (s *Slots) shard(key string) *slotShard {
	return &s.shards[maphash.String(s.seed, key)%slotShards]
}

// take takes a slot of the key if fewer than most are taken, and returns how many are then.
func (s *Slots) take(key string, most int) (taken int, ok bool) {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	taken = shard.taken[key]
	if taken >= most {
		return taken, false
	}
	taken++
	shard.taken[key] = taken
	return taken, true
}

// give gives a slot back.
func (s *Slots) give(key string) {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if taken := shard.taken[key]; taken > 1 {
		shard.taken[key] = taken - 1
		return
	}
	delete(shard.taken, key)
}
