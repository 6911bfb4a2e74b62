// Random observations against a model of what a provider may have said.

package ratelimit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// The dimensions, in the order in which decisions name them.
var observedCodes = []ratelimit.DecisionCode{
	ratelimit.DecisionRPDLimit, ratelimit.DecisionTPDLimit, ratelimit.DecisionRPMLimit,
	ratelimit.DecisionITPMLimit, ratelimit.DecisionOTPMLimit, ratelimit.DecisionTPMLimit,
}

func isDaily(dim int) bool { return dim < 2 }

func limitsOf(q ratelimit.ModelQuota) [6]int {
	return [6]int{q.MaxRPD, q.MaxTPD, q.MaxRPM, q.MaxITPM, q.MaxOTPM, q.MaxTPM}
}

func said(l *ratelimit.ProviderLimits) [6]*ratelimit.ProviderLimit {
	return [6]*ratelimit.ProviderLimit{&l.RPD, &l.TPD, &l.RPM, &l.ITPM, &l.OTPM, &l.TPM}
}

// others is what an oracle has of one dimension from the provider.
type others struct {
	amount int
	until  time.Time
	sent   time.Time
}

// watched is a model with what others use of it, by the rules as they are written down.
type watched struct {
	ledger
	others [6]others
}

// difference is that of the ledger, with what others use.
func (w *watched) difference(got ratelimit.ModelStats, now time.Time) string {
	external := [6]int{got.ExternalRPD, got.ExternalTPD, got.ExternalRPM, got.ExternalITPM, got.ExternalOTPM, got.ExternalTPM}
	for dim, is := range external {
		o := w.others[dim]
		if !o.until.After(now) {
			o.amount = 0
		}
		if is != o.amount {
			return fmt.Sprintf("external usage is %v, oracle %+v", external, w.others)
		}
	}
	got.ExternalRPD, got.ExternalTPD, got.ExternalRPM = 0, 0, 0
	got.ExternalITPM, got.ExternalOTPM, got.ExternalTPM = 0, 0, 0
	return w.ledger.difference(got, now)
}

func (w *watched) usedOf(at time.Time) [6]int {
	requests, input, output := w.used(at)
	dayRequests, dayTokens := w.today(at)
	return [6]int{dayRequests, dayTokens, requests, input, output, addCapped(input, output)}
}

func (w *watched) observe(now time.Time, l ratelimit.ProviderLimits) {
	sent := l.SentAt
	if sent.IsZero() || sent.After(now) {
		sent = now
	}
	input, output := max(l.Uncounted.PromptTokens, 0), max(l.Uncounted.OutputTokens, 0)
	requests := max(l.UncountedRequests, 0)
	uncounted := [6]int{requests, addCapped(input, output), requests, input, output, addCapped(input, output)}
	used := w.usedOf(now)
	for dim, limit := range limitsOf(w.quota) {
		s := said(&l)[dim]
		if limit == 0 || !s.HasRemaining || s.Remaining < 0 {
			continue
		}
		left := min(addCapped(s.Remaining, max(s.Rounding, 0)/2), limit)
		x := max(0, limit-left-(used[dim]-min(uncounted[dim], used[dim])))
		until := now.Add(w.span)
		if isDaily(dim) {
			until = now.Add(24 * time.Hour)
			if !w.day.over(now) {
				until = earlier(until, w.day.end)
			} else if w.quota.DayZone != "" {
				_, end := dateOf(now, w.quota.DayZone)
				until = earlier(until, end)
			}
		}
		if s.Reset > 0 && s.Reset < 24*time.Hour && (isDaily(dim) || s.Reset < w.span) {
			until = earlier(until, now.Add(s.Reset))
		}
		o := &w.others[dim]
		inForce := o.amount > 0 && o.until.After(now)
		switch {
		case !inForce || !sent.Before(o.sent.Add(-250*time.Millisecond)):
			*o = others{x, until, sent}
		case x > o.amount:
			o.amount = x
			if until.After(o.until) {
				o.until = until
			}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// deniedBy returns the first limit that denies, and whether that is for others.
func (w *watched) deniedBy(at time.Time, a demand) (code ratelimit.DecisionCode, forOthers bool) {
	used := w.usedOf(at)
	for dim, limit := range limitsOf(w.quota) {
		more := [6]int{a.requests, a.tokens(), a.requests, a.input, a.output, a.tokens()}[dim]
		x := 0
		if w.others[dim].until.After(at) {
			x = w.others[dim].amount
		}
		if limit > 0 && addCapped(addCapped(used[dim], more), x) > limit {
			return observedCodes[dim], addCapped(used[dim], more) <= limit
		}
	}
	return ratelimit.DecisionAllowed, false
}

// passesAt tries all instants at which anything ends.
func (w *watched) passesAt(now time.Time, a demand) (first time.Time) {
	instants := []time.Time{now}
	for _, c := range w.charges {
		instants = append(instants, c.at.Add(w.span+1))
	}
	for _, o := range w.others {
		instants = append(instants, o.until)
	}
	if w.day != nil {
		instants = append(instants, w.day.end)
	}
	for _, at := range instants {
		if at.Before(now) || !first.IsZero() && !at.Before(first) {
			continue
		}
		if code, _ := w.deniedBy(at, a); code == ratelimit.DecisionAllowed {
			first = at
		}
	}
	return first
}

// After random charges, settlements and observations a decision follows the written rules, and
// RetryAfter is exact.
func TestObserveOracle(t *testing.T) {
	t.Parallel()
	seeds := times(60, 20, 600)
	if testing.Short() {
		seeds = 20
	}
	denials := make(map[ratelimit.DecisionCode]int)
	waits := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			p := &watchedPlay{T: t, Rand: rand.New(rand.NewPCG(uint64(seed), 6)), denials: denials}
			p.play(300)
			waits += p.waits
			if t.Failed() {
				t.Logf("seed %d, quota %+v", seed, p.model.quota)
			}
		})
		if t.Failed() {
			return
		}
	}
	for _, code := range observedCodes {
		if denials[code] < 10 {
			t.Errorf("only %d denials by what others use with %q", denials[code], code)
		}
	}
	if waits < 100 {
		t.Errorf("only %d waits in Acquire", waits)
	}
}

type watchedPlay struct {
	*testing.T
	*rand.Rand
	rl       *ratelimit.RateLimiter
	model    watched
	bookings []*booking
	denials  map[ratelimit.DecisionCode]int
	waits    int
	log      []string
}

func (p *watchedPlay) maybe(n int) int { return p.IntN(2) * (1 + p.IntN(n)) }

func (p *watchedPlay) play(steps int) {
	quota := ratelimit.ModelQuota{
		MaxRPM: p.maybe(12), MaxTPM: p.maybe(600), MaxITPM: p.maybe(400), MaxOTPM: p.maybe(300),
		MaxRPD: p.maybe(60), MaxTPD: p.maybe(4000),
	}
	if p.IntN(3) == 0 {
		quota.DayZone = "America/Los_Angeles"
	}
	margin := time.Duration(p.IntN(2)) * 250 * time.Millisecond
	p.rl = newLimiterWith(p.T, ratelimit.Config{Margin: margin, Quotas: map[string]ratelimit.ModelQuota{"m": quota}})
	p.model.ledger = ledger{quota: quota, known: true, span: time.Minute + margin}
	for range steps {
		p.step()
		p.look()
		if p.Failed() {
			p.Log(p.log[max(len(p.log)-25, 0):])
			return
		}
	}
}

func (p *watchedPlay) note(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf("\n%v ", time.Now().Format("02T15:04:05.000000000"))+fmt.Sprintf(format, args...))
}

func (p *watchedPlay) step() {
	now := time.Now()
	switch p.IntN(12) {
	case 0, 1:
		input, output := p.IntN(80), p.IntN(60)
		r, d := p.rl.Reserve("m", input, output)
		p.note("Reserve %d, %d: %v", input, output, d.Allowed)
		if r != nil {
			p.bookings = append(p.bookings, p.model.book(now, "m", r, input, output))
		}
	case 2:
		input, output := p.IntN(80), p.IntN(60)
		p.rl.RecordUsage("m", input, output)
		p.model.charge(now, input, output)
		p.note("RecordUsage %d, %d", input, output)
	case 3, 4:
		p.settle(now)
	case 5, 6, 7, 8:
		l := p.draw(now)
		p.rl.Observe("m", l)
		p.model.observe(now, l)
		p.note("Observe %+v: %+v", l, p.model.others)
	case 9:
		if p.IntN(20) == 0 {
			p.rl.Reset("m")
			p.model.reset()
			p.model.others = [6]others{}
			p.note("Reset")
		}
	default:
		wait := []time.Duration{1, time.Millisecond, time.Second, 20 * time.Second, time.Minute, time.Hour, 23 * time.Hour}[p.IntN(7)]
		time.Sleep(time.Duration(p.Int64N(int64(wait))) + 1)
	}
}

func (p *watchedPlay) settle(now time.Time) {
	if len(p.bookings) == 0 {
		return
	}
	i := p.IntN(len(p.bookings))
	b := p.bookings[i]
	p.bookings = append(p.bookings[:i], p.bookings[i+1:]...)
	if p.IntN(3) == 0 {
		b.real.Cancel()
		b.cancel(now)
		p.note("Cancel")
		return
	}
	input, output := p.IntN(100), p.IntN(100)
	b.real.Commit(input, output)
	b.commit(now, input, output)
	p.note("Commit %d, %d", input, output)
}

// draw makes up an observation: mostly one that could be.
func (p *watchedPlay) draw(now time.Time) (l ratelimit.ProviderLimits) {
	resets := []time.Duration{0, 0, 1, time.Second, 30 * time.Second, time.Minute - 1, time.Minute, time.Hour, 1 << 62, -time.Second}
	for dim, limit := range limitsOf(p.model.quota) {
		s := said(&l)[dim]
		*s = ratelimit.ProviderLimit{Limit: p.IntN(1000), HasRemaining: p.IntN(3) > 0, Reset: resets[p.IntN(len(resets))]}
		s.Remaining = p.IntN(limit + 2)
		switch p.IntN(12) {
		case 0:
			s.Remaining = []int{-1, math.MinInt, math.MaxInt}[p.IntN(3)]
		case 1:
			s.Rounding = []int{-10, 10, 1000, math.MaxInt}[p.IntN(4)]
		}
	}
	switch p.IntN(6) {
	case 0:
		l.UncountedRequests, l.Uncounted = p.IntN(5), ratelimit.Usage{PromptTokens: p.IntN(100), OutputTokens: p.IntN(100)}
	case 1:
		l.UncountedRequests, l.Uncounted = math.MaxInt, ratelimit.Usage{PromptTokens: math.MaxInt, OutputTokens: math.MaxInt}
	case 2:
		l.UncountedRequests, l.Uncounted = -3, ratelimit.Usage{PromptTokens: -5, OutputTokens: math.MinInt}
	}
	ages := []time.Duration{0, 250 * time.Millisecond, 250*time.Millisecond + 1, time.Second, time.Minute, -time.Hour}
	if p.IntN(2) == 0 {
		l.SentAt = now.Add(-ages[p.IntN(len(ages))])
	}
	return l
}

// look holds a decision against the oracle, and now and then waits as long as it says.
func (p *watchedPlay) look() {
	now := time.Now()
	a := demand{1, p.IntN(100), p.IntN(80)}
	d := p.rl.DecideRequest(ratelimit.Request{Model: "m", PromptTokens: a.input, OutputTokens: a.output})
	p.note("Decide %+v: %v %v %v %q", a, d.Allowed, d.Code, d.RetryAfter, d.Reason)
	if diff := p.model.difference(d.Stats, now); diff != "" {
		p.Error(diff)
	}
	code, forOthers := p.model.deniedBy(now, a)
	if never := p.model.tooLarge(a); d.Never != (never && code != ratelimit.DecisionAllowed) {
		p.Errorf("Never is %v", d.Never)
	} else if never {
		return
	}
	if p.model.unlimited() {
		code = ratelimit.DecisionUnlimited
	}
	if d.Code != code || d.Allowed != (code == ratelimit.DecisionAllowed || code == ratelimit.DecisionUnlimited) {
		p.Errorf("the code is %q, oracle %q", d.Code, code)
		return
	}
	if d.Allowed {
		return
	}
	if reason, _, _ := strings.Cut(d.Reason, "; longest: "); forOthers != (reason == otherReasons[code]) {
		p.Errorf("reason %q, oracle says that it is for others: %v", d.Reason, forOthers)
	}
	if forOthers {
		p.denials[code]++
	}
	if want := p.model.passesAt(now, a).Sub(now); d.RetryAfter != want {
		p.Errorf("RetryAfter is %v, oracle %v", d.RetryAfter, want)
		return
	}
	if d.RetryAfter > 24*time.Hour && p.model.quota.DayZone == "" {
		p.Errorf("RetryAfter is %v", d.RetryAfter)
	}
	switch p.IntN(12) {
	case 0: // alone, to the nanosecond
		passes := func() bool {
			return p.rl.DecideRequest(ratelimit.Request{Model: "m", PromptTokens: a.input, OutputTokens: a.output}).Allowed
		}
		time.Sleep(d.RetryAfter - 1)
		if passes() {
			p.Error("it passes before RetryAfter is over")
		}
		time.Sleep(time.Nanosecond)
		if !passes() {
			p.Error("it does not pass when RetryAfter is over")
		}
	case 1:
		r, err := p.rl.Acquire(p.Context(), "m", a.input, a.output)
		if took := time.Since(now); err != nil || took != d.RetryAfter {
			p.Errorf("Acquire took %v, want %v: %v", took, d.RetryAfter, err)
			return
		}
		p.bookings = append(p.bookings, p.model.book(time.Now(), "m", r, a.input, a.output))
		p.waits++
	}
}

var otherReasons = map[ratelimit.DecisionCode]string{
	ratelimit.DecisionRPMLimit:  "the provider reports fewer requests per minute left",
	ratelimit.DecisionTPMLimit:  "the provider reports fewer tokens per minute left",
	ratelimit.DecisionITPMLimit: "the provider reports fewer input tokens per minute left",
	ratelimit.DecisionOTPMLimit: "the provider reports fewer output tokens per minute left",
	ratelimit.DecisionRPDLimit:  "the provider reports fewer requests per day left",
	ratelimit.DecisionTPDLimit:  "the provider reports fewer tokens per day left",
}
