package memlog

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Empty has the store lose everything.
func (s *Store) Empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core = core{lost: s.core.id != 0 || s.core.lost}
	s.wakeLocked()
}

// LoseEnd has the log lose its last n entries, but for those that the image before the newest
// covers. Processes that heard some of them and others that did not are survivors with different
// tails.
func (s *Store) LoseEnd(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.all = slices.Clone(s.core.all[:max(len(s.core.all)-n, 0)])
	s.wakeLocked()
}

// Jump sets the store's wall clock. Where it is set ahead, its instant goes with it.
func (s *Store) Jump(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += by
	s.on += max(by, 0)
}

// Down has nobody reach the store for so long.
func (s *Store) Down(span time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = time.Now().Add(span)
}

// Cut has a process not reach the store for so long.
func (s *Store) Cut(process int64, span time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[process]; l != nil {
		l.away = time.Now().Add(span)
	}
}

// Kill ends a process without a word: it hears nothing more. What it has sent may still arrive.
func (s *Store) Kill(process int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[process]; l != nil {
		l.endLocked(killed)
	}
}

// Len returns how many entries the log has at present.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.core.all)
}

// Has reports whether the log has an entry, or an image that covers it.
func (s *Store) Has(at store.Position) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.core.find(at)
	return err == nil || errors.Is(err, store.ErrTrimmed)
}

// Trouble is a kind of incident.
type Trouble int

// The kinds of incidents.
const (
	EndLost  Trouble = iota // up to 9 entries
	Emptied                 // everything
	ClockSet                // an hour either way, or a little
	AllAway                 // up to 2 minutes
	OneAway                 // the same, one process
)

// Incident is something that happens to the store at a moment.
type Incident struct {
	At      time.Duration // since Play began
	Trouble Trouble
	Process int           // which one, by the order of opening; modulo how many there are
	Entries int           // of EndLost
	Span    time.Duration // of an absence, or of a jump of the clock
}

// Script draws n incidents of the given kinds, or of all, within a span of time.
func Script(seed uint64, over time.Duration, n int, kinds ...Trouble) []Incident {
	if len(kinds) == 0 {
		kinds = []Trouble{EndLost, Emptied, ClockSet, AllAway, OneAway}
	}
	r := rand.New(rand.NewPCG(seed, 6)) // a stream that no call draws from
	script := make([]Incident, n)
	for i := range script {
		script[i] = Incident{
			At:      time.Duration(r.Int64N(int64(over))),
			Trouble: kinds[r.IntN(len(kinds))],
			Process: r.IntN(1 << 20), Entries: 1 + r.IntN(9),
		}
		script[i].Span = script[i].Trouble.span(r)
	}
	slices.SortFunc(script, func(a, b Incident) int { return cmp.Compare(a.At, b.At) })
	return script
}

func (t Trouble) span(r *rand.Rand) time.Duration {
	if t != ClockSet {
		return time.Duration(r.Int64N(int64(2 * time.Minute)))
	}
	return []time.Duration{time.Hour, -time.Hour, time.Second, -time.Second}[r.IntN(4)]
}

// Play has the incidents happen at their moments, until ctx ends.
func (s *Store) Play(ctx context.Context, script []Incident) {
	began := time.Now()
	for _, i := range script {
		select {
		case <-time.After(time.Until(began.Add(i.At))):
			s.Suffer(i)
		case <-ctx.Done():
			return
		}
	}
}

// Suffer has an incident happen now.
func (s *Store) Suffer(i Incident) {
	switch i.Trouble {
	case EndLost:
		s.LoseEnd(i.Entries)
	case Emptied:
		s.Empty()
	case ClockSet:
		s.Jump(i.Span)
	case AllAway:
		s.Down(i.Span)
	case OneAway:
		s.Cut(s.opener(i.Process), i.Span)
	}
}

// opener returns the process that was the n-th to open a log; 0 where none has.
func (s *Store) opener(n int) (process int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.opened) == 0 {
		return 0
	}
	return s.opened[n%len(s.opened)]
}
