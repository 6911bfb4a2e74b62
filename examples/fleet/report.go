package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/demo"
)

// introduce says what will be shown.
func (f *fleet) introduce() {
	where := "at " + f.client.Options().Addr + ", which is left alone"
	if f.own != nil {
		where = "a server of this program at " + f.own.addr()
	}
	fmt.Fprintf(f.out, `%d processes stand for machines that call one account: %d callers on each.
They share its quota, %s requests and %s tokens a minute, and know of each other through
Redis alone (%s). The provider enforces the quota by itself,
answers 429 to whatever is beyond it, and keeps a log.

After %v machine %d is killed (kill -9), and started again %v later.
`, machines, callers, demo.Group(f.cfg.quota.RPM), demo.Group(f.cfg.quota.TPM), where,
		rounded(f.plan.kill), victim, rounded(f.plan.again-f.plan.kill))
	if f.own != nil {
		fmt.Fprintf(f.out, `After %v Redis is killed with all that it holds, and comes back empty %v later.
Until then each machine goes on inside its share of what was left; then they write back what
they know.
`, rounded(f.plan.lose), rounded(f.plan.empty-f.plan.lose))
	}
	fmt.Fprintf(f.out, `
What to look for: each machine counts the calls of all. They use up the quota, and then wait for
the first calls to leave the minute. The provider refuses none. It takes %v.

`, rounded(f.plan.end))
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// since returns a time in seconds from the start of the run.
func (f *fleet) since(t time.Time) string { return fmt.Sprintf("%.1fs", t.Sub(f.began).Seconds()) }

// tell writes a line that stays, with the time.
func (f *fleet) tell(format string, args ...any) {
	f.screen.note(fmt.Sprintf("%6s  %s", f.since(time.Now()), fmt.Sprintf(format, args...)))
}

// lines are the machines now, each in 80 columns.
func (f *fleet) lines() []string {
	now := f.since(time.Now())
	lines := make([]string, 0, machines)
	for machine := 1; machine <= machines; machine++ {
		t := &f.tallies[machine]
		text := fmt.Sprintf("RPM %3d/%d  TPM %7s/%s", t.rpm, f.cfg.quota.RPM, demo.Group(t.tpm), demo.Group(f.cfg.quota.TPM))
		if t.away {
			text = "without Redis, inside its share"
		}
		if !t.runs {
			text = "does not run"
		}
		lines = append(lines, fmt.Sprintf("%6s  machine %d  %4d calls  %d open  %s", now, machine, t.sent, t.open(), text))
	}
	return lines
}

// report writes the table and the verdict, which it returns as an error if it is bad.
func (f *fleet) report(a *audit) error {
	t := demo.NewTable(f.out)
	fmt.Fprintln(f.out)
	for machine := 1; machine <= machines; machine++ {
		t.Row(fmt.Sprintf("machine %d", machine), "%s", f.describe(&f.tallies[machine]))
	}
	t.Row("429s", "%d in the provider's log", a.refused)
	f.reportShare(t, a)
	f.reportRedis(t, a)
	sent := f.sum(func(t *tally) int { return t.sent })
	t.Row("counts", "the machines sent %s, %s arrived at the provider", demo.Count(sent, "call"), demo.Group(a.calls))
	t.Row("provider's log", "%s", f.logPath())
	pass := "the provider refused no call; the run was too short to use the quota up"
	if f.full {
		pass = fmt.Sprintf("%d machines used one quota up, through Redis, and the provider refused no call", machines)
	}
	wrong := f.verdict(a)
	t.Verdict(pass, wrong)
	t.Flush()
	return wrong
}

func (f *fleet) describe(t *tally) string {
	parts := []string{fmt.Sprintf("%s: %d answered, %d refused, %d failed", demo.Count(t.sent, "call"), t.answered, t.refused, t.failed)}
	if t.cut > 0 {
		parts = append(parts, fmt.Sprintf("%d cut off by kill -9", t.cut))
	}
	if t.left > 0 {
		parts = append(parts, fmt.Sprintf("%d open at the end", t.left))
	}
	return strings.Join(parts, ", ")
}

// reportShare tells how much of the quota was used, and why not more.
func (f *fleet) reportShare(t *demo.Table, a *audit) {
	q, most := f.cfg.quota, a.fullest()
	t.Row("fullest minute", "%s requests, %s tokens", demo.Share(most.requests, q.RPM), demo.Share(most.tokens, q.TPM))
	t.Row("", "(the requests run out first; the tokens leave room for longer answers)")
	if at := a.reached(q.RPM); f.full && !at.IsZero() {
		t.Row("", "%s requests were used up after %s; from then on one went out whenever one left the minute",
			demo.Group(q.RPM), f.since(at))
	} else {
		t.Row("", "the callers made no more, as a call takes them some two seconds")
	}
	for n := 0; time.Duration(n)*time.Minute < f.ran; n++ {
		from := f.began.Add(time.Duration(n) * time.Minute)
		part := min(f.ran-time.Duration(n)*time.Minute, time.Minute)
		u, room := a.between(from, from.Add(part)), q.RPM
		text := ""
		if part < time.Minute { // what came in the minute before its end still counts
			room -= a.between(from.Add(part-time.Minute), from).requests
			text = fmt.Sprintf(" in its first %v", rounded(part))
		}
		t.Row(fmt.Sprintf("minute %d", n+1), "%s requests%s, %s tokens", demo.Share(u.requests, room), text, demo.Group(u.tokens))
	}
	t.Row("", "(a call counts here for %v longer than at the provider, because of the way there)", margin)
}

// reportRedis tells what came of the loss of Redis.
func (f *fleet) reportRedis(t *demo.Table, a *audit) {
	if f.loss.empty.IsZero() {
		return
	}
	meanwhile := a.between(f.loss.at, f.loss.empty)
	t.Row("Redis", "away from %s to %s: %s came meanwhile", f.since(f.loss.at), f.since(f.loss.empty), demo.Count(meanwhile.requests, "call"))
	if !f.loss.back.IsZero() {
		t.Row("", "it came back empty, and held by %s what all machines knew", f.since(f.loss.back))
	}
	t.Row("", "(each call that they had forgotten would have let one more through, to a 429)")
}

func (f *fleet) sum(of func(*tally) int) (n int) {
	for i := range f.tallies {
		n += of(&f.tallies[i])
	}
	return n
}

// verdict returns what is wrong.
func (f *fleet) verdict(a *audit) error {
	var errs []error
	if a.refused > 0 {
		errs = append(errs, fmt.Errorf("the provider refused %s with 429", demo.Count(a.refused, "call")))
	}
	if most, q := a.fullest(), f.cfg.quota; most.requests > q.RPM || most.tokens > q.TPM {
		errs = append(errs, fmt.Errorf("a minute holds %d requests and %d tokens, want at most %d and %d", most.requests, most.tokens, q.RPM, q.TPM))
	} else if f.full && most.requests < q.RPM*9/10 {
		errs = append(errs, fmt.Errorf("the machines took the quota for used up, and the provider had %d requests of %d in a minute", most.requests, q.RPM))
	}
	sent := f.sum(func(t *tally) int { return t.sent })
	ended := f.sum(func(t *tally) int { return t.cut + t.left })
	if a.calls > sent || a.calls < sent-ended { // what was ended may not have arrived
		errs = append(errs, fmt.Errorf("the machines sent %d calls, of which %d were ended; the provider has %d", sent, ended, a.calls))
	}
	if failed := f.sum(func(t *tally) int { return t.failed }); failed > 0 {
		errs = append(errs, fmt.Errorf("%s failed", demo.Count(failed, "call")))
	}
	for machine := 1; machine <= machines; machine++ {
		if f.tallies[machine].answered == 0 {
			errs = append(errs, fmt.Errorf("machine %d got no answer", machine))
		}
	}
	return errors.Join(errs...)
}
