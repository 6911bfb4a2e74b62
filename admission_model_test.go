// The model that admission is compared with: books that keep every charge, in the plainest way.

package ratelimit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// charge is one entry of a ledger: a request with its tokens, or tokens alone.
type charge struct {
	at            time.Time
	requests      int
	input, output int
}

// dayBook is one day of a ledger.
type dayBook struct {
	begin, end       time.Time
	requests, tokens int
}

// over reports whether nothing of the day counts.
func (d *dayBook) over(at time.Time) bool {
	return d == nil || !at.Before(d.end) || d.requests == 0 && d.tokens == 0
}

// demand is what is asked of one model: requests, and the tokens of all of them.
type demand struct{ requests, input, output int }

func (a demand) tokens() int { return addCapped(a.input, a.output) }

// booking is a reservation as the oracle keeps it.
type booking struct {
	real          *ratelimit.Reservation
	model         string
	book          *ledger
	charge        *charge
	day           *dayBook // nil when it is in none that lasts
	stateVersion  int      // of the ledger, when it was charged
	admitted      time.Time
	at            time.Time // when it counts
	input, output int       // the estimate
	settled       bool
	hasArrived    bool // so that its request is not given back

	usedInput, usedOutput int
	cancelled             bool
}

// ledger is a model as the oracle keeps it: every charge that ever was, in no
// order.
type ledger struct {
	quota        ratelimit.ModelQuota
	known        bool
	span         time.Duration
	charges      []*charge
	day          *dayBook
	cool         time.Time
	inFlight     int
	waiting      int
	stateVersion int // how often it was reset
}

// used is what counts to the minute at an instant.
func (l *ledger) used(at time.Time) (requests, input, output int) {
	from := at.Add(-l.span)
	for _, c := range l.charges {
		if !c.at.Before(from) && !c.at.After(at) {
			requests += c.requests
			input, output = addCapped(input, c.input), addCapped(output, c.output)
		}
	}
	return requests, input, output
}

// today is what counts to the day at an instant.
func (l *ledger) today(at time.Time) (requests, tokens int) {
	if l.day.over(at) {
		return 0, 0
	}
	return l.day.requests, l.day.tokens
}

// denied returns the codes of the limits that deny at an instant, in their order.
func (l *ledger) denied(at time.Time, a demand) (codes []ratelimit.DecisionCode) {
	over := func(code ratelimit.DecisionCode, used, more, limit int) {
		if limit > 0 && (more > limit || used > limit-more) {
			codes = append(codes, code)
		}
	}
	requests, input, output := l.used(at)
	dayRequests, dayTokens := l.today(at)
	if l.cool.After(at) {
		codes = append(codes, ratelimit.DecisionCooldown)
	}
	over(ratelimit.DecisionInFlightLimit, l.inFlight, a.requests, l.quota.MaxInFlight)
	over(ratelimit.DecisionRPDLimit, dayRequests, a.requests, l.quota.MaxRPD)
	over(ratelimit.DecisionTPDLimit, dayTokens, a.tokens(), l.quota.MaxTPD)
	over(ratelimit.DecisionRPMLimit, requests, a.requests, l.quota.MaxRPM)
	over(ratelimit.DecisionITPMLimit, input, a.input, l.quota.MaxITPM)
	over(ratelimit.DecisionOTPMLimit, output, a.output, l.quota.MaxOTPM)
	over(ratelimit.DecisionTPMLimit, addCapped(input, output), a.tokens(), l.quota.MaxTPM)
	return codes
}

// tooLarge reports whether the demand fits not even an empty ledger.
func (l *ledger) tooLarge(a demand) bool {
	return len((&ledger{quota: l.quota}).denied(time.Time{}, a)) > 0
}

// verdict is what a Decision has to say.
type verdict struct {
	allowed, never bool
	code           ratelimit.DecisionCode
	wait           time.Duration // until time alone lets it pass
	slots          bool          // a call in flight has to end
	retry          time.Duration
}

func (l *ledger) unlimited() bool {
	q := l.quota
	q.DayZone = ""
	return q == ratelimit.ModelQuota{}
}

func (l *ledger) invalid() bool {
	q := l.quota
	return min(q.MaxRPM, q.MaxTPM, q.MaxRPD, q.MaxITPM, q.MaxOTPM, q.MaxTPD, q.MaxInFlight) < 0
}

func (l *ledger) judge(t *testing.T, now time.Time, a demand) verdict {
	if a.input < 0 || a.output < 0 {
		return verdict{never: true, code: ratelimit.DecisionInvalidTokens}
	}
	if l.known && l.invalid() {
		return verdict{never: true, code: ratelimit.DecisionInvalidQuota}
	}
	codes := l.denied(now, a)
	switch {
	case len(codes) > 0 && l.tooLarge(a):
		return verdict{never: true, code: codes[0]}
	case len(codes) > 0:
		v := verdict{code: codes[0], slots: slices.Contains(codes, ratelimit.DecisionInFlightLimit)}
		if v.wait = l.passesIn(t, now, a); v.code == ratelimit.DecisionCooldown || !v.slots {
			v.retry = v.wait
		}
		return v
	case !l.known:
		return verdict{allowed: true, code: ratelimit.DecisionUnknownModel}
	case l.unlimited():
		return verdict{allowed: true, code: ratelimit.DecisionUnlimited}
	}
	return verdict{allowed: true, code: ratelimit.DecisionAllowed}
}

// passesIn tries all instants at which something leaves. Slots do not count.
func (l *ledger) passesIn(t *testing.T, now time.Time, a demand) time.Duration {
	passes := func(at time.Time) bool {
		codes := l.denied(at, a)
		return len(codes) == 0 || len(codes) == 1 && codes[0] == ratelimit.DecisionInFlightLimit
	}
	if passes(now) {
		return 0
	}
	instants := []time.Time{l.cool}
	for _, c := range l.charges {
		instants = append(instants, c.at.Add(l.span+1))
	}
	if l.day != nil {
		instants = append(instants, l.day.end)
	}
	var first time.Time
	for _, at := range instants {
		if at.After(now) && (first.IsZero() || at.Before(first)) && passes(at) {
			first = at
		}
	}
	if first.IsZero() {
		t.Fatalf("the oracle finds no instant at which %+v passes", a)
	}
	if passes(first.Add(-1)) {
		t.Fatalf("the oracle lets %+v pass before anything leaves", a)
	}
	return first.Sub(now)
}

// chargeDay adds to the day that lasts, or begins one.
func (l *ledger) chargeDay(now time.Time, requests, tokens int) *dayBook {
	if l.day.over(now) {
		begin, end := now, now.Add(24*time.Hour)
		if l.quota.DayZone != "" {
			begin, end = dateOf(now, l.quota.DayZone)
		}
		l.day = &dayBook{begin: begin, end: end}
	}
	l.day.requests += requests
	l.day.tokens = addCapped(l.day.tokens, tokens)
	return l.day
}

func (l *ledger) charge(now time.Time, input, output int) (*charge, *dayBook) {
	c := &charge{now, 1, input, output}
	l.charges = append(l.charges, c)
	return c, l.chargeDay(now, 1, addCapped(input, output))
}

// reset forgets all but the calls in flight and who waits.
func (l *ledger) reset() {
	*l = ledger{quota: l.quota, known: l.known, span: l.span, inFlight: l.inFlight, waiting: l.waiting, stateVersion: l.stateVersion + 1}
}

func (l *ledger) coolUntil(now, until time.Time) {
	if until.After(now) && until.After(l.cool) {
		l.cool = until
	}
}

func (l *ledger) remove(gone *charge) {
	l.charges = slices.DeleteFunc(l.charges, func(c *charge) bool { return c == gone })
}

// book charges a reservation.
func (l *ledger) book(now time.Time, model string, real *ratelimit.Reservation, input, output int) *booking {
	b := &booking{real: real, model: model, book: l, stateVersion: l.stateVersion, admitted: now, at: now, input: input, output: output,
		usedInput: input, usedOutput: output}
	b.charge, b.day = l.charge(now, input, output)
	l.inFlight++
	return b
}

// left reports whether the charge is too old for the minute.
func (b *booking) left(now time.Time) bool { return b.at.Before(now.Add(-b.book.span)) }

// forgotten reports whether a reset came after the charge.
func (b *booking) forgotten() bool { return b.stateVersion != b.book.stateVersion }

// inDay reports whether the day that lasts is the one that was charged.
func (b *booking) inDay(now time.Time) bool {
	return !b.forgotten() && b.day != nil && b.day == b.book.day && now.Before(b.day.end)
}

func (b *booking) settle() bool {
	if b.settled {
		return false
	}
	b.settled = true
	b.book.inFlight--
	return true
}

func (b *booking) commit(now time.Time, input, output int) {
	if !b.settle() {
		return
	}
	input, output = max(input, 0), max(output, 0)
	b.usedInput, b.usedOutput = input, output
	moreInput, moreOutput := max(input-b.input, 0), max(output-b.output, 0)
	exceeds := moreInput+moreOutput > 0
	if b.forgotten() && !(b.left(now) && exceeds) {
		return
	}
	if !b.left(now) {
		b.charge.input, b.charge.output = input, output
	} else if exceeds {
		b.book.charges = append(b.book.charges, &charge{now, 0, moreInput, moreOutput})
	}
	if b.inDay(now) {
		b.day.tokens += input + output - b.input - b.output
	} else if exceeds {
		b.book.chargeDay(now, 0, moreInput+moreOutput)
	}
}

func (b *booking) cancel(now time.Time) {
	if !b.settle() {
		return
	}
	b.cancelled = true
	if b.forgotten() {
		return
	}
	b.book.remove(b.charge)
	if b.inDay(now) {
		b.day.requests--
		b.day.tokens -= b.input + b.output
	}
}

func (b *booking) arrived(now, at time.Time) {
	if at.After(now) {
		at = now
	}
	b.hasArrived = true
	if b.settled || !at.After(b.at) || b.forgotten() && !b.left(now) {
		return
	}
	l := b.book
	sameDay := b.inDay(now)
	l.remove(b.charge)
	b.charge = &charge{at, 1, b.input, b.output}
	l.charges = append(l.charges, b.charge)
	b.at, b.stateVersion = at, l.stateVersion
	if sameDay {
		return
	}
	begin := now // of a day of 24 hours that nothing has begun
	if l.quota.DayZone != "" {
		begin, _ = dateOf(now, l.quota.DayZone)
	} else if !l.day.over(now) {
		begin = l.day.begin
	}
	if b.day = nil; !at.Before(begin) {
		b.day = l.chargeDay(now, 1, b.input+b.output)
	}
}

// dateOf looks for the instants at which the date of a zone begins and ends,
// minute by minute.
func dateOf(t time.Time, zone string) (begin, end time.Time) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	date := func(t time.Time) int {
		y, m, d := t.In(location).Date()
		return y*10000 + int(m)*100 + d
	}
	today := date(t)
	begin = t.Truncate(time.Minute)
	for date(begin.Add(-time.Hour)) == today {
		begin = begin.Add(-time.Hour)
	}
	for date(begin.Add(-time.Minute)) == today {
		begin = begin.Add(-time.Minute)
	}
	end = t.Truncate(time.Minute)
	for date(end.Add(time.Hour)) == today {
		end = end.Add(time.Hour)
	}
	for date(end) == today {
		end = end.Add(time.Minute)
	}
	return begin, end
}

// stats is what Stats has to say; DayStart only where there is a day.
func (l *ledger) stats(now time.Time) (s ratelimit.ModelStats) {
	s.RPM, s.ITPM, s.OTPM = l.used(now)
	s.TPM = addCapped(s.ITPM, s.OTPM)
	s.RPD, s.TPD = l.today(now)
	q := l.quota
	s.MaxRPM, s.MaxTPM, s.MaxRPD, s.MaxITPM = q.MaxRPM, q.MaxTPM, q.MaxRPD, q.MaxITPM
	s.MaxOTPM, s.MaxTPD, s.MaxInFlight = q.MaxOTPM, q.MaxTPD, q.MaxInFlight
	s.InFlight, s.Waiting = l.inFlight, l.waiting
	if l.cool.After(now) {
		s.CooldownUntil = l.cool
	}
	if !l.day.over(now) {
		s.DayStart = l.day.begin
	}
	return s
}

// difference compares stats; an empty string says that they agree.
func (l *ledger) difference(got ratelimit.ModelStats, now time.Time) string {
	want := l.stats(now)
	shown := got
	if got.CooldownUntil.Equal(want.CooldownUntil) {
		got.CooldownUntil = want.CooldownUntil
	}
	if got.DayStart.Equal(want.DayStart) {
		got.DayStart = want.DayStart
	}
	if got == want {
		return ""
	}
	return fmt.Sprintf("stats are\n%+v, oracle\n%+v", shown, want)
}
