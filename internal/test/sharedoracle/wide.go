package sharedoracle

import (
	"context"
	"errors"
	"slices"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// waiting is the same call of AcquireAll twice, by one of the shared limiters and alone.
type waiting struct {
	by            int
	requests      []ratelimit.Request
	stop          context.CancelFunc
	shared, alone *acquiring
}

// acquiring is a call of AcquireAll under way. over is closed after the rest was set.
type acquiring struct {
	over chan struct{}
	made ratelimit.Reservations
	err  error
}

func acquire(ctx context.Context, rl *ratelimit.RateLimiter, requests []ratelimit.Request) *acquiring {
	a := &acquiring{over: make(chan struct{})}
	go func() {
		defer close(a.over)
		a.made, a.err = rl.AcquireAll(ctx, requests...)
	}()
	synctest.Wait() // so that it is in line before what comes next
	return a
}

func (a *acquiring) isOver() bool {
	select {
	case <-a.over:
		return true
	default:
		return false
	}
}

// endsEarly reports whether a call was refused because it cannot pass before its deadline, and ends
// the other one, which is to find that out later: limiters know the times of open reservations to a
// few seconds only.
func (w *waiting) endsEarly(refused, other *acquiring) bool {
	if !errors.Is(refused.err, context.DeadlineExceeded) {
		return false
	}
	w.stop()
	<-other.over
	return other.err != nil
}

// wideStep is a step of those that a session makes with Setup.Wide alone.
func (s *Session) wideStep() {
	i := s.Random.IntN(len(s.shared))
	s.by = i
	switch p := s.Random.IntN(100); {
	case p < 35:
		s.reserveAll(i)
	case p < 53 && len(s.waiting) > 0: // of which another one passes at each limiter that has learned
	case p < 50:
		s.observe()
	case p < 53:
		s.forget()
	case p < 85:
		s.wait(i)
	case len(s.waiting) > 0:
		w := s.waiting[s.Random.IntN(len(s.waiting))]
		s.say("%d: gives up %+v", w.by, w.requests)
		w.stop()
	}
}

func (s *Session) requests() (requests []ratelimit.Request) {
	for range 1 + s.Random.IntN(3) {
		requests = append(requests, ratelimit.Request{Model: s.model(), PromptTokens: s.Random.IntN(100), OutputTokens: s.Random.IntN(100)})
	}
	return requests
}

func (s *Session) reserveAll(i int) {
	requests := s.requests()
	rs, d := s.shared[i].ReserveAll(requests...)
	ra, da := s.alone.ReserveAll(requests...)
	s.say("%d: ReserveAll %+v: %s", i, requests, d.Code)
	if !s.sameDecision(d, da) {
		s.t.Errorf("ReserveAll is %+v, alone %+v", d, da)
	}
	s.opened(i, rs, ra)
}

func (s *Session) opened(i int, shared, alone ratelimit.Reservations) {
	for n := range min(len(shared), len(alone)) {
		s.open = append(s.open, pair{i, shared[n], alone[n]})
	}
}

// observe tells all limiters of a provider's report. What others use of an account is not shared:
// each limiter gets its own reports.
func (s *Session) observe() {
	model := s.model()
	if model == paced { // see reopen, which has the limiters forget
		model = "a"
	}
	report := func(most int) ratelimit.ProviderLimit { return ratelimit.ProviderLimit{Limit: 1 + s.Random.IntN(most)} }
	limits := ratelimit.ProviderLimits{RPM: report(20)}
	if s.Random.IntN(2) == 0 {
		limits.TPM = report(1000)
	}
	s.say("all: Observe %s %+v", model, limits)
	for _, rl := range s.shared {
		s.setup.catchUp(s.t, rl)
		rl.Observe(model, limits)
	}
	s.alone.Observe(model, limits)
}

// forget has all limiters forget what they have learned of quotas.
func (s *Session) forget() {
	s.say("all: ForgetLearned")
	for _, rl := range s.shared {
		rl.ForgetLearned("")
	}
	s.alone.ForgetLearned("")
}

// wait has a limiter wait, for a while or until the session ends.
func (s *Session) wait(i int) {
	ctx, stop := context.WithCancel(s.t.Context())
	if s.Random.IntN(3) == 0 {
		limit := s.duration(3*time.Minute) + s.setup.Grain/2
		ctx, stop = context.WithTimeout(s.t.Context(), limit)
	}
	w := &waiting{by: i, requests: s.requests(), stop: stop}
	s.say("%d: AcquireAll %+v", i, w.requests)
	w.shared = acquire(ctx, s.shared[i], w.requests)
	w.alone = acquire(ctx, s.alone, w.requests)
	s.waiting = append(s.waiting, w)
}

// served lets a grain of time go by, in which limiters hear of each other, and compares which of
// the waits are over.
func (s *Session) served() {
	for _, rl := range s.shared {
		s.setup.catchUp(s.t, rl)
		rl.Err() // which reads, too
	}
	s.setup.sleep(s.setup.Grain)
	synctest.Wait()
	if slices.ContainsFunc(s.waiting, func(w *waiting) bool { return w.shared.isOver() != w.alone.isOver() }) {
		s.setup.sleep(s.setup.Near) // one of them was about to end
		synctest.Wait()
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiting) bool {
		shared, alone := w.shared.isOver(), w.alone.isOver()
		switch {
		case shared && !alone && w.endsEarly(w.shared, w.alone), alone && !shared && w.endsEarly(w.alone, w.shared):
			s.say("%d: AcquireAll %+v is refused by one of the two", w.by, w.requests)
		case shared != alone:
			s.t.Errorf("%v: the wait of limiter %d for %+v is over: %t, alone %t", time.Now(), w.by, w.requests, shared, alone)
		case !shared:
			return false
		case !sameError(w.shared.err, w.alone.err):
			s.t.Errorf("the wait of limiter %d for %+v ends with %v, alone %v", w.by, w.requests, w.shared.err, w.alone.err)
		case shared:
			s.say("%d: AcquireAll %+v ended: %v", w.by, w.requests, w.shared.err)
			for n, r := range w.shared.made {
				if at, alone := r.ReservedAt(), w.alone.made[n].ReservedAt(); !s.sameTime(at, alone) {
					s.t.Errorf("limiter %d admits %+v at %v, alone at %v", w.by, w.requests, at, alone)
				}
			}
			s.opened(w.by, w.shared.made, w.alone.made)
		}
		w.stop()
		return true
	})
}

// sameError reports whether callers tell two errors of a wait apart.
func sameError(a, b error) bool {
	for _, target := range []error{
		context.Canceled, context.DeadlineExceeded, ratelimit.ErrNeverFits, ratelimit.ErrQueueFull, ratelimit.ErrClosed,
	} {
		if errors.Is(a, target) != errors.Is(b, target) {
			return false
		}
	}
	return (a == nil) == (b == nil)
}

// stopWaiting ends the waits of a limiter.
func (s *Session) stopWaiting(i int) {
	for _, w := range s.waiting {
		if w.by == i {
			w.stop()
		}
	}
	if s.setup.Wide {
		s.served()
	}
}
