package ratelimit

import (
	"context"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

type (
	jobs = combine.Queue[*plan]
	job  = combine.Job[*plan]
)

// group makes a change in the next step, together with those of other goroutines that come at the
// same time: whoever gets the writer's token first makes the step for all.
func (s *ledger) group(ctx context.Context, m combine.Manner, decide func(*plan)) error {
	s.hope.Await(ctx)
	j := s.jobs.Add(m, decide)
	select {
	case <-s.writer:
		for !j.IsDone() {
			ctx := background
			if s.jobs.Decides() {
				ctx = deciding
			}
			s.step(ctx, (*plan).decideJobs)
		}
		s.writer <- struct{}{}
	case <-j.Done():
	case <-ctx.Done():
		if s.jobs.Withdraw(j) {
			return ctx.Err()
		}
		<-j.Done()
	}
	return nil
}

// decideJobs plans the first of the jobs that wait, and those that may be planned beside it.
func (p *plan) decideJobs() {
	p.jobs = p.s.jobs.Take()
	for i, j := range p.jobs {
		p.later = false
		if j.Decide(p); p.later && i > 0 {
			p.jobs = p.jobs[:i]
			break
		}
	}
	p.s.jobs.Keep(len(p.jobs))
}

// decides reports whether the plan says what others must not have changed.
func (p *plan) decides() bool {
	if !p.asked {
		return !p.empty() && !p.joins // it serves waiters; a plan that joins only ends what is of the dead
	}
	return slices.ContainsFunc(p.jobs, func(j *job) bool { return j.Manner.Decides() })
}

// planned is what a plan has planned for one model, beside which it decides on others.
type planned struct {
	cost  cost // what was charged, the least that the next decision has to add
	usage cost // the change of the minute, by settlements, too
	slots int  // the change of the calls in flight
}

func (b *planned) charge(c tokens.Count) {
	b.cost.Requests++
	b.cost.Count = b.cost.Count.Plus(c)
	b.change(1, c, tokens.Count{})
}

// change notes that requests and tokens come to the minute, and that tokens leave it.
func (b *planned) change(requests int, comes, leaves tokens.Count) {
	b.usage.Requests += requests
	b.usage.Input += comes.Input - leaves.Input
	b.usage.Output += comes.Output - leaves.Output
}

// show makes s, the usage of the model in memory, that after what was planned.
func (d *plannedDay) show(s *ModelStats) {
	b := &d.beside
	s.RPM += b.usage.Requests
	s.ITPM, s.OTPM = s.ITPM+b.usage.Input, s.OTPM+b.usage.Output
	s.TPM = tokens.AddSaturated(s.ITPM, s.OTPM)
	s.InFlight += b.slots
	if s.RPD, s.TPD = d.dayCount(), d.dayTokens(); s.RPD|s.TPD != 0 {
		s.DayStart = d.period.Shown
	}
}
