package peers

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

const (
	own    = 1
	other  = 2
	nobody = 3
)

type reservation struct {
	slotless bool
	number   int
	_        *int // or it would share its memory with others, and be garbage with them
}

type waiter struct{ name string }

// newSet returns an empty set of process own, and its tail.
func newSet() (*Set[reservation, waiter], *sharedlog.Tail) {
	tail := new(sharedlog.Tail)
	return New[reservation, waiter](Options[reservation]{
		Own: own, Tail: tail, IsSlotless: func(r *reservation) bool { return r.slotless },
	}), tail
}

// event returns an event with a number of a process, whose place is the number and 100.
func event(kind sharedlog.Kind, process, n int64) *sharedlog.Event {
	return &sharedlog.Event{Kind: kind, Process: process, N: n, Seq: 100 + n}
}

// dropped returns the places that are to be deleted.
func dropped(s *Set[reservation, waiter], tail *sharedlog.Tail) (places []int64) {
	for _, drop := range tail.Expired(s, 0).Drops {
		places = append(places, drop[0])
	}
	return places
}

func TestReservations(t *testing.T) {
	s, tail := newSet()
	mine, theirs := &reservation{number: 5}, &reservation{number: 6}
	s.OpenOwn(event(sharedlog.Reserve, own, 5), 5, mine)
	s.Open(event(sharedlog.Move, other, 9), 6, theirs)
	for _, tt := range []struct {
		process, n int64
		want       *reservation
		kept       bool
	}{
		{own, 5, mine, false}, {other, 6, theirs, true},
	} {
		h := s.Reservation(tt.process, tt.n)
		if h == nil || h.Get() != tt.want || h.IsKept() != tt.kept || h.IsOffTail() {
			t.Errorf("process %d has %+v", tt.process, h)
		}
	}
	for _, none := range [][2]int64{{own, 6}, {other, 5}, {other, 9}, {nobody, 5}} {
		if h := s.Reservation(none[0], none[1]); h != nil {
			t.Errorf("process %d has number %d", none[0], none[1])
		}
		if s.CloseReservation(none[0], none[1]) != nil {
			t.Errorf("number %d of process %d is closed", none[1], none[0])
		}
	}
	if h := s.CloseReservation(other, 6); h.Get() != theirs || s.Reservation(other, 6) != nil || s.HasAny(other) {
		t.Errorf("closed %+v", h)
	}
	if h := s.CloseReservation(own, 5); h.Get() != mine || s.HasAny(own) {
		t.Errorf("closed %+v", h)
	}
	if got := slices.Collect(s.Processes()); !slices.Equal(got, []int64{own}) || s.Len() != 1 {
		t.Errorf("the processes are %v", got)
	}
	if got := dropped(s, tail); got != nil { // on the tail they are dropped in their turn
		t.Errorf("drops %v", got)
	}
}

// The program has its reservations; the set does not keep them from being garbage, until their
// finalizers say that they are.
func TestGarbage(t *testing.T) {
	s, _ := newSet()
	s.OpenOwn(event(sharedlog.Reserve, own, 5), 5, &reservation{number: 5})
	r := &reservation{number: 6}
	s.OpenOwn(event(sharedlog.Reserve, own, 6), 6, r)
	s.Reservation(own, 6).Keep(r)
	s.Reservation(own, 6).Keep(&reservation{number: 7}) // which changes nothing
	s.Open(event(sharedlog.Reserve, other, 7), 7, &reservation{number: 7})
	r = nil
	runtime.GC()
	if r := s.Reservation(own, 5).Get(); r != nil {
		t.Errorf("the first is %+v", r)
	}
	if h := s.Reservation(own, 6); h.Get() == nil || h.Get().number != 6 || !h.IsKept() {
		t.Errorf("the second is %+v", h.Get())
	}
	if r := s.Reservation(other, 7).Get(); r == nil || r.number != 7 {
		t.Errorf("the third is %+v", r)
	}
	if !s.InForce(event(sharedlog.Reserve, own, 5)) {
		t.Error("garbage is not in force before it is settled")
	}
}

func TestWaiters(t *testing.T) {
	s, tail := newSet()
	w := &waiter{"w"}
	s.AddWaiter(own, 5, w)
	if !s.HasWaiter(own, 5) || s.HasWaiter(own, 6) || s.HasWaiter(nobody, 5) || s.Waiters(own)[5] != w || s.Waiters(nobody) != nil {
		t.Errorf("the waiters are %v", s.Waiters(own))
	}
	if s.RemoveWaiter(own, 6) != nil || s.RemoveWaiter(nobody, 5) != nil {
		t.Error("removes a waiter that there is not")
	}
	if s.RemoveWaiter(own, 5) != w || s.HasWaiter(own, 5) || s.Len() != 0 {
		t.Errorf("after the last has left there are %d processes", s.Len())
	}
	if got := dropped(s, tail); got != nil {
		t.Errorf("drops %v", got)
	}
}

func TestInTheWay(t *testing.T) {
	s, _ := newSet()
	s.AddWaiter(own, 1, &waiter{})
	s.AddWaiter(10, 1, &waiter{})
	s.Open(event(sharedlog.Reserve, 11, 1), 1, &reservation{})
	s.Open(event(sharedlog.Reserve, 12, 1), 1, &reservation{slotless: true})
	s.Open(event(sharedlog.Reserve, 13, 1), 1, &reservation{slotless: true})
	s.Open(event(sharedlog.Reserve, 13, 2), 2, &reservation{})
	got := s.InTheWay()
	slices.Sort(got)
	if want := []int64{10, 11, 13}; !slices.Equal(got, want) {
		t.Errorf("%v are in the way, want %v", got, want)
	}
}

// Waiters and reservations may be removed while they are ranged over.
func TestRemoveWithin(t *testing.T) {
	s, _ := newSet()
	for process := range int64(3) {
		for n := range int64(5) {
			s.AddWaiter(process, n, &waiter{})
			s.Open(event(sharedlog.Reserve, process, 10+n), 10+n, &reservation{})
		}
	}
	removed := 0
	for process := range s.Processes() {
		for n := range s.Waiters(process) {
			s.RemoveWaiter(process, n)
			removed++
		}
		for n := range s.Reservations(process) {
			s.CloseReservation(process, n)
			removed++
		}
	}
	if removed != 30 || s.HasAny(0) || s.HasAny(own) || s.HasAny(other) {
		t.Errorf("removed %d of 30", removed)
	}
}

func TestTail(t *testing.T) {
	reserve, wait := event(sharedlog.Reserve, other, 5), event(sharedlog.Wait, other, 6)
	use := event(sharedlog.Use, other, 5)
	open := func(slotless bool) (*Set[reservation, waiter], *sharedlog.Tail) {
		s, tail := newSet()
		s.Open(reserve, 5, &reservation{slotless: slotless})
		s.AddWaiter(other, 6, &waiter{})
		return s, tail
	}
	t.Run("nothing open", func(t *testing.T) {
		s, _ := newSet()
		for _, e := range []*sharedlog.Event{reserve, wait, use} {
			if s.IsOpen(e) || s.InForce(e) || s.PassTail(e) {
				t.Errorf("kind %d is open", e.Kind)
			}
		}
	})
	t.Run("in force", func(t *testing.T) {
		s, tail := open(false)
		for _, e := range []*sharedlog.Event{reserve, wait} {
			if !s.IsOpen(e) || !s.InForce(e) || !s.PassTail(e) {
				t.Errorf("kind %d is not open", e.Kind)
			}
		}
		if s.InForce(use) || s.PassTail(use) {
			t.Error("a charge without a settlement is in force")
		}
		if !s.Reservation(other, 5).IsOffTail() {
			t.Error("the reservation is on the tail")
		}
		s.CloseReservation(other, 5)
		s.RemoveWaiter(other, 6)
		if got, want := dropped(s, tail), []int64{105, 106}; !slices.Equal(got, want) {
			t.Errorf("drops %v, want %v", got, want)
		}
	})
	t.Run("whose place became known later", func(t *testing.T) {
		s, tail := newSet()
		s.OpenOwn(&sharedlog.Event{Kind: sharedlog.Reserve, Process: own, N: 5}, 5, &reservation{})
		s.PassTail(&sharedlog.Event{Kind: sharedlog.Reserve, Process: own, N: 5})
		s.Reservation(own, 5).SetPlace(77)
		s.CloseReservation(own, 5)
		if got, want := dropped(s, tail), []int64{77}; !slices.Equal(got, want) {
			t.Errorf("drops %v, want %v", got, want)
		}
	})
	t.Run("without its slot", func(t *testing.T) {
		s, _ := open(true)
		s.RemoveWaiter(other, 6)
		if !s.IsOpen(reserve) || s.InForce(reserve) || s.PassTail(reserve) || s.IsOpen(reserve) || s.Len() != 0 {
			t.Error("a reservation without its slot outlasts its event")
		}
	})
}

// A set agrees with plain lists of what is open, whatever is opened and closed.
func TestSetAgainstLists(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s, _ := newSet()
		reservations, waiters := make(map[sharedlog.Key]*reservation), make(map[sharedlog.Key]*waiter)
		for n := range int64(200) {
			process, of := rng.Int64N(4), rng.Int64N(n+1)
			key := sharedlog.Key{Process: process, N: of}
			switch rng.IntN(5) {
			case 0:
				r := &reservation{slotless: rng.IntN(3) == 0}
				s.Open(event(sharedlog.Reserve, process, n), n, r)
				reservations[sharedlog.Key{Process: process, N: n}] = r
			case 1:
				w := &waiter{}
				s.AddWaiter(process, n, w)
				waiters[sharedlog.Key{Process: process, N: n}] = w
			case 2:
				if h := s.CloseReservation(process, of); (h != nil) != (reservations[key] != nil) || h != nil && h.Get() != reservations[key] {
					t.Fatalf("seed %d: closed %+v", seed, h)
				}
				delete(reservations, key)
			case 3:
				if w := s.RemoveWaiter(process, of); w != waiters[key] {
					t.Fatalf("seed %d: removed %+v", seed, w)
				}
				delete(waiters, key)
			case 4:
				r := reservations[key]
				if kept := s.PassTail(event(sharedlog.Reserve, process, of)); kept != (r != nil && !r.slotless) {
					t.Fatalf("seed %d: kept %v", seed, kept)
				} else if !kept {
					delete(reservations, key)
				}
			}
		}
		for process := range int64(4) {
			open, wait := 0, 0
			for key := range reservations {
				if key.Process == process {
					open++
				}
			}
			for key := range waiters {
				if key.Process == process {
					wait++
				}
			}
			if len(s.Reservations(process)) != open || len(s.Waiters(process)) != wait || s.HasAny(process) != (open+wait > 0) {
				t.Fatalf("seed %d: process %d has %d and %d, want %d and %d", seed, process, len(s.Reservations(process)), len(s.Waiters(process)), open, wait)
			}
		}
	}
}
