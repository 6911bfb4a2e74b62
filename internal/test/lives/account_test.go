package lives

import (
	"fmt"
	"math"
	"slices"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// charge is what counts to the minute since a time: a request with its tokens, or tokens alone.
type charge struct {
	at            time.Time
	requests      int
	input, output int
}

// day is a day of an account.
type day struct {
	begin, end       time.Time
	requests, tokens int
}

// over reports whether nothing of the day counts.
func (d *day) over(at time.Time) bool {
	return d == nil || !at.Before(d.end) || d.requests == 0 && d.tokens == 0
}

// period is a day or a month of a budget.
type period struct {
	end    time.Time
	amount money.Amount
}

func (p *period) over(at time.Time) bool { return p == nil || !at.Before(p.end) }

// report is what others use of a limit, as the provider said last.
type report struct {
	amount int
	until  time.Time
	sent   time.Time
}

// account is a model or a pool as the oracle keeps it: a list of charges, in no order.
type account struct {
	name  string
	pool  bool
	quota ratelimit.ModelQuota
	known bool
	span  time.Duration // a minute and the margin

	charges  []*charge
	day      *day
	dayEnded time.Time // when the last day that is over ended
	others   [dimensions]report
	cool     time.Time
	cause    ratelimit.Cause
	inFlight int
	forgets  int // how often its usage was forgotten

	spentDay, spentMonth *period
	windows
	audit    ratelimit.AuditEntry
	removed  bool // a pool that is gone: nothing is charged to it
	unlisted bool // it has, or had, a place only as long as Config.MaxModels permits
}

// The dimensions of reports, in the order in which limits deny.
const (
	perDay = iota
	tokensPerDay
	perMinute
	inputPerMinute
	outputPerMinute
	tokensPerMinute
	dimensions
)

// demand is what is asked of one account.
type demand struct {
	requests, input, output int
	money                   money.Amount
	unpriced                bool
}

func (a demand) tokens() int { return plus(a.input, a.output) }

// of returns what is asked in each dimension.
func (a demand) of() [dimensions]int {
	return [dimensions]int{a.requests, a.tokens(), a.requests, a.input, a.output, a.tokens()}
}

// plus adds two counts. The largest one stands for all that are larger.
func plus(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// used returns what counts to the minute at a time.
func (a *account) used(at time.Time) (requests, input, output int) {
	from := at.Add(-a.span)
	for _, c := range a.charges {
		if !c.at.Before(from) && !c.at.After(at) {
			requests += c.requests
			input, output = plus(input, c.input), plus(output, c.output)
		}
	}
	return requests, input, output
}

// today returns what counts to the day at a time.
func (a *account) today(at time.Time) (requests, tokens int) {
	if a.day.over(at) {
		return 0, 0
	}
	return a.day.requests, a.day.tokens
}

// usedOf returns what counts in each dimension.
func (a *account) usedOf(at time.Time) [dimensions]int {
	requests, input, output := a.used(at)
	dayRequests, dayTokens := a.today(at)
	return [dimensions]int{dayRequests, dayTokens, requests, input, output, plus(input, output)}
}

// external returns what others use of a limit.
func (a *account) external(of int, at time.Time) int {
	if r := a.others[of]; r.until.After(at) {
		return r.amount
	}
	return 0
}

// spent returns the spend of the day and of the month.
func (a *account) spent(at time.Time) (day, month money.Amount) {
	if !a.spentDay.over(at) {
		day = a.spentDay.amount
	}
	if !a.spentMonth.over(at) {
		month = a.spentMonth.amount
	}
	return day, month
}

// roll forgets a day that is over.
func (a *account) roll(now time.Time) {
	if a.day == nil || now.Before(a.day.end) {
		return
	}
	if a.day.requests > 0 || a.day.tokens > 0 { // else all was cancelled: as if it had not begun
		a.dayEnded = a.day.end
	}
	a.day = nil
}

// chargeDay adds to the day that lasts, or begins one.
func (a *account) chargeDay(now, at time.Time, requests, tokens int) *day {
	if a.roll(now); a.day.over(now) {
		begin, end := at, at.Add(24*time.Hour)
		if a.quota.DayZone != "" {
			begin, end = dateOf(at, a.quota.DayZone)
		}
		a.day = &day{begin: begin, end: end}
	}
	a.day.requests += requests
	a.day.tokens = plus(a.day.tokens, tokens)
	return a.day
}

// charge counts a call.
func (a *account) charge(now time.Time, input, output int) (*charge, *day) {
	c := &charge{now, 1, input, output}
	a.charges = append(a.charges, c)
	a.useMonth(now, plus(input, output))
	return c, a.chargeDay(now, now, 1, plus(input, output))
}

// spend adds to the day and the month that last, or begins them.
func (a *account) spend(now time.Time, amount money.Amount) (day, month *period) {
	a.spendDay(now, amount)
	a.spendMonth(now, amount)
	return a.spentDay, a.spentMonth
}

func (a *account) spendDay(now time.Time, amount money.Amount) {
	if amount == 0 {
		return
	}
	if a.spentDay.over(now) {
		a.spentDay = &period{end: now.Add(24 * time.Hour)}
		if a.quota.DayZone != "" {
			_, a.spentDay.end = dateOf(now, a.quota.DayZone)
		}
	}
	a.spentDay.amount += amount
}

func (a *account) spendMonth(now time.Time, amount money.Amount) {
	if amount == 0 {
		return
	}
	if a.spentMonth.over(now) {
		a.spentMonth = &period{end: monthEnd(now, a.quota.DayZone)}
	}
	a.spentMonth.amount += amount
}

// forget forgets all usage, but neither the calls in flight nor money.
func (a *account) forget(now time.Time) {
	a.roll(now)
	a.charges, a.day, a.others = nil, nil, [dimensions]report{}
	a.cool, a.cause = time.Time{}, ""
	if a.inFlight > 0 && a.tokensOfMonth(now) != 0 {
		a.monthCountsSince = now
	}
	a.monthTokens = 0
	a.forgets++
}

// setQuota changes the quota. The day and the month of its spend end where they do in the zone of
// the new one; without a zone a day lasts as it was to.
func (a *account) setQuota(now time.Time, q ratelimit.ModelQuota) {
	was := a.quota.DayZone
	a.quota = q
	if a.follow(now); was == q.DayZone {
		return
	}
	if now.Before(a.monthEnd) {
		a.monthEnd = monthEnd(now, q.DayZone)
	}
	if !a.spentDay.over(now) && q.DayZone != "" {
		_, a.spentDay.end = dateOf(now, q.DayZone)
	}
	if !a.spentMonth.over(now) {
		a.spentMonth.end = monthEnd(now, q.DayZone)
	}
}

func (a *account) coolUntil(now, until time.Time, cause ratelimit.Cause) {
	if until.After(now) && until.After(a.cool) {
		a.cool, a.cause = until, cause
	}
}

func (a *account) remove(gone *charge) {
	a.charges = slices.DeleteFunc(a.charges, func(c *charge) bool { return c == gone })
}

// booking is what a reservation has charged to one account.
type booking struct {
	account       *account
	charge        *charge
	day           *day // nil where it is in none that lasts
	forgets       int  // of the account, when it was charged
	loaded        bool // since
	at            time.Time
	input, output int // the estimate
	most          money.Amount
	paid          *payment
	admitted      time.Time
	spentDay      *period
	spentMonth    *period
}

// book charges a reservation.
func (a *account) book(now time.Time, input, output int, most money.Amount) *booking {
	b := &booking{account: a, forgets: a.forgets, at: now, admitted: now, input: input, output: output, most: most}
	b.paid = a.pay(now, most)
	b.charge, b.day = a.charge(now, input, output)
	b.spentDay, b.spentMonth = a.spend(now, most)
	a.inFlight++
	return b
}

// left reports whether the charge is too old for the minute.
func (b *booking) left(now time.Time) bool { return b.at.Before(now.Add(-b.account.span)) }

// forgotten reports whether nothing is known of the charge any more: its usage was reset.
func (b *booking) forgotten() bool { return b.forgets != b.account.forgets }

// load looks for the charge among those that were loaded, where it is only while it is in the
// minute.
func (b *booking) load(now time.Time) {
	if b.loaded = true; b.left(now) {
		b.forgets = -1
	}
}

// inDay reports whether the day that lasts is the one that was charged. Of a charge that was loaded
// nothing is known but its time.
func (b *booking) inDay(now time.Time) bool {
	if b.loaded && b.day != nil && b.at.Before(b.day.begin) {
		return false
	}
	return !b.forgotten() && b.day != nil && b.day == b.account.day && now.Before(b.day.end)
}

// commit has the real usage take the place of the estimate, at the time of the charge. What it
// exceeds a charge by that has left the minute, or a day that is over, is charged as of now.
func (b *booking) commit(now time.Time, input, output int) {
	a := b.account
	moreInput, moreOutput := max(input-b.input, 0), max(output-b.output, 0)
	exceeds := moreInput+moreOutput > 0
	if b.forgotten() && !(b.left(now) && exceeds) || a.removed {
		return
	}
	if !b.left(now) {
		b.charge.input, b.charge.output = input, output
	} else if exceeds {
		a.charges = append(a.charges, &charge{now, 0, moreInput, moreOutput})
	}
	if b.inDay(now) {
		b.day.tokens += input + output - b.input - b.output
	} else if exceeds {
		a.chargeDay(now, now, 0, moreInput+moreOutput)
	}
}

// settleMoney has what a call did cost take the place of the most that it could.
func (b *booking) settleMoney(now time.Time, cost money.Amount) {
	exceeds := max(cost-b.most, 0)
	lasts := func(p, present *period) bool { return p != nil && p == present && now.Before(p.end) }
	if lasts(b.spentDay, b.account.spentDay) {
		b.spentDay.amount += cost - b.most
	} else {
		b.account.spendDay(now, exceeds)
	}
	if lasts(b.spentMonth, b.account.spentMonth) {
		b.spentMonth.amount += cost - b.most
	} else {
		b.account.spendMonth(now, exceeds)
	}
}

// cancel gives the charge back.
func (b *booking) cancel(now time.Time) {
	if b.forgotten() {
		return
	}
	b.account.remove(b.charge)
	if b.inDay(now) {
		b.day.requests--
		b.day.tokens -= b.input + b.output
	}
}

// arrive moves the charge to a later time, at which the provider counted the call. It then belongs
// to the day of that time: a call of a day that is over is not charged to the present one.
func (b *booking) arrive(now, at time.Time) {
	if at.After(now) {
		at = now
	}
	a := b.account
	if !at.After(b.at) || b.forgotten() && !b.left(now) {
		return
	}
	if a.removed {
		b.at, b.forgets = at, -1
		return
	}
	a.roll(now)
	sameDay := b.inDay(now)
	b.movePayment(at)
	a.remove(b.charge)
	b.charge = &charge{at, 1, b.input, b.output}
	a.charges = append(a.charges, b.charge)
	b.at, b.forgets, b.loaded = at, a.forgets, false
	if sameDay {
		return
	}
	b.day = nil
	if zone := a.quota.DayZone; zone != "" {
		if begin, _ := dateOf(now, zone); at.Before(begin) {
			return
		}
	} else if at.Before(a.dayEnded) {
		return
	}
	b.day = a.chargeDay(now, at, 1, b.input+b.output)
	a.roll(now)
}

// stats returns what Stats or PoolStats has to say.
func (a *account) stats(now time.Time) (s ratelimit.ModelStats) {
	s.RPM, s.ITPM, s.OTPM = a.used(now)
	s.TPM = plus(s.ITPM, s.OTPM)
	s.RPD, s.TPD = a.today(now)
	q := a.quota
	s.MaxRPM, s.MaxTPM, s.MaxRPD, s.MaxITPM = q.MaxRPM, q.MaxTPM, q.MaxRPD, q.MaxITPM
	s.MaxOTPM, s.MaxTPD, s.MaxInFlight = q.MaxOTPM, q.MaxTPD, q.MaxInFlight
	s.MaxSpendPerDay, s.MaxSpendPerMonth = q.MaxSpendPerDay, q.MaxSpendPerMonth
	s.SpendDay, s.SpendMonth = a.spent(now)
	s.MaxSpendPerTenMinutes, s.MaxTokensPerMonth = q.MaxSpendPerTenMinutes, q.MaxTokensPerMonth
	s.SpendTenMinutes, s.TokensMonth = a.recent(now), a.tokensOfMonth(now)
	s.InFlight = a.inFlight
	if a.cool.After(now) {
		s.CooldownUntil = a.cool
	}
	if !a.day.over(now) {
		s.DayStart = a.day.begin
	}
	for of, external := range []*int{
		&s.ExternalRPD, &s.ExternalTPD, &s.ExternalRPM, &s.ExternalITPM, &s.ExternalOTPM, &s.ExternalTPM,
	} {
		*external = a.external(of, now)
	}
	return s
}

// difference compares what a limiter says of the account; an empty text says that it agrees.
func (a *account) difference(got ratelimit.ModelStats, now time.Time) string {
	want := a.stats(now)
	got.AdaptiveRPM, got.AdaptiveInFlight = 0, 0 // the oracle searches for no limit
	got.Waiting = 0                              // see checkWaiting
	if want.RPD == 0 && want.TPD == 0 {
		got.DayStart = want.DayStart // a day with nothing in it may have begun at any time
	}
	if is, wants := render(got), render(want); is != wants {
		return fmt.Sprintf("says %s,\nthe oracle %s", is, wants)
	}
	return ""
}
