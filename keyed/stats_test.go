package keyed_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// told collects what OnError gets.
type told struct {
	mu   sync.Mutex
	errs []error
}

func (o *told) add(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs = append(o.errs, err)
}

// take returns what came since the last call.
func (o *told) take() []error {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	errs := o.errs
	o.errs = nil
	return errs
}

func wantStats(t *testing.T, l *keyed.Limiter, evicted, refused int64) {
	t.Helper()
	if got, want := l.Stats(), (keyed.Stats{Evicted: evicted, Refused: refused}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A Limiter that is full says so: at once, and then once a second with all that has happened since.
func TestFullIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var errs told
		l := shared(t, keyed.Options{MaxKeys: 2, OnError: errs.add})
		takeNow(t, l, perMinute("a", 10))
		takeNow(t, l, perMinute("b", 10))
		if wantStats(t, l, 0, 0); errs.take() != nil {
			t.Error("told of two counters of two")
		}
		takeNow(t, l, perMinute("c", 10))
		wantStats(t, l, 1, 0)
		got := errs.take()
		if len(got) != 1 || !errors.Is(got[0], keyed.ErrFull) || !strings.Contains(got[0].Error(), "1 that had weight evicted, 0 requests refused") {
			t.Errorf("told %v", got)
		}
		for i := range 10 {
			r := perMinute(fmt.Sprint("refused", i), 10)
			takeNow(t, l, r)
			takeNow(t, l, costing(r, 11))
			peekNow(t, l, r)
			takeNow(t, l, costing(r, 0))
		}
		if wantStats(t, l, 1, 10); errs.take() != nil {
			t.Error("told twice within a second")
		}
		time.Sleep(time.Second)
		takeNow(t, l, perMinute("x", 10))
		wantStats(t, l, 1, 11)
		if got := errs.take(); len(got) != 1 || !strings.Contains(got[0].Error(), "0 that had weight evicted, 11 requests refused") {
			t.Errorf("told %v", got)
		}
		if _, err := l.TakeAll(t.Context(), perMinute("x", 10), perMinute("c", 10), perMinute("y", 10)); err != nil {
			t.Fatal(err)
		}
		wantStats(t, l, 1, 13)
	})
}

// A counter without weight makes room, and nobody need know of it.
func TestExpiredMakesRoomInSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var errs told
		l := shared(t, keyed.Options{MaxKeys: 1, OnError: errs.add})
		for range 5 {
			takeNow(t, l, perMinute("a", 10))
			time.Sleep(2 * time.Minute)
			takeNow(t, l, perMinute("b", 10))
			time.Sleep(2 * time.Minute)
		}
		for i := range 5 { // of a Hold that charged nothing
			hold, d, err := l.Hold(t.Context(), perMinute(fmt.Sprint(i), 10))
			if hold.Cancel(); err != nil || !d.OK {
				t.Errorf("%+v, %v", d, err)
			}
		}
		if wantStats(t, l, 0, 0); errs.take() != nil {
			t.Error("told")
		}
	})
}

// All counters are on hold.
func TestFullOfHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var errs told
		l := shared(t, keyed.Options{MaxKeys: 1, OnError: errs.add})
		hold, _, err := l.Hold(t.Context(), perMinute("a", 10))
		if err != nil {
			t.Fatal(err)
		}
		if d := takeNow(t, l, perMinute("b", 10)); d.OK {
			t.Errorf("%+v", d)
		}
		if _, _, err := l.HoldAll(t.Context(), perMinute("b", 10)); err != nil {
			t.Error(err)
		}
		wantStats(t, l, 0, 2)
		if got := errs.take(); len(got) != 1 || !errors.Is(got[0], keyed.ErrFull) {
			t.Errorf("told %v", got)
		}
		hold.Cancel()
	})
}

// With an Origin that does not answer, RefuseEvicted refuses as well. The failure of the Origin is
// told beside that.
func TestFullWithOrigin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var errs told
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{MaxKeys: 1, OnError: errs.add, Origin: origin})
		takeNow(t, l, perMinute("a", 10))
		takeNow(t, l, perMinute("b", 10))
		wantStats(t, l, 1, 0)
		errs.take()
		time.Sleep(time.Second)
		origin.Set(failing)
		if d := takeNow(t, l, perMinute("c", 10)); d.OK {
			t.Errorf("%+v", d)
		}
		if s := l.Stats(); s.Refused != 1 {
			t.Errorf("%+v, want one refusal", s)
		}
		if got := errs.take(); len(got) == 0 {
			t.Error("told nothing")
		}
		origin.Set(keyedtest.Faults{})
	})
}

// OnError may use the Limiter, and a slow one keeps no request waiting.
func TestFullOnErrorUsesLimiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var l *keyed.Limiter
		l = shared(t, keyed.Options{MaxKeys: 1, OnError: func(error) {
			time.Sleep(time.Hour)
			l.Len()
			takeNow(t, l, perMinute("c", 10))
		}})
		begin := time.Now()
		takeNow(t, l, perMinute("a", 10))
		takeNow(t, l, perMinute("b", 10))
		takeNow(t, l, perMinute("c", 10))
		if took := time.Since(begin); took > 0 {
			t.Errorf("requests waited %v", took)
		}
		time.Sleep(2 * time.Hour)
	})
}
