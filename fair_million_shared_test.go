// The same over three limiters of one store: one set of lines, whose order is that of the log.

package ratelimit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// wfqShared is a life in which each call is of one of three limiters. A limiter hears of the others
// a moment later, so when a call is served is only known to that; who is next is known exactly.
type wfqShared struct {
	*wfqLife
	limiters []*ratelimit.RateLimiter
	by       map[*wfqCall]*ratelimit.RateLimiter
}

// follow has the books follow what the limiters did, in the order of the log, until nobody is left
// who is to be served.
func (s *wfqShared) follow() {
	s.Helper()
	idle := 0
	for range 100 {
		time.Sleep(2 * sharedHandOver)
		back, served := s.returned(), false
		for len(back) > 0 {
			c := s.earliest(back)
			s.note("%v is served", c)
			s.serve(c)
			back = slices.DeleteFunc(back, func(other *wfqCall) bool { return other == c })
			served = true
		}
		s.now = time.Now()
		if len(s.next()) == 0 {
			return
		}
		if !served {
			if idle++; idle > 2 {
				s.fail("next is %v, and nobody is served", s.next())
			}
		}
	}
	s.fail("it goes on for ever")
}

// earliest returns which of the calls that have returned was served first: of those that were
// charged at one instant, one that is to be served.
func (s *wfqShared) earliest(back []*wfqCall) *wfqCall {
	s.Helper()
	for _, c := range back {
		if c.err != nil {
			s.fail("%v: %v", c, c.err)
		}
	}
	first := slices.MinFunc(back, func(a, b *wfqCall) int { return a.real[0].ReservedAt().Compare(b.real[0].ReservedAt()) })
	s.now = first.real[0].ReservedAt()
	next := s.next()
	for _, c := range back {
		if c.real[0].ReservedAt().Equal(s.now) && slices.Contains(next, c) {
			return c
		}
	}
	s.fail("%v is served, and next is %v", first, next)
	return nil
}

// draw draws a call. All are of one flow: processes agree on one turn of a call for all its lines,
// and do not write down the turn of a line without classes.
func (s *wfqShared) draw() *wfqCall {
	c := s.wfqLife.draw()
	c.flow = ""
	for i := range c.reqs {
		c.reqs[i].Flow = ""
	}
	s.by[c] = s.limiters[s.random.IntN(len(s.limiters))]
	return c
}

// come has a call wait.
func (s *wfqShared) come() {
	c := s.draw()
	s.note("%v comes", c)
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(s.Context())
	go func() {
		c.real, c.err = s.by[c].AcquireAll(ctx, c.reqs...)
		s.cameBack(c)
	}()
	synctest.Wait()
	verdict, _ := s.judge(c)
	refused := func(err error) {
		if back := s.returned(); len(back) != 1 || back[0] != c || !errors.Is(c.err, err) {
			s.fail("%v returned, want %v of %v", back, err, c)
		}
	}
	passes := s.passes(c, verdict)
	switch {
	case verdict.never:
		refused(ratelimit.ErrNeverFits)
	case !passes && s.isFull(c):
		refused(ratelimit.ErrQueueFull)
	default:
		c.stands = make(map[*wfqBook]*wfqPlace)
		for b := range s.demands(c) {
			c.stands[b] = b.line.enter(c, b.line.find(c.class, s.cfg.Classes[c.class]))
			if !b.pool {
				b.line.wake(c.stands[b])
			}
		}
		if s.waiting = append(s.waiting, c); !passes {
			s.judge(c)
		}
		s.follow()
	}
}

// reserve has a call come that does not wait.
func (s *wfqShared) reserve() {
	c := s.draw()
	verdict, _ := s.judge(c)
	want := s.passes(c, verdict)
	rs, d := s.by[c].ReserveAll(c.reqs...)
	s.note("%v asks: %s", c, d.Code)
	if d.Allowed != want || d.Never != verdict.never {
		s.fail("%v: %+v, want %t, never %t", c, d, want, verdict.never)
	}
	if d.Allowed {
		c.real, c.at = rs, s.now
		s.pass(c)
	}
	s.follow()
}

// finish settles an open call.
func (s *wfqShared) finish() {
	if len(s.open) == 0 {
		return
	}
	i := s.random.IntN(len(s.open))
	c := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	for i := range c.real {
		s.end(c, i)
		s.follow()
	}
}

// leave has a call that waits give up.
func (s *wfqShared) leave() {
	if len(s.waiting) == 0 {
		return
	}
	i := s.random.IntN(len(s.waiting))
	c := s.waiting[i]
	s.note("%v gives up", c)
	s.waiting = slices.Delete(s.waiting, i, i+1)
	c.cancel()
	synctest.Wait()
	s.mu.Lock()
	s.back = slices.DeleteFunc(s.back, func(other *wfqCall) bool { return other == c })
	s.mu.Unlock()
	if !c.returned || !errors.Is(c.err, context.Canceled) {
		s.fail("%v gave up, and returned %v", c, c.err)
	}
	for b, p := range c.stands {
		b.line.leave(p)
	}
	s.follow()
}

func (s *wfqShared) step() {
	switch n := s.random.IntN(100); {
	case n < 45:
		s.come()
	case n < 50:
		s.reserve()
	case n < 72:
		s.finish()
	case n < 77:
		s.leave()
	default:
		d := time.Duration(s.random.Int64N(int64(s.pick(1, 10, 20)) * int64(time.Second)))
		s.note("sleep %v", d)
		time.Sleep(d)
		s.follow()
	}
}

// play makes so many steps.
func (s *wfqShared) play(steps int) {
	s.now = time.Now()
	for step := range steps {
		if s.step(); step%8 == 0 {
			s.rl = s.limiters[s.random.IntN(len(s.limiters))]
			s.compare()
		}
	}
	s.compareAudits()
	s.close()
}

// compareAudits compares the sums of what the limiters have added up.
func (s *wfqShared) compareAudits() {
	var sums [3]map[string]ratelimit.AuditEntry
	for kind := range sums {
		sums[kind] = make(map[string]ratelimit.AuditEntry)
	}
	for _, rl := range s.limiters {
		a := rl.Audit()
		for kind, of := range []map[string]ratelimit.AuditEntry{a.Models, a.Pools, a.Classes} {
			for name, e := range of {
				sums[kind][name] = plusAudit(sums[kind][name], e)
			}
		}
	}
	s.sameAudit(sums)
}

func plusAudit(a, b ratelimit.AuditEntry) ratelimit.AuditEntry {
	plus := func(a, b ratelimit.AuditSum) ratelimit.AuditSum {
		return ratelimit.AuditSum{Calls: a.Calls + b.Calls, InputTokens: a.InputTokens + b.InputTokens,
			OutputTokens: a.OutputTokens + b.OutputTokens, Money: a.Money + b.Money}
	}
	return ratelimit.AuditEntry{
		Reserved: plus(a.Reserved, b.Reserved), Estimated: plus(a.Estimated, b.Estimated), Settled: plus(a.Settled, b.Settled),
		Released: plus(a.Released, b.Released), Expired: plus(a.Expired, b.Expired), Open: plus(a.Open, b.Open), Recorded: plus(a.Recorded, b.Recorded),
	}
}

func playShared(t *testing.T, overFile bool, seed uint64, steps int) {
	s := &wfqShared{wfqLife: drawWFQLife(t, seed), by: make(map[*wfqCall]*ratelimit.RateLimiter)}
	s.together = false
	s.limiters, _ = openThree(t, overFile, s.cfg)
	s.rl = s.limiters[0]
	s.play(steps)
}

func TestFairOracleOverProcesses(t *testing.T) {
	overBoth(t, func(t *testing.T, overFile bool) {
		lives, steps := times(12, 3, 200), times(100, 60, 500)
		if overFile {
			lives, steps = times(3, 1, 20), times(60, 40, 200)
		}
		for seed := range uint64(lives) {
			playShared(t, overFile, seed, steps)
		}
	})
}
