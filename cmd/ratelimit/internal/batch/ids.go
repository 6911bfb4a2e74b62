package batch

import "hash/maphash"

// idSet is the ids of OUT and IN, by 63 bits of a hash with a random seed: ten million take about
// 110 MB, and two of them are taken for one another in one of a hundred thousand such batches.
type idSet struct {
	seed   maphash.Seed
	shards [256]idShard
}

// idShard is a table with linear probing. It grows by a quarter, so that neither it nor its former
// self is much larger than needed.
type idShard struct {
	slots []uint64 // the hash, whose last bit says whether IN has the id; 0 for none
	used  int
}

const inInput = 1 // the bit of a slot

func newIDSet() *idSet { return &idSet{seed: maphash.MakeSeed()} }

// addDone adds an id of OUT. It returns false for one that is there.
func (s *idSet) addDone(id string) bool {
	slot, found := s.slot(id)
	if !found {
		slot.add()
	}
	return !found
}

// see adds an id of IN, and reports whether OUT has it, and whether IN had it before.
func (s *idSet) see(id string) (done, again bool) {
	p, found := s.slot(id)
	if !found {
		p.hash |= inInput
		p.add()
		return false, false
	}
	slot := &p.shard.slots[p.at]
	again = *slot&inInput != 0
	*slot |= inInput
	return !again, again
}

// place is where an id is, or is to be.
type place struct {
	shard *idShard
	at    int
	hash  uint64
}

func (s *idSet) slot(id string) (place, bool) {
	hash := maphash.String(s.seed, id) &^ inInput
	if hash == 0 {
		hash = 2
	}
	shard := &s.shards[hash>>56]
	if (shard.used+1)*8 > len(shard.slots)*7 {
		shard.grow()
	}
	at, found := shard.find(hash)
	return place{shard, at, hash}, found
}

func (p place) add() {
	p.shard.slots[p.at] = p.hash
	p.shard.used++
}

func (s *idShard) find(hash uint64) (at int, found bool) {
	for at = int(hash >> 8 % uint64(len(s.slots))); ; at++ {
		if at == len(s.slots) {
			at = 0
		}
		switch s.slots[at] &^ inInput {
		case 0:
			return at, false
		case hash:
			return at, true
		}
	}
}

func (s *idShard) grow() {
	old := s.slots
	s.slots = make([]uint64, len(old)+len(old)/4+16)
	for _, slot := range old {
		if slot != 0 {
			at, _ := s.find(slot &^ inInput)
			s.slots[at] = slot
		}
	}
}

// bits is a set of numbers from zero on.
type bits []uint64

func (b *bits) add(n int) {
	for len(*b) <= n/64 {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

func (b bits) has(n int) bool { return n/64 < len(b) && b[n/64]&(1<<(n%64)) != 0 }
