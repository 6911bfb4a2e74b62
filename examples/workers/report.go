package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/demo"
)

// tell prints a line with the time.
func (s *session) tell(format string, args ...any) {
	s.toldAt = time.Now()
	fmt.Fprintf(s.out, "%s  %s\n", s.clock(s.toldAt), fmt.Sprintf(format, args...))
}

func (s *session) clock(t time.Time) string { return fmt.Sprintf("%5.1fs", t.Sub(s.started).Seconds()) }

// tellAdmitted prints an admission, and the usage in the minute before it.
func (s *session) tellAdmitted(e event) {
	requests, tokens := s.audit.lastMinute()
	s.tell("worker %d  #%-4d %7s requests  %15s tokens  %s slots", e.Worker, len(s.audit.calls),
		part(requests, s.cfg.rpm), part(tokens, s.cfg.tpm), part(s.audit.atOnce(), s.cfg.slots))
}

// tellIdle prints how long the workers must wait, when nothing has been printed for long.
func (s *session) tellIdle() {
	if time.Since(s.toldAt) < idleEvery*9/10 || s.ending {
		return
	}
	d := s.limiter.Decide(model, promptEstimate+outputEstimate)
	s.tell("%d wait: %s requests in the last minute, room in %.1fs",
		d.Stats.Waiting, part(d.Stats.RPM, d.Stats.MaxRPM), d.RetryAfter.Seconds())
}

// report writes the final table.
func (s *session) report() {
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(s.out)
	for worker := 1; worker <= s.cfg.workers; worker++ {
		calls, tokens := s.sum(worker)
		row(fmt.Sprintf("worker %d", worker), "%s, %s tokens%s", demo.Count(calls, "call"), demo.Group(tokens), s.fate(worker))
	}
	requests, tokens := s.audit.fullest()
	row("fullest minute", "%s requests, %s tokens", part(requests, s.cfg.rpm), part(tokens, s.cfg.tpm))
	row("most at once", "%s slots", part(s.audit.most, s.cfg.slots))
	row("", "(tokens stay below their limit while estimates hold room for the longest answer, %s a call)", demo.Group(promptEstimate+outputEstimate))
	table.Flush()
}

// conclude writes the verdict; err is what is wrong.
func (s *session) conclude(err error) {
	if err != nil {
		fmt.Fprintln(s.out, "verdict: FAIL")
		return
	}
	fmt.Fprintf(s.out, "verdict: PASS: no minute held more than the quota by the parent's own count of %s,\n"+
		"         and the database has every call of the last minute\n", demo.Count(len(s.audit.calls), "call"))
}

// sum returns the calls and tokens of a worker.
func (s *session) sum(worker int) (calls, tokens int) {
	for _, c := range s.audit.calls {
		if c.worker == worker {
			calls++
			tokens += c.tokens
		}
	}
	return calls, tokens
}

// fate describes the end of a killed worker.
func (s *session) fate(worker int) string {
	if s.loss.worker != worker {
		return ""
	}
	text := fmt.Sprintf(", killed at %.1fs", s.loss.at.Sub(s.started).Seconds())
	if s.loss.refilled > 0 {
		text += fmt.Sprintf(", all slots used again %.2fs later", s.loss.refilled.Seconds())
	}
	if !s.loss.again.IsZero() {
		text += fmt.Sprintf(", started again at %.1fs", s.loss.again.Sub(s.started).Seconds())
	}
	return text
}

// part formats the used part of a limit.
func part(used, limit int) string {
	if limit == 0 {
		return demo.Group(used)
	}
	return demo.Group(used) + "/" + demo.Group(limit)
}
