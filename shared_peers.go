package ratelimit

import (
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

const (
	// peersEvery is how long nobody looks after the other processes again.
	peersEvery = int64(100 * time.Millisecond)

	// The pauses between two looks at the file, while somebody waits, grow from the first
	// to the last. A look at a file that has not changed takes microseconds.
	firstLook = time.Millisecond
	lastLook  = 20 * time.Millisecond
)

// standInLocked puts somebody who waits in a line: of another process, or of this one
// while memory is made anew.
func (s *ledger) standInLocked(e *event) {
	// Nobody is process 0, whose waiter would be taken for one of this limiter.
	if p := s.peers[e.process]; e.process == 0 || p != nil && p.waits[e.n] != nil {
		return
	}
	w := &waiter{process: e.process}
	if s.adopting != nil && e.process == s.id && s.adopting.waits[e.n] != nil {
		w = s.adopting.waits[e.n]
	} else {
		requests, err := requestsOf(e.text)
		if err != nil || len(requests) == 0 {
			return
		}
		w.requests = requests
	}
	s.rl.arrivals++
	w.seq = s.rl.arrivals
	s.rl.queueLocked(w, s.rl.costsRLocked(w.requests))
	s.peerLocked(e.process).waits[e.n] = w
}

// evictLocked takes a process out of all lines. If it is this one, it goes to the end of
// them: the others have not heard of it for long. While memory is made anew, putBackLocked
// does that.
func (s *ledger) evictLocked(process int64) {
	p := s.peers[process]
	if p == nil {
		return
	}
	for _, n := range slices.Sorted(maps.Keys(p.waits)) {
		w := s.closeWaitLocked(process, n)
		s.rl.standDownLocked(w)
		if w.process == 0 && s.adopting == nil {
			s.standAgainLocked(w)
		}
	}
}

// standAgainLocked puts somebody who waits at the end of the lines, and says so.
func (s *ledger) standAgainLocked(w *waiter) {
	s.rl.arrivals++
	w.seq = s.rl.arrivals
	b := s.rl.costsRLocked(w.requests)
	s.rl.queueLocked(w, b)
	s.noteWaitLocked(w, b)
}

// holdsLocked reports whether the others wait for anything that this limiter holds.
func (s *ledger) holdsLocked() bool {
	p := s.peers[s.id]
	return p != nil && len(p.open)+len(p.waits) > 0
}

// keepLeaseLocked has the lease renewed as long as this limiter holds anything. The calls
// that change something renew it in passing; the timer is for when there are none.
func (s *ledger) keepLeaseLocked() {
	if s.renewing == nil {
		s.renewing = time.AfterFunc(s.options.ttl/3, s.renewLease)
		s.leased = true
	} else if !s.leased {
		s.renewing.Reset(s.options.ttl / 3)
		s.leased = true
	}
}

func (s *ledger) renewLease() {
	s.do(background, func() {
		s.wanted = true
		s.settleAbandonedLocked()
		if s.leased = s.holdsLocked() && !s.closed.Load(); s.leased {
			s.renewing.Reset(s.options.ttl / 3)
		}
	})
}

// watchLocked has a goroutine look for changes of others, as long as somebody waits.
func (s *ledger) watchLocked() {
	if s.watching || s.closed.Load() {
		return
	}
	s.watching = true
	s.goroutines.Go(s.watch)
}

func (s *ledger) watch() {
	pause := firstLook
	for {
		time.Sleep(pause)
		s.fresh()
		s.rl.mu.Lock()
		stirred := s.stirred || s.requoted
		p := s.peers[s.id]
		if s.watching = p != nil && len(p.waits) > 0 && !s.closed.Load(); !s.watching {
			s.rl.mu.Unlock()
			return
		}
		s.rl.mu.Unlock()
		if stirred {
			s.do(background, func() {}) // serves them
			pause = firstLook
			continue
		}
		pause = min(2*pause, lastLook)
	}
}

// lookAfterPeers ends what those processes hold that have died, and takes those out of
// the lines that do not answer. It reports whether there were any. Who holds nothing is
// not looked at.
func (s *ledger) lookAfterPeers() (found bool) {
	ids := s.dueToLookAt()
	if len(ids) == 0 {
		return false
	}
	var gone, silent []int64
	leases, known := s.leases()
	for _, id := range ids {
		switch life := fsx.LivenessOf(s.lifePath(id)); {
		case life == fsx.Dead:
			gone = append(gone, id)
		case !known || leases[id]:
		case life == fsx.Unknown:
			gone = append(gone, id)
		default:
			silent = append(silent, id) // stopped, say; its calls may be under way
		}
	}
	if len(gone)+len(silent) == 0 {
		return false
	}
	s.do(background, func() {
		for _, id := range gone {
			if s.peers[id] != nil {
				s.buryLocked(id)
				s.noteNowLocked(&event{kind: eventGone, ref: id}, nil)
			}
		}
		for _, id := range silent {
			if p := s.peers[id]; p != nil && len(p.waits) > 0 {
				found = true
				s.evictLocked(id)
				s.noteNowLocked(&event{kind: eventEvict, ref: id}, nil)
			}
		}
		s.rl.serveAllLocked()
	})
	for _, id := range gone {
		if s.down.Load() {
			break // others have not read yet that it is gone
		}
		fsx.RemoveDead(s.lifePath(id))
	}
	return found || len(gone) > 0
}

// dueToLookAt returns the processes that hold something, if nobody has looked after them
// lately.
func (s *ledger) dueToLookAt() (ids []int64) {
	s.rl.mu.Lock()
	defer s.rl.mu.Unlock()
	instant := s.rl.clock.Sync()
	if instant < s.peersAt || s.down.Load() || s.closed.Load() {
		return nil
	}
	for id, p := range s.peers {
		if id != s.id && p.holds() {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		s.peersAt = instant + peersEvery
	}
	return ids
}

// leases tells of which processes the lease holds.
func (s *ledger) leases() (hold map[int64]bool, ok bool) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.file == nil {
		return nil, false
	}
	leases, err := s.file.reader.leases()
	if err != nil {
		return nil, false
	}
	wall, mono := s.clocks()
	hold = make(map[int64]bool)
	for _, l := range leases {
		hold[l.process] = l.holds(wall, mono)
	}
	return hold, true
}

// holds reports whether a lease has not run out. Where the clock of the machine does not
// tell, one from the future holds, too: a clock was set, and it will be renewed or not.
func (l *lease) holds(wall, mono int64) bool {
	age := wall - max(l.wall, 0) // no difference overflows
	if l.mono > 0 && mono > 0 {
		age = mono - l.mono
	}
	return age <= l.ttl
}
