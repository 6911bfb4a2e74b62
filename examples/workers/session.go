package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
)

const (
	// idleEvery is how often the session reports why nothing happens.
	idleEvery = 10 * time.Second
	// endWithin bounds the time in which the workers must end; they need milliseconds.
	endWithin = 30 * time.Second
)

// session is one run of the program, in the process that starts the others.
type session struct {
	cfg     config
	out     io.Writer
	limiter *ratelimit.RateLimiter // sets the quota, and makes no calls
	crew    *crew
	audit   *audit
	started time.Time
	toldAt  time.Time // when a line was last printed
	loss    loss

	ending   bool
	failures []error
}

// loss is the worker that is killed, and the consequences.
type loss struct {
	due      bool // the next one that takes the last slot
	worker   int  // 0 if none was
	at       time.Time
	refilled time.Duration // until all slots were used again
	again    time.Time     // when it was started again
}

// openSession makes the database with the quota.
func openSession(cfg config, out io.Writer) (*session, error) {
	limiter, err := ratelimit.NewWithSQLiteConfig(cfg.db, ratelimit.Config{
		Shared: true,
		Margin: margin,
		Quotas: map[string]ratelimit.ModelQuota{
			model: {MaxRPM: cfg.rpm, MaxTPM: cfg.tpm, MaxInFlight: cfg.slots},
		},
	})
	if err != nil {
		return nil, err
	}
	crew, err := newCrew()
	if err != nil {
		return nil, errors.Join(err, limiter.Close())
	}
	return &session{cfg: cfg, out: out, limiter: limiter, crew: crew, audit: newAudit()}, nil
}

// close is called when the workers have ended.
func (s *session) close() error {
	s.crew.close()
	return s.limiter.Close()
}

// work has the workers work until their time is over, ctx ends or one of them
// fails, and reports.
func (s *session) work(ctx context.Context) error {
	s.started = time.Now()
	s.toldAt = s.started
	fmt.Fprintf(s.out, "%s, one quota: %s requests and %s tokens a minute, %s slots\n",
		demo.Count(s.cfg.workers, "worker"), demo.Limit(s.cfg.rpm), demo.Limit(s.cfg.tpm), demo.Limit(s.cfg.slots))
	fmt.Fprint(s.out, "What to look for: the counts reach the limits and never pass them; ")
	if s.cfg.kill > 0 {
		fmt.Fprintf(s.out, "a worker is killed after\nsome %v, and the others use its slot a moment later; ", s.cfg.kill)
	}
	fmt.Fprint(s.out, "when the minute is used up, all wait for\nits first call to leave it.\n\n")
	for worker := 1; worker <= s.cfg.workers; worker++ {
		s.start(worker)
	}
	s.watch(ctx)
	kept := s.checkKept()
	s.report()
	err := errors.Join(append(s.failures, s.verdict(), kept)...)
	s.conclude(err)
	if err == nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// watch shows the reports of the workers, until all of them have ended.
func (s *session) watch(ctx context.Context) {
	end, kill := time.After(s.cfg.length), timer(s.cfg.kill)
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	var again, tooLate <-chan time.Time
	interrupted := ctx.Done()
	for {
		if len(s.failures) > 0 {
			s.end()
		}
		if s.ending && tooLate == nil {
			tooLate = time.After(endWithin)
		}
		if s.ending && len(s.crew.running) == 0 {
			s.crew.close()
		}
		select {
		case n, ok := <-s.crew.news:
			if !ok {
				return
			}
			s.hear(n)
		case p := <-s.crew.exits:
			if s.exited(p) {
				again = time.After(s.cfg.away)
			}
		case <-kill:
			s.loss.due = true
		case <-again:
			s.restart()
		case <-idle.C:
			s.tellIdle()
		case <-end:
			s.end()
		case <-interrupted:
			interrupted = nil
			s.end()
		case <-tooLate:
			s.endHard()
		}
	}
}

// timer returns a timer; one of zero never fires.
func timer(after time.Duration) <-chan time.Time {
	if after == 0 {
		return nil
	}
	return time.After(after)
}

func (s *session) start(worker int) {
	if err := s.crew.start(job{worker: worker, db: s.cfg.db, call: s.cfg.call}); err != nil {
		s.failures = append(s.failures, err)
	}
}

// slots returns how many slots the workers can use concurrently.
func (s *session) slots() int {
	if s.cfg.slots == 0 {
		return s.cfg.workers
	}
	return min(s.cfg.slots, s.cfg.workers)
}

// hear notes and shows the report of a worker. A worker that is due to be killed is the
// one just admitted: it holds the last slot.
func (s *session) hear(n news) {
	if n.err != nil {
		s.failures = append(s.failures, n.err)
		return
	}
	s.audit.add(n.event)
	if n.event.Done {
		return
	}
	s.tellAdmitted(n.event)
	switch {
	case s.audit.atOnce() < s.slots():
	case s.loss.due && !s.ending:
		s.kill(n.event)
	case s.loss.worker > 0 && s.loss.refilled == 0:
		s.loss.refilled = time.Since(s.loss.at)
		s.tell("all %d slots are used again, %.2fs after that", s.slots(), s.loss.refilled.Seconds())
	}
}

// kill kills the worker that told of an admission.
func (s *session) kill(e event) {
	s.loss = loss{worker: e.Worker, at: time.Now()}
	s.audit.lose(e.PID)
	s.tell("worker %d is killed in the middle of this call", e.Worker)
	if err := s.crew.kill(e.Worker); err != nil {
		s.failures = append(s.failures, err)
	}
}

// exited notes that a worker has ended, and reports whether it is to be started
// again.
func (s *session) exited(p *process) (again bool) {
	s.crew.ended(p)
	switch {
	case p.killed:
		return !s.ending
	case p.err != nil:
		s.failures = append(s.failures, fmt.Errorf("worker %d: %w", p.worker, p.err))
	case !s.ending:
		s.failures = append(s.failures, fmt.Errorf("worker %d ended too early", p.worker))
	}
	return false
}

func (s *session) restart() {
	if s.ending {
		return
	}
	s.loss.again = time.Now()
	s.tell("worker %d is started again", s.loss.worker)
	s.start(s.loss.worker)
}

// end has the workers end. From then on none is started.
func (s *session) end() {
	if !s.ending {
		s.ending = true
		s.crew.dismiss()
	}
}

// endHard ends those workers that do not end.
func (s *session) endHard() {
	for worker := range s.crew.running {
		s.failures = append(s.failures, fmt.Errorf("worker %d did not end within %v", worker, endWithin), s.crew.kill(worker))
	}
}

// verdict returns an error for each quota that the workers exceeded.
func (s *session) verdict() error {
	requests, tokens := s.audit.fullest()
	var errs []error
	for _, limit := range []struct {
		what      string
		used, max int
	}{
		{"requests in a minute", requests, s.cfg.rpm},
		{"tokens in a minute", tokens, s.cfg.tpm},
		{"calls at once", s.audit.most, s.cfg.slots},
	} {
		if limit.max > 0 && limit.used > limit.max {
			errs = append(errs, fmt.Errorf("quota exceeded: %d %s, want %d at most", limit.used, limit.what, limit.max))
		}
	}
	return errors.Join(errs...)
}

// checkKept checks that the database counts all calls that the workers told of, also
// those of the one that was killed.
func (s *session) checkKept() error {
	counted := s.limiter.Stats(model).RPM
	if told, _ := s.audit.minute(time.Now()); counted < told {
		return fmt.Errorf("calls lost: the database counts %d in the last minute, the workers made %d", counted, told)
	}
	return nil
}
