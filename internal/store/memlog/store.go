package memlog

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Store is a store in memory. Get one from New. It is safe for concurrent use.
type Store struct {
	faults Faults
	began  time.Time

	mu      sync.Mutex
	core    core
	ahead   time.Duration // of the wall clock
	on      time.Duration // that the instant has jumped
	pending []*request    // that reached the store at this moment
	waiting []*request    // reads that found nothing
	logs    map[int64]*log
	opened  []int64
	away    time.Time // until when nobody reaches the store
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New(faults Faults) *Store {
	return &Store{faults: faults, began: time.Now(), logs: make(map[int64]*log)}
}

// Open implements store.Store. A process may open one log.
func (s *Store) Open(ctx context.Context, options store.Options) (store.Log, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &log{store: s, process: options.Process, done: make(chan struct{})}
	s.logs[l.process] = l
	s.opened = append(s.opened, l.process)
	if s.faults.Witness {
		return witness{l}, nil
	}
	return l, nil
}

// request is a call on its way. do is called with the store's lock held, when it has arrived.
type request struct {
	call
	do func()
}

// send has a request arrive. Those that arrive at the same moment are put into order, a nanosecond
// later.
func (s *Store) send(way time.Duration, r *request) {
	arrive := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.faults.Direct {
			r.do()
		} else if s.pending = append(s.pending, r); len(s.pending) == 1 {
			time.AfterFunc(1, s.serve)
		}
	}
	if s.faults.Direct && way == 0 {
		arrive()
	} else {
		time.AfterFunc(way, arrive)
	}
}

func (s *Store) serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.pending
	s.pending = nil
	slices.SortFunc(all, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.kind, b.kind), cmp.Compare(a.n, b.n))
	})
	for _, r := range all {
		r.do()
	}
}

// stampLocked returns what the store's clock shows.
func (s *Store) stampLocked() store.Stamp {
	now, tick := time.Now(), max(s.faults.Tick, 1)
	stamp := store.Stamp{Wall: now.Add(s.ahead).Truncate(tick).UnixNano()}
	if !s.faults.NoInstant {
		stamp.Instant = int64((now.Sub(s.began) + s.on + time.Second).Truncate(tick))
	}
	return stamp
}

// appendLocked writes a batch, if its place is there.
func (s *Store) appendLocked(after store.Position, batch []store.Entry, f fate) error {
	_, err := s.core.find(after)
	if err != nil && (s.core.id == 0 || after.Log != s.core.id || !f.blind) {
		return err
	}
	s.core.add(batch, s.stampLocked(), f.gap)
	s.wakeLocked()
	return err
}

// wakeLocked has all reads that wait look again.
func (s *Store) wakeLocked() {
	waiting := s.waiting
	s.waiting = nil
	for _, r := range waiting {
		r.do()
	}
}
