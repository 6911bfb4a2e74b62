package memlog

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// bench is a store with a log that has begun.
func bench(t *testing.T, faults Faults) (*Store, store.Log, store.Position) {
	t.Helper()
	s := New(faults)
	l := open(t, s, 1)
	at := store.Position{Log: 9, Sum: 1, Seq: 10}
	locked(s, func(c *core) { c.begin(0, store.Image{At: at}) })
	return s, l, at
}

func locked(s *Store, do func(*core)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(&s.core)
}

func open(t *testing.T, s *Store, process int64) store.Log {
	t.Helper()
	l, err := s.Open(t.Context(), store.Options{Process: process})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func one(process, n int64) []store.Entry {
	return []store.Entry{{Process: process, N: n, Command: []byte{1}}}
}

// Each fault is what its name says: what the sender hears, and what is in the log then and later.
func TestFaultsOfAppends(t *testing.T) {
	for name, test := range map[string]struct {
		faults      Faults
		err         error // nil is an answer
		then, later int   // entries in the log
	}{
		"none":         {Faults{}, nil, 1, 1},
		"refused":      {Faults{Refused: 1000}, store.ErrNotWritten, 0, 0},
		"request lost": {Faults{RequestLost: 1000}, errAway, 0, 0},
		"reply lost":   {Faults{ReplyLost: 1000}, errAway, 1, 1},
		"late":         {Faults{Late: 1000, LateBy: time.Hour}, errAway, 0, 1},
		"twice":        {Faults{Twice: 1000, LateBy: time.Hour}, nil, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, l, at := bench(t, test.faults)
				if _, err := l.Append(t.Context(), at, one(1, 1)); !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				if n := s.Len(); n != test.then {
					t.Errorf("there are %d entries, want %d", n, test.then)
				}
				time.Sleep(time.Hour + time.Second)
				if n := s.Len(); n != test.later {
					t.Errorf("later there are %d entries, want %d", n, test.later)
				}
			})
		})
	}
}

// A write that was late comes behind those of others, and not into another log.
func TestLateWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, at := bench(t, Faults{Late: 1000, LateBy: time.Hour})
		for range 2 {
			if _, err := l.Append(t.Context(), at, one(1, 1)); err == nil {
				t.Error("a late write was answered")
			}
		}
		locked(s, func(c *core) { c.add(one(2, 1), store.Stamp{Wall: 1}, 0) })
		time.Sleep(time.Hour)
		locked(s, func(c *core) {
			if len(c.all) != 3 || c.all[0].Process != 2 {
				t.Errorf("the log has %+v", c.all)
			}
		})
		if _, err := l.Append(t.Context(), at, one(1, 2)); err == nil {
			t.Error("a late write was answered")
		}
		s.Empty()
		locked(s, func(c *core) { c.begin(0, store.Image{At: store.Position{Log: 10}}) })
		time.Sleep(time.Hour)
		if n := s.Len(); n != 0 {
			t.Errorf("a late write came to another log, which has %d", n)
		}
	})
}

func TestAbsences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, at := bench(t, Faults{})
		other := open(t, s, 2)
		reads := func(l store.Log) bool { _, err := l.Read(t.Context(), at, 0, 0); return err == nil }
		want := func(what string, one, two bool) {
			t.Helper()
			if reads(l) != one || reads(other) != two {
				t.Errorf("%s: want %v, %v", what, one, two)
			}
		}
		want("calm", true, true)
		s.Cut(1, 3*time.Second)
		want("one is cut off", false, true)
		time.Sleep(3 * time.Second)
		want("one is back", true, true)
		s.Down(3 * time.Second)
		want("all are away", false, false)
		time.Sleep(3 * time.Second)
		want("all are back", true, true)
		s.Kill(2)
		want("one is dead", true, false)
	})
}

func TestClockSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, at := bench(t, Faults{})
		for _, jump := range []time.Duration{0, time.Hour, -2 * time.Hour} {
			before, _ := l.Read(t.Context(), at, 0, 0)
			s.Jump(jump)
			after, _ := l.Read(t.Context(), at, 0, 0)
			wall := time.Duration(after.Now.Wall - before.Now.Wall)
			if instant := after.Now.Instant - before.Now.Instant; wall.Round(time.Second) != jump || instant < 0 {
				t.Errorf("a jump of %v is one of %v, and %d of the instant", jump, wall, instant)
			}
		}
	})
}

// life is a small life of three processes with every fault, and what they have heard.
func life(t *testing.T, seed uint64) string {
	var lines [3]strings.Builder
	synctest.Test(t, func(t *testing.T) {
		s, _, at := bench(t, Hostile(seed))
		go s.Play(t.Context(), Script(seed, time.Minute, 20))
		var group sync.WaitGroup
		for i := range lines {
			l, process := open(t, s, int64(i+2)), int64(i+2)
			group.Go(func() { live(t.Context(), l, process, at, &lines[i]) })
		}
		group.Wait()
	})
	h := fnv.New64a()
	for i := range lines {
		h.Write([]byte(lines[i].String()))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func live(ctx context.Context, l store.Log, process int64, at store.Position, into *strings.Builder) {
	next := uint64(100 * process)
	for n := range int64(300) {
		var news store.News
		var err error
		if n%3 == 0 {
			news, err = l.Append(ctx, at, one(process, n))
		} else {
			news, err = l.Read(ctx, at, 100*time.Millisecond, 5*time.Millisecond)
		}
		if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrTrimmed) {
			image, _ := l.Load(ctx)
			if next++; image.IsZero() {
				l.Begin(ctx, 0, store.Image{At: store.Position{Log: next}})
			}
			at = image.At
		}
		if n%20 == 0 {
			fmt.Fprintln(into, l.Save(ctx, store.Image{At: at}))
		}
		at = news.End(at)
		fmt.Fprintln(into, news, err, at)
		time.Sleep(100 * time.Millisecond)
	}
}

// The same seed is the same life, whichever goroutine runs first.
func TestDeterministic(t *testing.T) {
	seen := make(map[string]uint64)
	for seed := range uint64(20) {
		first := life(t, seed)
		for range 3 {
			if again := life(t, seed); again != first {
				t.Errorf("seed %d: %s, then %s", seed, first, again)
			}
		}
		if other, is := seen[first]; is {
			t.Errorf("seeds %d and %d are one life", seed, other)
		}
		seen[first] = seed
	}
}
