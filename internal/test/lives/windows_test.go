package lives

import (
	"slices"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// windows is what an account keeps of the spend of ten minutes and of the tokens of a month, while
// its quota limits them.
type windows struct {
	pays, counts     bool
	paysSince        time.Time // calls that were open when it began give nothing back
	paid             []*payment
	monthBegin       time.Time
	monthEnd         time.Time
	monthTokens      int
	monthCountsSince time.Time
}

// payment is what was paid at a time.
type payment struct {
	at    time.Time
	spent money.Amount
}

// follow begins to count what the quota limits.
func (a *account) follow(now time.Time) {
	var since time.Time
	if a.inFlight > 0 {
		since = now
	}
	if pays := a.quota.MaxSpendPerTenMinutes != 0; pays != a.pays {
		a.pays, a.paysSince, a.paid = pays, since, nil
	}
	if counts := a.quota.MaxTokensPerMonth != 0; counts != a.counts {
		a.counts, a.monthCountsSince, a.monthEnd, a.monthTokens = counts, since, time.Time{}, 0
	}
}

// recent returns what was spent in the ten minutes before a time.
func (a *account) recent(at time.Time) (spent money.Amount) {
	from := at.Add(-a.span - 9*time.Minute)
	for _, p := range a.paid {
		if !p.at.Before(from) {
			spent += p.spent
		}
	}
	return spent
}

// tokensOfMonth returns the tokens that count at a time.
func (a *account) tokensOfMonth(at time.Time) int {
	if !at.Before(a.monthEnd) {
		return 0
	}
	return a.monthTokens
}

func (a *account) pay(at time.Time, spent money.Amount) *payment {
	if !a.pays {
		return nil
	}
	p := &payment{at, spent}
	a.paid = append(a.paid, p)
	return p
}

// useMonth adds tokens to the month that lasts, or begins one.
func (a *account) useMonth(now time.Time, tokens int) {
	if !a.counts {
		return
	}
	if !now.Before(a.monthEnd) {
		a.monthTokens, a.monthEnd = 0, monthEnd(now, a.quota.DayZone)
		location, err := time.LoadLocation(a.quota.DayZone)
		if err != nil {
			panic(err)
		}
		y, m, _ := now.In(location).Date()
		a.monthBegin = time.Date(y, m, 1, 0, 0, 0, 0, location)
	}
	a.monthTokens = plus(a.monthTokens, tokens)
}

// deniedMonth returns the code of a denial by the tokens of the month.
func (a *account) deniedMonth(at time.Time, d demand) (codes []ratelimit.DecisionCode) {
	if limit := a.quota.MaxTokensPerMonth; limit > 0 && plus(a.tokensOfMonth(at), d.tokens()) > limit {
		codes = append(codes, ratelimit.DecisionMonthLimit)
	}
	return codes
}

// settleWindows has what a call did use and cost take the place of its charge, at its time.
func (b *booking) settleWindows(now time.Time, tokens int, cost money.Amount) {
	a := b.account
	switch more := cost - b.most; {
	case more < 0 && b.paid != nil && b.at.After(a.paysSince) && slices.Contains(a.paid, b.paid):
		b.paid.spent += more
	case more > 0 && now.Sub(b.at) <= 10*time.Minute:
		a.pay(b.at, more)
	case more > 0:
		a.pay(now, more)
	}
	switch more := tokens - b.input - b.output; {
	case more > 0:
		a.useMonth(now, more)
	case !b.forgotten() && now.Before(a.monthEnd) && !b.admitted.Before(a.monthBegin) && b.admitted.After(a.monthCountsSince):
		a.monthTokens = max(a.monthTokens+more, 0)
	}
}

// movePayment has what the call was charged count as of a later time.
func (b *booking) movePayment(to time.Time) {
	a := b.account
	if slices.Contains(a.paid, b.paid) && b.at.After(a.paysSince) {
		b.paid.spent -= b.most
	}
	b.paid = a.pay(to, b.most)
}
