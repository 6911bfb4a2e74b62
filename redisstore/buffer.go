package redisstore

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

const (
	// keepRead is how many events a buffer keeps behind those that were read: their times tell
	// whether the store still has what was seen.
	keepRead = 64
	// keepMost is how many events wait to be read. Who reads later asks the store.
	keepMost = 8192
)

// buffer holds the latest events of the log, as far as they were heard of, without a gap. The zero
// value is empty, and begins at the start of a log. A buffer is safe for concurrent use.
type buffer struct {
	end atomic.Int64 // last; changed with mu held

	mu      sync.Mutex
	epoch   int64  // counts the resets
	log     string // the identity of the log; "" before the first reset
	entries []entry
	last    int64 // the place of the last event that was heard of
	stamp   int64 // and its time; 0 if unknown
	read    int64 // the caller has read up to here
	grown   chan struct{}
}

// reset makes the buffer begin behind a place of a log. What was asked for before is not added any
// more: it may be of another log.
func (b *buffer) reset(log string, last, stamp int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries, b.last, b.stamp, b.read = nil, last, stamp, last
	b.log = log
	b.epoch++
	b.end.Store(last)
	b.wakeLocked()
}

// position is a place in the log of a buffer.
type position struct {
	epoch int64 // since which reset the buffer is of that log
	log   string
	seq   int64
	stamp int64 // when the event there was written, in microseconds of the log's time; 0 if unknown
}

// position returns the position of the last event that was heard of.
func (b *buffer) position() position {
	b.mu.Lock()
	defer b.mu.Unlock()
	return position{b.epoch, b.log, b.last, b.stamp}
}

// at returns the position of a place that the caller has read; false where it is one of another
// log, because nobody has heard of it in this one.
func (b *buffer) at(seq int64) (p position, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p = position{b.epoch, b.log, seq, 0}
	if seq == b.last {
		p.stamp = b.stamp
	} else if i := b.indexLocked(seq); i < len(b.entries) && b.entries[i].seq <= seq {
		p.stamp = b.entries[i].stamp
	}
	return p, seq <= b.last
}

// wakeLocked tells those who wait that there are new entries.
func (b *buffer) wakeLocked() {
	if b.grown != nil {
		close(b.grown)
		b.grown = nil
	}
}

// change returns a channel that is closed when the next entry comes.
func (b *buffer) change() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grown == nil {
		b.grown = make(chan struct{})
	}
	return b.grown
}

// add adds entries in the order of the log, which were asked for in an epoch. Those that are there
// already are left out. It reports whether any was new.
func (b *buffer) add(epoch int64, entries []entry) (grew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if epoch != b.epoch {
		return false
	}
	for _, n := range entries {
		if n.last() <= b.last {
			continue
		}
		if n.seq > b.last+1 {
			b.entries = nil // some are missing: who has not read them asks the store
		}
		b.entries = append(b.entries, n)
		b.last, b.stamp, grew = n.last(), n.stamp, true
	}
	if grew {
		b.end.Store(b.last)
		b.trimLocked()
		b.wakeLocked()
	}
	return grew
}

// trimLocked drops entries that were read, and the oldest ones of too many.
func (b *buffer) trimLocked() {
	if n := len(b.entries); n == 0 || b.last-b.entries[0].seq < 2*keepRead {
		return
	}
	from := max(b.read-keepRead, b.last-keepMost)
	if i := b.indexLocked(from); i > len(b.entries)/2 || b.entries[0].seq < b.last-2*keepMost {
		b.entries = slices.Clone(b.entries[i:])
	}
}

// indexLocked returns the index of the first entry that ends at a place or behind it.
func (b *buffer) indexLocked(seq int64) int {
	i, _ := slices.BinarySearchFunc(b.entries, seq, func(n entry, seq int64) int { return cmp.Compare(n.last(), seq) })
	return i
}

// behind returns the entries with the events behind a place, which the caller has read; false where
// the buffer does not have all of them.
func (b *buffer) behind(seen int64) (entries []entry, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read = max(b.read, min(seen, b.last))
	if seen >= b.last {
		return nil, seen == b.last
	}
	if len(b.entries) == 0 || b.entries[0].seq > seen+1 {
		return nil, false
	}
	return b.entries[b.indexLocked(seen+1):], true
}

// eventsOf returns the events of entries, but for those up to a place.
func eventsOf(entries []entry, seen int64) (all []*sharedlog.Event, err error) {
	for _, n := range entries {
		if all, err = n.events(all, seen); err != nil {
			return nil, err
		}
	}
	return all, nil
}
