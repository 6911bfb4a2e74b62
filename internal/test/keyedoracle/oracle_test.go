// One process against the model, call by call.

package keyedoracle_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

// session makes random calls to a limiter and to the model, and compares each answer.
type session struct {
	t        *testing.T
	random   *rand.Rand
	lim      *keyed.Limiter
	model    *model
	requests []keyed.Request // one for each counter, with its usual limit
	holds    []openHold
	calls    []string
}

type openHold struct {
	hold    keyed.Hold
	request keyed.Request
}

var day = 24 * time.Hour

// Windows from the shortest to the longest, and some that nothing divides.
var windows = []time.Duration{
	time.Millisecond, time.Millisecond + 1, 7777777 * time.Nanosecond, time.Second, time.Minute, day, 400 * day,
}

func TestOneProcessDecidesAsTheModel(t *testing.T) {
	for seed := range uint64(times(160, 8000)) {
		synctest.Test(t, func(t *testing.T) {
			s := newSession(t, seed)
			for range 250 {
				s.step()
				if t.Failed() {
					t.Fatalf("seed %d:\n%s", seed, strings.Join(s.calls[max(0, len(s.calls)-40):], "\n"))
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

func newSession(t *testing.T, seed uint64) *session {
	s := &session{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), lim: newLimiter(t, keyed.Options{}), model: newModel(),
	}
	// Few counters, some of which differ in one part of their identity only.
	for _, name := range [][2]string{{"a", "b"}, {"a-b", "c"}, {"a", "b-c"}, {"ab", ""}} {
		if name[1] == "" {
			name[1] = name[0]
		}
		window := windows[s.random.IntN(len(windows))]
		s.requests = append(s.requests, keyed.Request{
			Namespace: name[0], Key: name[1], Window: window, Limit: s.limit(),
		})
	}
	s.requests = append(s.requests, s.requests[0])
	s.requests[len(s.requests)-1].Window = windows[s.random.IntN(len(windows))]
	time.Sleep(time.Duration(s.random.Int64N(int64(day))))
	return s
}

func (s *session) limit() int {
	switch s.random.IntN(8) {
	case 0:
		return math.MaxInt - int(s.random.IntN(3))
	case 1:
		return math.MaxInt/2 + 1 + int(s.random.IntN(3)) - 1
	case 2:
		return 1
	case 3:
		return 1 + s.random.IntN(min(1<<40, math.MaxInt))
	}
	return int(1 + s.random.Int64N(30))
}

// step lets some time pass, or makes a call.
func (s *session) step() {
	switch n := s.random.IntN(20); {
	case n < 6:
		s.advance()
	case n < 12:
		r := s.request()
		now := s.now(r)
		want := s.model.take(now, r)
		got, err := s.lim.TakeAt(context.Background(), now, r)
		s.compare("take", now, r, got, want, err)
	case n < 15:
		s.batch()
	case n < 17:
		s.holdSome()
	case n == 17 && s.random.IntN(3) == 0:
		s.reset()
	default:
		s.endSome()
	}
}

// advance lets time pass to the instants at which decisions change, and to any others.
func (s *session) advance() {
	window := s.anyCounter().Window
	_, left := newModelCounter(window).split(nanos(time.Now()))
	pause := time.Duration(left.Int64()) // to the next cell
	switch s.random.IntN(8) {
	case 0:
		pause--
	case 1:
		pause++
	case 2:
	case 3:
		pause += window
	case 4:
		pause += window * time.Duration(s.random.IntN(4))
	default:
		pause = time.Duration(s.random.Int64N(int64(window)))
	}
	s.say("sleep %v", pause)
	time.Sleep(pause)
}

// now returns an instant for a request: mostly the present, and sometimes an earlier one, as if
// clocks were set. It is the present for a counter without effect: that may be forgotten, and an
// instant before that counts as when it was.
func (s *session) now(r keyed.Request) time.Time {
	now := time.Now()
	if c := s.model.counter(r); c.effective(c.from(now)).Sign() == 0 {
		return now
	}
	switch s.random.IntN(12) {
	case 0:
		return now.Add(-1)
	case 1:
		return now.Add(-time.Duration(s.random.Int64N(int64(r.Window))))
	case 2:
		return now.Add(-r.Window * time.Duration(s.random.IntN(4)))
	}
	return now
}

func (s *session) anyCounter() keyed.Request { return s.requests[s.random.IntN(len(s.requests))] }

// request returns a request of any cost for a counter, sometimes with another limit than the last.
func (s *session) request() keyed.Request {
	i := s.random.IntN(len(s.requests))
	if s.random.IntN(12) == 0 {
		s.requests[i].Limit = s.limit()
	}
	r := s.requests[i]
	r.Cost = int(s.cost(int(int64(r.Limit))))
	return r
}

func (s *session) cost(limit int) int {
	switch s.random.IntN(10) {
	case 0:
		return -s.random.IntN(2) // 0 or Free
	case 1:
		return limit
	case 2:
		if limit < math.MaxInt {
			return limit + 1
		}
		return limit
	case 3:
		return limit/2 + 1
	case 4:
		return math.MaxInt
	case 5:
		return math.MaxInt/2 + 1
	}
	return min(1+s.random.IntN(1+limit/4), limit)
}

// batch asks for several requests at once. Whether all of them pass is what the model says; then
// each counter is compared, for a refusal must leave all as it was.
func (s *session) batch() {
	requests := make([]keyed.Request, 1+s.random.IntN(4))
	now := time.Now()
	for i := range requests {
		requests[i] = s.anyCounter()
		if requests[i].Cost = int(s.cost(int(int64(requests[i].Limit)))); s.random.IntN(2) == 0 {
			requests[i].Cost = min(requests[i].Cost, 1+s.random.IntN(3))
		}
	}
	before := append([]keyed.Request(nil), requests...)
	want, passed := s.model.takeMany(now, requests)
	got, err := s.lim.TakeAllAt(context.Background(), now, requests...)
	s.say("take many %v: %v %v", requests, got, err)
	switch {
	case err != nil || len(got) != len(requests):
		s.t.Fatalf("%d decisions, error %v", len(got), err)
	case fmt.Sprint(before) != fmt.Sprint(requests):
		s.t.Error("the slice of the caller has changed")
	}
	for i, r := range requests {
		if d := (limit.Decision{OK: got[i].OK, RetryAfter: got[i].RetryAfter, Never: got[i].Never}); d != want[i] {
			s.t.Errorf("batch of %d, passed %v: %s:\ngot  %+v\nwant %+v", len(got), passed, describeRequest(r), d, want[i])
		}
		peek, err := s.lim.PeekAt(context.Background(), now, r)
		s.compare("peek after a batch", now, r, peek, s.model.decide(now, r), err)
	}
}

// reset begins a counter anew, and looks at it: its holds are all that is left.
func (s *session) reset() {
	r := s.request()
	now := s.now(r)
	err := s.lim.ResetAt(now, r.Namespace, r.Key, r.Window)
	s.say("reset %s: %v", describeRequest(r), err)
	s.model.reset(now, r)
	got, peeked := s.lim.PeekAt(context.Background(), now, r)
	s.compare("peek after a reset", now, r, got, s.model.decide(now, r), errors.Join(err, peeked))
}

func (s *session) holdSome() {
	r := s.request()
	now := s.now(r)
	want := s.model.hold(now, r)
	h, got, err := s.lim.HoldAt(context.Background(), now, r)
	s.compare("hold", now, r, got, want, err)
	if got.OK {
		s.holds = append(s.holds, openHold{h, r})
		return
	}
	h.Commit(min(1<<40, math.MaxInt)) // of a refusal: ended already
	h.Cancel()
}

// endSome ends a hold, with more or less than it had, and ends it again.
func (s *session) endSome() {
	if len(s.holds) == 0 {
		return
	}
	i := s.random.IntN(len(s.holds))
	h := s.holds[i]
	s.holds = append(s.holds[:i], s.holds[i+1:]...)
	cost := int64(0)
	switch s.random.IntN(4) {
	case 0:
		h.hold.Cancel()
	case 1:
		h.hold.Commit(int(-1 - s.random.Int64N(5))) // counts as nothing
	case 2:
		cost = units(h.request)
		h.hold.Commit(int(cost))
	default:
		if cost = min(s.random.Int64N(2*min(units(h.request), 1<<40)+1), math.MaxInt); s.random.IntN(20) == 0 {
			cost = math.MaxInt
		}
		h.hold.Commit(int(cost))
	}
	s.say("end %s with %d", describeRequest(h.request), cost)
	s.model.end(time.Now(), h.request, cost)
	h.hold.Commit(7)
	h.hold.Cancel()
	r, now := h.request, time.Now()
	got, err := s.lim.PeekAt(context.Background(), now, r)
	s.compare("peek after a hold", now, r, got, s.model.decide(now, r), err)
}

func (s *session) compare(call string, now time.Time, r keyed.Request, got, want limit.Decision, err error) {
	ago := time.Since(now)
	s.say("%s %s, %v ago: %+v %v", call, describeRequest(r), ago, got, err)
	if got != want || err != nil {
		s.t.Errorf("%s %s, %v ago:\ngot  %+v, %v\nwant %+v", call, describeRequest(r), ago, got, err, want)
	}
}

func (s *session) say(format string, args ...any) {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

// What is refused with an error changes nothing, and the error names the field and the value.
func TestBadInput(t *testing.T) {
	good := keyed.Request{Namespace: "n", Key: "k", Limit: 10, Window: time.Second, Cost: 1}
	for _, c := range []struct {
		change func(*keyed.Request)
		words  []string
	}{
		{func(r *keyed.Request) { r.Namespace = "" }, []string{"Namespace"}},
		{func(r *keyed.Request) { r.Key = "" }, []string{"Key"}},
		{func(r *keyed.Request) { r.Limit = 0 }, []string{"Limit", "0"}},
		{func(r *keyed.Request) { r.Limit = -7 }, []string{"Limit", "-7"}},
		{func(r *keyed.Request) { r.Cost = -2 }, []string{"Cost", "-2"}},
		{func(r *keyed.Request) { r.Cost = math.MinInt }, []string{"Cost", strconv.Itoa(math.MinInt)}},
		{func(r *keyed.Request) { r.Window = 0 }, []string{"Window", "0s"}},
		{func(r *keyed.Request) { r.Window = time.Millisecond - 1 }, []string{"Window", "999.999µs"}},
		{func(r *keyed.Request) { r.Window = 400*day + 1 }, []string{"Window", "9600h0m0.000000001s"}},
		{func(r *keyed.Request) { r.Window = -time.Second }, []string{"Window", "-1s"}},
	} {
		lim := newLimiter(t, keyed.Options{})
		bad := good
		c.change(&bad)
		ctx, now := context.Background(), time.Now()
		_, err := lim.TakeAt(ctx, now, bad)
		_, peeked := lim.PeekAt(ctx, now, bad)
		_, many := lim.TakeAllAt(ctx, now, good, bad)
		h, _, held := lim.HoldAt(ctx, now, bad)
		h.Commit(5)
		for _, err := range []error{err, peeked, many, held} {
			if !errors.Is(err, keyed.ErrInvalid) || !errors.Is(err, limit.ErrInvalid) {
				t.Fatalf("%s: error %v", describeRequest(bad), err)
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: error %q lacks %q", describeRequest(bad), err, word)
				}
			}
		}
		if n := count(t, lim, now, good); n != 0 {
			t.Errorf("%s: %d charged", describeRequest(bad), n)
		}
	}
}
