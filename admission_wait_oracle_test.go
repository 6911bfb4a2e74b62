// Random traffic with calls that wait, against the model of admission.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// guest is a call that may wait: Acquire, AcquireAll or WaitForCapacity.
type guest struct {
	kind     string
	reqs     []ratelimit.Request
	books    []*ledger
	deadline time.Time // zero for none
	cancel   context.CancelFunc
	gone     bool // its context was cancelled

	at  time.Time // when the call returned; zero before
	rs  ratelimit.Reservations
	err error
}

const (
	acquire    = "acquire"
	acquireAll = "acquire all"
	waitForOne = "wait"
)

// call runs in its own goroutine.
func (g *guest) call(ctx context.Context, s *traffic) {
	var rs ratelimit.Reservations
	var err error
	switch first := g.reqs; g.kind {
	case acquire:
		var r *ratelimit.Reservation
		if r, err = s.rl.Acquire(ctx, first[0].Model, first[0].PromptTokens, first[0].OutputTokens); r != nil {
			rs = append(rs, r)
		}
	case waitForOne:
		err = s.rl.WaitForCapacity(ctx, first[0].Model, first[0].PromptTokens)
	default:
		rs, err = s.rl.AcquireAll(ctx, g.reqs...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.at, g.rs, g.err = time.Now(), rs, err
	s.returned = append(s.returned, g)
}

// comeOrGo lets one come who may have to wait, or one go who does.
func (s *traffic) comeOrGo() {
	if n := len(s.guests); n > 0 && s.next()%4 == 0 {
		g := s.guests[s.next()%n]
		s.note("leaves: %v", g)
		g.gone = true
		g.cancel()
		return
	}
	g := &guest{kind: choose(s, acquire, acquire, acquireAll, waitForOne)}
	n := 1
	if g.kind == acquireAll {
		n = s.next() % 4
	}
	for range n {
		req := s.drawRequest()
		if g.kind == waitForOne {
			req.OutputTokens = 0
		}
		g.reqs = append(g.reqs, req)
	}
	if n > 1 {
		for i := range g.reqs {
			g.reqs[i].PromptTokens /= 2
			g.reqs[i].OutputTokens /= 2
		}
	}
	g.books = s.booksOf(g.reqs)
	ctx, cancel := context.WithCancel(s.Context())
	toRetry := max(s.retryAt.Sub(s.now), 1)
	wait := choose(s, 0, 0, 0, 1, 10*time.Second, time.Minute, time.Minute+1, toRetry, toRetry-1, time.Hour, -1)
	if wait > 0 {
		g.deadline = s.now.Add(wait)
		ctx, cancel = context.WithDeadline(ctx, g.deadline)
	} else if wait == -1 {
		cancel()
		g.gone = true
	}
	g.cancel = cancel
	s.note("comes: %v", g)
	go g.call(ctx, s)
	synctest.Wait()
	s.enter(g)
}

func (g *guest) String() string {
	return fmt.Sprintf("%s %+v until %v", g.kind, g.reqs, g.deadline)
}

// enter holds what happens at once against the oracle.
func (s *traffic) enter(g *guest) {
	negative := slices.ContainsFunc(g.reqs, func(req ratelimit.Request) bool { return min(req.PromptTokens, req.OutputTokens) < 0 })
	all, _, _ := s.judgeAll(g.reqs, s.now)
	queued := slices.ContainsFunc(g.books, func(l *ledger) bool { return l.waiting > 0 })
	full := slices.ContainsFunc(g.books, func(l *ledger) bool { return s.mostWait > 0 && l.waiting >= s.mostWait })
	switch {
	case g.gone:
		s.expect(g, context.Canceled, false)
	case negative:
		s.expect(g, ratelimit.ErrInvalidTokens, false)
	case all.allowed && !queued:
		s.admit(g, s.now)
	case all.never:
		s.expect(g, ratelimit.ErrNeverFits, true)
	case s.isHopeless(g, all, s.now):
		s.expect(g, context.DeadlineExceeded, true)
	case full:
		s.expect(g, ratelimit.ErrQueueFull, true)
	default:
		s.guests = append(s.guests, g)
		for _, l := range g.books {
			l.waiting++
		}
	}
}

// isHopeless reports whether the requests cannot pass in time even alone and with all that is
// open given back. The limiter knows the open calls of a model as sums, so it may let a request wait
// in vain for what has left the minute by then, but refuses none that could pass.
func (s *traffic) isHopeless(g *guest, v verdict, now time.Time) bool {
	if g.deadline.IsZero() || !now.Add(v.wait).After(g.deadline) || s.passesFreed(g) {
		return false
	}
	return !s.passesBySums(g) || s.isBack(g, now) && errors.Is(g.err, context.DeadlineExceeded)
}

// isBack reports whether the call of a guest has returned at an instant.
func (s *traffic) isBack(g *guest, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.at.Equal(at) && slices.Contains(s.returned, g)
}

// demands adds up what the requests of a guest ask of each model.
func (s *traffic) demands(g *guest) map[*ledger]demand {
	demands := make(map[*ledger]demand)
	for _, req := range g.reqs {
		a := demands[s.books[req.Model]]
		demands[s.books[req.Model]] = demand{a.requests + 1, addCapped(a.input, req.PromptTokens), addCapped(a.output, req.OutputTokens)}
	}
	return demands
}

// passes reports whether a demand passes at the deadline of a guest.
func (l *ledger) passes(g *guest, a demand) bool {
	return (!l.known || l.unlimited() || len(l.denied(g.deadline, a)) == 0) && !l.cool.After(g.deadline)
}

// passesFreed reports whether the requests would pass at the deadline if all calls that are open
// had been cancelled or, if they have arrived, settled without tokens.
func (s *traffic) passesFreed(g *guest) bool {
	for l, a := range s.demands(g) {
		freed := *l
		freed.charges, freed.inFlight = slices.Clone(l.charges), 0
		if l.day != nil {
			day := *l.day
			freed.day = &day
		}
		for _, b := range s.bookings {
			if b.book != l || b.settled || b.forgotten() {
				continue
			}
			freed.remove(b.charge)
			given := 1 // requests
			if b.hasArrived {
				freed.charges = append(freed.charges, &charge{b.at, 1, 0, 0})
				given = 0
			}
			if l.day != nil && b.day == l.day {
				freed.day.requests -= given
				freed.day.tokens -= b.input + b.output
			}
		}
		if !freed.passes(g, a) {
			return false
		}
	}
	return true
}

// passesBySums reports whether the requests would pass at the deadline if all that open calls have
// charged, whenever that was, could be given back beside what has left the minute by then.
func (s *traffic) passesBySums(g *guest) bool {
	for l, a := range s.demands(g) {
		freed := *l
		freed.inFlight = 0
		raise := func(limit *int, by int) {
			if *limit > 0 && !freed.tooLarge(a) {
				*limit = addCapped(*limit, by)
			}
		}
		for _, b := range s.bookings {
			if b.book != l || b.settled {
				continue
			}
			if q := &freed.quota; !b.hasArrived {
				raise(&q.MaxRPM, 1)
				raise(&q.MaxRPD, 1)
			}
			raise(&freed.quota.MaxITPM, b.input)
			raise(&freed.quota.MaxOTPM, b.output)
			raise(&freed.quota.MaxTPM, b.input+b.output)
			raise(&freed.quota.MaxTPD, b.input+b.output)
		}
		if !freed.passes(g, a) {
			return false
		}
	}
	return true
}

// take takes a guest from those that have returned.
func (s *traffic) take(g *guest, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.returned, g)
	if i < 0 || !g.at.Equal(at) {
		return false
	}
	s.returned = slices.Delete(s.returned, i, i+1)
	return true
}

// expect says that a guest is refused at this instant.
func (s *traffic) expect(g *guest, want error, limit bool) {
	if !s.take(g, s.now) {
		s.fail("%v did not return, want %v", g, want)
	}
	s.checkRefusal(g, want, limit)
}

func (s *traffic) checkRefusal(g *guest, want error, limit bool) {
	var limited *ratelimit.LimitError
	if !errors.Is(g.err, want) || errors.As(g.err, &limited) != limit || len(g.rs) > 0 {
		s.fail("%v: error %v with %d reservations, want %v", g, g.err, len(g.rs), want)
	}
	if limit && (limited.Decision.Allowed || limited.Decision.Never != (want == ratelimit.ErrNeverFits) || limited.Decision.Model != limited.Model) {
		s.fail("%v: %v: %+v", g, g.err, limited)
	}
}

// admit says that a guest passes at an instant, and charges it.
func (s *traffic) admit(g *guest, at time.Time) {
	if !s.take(g, at) {
		s.fail("%v returned at %v (%v), the oracle lets it pass at %v", g, g.at, g.err, at)
	}
	if g.err != nil {
		s.fail("%v: error %v, the oracle lets it pass", g, g.err)
	}
	s.note("passes: %v", g)
	if g.kind == waitForOne {
		return
	}
	if len(g.rs) != len(g.reqs) {
		s.fail("%v: %d reservations", g, len(g.rs))
	}
	for i, req := range g.reqs {
		s.bookings = append(s.bookings, s.books[req.Model].book(at, req.Model, g.rs[i], req.PromptTokens, req.OutputTokens))
	}
}

// standDown takes a guest out of its lines.
func (s *traffic) standDown(g *guest) {
	s.guests = slices.DeleteFunc(s.guests, func(other *guest) bool { return other == g })
	for _, l := range g.books {
		l.waiting--
	}
}

// sync brings the oracle to the present, and holds against it who has returned
// meanwhile, and when.
func (s *traffic) sync() {
	s.now = time.Now()
	synctest.Wait()
	for {
		s.mu.Lock()
		at := s.now
		for _, g := range s.returned {
			if g.at.Before(at) {
				at = g.at
			}
		}
		s.mu.Unlock()
		s.serve(at)
		if at.Equal(s.now) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.returned) > 0 {
		g := s.returned[0]
		s.fail("%v returned at %v (%v), and the oracle does not know why", g, g.at, g.err)
	}
}

// serve does what happens to the waiters at an instant.
func (s *traffic) serve(at time.Time) {
	if s.ttl > 0 {
		for _, b := range s.bookings {
			if !at.Before(b.admitted.Add(s.ttl)) {
				b.settle()
			}
		}
	}
	for s.serveOne(at) {
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.guests {
		if g.gone || !g.deadline.IsZero() && !at.Before(g.deadline) {
			s.fail("%v still waits", g)
		}
	}
	for _, g := range s.returned {
		if !g.at.After(at) {
			s.fail("%v returned at %v (%v), and the oracle does not know why", g, g.at, g.err)
		}
	}
}

// serveOne finds one who has to go at an instant.
func (s *traffic) serveOne(at time.Time) bool {
	for i, g := range s.guests {
		all, _, _ := s.judgeAll(g.reqs, at)
		back := s.isBack(g, at)
		ended := g.gone || g.deadline.Equal(at)
		first := !slices.ContainsFunc(s.guests[:i], func(other *guest) bool {
			return slices.ContainsFunc(other.books, func(l *ledger) bool { return slices.Contains(g.books, l) })
		})
		switch {
		case ended && back && (errors.Is(g.err, context.Canceled) || errors.Is(g.err, context.DeadlineExceeded)):
			// its context's end and its turn may come in the same instant
		case all.never:
			if !back {
				s.fail("%v waits in vain", g)
			}
			s.checkRefusal(g, ratelimit.ErrNeverFits, true)
		case s.isHopeless(g, all, at) && (first || back):
			if !back {
				s.fail("%v waits in vain until %v", g, g.deadline)
			}
			s.checkRefusal(g, context.DeadlineExceeded, true)
			var limited *ratelimit.LimitError
			// Of several things in one instant of a sleep, the oracle does not know the order.
			if errors.As(g.err, &limited); !s.rests && (limited.Decision.Code != all.code || limited.Decision.RetryAfter != all.retry) {
				s.fail("%v: %v: %+v, oracle %+v", g, g.err, limited, all)
			}
		case first && all.allowed:
			s.standDown(g)
			s.admit(g, at)
			return true
		default:
			continue
		}
		s.note("refused: %v: %v", g, g.err)
		s.take(g, at)
		s.standDown(g)
		return true
	}
	return false
}

// rest sleeps, and looks at every instant at which somebody may pass.
func (s *traffic) rest(d time.Duration) {
	s.rests = true
	defer func() { s.rests = false }()
	for until := s.now.Add(d); ; {
		next := until
		look := func(at time.Time) {
			if at.After(s.now) && at.Before(next) {
				next = at
			}
		}
		if len(s.guests) > 0 {
			for _, name := range s.names {
				l := s.books[name]
				for _, c := range l.charges {
					look(c.at.Add(l.span + 1))
				}
				if look(l.cool); l.day != nil {
					look(l.day.end)
				}
			}
			for _, b := range s.bookings {
				if s.ttl > 0 && !b.settled {
					look(b.admitted.Add(s.ttl))
				}
			}
			for _, g := range s.guests {
				look(g.deadline)
			}
		}
		time.Sleep(next.Sub(s.now))
		s.sync()
		if s.crowd && !s.lazy {
			s.compare()
		}
		if !s.now.Before(until) {
			return
		}
	}
}

// closeDoors sends all away who wait.
func (s *traffic) closeDoors() {
	for _, g := range s.guests {
		g.gone = true
		g.cancel()
	}
	s.sync()
	for _, name := range s.names {
		if waiting := s.rl.Stats(name).Waiting; waiting != 0 {
			s.fail("%s: %d wait after all have left", name, waiting)
		}
	}
}

func TestAcquireAgreesWithOracle(t *testing.T) {
	t.Parallel()
	for seed := range uint64(times(100, 25, 1000)) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { playTraffic(t, append([]byte{1}, randomScript(seed, 13, 2000)...)) }) {
			return
		}
	}
}
