package ratelimit

import (
	"context"
	"slices"
	"sync"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// manner says how a change may be written to a store on another machine. A log on this machine has
// each change written by itself.
type manner int

const (
	// apart is written by itself, and only if the limiter knew all that others had written.
	apart manner = iota
	// beside may be decided beside others, and is written like a change that is apart.
	beside
	// appended decides nothing. It may be planned beside others, and is written whatever others
	// have written.
	appended
	// appendedApart decides nothing, and is planned by itself.
	appendedApart
)

func (m manner) joins() bool   { return m == beside || m == appended }
func (m manner) decides() bool { return m == apart || m == beside }

// job is a change that a goroutine waits for.
type job struct {
	decide func(*plan)
	manner manner
	taken  bool // a plan has it; guarded by jobs
	kept   bool // it was carried out in memory, because the log is down
	done   chan struct{}
}

func (j *job) isDone() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// jobs are the changes that wait for a step, the oldest first. It guards itself.
type jobs struct {
	mu      sync.Mutex
	waiting []*job
}

// mostJobs bounds what one step writes, so that the store is not busy with it for long.
const mostJobs = 128

func (q *jobs) add(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, j)
}

// withdraw takes a job out that no plan has, and reports whether it did.
func (q *jobs) withdraw(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, j)
	if i < 0 || j.taken {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// take returns the first jobs, as many as may be planned beside each other.
func (q *jobs) take() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < min(len(q.waiting), mostJobs) && (n == 0 || q.waiting[0].manner.joins() && q.waiting[n].manner.joins()) {
		n++
	}
	for i, j := range q.waiting {
		j.taken = i < n
	}
	return slices.Clone(q.waiting[:n])
}

// giveBack undoes take for all but the first n.
func (q *jobs) giveBack(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.waiting[n:] {
		j.taken = false
	}
}

// finish ends the first jobs, which were carried out.
func (q *jobs) finish(n int) {
	if n == 0 {
		return
	}
	q.mu.Lock()
	over := slices.Clone(q.waiting[:n])
	clear(q.waiting[:n])
	q.waiting = q.waiting[n:]
	q.mu.Unlock()
	for _, j := range over {
		close(j.done)
	}
}

// group makes a change in the next step, together with those of other goroutines that come at the
// same time: whoever gets the writer's token first makes the step for all. kept says that the
// change was carried out in memory, because the log is down.
func (s *ledger) group(ctx context.Context, m manner, decide func(*plan)) (kept bool, err error) {
	j := &job{decide: decide, manner: m, done: make(chan struct{})}
	s.jobs.add(j)
	select {
	case <-s.writer:
		for !j.isDone() {
			s.step(background, (*plan).decideJobs)
		}
		s.writer <- struct{}{}
	case <-j.done:
	case <-ctx.Done():
		if s.jobs.withdraw(j) {
			return false, ctx.Err()
		}
		<-j.done
	}
	return j.kept, nil
}

// decideJobs plans the first of the jobs that wait, and those that may be planned beside it.
func (p *plan) decideJobs() {
	p.jobs = p.s.jobs.take()
	for i, j := range p.jobs {
		p.later = false
		if j.decide(p); p.later && i > 0 {
			p.jobs = p.jobs[:i]
			break
		}
	}
	p.s.jobs.giveBack(len(p.jobs))
}

// decides reports whether the plan says what others must not have changed.
func (p *plan) decides() bool {
	if !p.asked {
		return !p.empty() // it serves waiters, or ends what dead processes have open
	}
	return slices.ContainsFunc(p.jobs, func(j *job) bool { return j.manner.decides() })
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
